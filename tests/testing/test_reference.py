"""Everything that users import for their tests is on the page of the Python API."""

from __future__ import annotations

import inspect

from borealis_py import testing
from borealis_py.cli.reference.pages import PAGES


def test_every_public_name_for_tests_is_on_its_page() -> None:
    found = {name: getattr(testing, name) for name in testing.__all__}
    named = {name for name, one in found.items() if inspect.isclass(one) or inspect.isfunction(one)}
    assert {"World", "run"} <= named
    page = PAGES["python"]()
    assert {name for name in named if f"\n## {name}\n" not in page} == set()
