"""Bytes that come close to what each reader takes: as `test_garbage.py`, of more readers and with more examples.

BOREALIS_FUZZ=200 draws so many times as many, which takes about an hour:

    BOREALIS_FUZZ=200 python -m pytest -m slow tests/log/test_fuzz.py -k WORD
"""

from __future__ import annotations

import resource

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import FUZZ, fuzzed
from tests.support.file_readers import FILE_READERS
from tests.support.mangled import mangled, read
from tests.support.readers import READERS

pytestmark = [pytest.mark.slow, pytest.mark.later_version, pytest.mark.timeout(1200 + FUZZ)]
ALL = READERS | FILE_READERS
MORE_KB = 400_000
"""What all that is read of one reader may add to the most that this process has needed."""


@pytest.mark.parametrize("name", FILE_READERS)
def test_what_is_right_is_read(name: str) -> None:
    FILE_READERS[name].read(FILE_READERS[name].valid)


@pytest.mark.parametrize("name", ALL)
def test_no_reader_ends_by_bytes_but_with_its_own_error_soon_and_with_little_memory(name: str) -> None:
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    @given(st.data())
    @settings(max_examples=fuzzed(100), deadline=None, suppress_health_check=list(HealthCheck))
    def check(data: st.DataObject) -> None:
        read(ALL[name], data.draw(mangled(ALL[name])))

    check()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < MORE_KB
