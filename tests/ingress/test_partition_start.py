"""How a partition begins in the logs of inputs that share it: in steps, each once the step before is stored."""

from __future__ import annotations

import pytest

from borealis_py.client.target import Target
from borealis_py.engine.codec import ArrowSourceCodec
from borealis_py.ingress.input_writer import InputWriter
from borealis_py.ingress.partition_start import NOT_BEGUN, PartitionStart
from borealis_py.log.records import BatchHeader, unpack_source


def writer(index: int, at: dict[int, int]) -> InputWriter:
    target = Target("shop", "a1", f"orders.{index}", 100_000, 0, ahead_max_us=60_000_000)
    codec = ArrowSourceCodec(target.source, {"n": "int64"}, target.row_max_bytes)
    return InputWriter(target, codec, "u", 1, 0, -1, at, 0)


def written(one: InputWriter) -> list[dict[int, int]]:
    """The positions in the records that it has made since the last call."""
    found = []
    for record in one.drain():
        header, _ = unpack_source(record.value)
        assert isinstance(header, BatchHeader)
        found.append(dict(header.at))
    return found


def test_one_made_again_is_taken_back_told_to_the_others_and_told_last_each_when_the_step_before_is_stored() -> None:
    first, second, last = writer(0, {0: 90, 1: 5}), writer(1, {0: 95, 1: 5}), writer(2, {0: NOT_BEGUN, 1: 5})
    start = PartitionStart(0, last, [first, second], 10)
    assert [written(one) for one in (first, second, last)] == [[], [], [{0: NOT_BEGUN, 1: 5}]]
    assert not start.turn(20)
    last.stored = last.made
    assert not start.turn(30)
    assert [written(one) for one in (first, second, last)] == [[{0: 0, 1: 5}], [{0: 0, 1: 5}], []]
    first.stored = first.made
    assert not start.turn(40)
    assert written(last) == []
    second.stored = second.made
    assert not start.turn(50)
    assert written(last) == [{0: 0, 1: 5}]
    last.stored = last.made
    assert start.turn(60)


@pytest.mark.parametrize("known", [{}, {1: 7}])
def test_a_new_one_is_told_to_the_others_at_once_and_to_the_last_when_they_know(known: dict[int, int]) -> None:
    other, last = writer(0, dict(known)), writer(1, dict(known))
    start = PartitionStart(3, last, [other], 10)
    assert (written(other), written(last)) == ([{**known, 3: 0}], [])
    other.stored = other.made
    assert not start.turn(20)
    assert written(last) == [{**known, 3: 0}]
    last.stored = last.made
    assert start.turn(30)
