"""No module imports itself by way of others, be it under TYPE_CHECKING or within a function; no two folders import
each other.
"""

from __future__ import annotations

import ast

from tests.guards.tree import ROOT, imported, modules, tree


def imports(name: str) -> set[str]:
    """The product's modules that a module imports; a package if what is taken from it is no module."""
    found = set()
    for node in ast.walk(tree(modules()[name])):
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None, f"{name}: a relative import"
            inner = (f"{node.module}.{alias.name}" for alias in node.names)
            found |= {module if module in modules() else node.module for module in inner}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & modules().keys()


def test_no_modules_import_each_other_in_a_circle() -> None:
    left = {name: imports(name) for name in modules()}
    while free := {name for name, needs in left.items() if not needs & left.keys()}:
        left = {name: needs for name, needs in left.items() if name not in free}
    assert left == {}, "these are on a circle, or import what is"


def folder(name: str) -> str:
    return str(modules()[name].parent.relative_to(ROOT)).removeprefix("borealis_py/")


def test_no_two_folders_import_each_other() -> None:
    ways = {(folder(name), folder(other)) for name in modules() for other in imports(name)}
    assert {(a, b) for a, b in ways if a < b and (b, a) in ways} == set()


def test_the_harness_knows_nothing_of_what_stands_on_it() -> None:
    allowed = ("tests.harness", "tests.support")
    taken = {
        (path.name, name)
        for path in (ROOT / "tests" / "harness").glob("*.py")
        for name in imported(path)
        if name.split(".")[0] in ("tests", "benchmarks") and not name.startswith(allowed)
    }
    assert taken == set()


LINES_ALONE = 70
"""A module of fewer lines that only its neighbour imports belongs into it, unless it is listed here with a reason."""
ALONE = {
    "benchmarks.experiments.recovery.measured": "the experiment that runs on a broker, beside those of a model",
    "benchmarks.ingress.in_step": "judges without a broker",
    "borealis_py.cli.reference.metrics": "one generator a page",
    "borealis_py.cli.reference.pages": "the list of pages, which tests read, too",
    "borealis_py.demo.flights": "the data set of the demo",
    "borealis_py.demo.sight": "the weather of the demo",
    "borealis_py.engine.keyed.distinct": "one operator a module",
    "borealis_py.ingress.given_up": "which partitions nobody waits for, and for how long",
    "borealis_py.kafka.properties": "which settings of a client are refused, with all their names",
    "borealis_py.observe.rates": "pure: no log, no clock; its importer polls",
    "borealis_py.query.linear": "a stream as a node's plan; its importer is the public API",
    "borealis_py.runtime.process.cpu_affinity": "what the operating system is asked for at a start",
    "borealis_py.runtime.spark.cluster": "what a Spark master's web page says",
    "borealis_py.runtime.spark.scratch": "files of killed JVMs",
}


def test_no_small_module_stands_beside_its_only_importer() -> None:
    users: dict[str, set[str]] = {}
    for name in modules():
        for other in imports(name):
            users.setdefault(other, set()).add(name)
    found = {
        name
        for name, path in modules().items()
        if path.name != "__init__.py"
        and len(path.read_text().splitlines()) < LINES_ALONE
        and [modules()[user].parent for user in users.get(name, ())] == [path.parent]
    }
    assert found == ALONE.keys()
