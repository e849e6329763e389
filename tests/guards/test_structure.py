"""What the tree must stay: one name for one thing, small files, citations and paths that resolve, nothing left over."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from borealis_py.protocol.states import TRANSITIONS

ROOT = Path(__file__).parents[2]
PACKAGES = ("borealis_py", "sunion", "reconcile")
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
README_LINES_MAX = 130
RUNS_TESTS = "tests/protocol/test_mutations.py"
"""Runs other tests while a rule is broken."""
LINES_MAX = 400
MODULES_MAX = 20
STARTED = {
    "borealis_py.app.supervisor.__main__",
    "borealis_py.bench.load.ping",
    "borealis_py.bench.load.starting",
    "borealis_py.bench.measure.raw_loop",
    "borealis_py.bench.report.check",
    "borealis_py.bench.report.page",
    "borealis_py.cli.main",
    "borealis_py.config.reference",
    "borealis_py.demo.checker.__main__",
    "borealis_py.runtime.process",
    "borealis_py.runtime.spark.daemon",
    "borealis_py.runtime.spark.make_class_archive",
}
"""Modules that are run, not imported."""


@cache
def modules() -> dict[str, Path]:
    """Dotted name -> file, of the product."""
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in files}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def test_no_two_public_classes_have_one_name() -> None:
    homes = defaultdict(list)
    for name, path in modules().items():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_files_and_folders_stay_small() -> None:
    long = {name: n for name, path in modules().items() if (n := len(path.read_text().splitlines())) > LINES_MAX}
    assert long == {}
    folders = {path.parent for path in modules().values()}
    full = {str(f.relative_to(ROOT)): n for f in folders if (n := len(list(f.glob("*.py"))) - 1) > MODULES_MAX}
    assert full == {}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_test_imports_another_one() -> None:
    between = {
        (str(path.relative_to(ROOT)), name)
        for path in (ROOT / "tests").rglob("*.py")
        for name in imported(path)
        if re.fullmatch(r"tests(\.\w+)*\.(test_\w+|conftest)", name) and str(path.relative_to(ROOT)) != RUNS_TESTS
    }
    assert between == set()


def test_every_module_is_used_by_the_product() -> None:
    used = {name for path in modules().values() for name in imported(path)}
    experiments = {name for name in modules() if name.startswith("borealis_py.bench.experiments.")}
    packages = {name for name, path in modules().items() if path.name == "__init__.py"}
    assert modules().keys() - used - STARTED - experiments - packages == set()
    assert modules().keys() >= STARTED


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_in_a_document_leads_somewhere(document: Path) -> None:
    if document.name == "CHANGELOG.md":
        return  # tells of what was
    said = re.findall(r"`([\w./-]+/[\w.-]*)`", document.read_text())
    paths = {p for p in said if p.endswith((".py", "/")) and not p.startswith(("/", ".", "s3:"))}
    lost = {
        p
        for p in paths
        if not any((ROOT / base / p).exists() for base in ("", "borealis_py", "borealis_py/simulation"))
    }
    assert lost == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", document.read_text())
    lost = [link for link in links if not link.startswith("http") and not (document.parent / link).exists()]
    assert lost == []


def test_the_front_page_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES_MAX


def test_every_rule_that_code_cites_is_in_the_protocol() -> None:
    protocol = (ROOT / "PROTOCOL.md").read_text()
    known = set(re.findall(r"\b[RB]\d+\b", protocol))
    cited = {
        (rule, name)
        for name, path in modules().items()
        for group in re.findall(r"\(([RB]\d+(?:(?:,| and| to) [RB]\d+)*)\)", path.read_text())
        for rule in re.findall(r"[RB]\d+", group)
    }
    assert cited
    assert {(rule, name) for rule, name in cited if rule not in known} == set()


def test_no_citation_leads_out_of_the_repository() -> None:
    outside = re.compile(r"\b(design|platform) \d|dpc\.md|protocol\.md|\bprotocol [ABR]\d")
    assert {name for name, path in modules().items() if outside.search(path.read_text())} == set()


def test_every_constant_of_the_protocol_says_what_it_is_for() -> None:
    path = modules()["borealis_py.protocol.settings"]
    (timing,) = (n for n in tree(path).body if isinstance(n, ast.ClassDef) and n.name == "Timing")
    fields = [n for n in timing.body if isinstance(n, ast.AnnAssign)]
    after = dict(zip(timing.body, [*timing.body[1:], None], strict=True))
    assert fields
    undocumented = {
        ast.unparse(field.target)
        for field in fields
        if not (isinstance(said := after[field], ast.Expr) and isinstance(said.value, ast.Constant))
    }
    assert undocumented == set()


def test_the_protocol_has_the_code_s_table_of_states() -> None:
    rows = [
        tuple(cell.strip() for cell in line.strip("|").split("|")[:2])
        for line in (ROOT / "PROTOCOL.md").read_text().splitlines()
        if line.startswith("|")
    ]
    names = {state.value for pair in TRANSITIONS for state in pair}
    told = {(a, b) for a, b in rows if a in names and b in names}
    told |= {(a, other) for a, b in rows if a in names and b == "any other" for other in names - {a}}
    assert told == {(a.value, b.value) for a, b in TRANSITIONS}
