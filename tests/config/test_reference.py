"""The page of settings is that of the code."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from borealis_py.config.config import Config
from borealis_py.config.reference import documented, page
from borealis_py.protocol.settings import Timing

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def test_the_page_in_docs_is_that_of_the_code() -> None:
    assert PAGE.read_text() == page(), "python -m borealis_py.config.reference > docs/reference/configuration.md"


def test_every_setting_is_on_it() -> None:
    assert [name for name, _ in documented(Config)] == list(Config.model_fields)
    assert [name for name, _ in documented(Timing)] == [field.name for field in fields(Timing)]
