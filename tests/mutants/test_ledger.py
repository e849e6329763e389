"""Results of another run count for a function whose text is the same, and for no other."""

from __future__ import annotations

import pytest

pytest.importorskip("mutmut")

from tests.mutants.ledger import Line, fill, lines

CODES = {f"m.x_f__mutmut_{n}": code for n, code in ((1, 1), (2, 0), (10, None), (3, 37))}
HASHES = {"x_f": "abc", "x_g": "def"}


def test_results_come_back_as_they_were() -> None:
    (line,) = lines("m", {**CODES, "m.x_g__mutmut_1": None}, HASHES)
    assert str(line) == "m x_f abc ksm-"
    fresh = dict.fromkeys(CODES)
    assert fill(line, fresh, HASHES) == 3
    assert fresh == CODES


def test_another_text_or_other_mutants_are_tried_anew() -> None:
    line = Line("m", "x_f", "abc", "ksm-")
    assert fill(line, dict.fromkeys(CODES), {"x_f": "xyz"}) == 0
    assert fill(line, {"m.x_f__mutmut_1": None}, HASHES) == 0


def test_a_newer_result_stands() -> None:
    newer = {**CODES, "m.x_f__mutmut_2": 1}
    assert fill(Line("m", "x_f", "abc", "ksmk"), newer, HASHES) == 1
    assert newer["m.x_f__mutmut_2"] == 1
