"""What code cites in backquotes is there, and each word of the glossary is used."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.guards.tree import DOCUMENTS, PACKAGES, ROOT

FILES = [path for package in (*PACKAGES, "tests") for path in sorted((ROOT / package).rglob("*.py"))]
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}
FOLDERS = {name.split(".")[i] for name in MODULES for i in (0, 1) if name.count(".") > i and name[:6] != "tests."}
TOPIC = re.compile(r"app\.q\b|app\.q_")
"""Topics of an app by the name of app, not modules of the folder."""


@cache
def cited(path: Path) -> frozenset[str]:
    """What stands in backquotes in a file."""
    return frozenset(re.findall(r"`([^`\s]+)`", path.read_text()))


def cites(pattern: str) -> set[tuple[Path, str]]:
    """Which files cite what is like this."""
    return {(path, name) for path in FILES for name in cited(path) if re.fullmatch(pattern, name)}


@cache
def names(module: str, name: str) -> bool:
    """Whether a module has a name."""
    return re.search(rf"\b{name}\b", MODULES[module].read_text()) is not None


def resolves(name: str, citing: Path) -> bool:
    """Whether it is a module or a name in one, seen from the root, `borealis_py` or a folder around the citing file."""
    around = [".".join(folder.relative_to(ROOT).parts) for folder in citing.parents if folder.is_relative_to(ROOT)]
    parts = name.split(".")
    for base in {"", "borealis_py", *around}:
        for n in range(len(parts), 0, -1):
            module = ".".join(filter(None, (base, *parts[:n])))
            if module in MODULES and (n == len(parts) or names(module, parts[n])):
                return True
    return False


def test_every_module_that_code_cites_is_there() -> None:
    dotted = cites(r"[a-z_]\w*(?:\.\w+)+")
    modules = {(path, n) for path, n in dotted if n.split(".")[0] in {*FOLDERS, "tests"} and not TOPIC.match(n)}
    assert modules
    assert {(str(p.relative_to(ROOT)), name) for p, name in modules if not resolves(name, p)} == set()


def test_every_path_that_code_cites_is_there() -> None:
    paths = cites(r"[\w.][\w.-]*/[\w./-]*\.(?:py|md|txt|toml)")
    assert paths
    bases = ("", "borealis_py")
    lost = {(str(p.relative_to(ROOT)), n) for p, n in paths if not any((ROOT / base / n).exists() for base in bases)}
    assert lost == set()


GLOSSARY = ROOT / "GLOSSARY.md"
WORDS = [
    word
    for cell in re.findall(r"(?m)^\| (.+?) \| ", GLOSSARY.read_text())
    if cell not in ("word", "---")
    for word in cell.split(", ")
]


@pytest.fixture(scope="module")
def written() -> str:
    """All code and documents but the glossary, as `plain`."""
    texts = [path.read_text() for path in (*FILES, *DOCUMENTS) if path not in (GLOSSARY, Path(__file__))]
    return plain("\n".join(texts))


def plain(text: str) -> str:
    """Words between blanks, in one form of each: snake, camel, hyphens and signs become blanks."""
    return re.sub(r"[\W_]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)).lower()


@pytest.mark.parametrize("word", WORDS)
def test_every_word_of_the_glossary_is_used(word: str, written: str) -> None:
    assert f" {plain(word).strip()}" in written
