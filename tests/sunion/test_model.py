"""What the values of the data path promise by themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sunion.model import RAW_BYTES_MAX, REASON_CHARS_MAX, Reject


def test_a_reject_keeps_what_fits() -> None:
    whole = Reject("s", 7, "y" * REASON_CHARS_MAX, b"x" * RAW_BYTES_MAX)
    assert (len(whole.reason), len(whole.raw)) == (REASON_CHARS_MAX, RAW_BYTES_MAX)
    cut = Reject("s", 7, whole.reason + "y", whole.raw + b"z")
    assert cut.raw == whole.raw
    assert cut.reason == whole.reason + " ..."


@pytest.mark.parametrize("size", [0, 1, REASON_CHARS_MAX, REASON_CHARS_MAX + 1, 2 * REASON_CHARS_MAX])
def test_a_reject_that_was_read_back_is_the_same(size: int) -> None:
    told = Reject("s", 7, "y" * size, b"x" * (RAW_BYTES_MAX + size))
    assert replace(told) == told
