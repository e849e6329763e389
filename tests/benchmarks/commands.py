"""Experiments as one who works on the project starts them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.__main__ import app
from tests.cli.commands import Said

Benchmarks = Callable[..., Said]


@pytest.fixture
def benchmarks(capsys: pytest.CaptureFixture[str]) -> Benchmarks:
    """Run one in this process."""

    def run(*arguments: str) -> Said:
        capsys.readouterr()
        code: object = 0
        try:
            app(list(arguments), prog_name="benchmarks")
        except SystemExit as exc:
            code = exc.code
        printed = capsys.readouterr()
        return Said(code if isinstance(code, int) else 0, printed.out, printed.err)

    return run
