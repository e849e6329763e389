"""What the tree must stay: one name for one thing, citations and paths that resolve, nothing left over."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from borealis_py.protocol.states import TRANSITIONS, ReplicaState
from tests.guards.rules import PROTOCOL, anchors, cited, pages
from tests.guards.tree import DOCUMENTS, ROOT, imported, modules, tree
from tests.transcripts.datadriven import TESTDATA, parse, prose, transcripts

README_LINES_MAX = 140
RUNS_TESTS = "tests/protocol/test_planted.py"
"""Runs other tests while a bug is planted."""
RUNS_TRANSCRIPTS = "tests/transcripts/test_transcripts.py"
PROSE_WORDS_MIN = 40
STATES_PAGE = PROTOCOL / "README.md"
STARTED = {
    "benchmarks.__main__",
    "borealis_py.app.supervisor.__main__",
    "benchmarks.ingress.writing",
    "borealis_py.bench.first_test",
    "benchmarks.load.ping",
    "benchmarks.load.starting",
    "benchmarks.measure.encodings",
    "borealis_py.bench.raw_loop",
    "benchmarks.plain.feeding",
    "benchmarks.plain.hand_loop",
    "benchmarks.plain.pathway_loop",
    "benchmarks.report.check",
    "benchmarks.report.page",
    "borealis_py.cli.main",
    "borealis_py.cli.reference.__main__",
    "borealis_py.config.reference",
    "borealis_py.demo.content_check",
    "borealis_py.demo.weather",
    "borealis_py.runtime.process.__main__",
    "borealis_py.runtime.spark.daemon",
    "borealis_py.runtime.spark.make_class_archive",
}
"""Modules that are run, not imported."""


def test_no_two_public_classes_have_one_name() -> None:
    homes = defaultdict(list)
    for name, path in modules().items():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


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
    experiments = {name for name in modules() if name.startswith("benchmarks.experiments.")}
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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_anchor_is_a_heading(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)|(?m:^\[[^\]]+\]: ([^#\s]*)#(\S+)$)", document.read_text())
    targets = [(document.parent / (a or c) if a or c else document, b or d) for a, b, c, d in links]
    assert [(file.name, anchor) for file, anchor in targets if anchor not in anchors(file)] == []


def test_the_front_page_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES_MAX


def test_every_file_of_test_data_is_a_transcript_that_is_run() -> None:
    there = {path for path in TESTDATA.rglob("*") if path.is_file()}
    assert there == set(transcripts())
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", "-k", "test_transcript"]
    found = subprocess.run([*collect, RUNS_TRANSCRIPTS], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"::test_transcript\[(\w+)\]", found)) == {path.stem for path in there}


@pytest.mark.parametrize("path", transcripts(), ids=lambda path: path.stem)
def test_every_transcript_explains_its_scene(path: Path) -> None:
    said = prose(path)
    assert len(said.split()) >= PROSE_WORDS_MIN
    title = said.partition("\n")[0]
    assert cited(title) or "docs/protocol/" in title, "its title names the rule or the page that it shows"
    assert all(step.expected for step in parse(path)), "run with --rewrite"


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


def transitions() -> set[tuple[str, str]]:
    return {(before.value, after.value) for before, after in TRANSITIONS}


def test_the_protocol_has_the_code_s_table_of_states() -> None:
    rows = [
        tuple(cell.strip() for cell in line.strip("|").split("|")[:2])
        for line in STATES_PAGE.read_text().splitlines()
        if line.startswith("|")
    ]
    names = {state for pair in transitions() for state in pair}
    told = {(a, b) for a, b in rows if a in names and b in names}
    told |= {(a, other) for a, b in rows if a in names and b == "any other" for other in names - {a}}
    assert told == transitions()


def test_the_protocol_s_diagram_of_states_has_the_code_s_transitions() -> None:
    (diagram,) = re.findall(r"```mermaid\nstateDiagram-v2\n(.*?)```", STATES_PAGE.read_text(), re.DOTALL)
    arrows = re.findall(r"^ *(\S+) --> (\S+)(?: : [\w ,]+)?$", diagram, re.MULTILINE)
    assert len(arrows) == len(diagram.strip().splitlines()), "a line that is no arrow"
    assert [end for start, end in arrows if start == "[*]"] == [ReplicaState.RECOVERING.value]
    assert {arrow for arrow in arrows if arrow[0] != "[*]"} == transitions()


def test_the_protocol_links_every_transcript() -> None:
    links = {page.parent / link for page in pages() for link in re.findall(r"\]\(([^)]+\.txt)\)", page.read_text())}
    assert {link.resolve() for link in links} == set(transcripts())
