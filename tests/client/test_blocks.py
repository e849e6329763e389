"""Inputs read a block at a time: what comes out is what comes out line by line, wherever a block ends."""

from __future__ import annotations

import io
import json
import os
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py.client import csvlines, ingest
from borealis_py.client.ingest import read_csv, read_jsonl
from borealis_py.client.items import BadLine, InputRow, RowRun, gathered
from borealis_py.client.pump import Pump
from borealis_py.client.stimes import Boundaries
from borealis_py.client.times import parse_stime, parse_stimes
from tests.client.folded import SCHEMA, T0, PublishedSource, W
from tests.examples import examples
from tests.harness.waiting import PATIENCE_S

HEADER = b"carrier,n,delay,late,at"

cells = {
    "carrier": st.sampled_from(
        ["UA", "", '"A, B"', '"a\nb"', '"', 'x"y"', '"open', "ü", " ", "NULL", "\u2028", "\x1c"]
    ),
    "n": st.sampled_from(["1", "-7", "+5", "007", " 8 ", "", "1_000", "１２", "1.5", "x", "9" * 30, "9" * 5_000]),
    "delay": st.sampled_from(["1", "-1.5", " 2. ", ".5", "1e3", "1e999", "nan", "-Infinity", "", "1_0.5", "0x1", "."]),
    "late": st.sampled_from(["true", "FALSE", "0", "1", "True", "", "tRue", " 1", "yes"]),
    "at": st.sampled_from(["5", "", "2013-01-01T05:15:00", " 42 ", "1_000", "１２", "tomorrow", "-1", "1.5"]),
}
tame = st.tuples(*(st.sampled_from(["7", "1", "0", ""]) for _ in cells)).map(",".join)
wild = st.tuples(*cells.values()).map(",".join)
odd = st.sampled_from(["", "a,b", "1,2,3,4,5,6", "x\ry,1,1,1,1", "\r", '"""'])
csv_lines = st.one_of(tame, tame, tame, wild, odd).map(str.encode) | st.just(b"U\xff,1,1,1,1")
json_lines = st.sampled_from(
    [
        b'{"n": 1, "at": 5}',
        b'{"n": 1, "at": "7"}',
        b'{"n": 1, "at": "2013-01-01T05:15:00"}',
        b'{"n": 2}',
        b'{"at": null, "x": [{}, {"y": "\\u00e9"}]}',
        b'{"at": 1.5}',
        b'{"at": true}',
        b'{"n": 1} {"n": 2}',
        b'{"n":',
        b"3}",
        b"",
        b"   ",
        b"\x0b",
        b"[1]",
        b"7",
        b'{"n": "\xff"}',
        b'{"n": NaN}',
        b"[" * 2_000,
    ]
)
ends = st.sampled_from([b"\n", b"\n", b"\r\n"])
blocks, stimes = st.integers(1, 200), st.sampled_from([None, "at"])


@settings(max_examples=examples(400))
@given(
    st.lists(st.tuples(csv_lines, ends), max_size=25), st.integers(1, 200), st.sampled_from([None, "at"]), st.booleans()
)
def test_csv_read_in_blocks_is_csv_read_record_by_record(
    lines: list[tuple[bytes, bytes]], block: int, stime: str | None, last_end: bool
) -> None:
    text = HEADER + b"\n" + b"".join(line + end for line, end in lines)
    text = text if last_end else text.rstrip(b"\r\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "BLOCK_BYTES", block)
        found = list(read_csv(io.BytesIO(text), SCHEMA, stime))
        patch.setattr(csvlines, "_together", lambda *_: None)
        expected = list(read_csv(io.BytesIO(text).readlines(), SCHEMA, stime))
    assert repr(found) == repr(expected)  # nan is not equal to itself, -0.0 is to 0.0


@settings(max_examples=examples(300))
@given(
    st.lists(st.tuples(json_lines, ends), max_size=25),
    st.integers(1, 200),
    st.sampled_from([None, "at"]),
    st.booleans(),
)
def test_json_read_in_blocks_is_json_read_line_by_line(
    lines: list[tuple[bytes, bytes]], block: int, stime: str | None, last_end: bool
) -> None:
    text = b"".join(line + end for line, end in lines)
    text = text if last_end else text.rstrip(b"\r\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "BLOCK_BYTES", block)
        found = list(read_jsonl(io.BytesIO(text), stime))
    decode = msgspec.json.Decoder(dict[str, object]).decode
    assert found == list(ingest._jsonl_lines(io.BytesIO(text).readlines(), 0, stime, decode))


def test_lines_that_are_a_row_each_come_together() -> None:
    """Else the test above would compare one path with itself, and publishing be slow for nothing."""
    text = HEADER + b"\nUA,1,2,true,5\nUA,2,2,0,\n,,,,\n"
    items = read_csv(io.BytesIO(text), SCHEMA, "at")
    (run,) = [items.next_run(100)]
    assert isinstance(run, RowRun)
    assert (len(run), run.position, run.line, run.at_us) == (3, 0, 2, [5, None, None])
    assert items.next_run(100) is None
    both = read_jsonl(io.BytesIO(b'{"a": 1}\n{"a": 2}\n'), "a")
    first, second = both.next_run(1), both.next_run(5)
    assert isinstance(first, RowRun)
    assert isinstance(second, RowRun)
    assert (first.values, second.values, second.position, second.row(0).raw) == ([{"a": 1}], [{"a": 2}], 1, b'{"a": 2}')
    assert (first.at_us, second.at_us) == ([1], [2])


@given(st.lists(st.none() | st.integers(1, 4)), st.integers(1, 60))
def test_rows_are_given_away_once_one_by_one_and_together(takes: list[int | None], block: int) -> None:
    text = b"".join(b'{"a": %d}\n' % n if n % 5 else b"bad\n" for n in range(1, 12))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "BLOCK_BYTES", block)
        items, found = read_jsonl(io.BytesIO(text)), []
        for take in takes:
            item = next(items, None) if take is None else items.next_run(take)
            if isinstance(item, RowRun):
                assert len(item) <= (take or 0)
                found += [item.row(n) for n in range(len(item))]
            elif item is not None:
                found.append(item)
        assert [*found, *items] == list(read_jsonl(io.BytesIO(text)))


def test_rows_around_a_bad_line_stay_together() -> None:
    lines = [b'{"a": %d}\n' % n for n in range(5)]
    items = read_jsonl(io.BytesIO(b"".join([*lines[:3], b"}{\n", *lines[3:]])))
    found = [items.next_run(100) for _ in range(4)]
    assert [len(one) if isinstance(one, RowRun) else type(one) for one in found] == [3, BadLine, 2, type(None)]
    assert [row.position for row in gathered([])] == []


def test_the_first_time_is_told_and_all_rows_are_still_to_come() -> None:
    text = b'{"a": 1}\n{"a": 2, "t": 9}\n{"a": 3, "t": 8}\n'
    for lines in (io.BytesIO(text), text.splitlines(keepends=True)):
        items = read_jsonl(lines, "t")
        assert items.first_us(100) == 9
        assert [item.position for item in items] == [0, 1, 2]
    assert read_jsonl(io.BytesIO(text)).first_us(100) is None
    untimed = read_jsonl([b'{"a": 1}\n'] * 5 + [b'{"t": 4}\n'], "t")
    assert untimed.first_us(5) is None
    assert len(list(untimed)) == 6


def test_a_pipe_gives_a_row_as_soon_as_its_line_is_there(tmp_path: Path) -> None:
    """The next one may be hours off."""
    reading, writing = os.pipe()
    with open(reading, "rb") as stream, open(writing, "wb", buffering=0) as pipe:
        items = read_jsonl(stream)
        pipe.write(b'{"a": 1}\n{"a": 2}\n{"a"')
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.extend((next(items), next(items))), daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
        assert [row.values for row in found if isinstance(row, InputRow)] == [{"a": 1}, {"a": 2}]
        pipe.write(b": 3}")
        pipe.close()
        assert [row.values for row in items if isinstance(row, InputRow)] == [{"a": 3}]


@given(
    st.lists(
        st.sampled_from([5, -1, "7", "", " 8 ", "1_0", "１２", "2013-01-01", "x", None, True, 1.5, "9" * 5_000]),
        max_size=8,
    )
)
def test_times_are_parsed_together_as_they_are_one_by_one(values: list[object]) -> None:
    try:
        expected = [parse_stime(value) for value in values]
    except ValueError:
        with pytest.raises(ValueError, match=r"neither|digits"):
            parse_stimes(values)
    else:
        assert list(parse_stimes(values)) == expected


@settings(deadline=None, max_examples=examples(60))
@given(
    st.lists(st.sampled_from(["ok", "ok", "ok", "late", "bad", "untimed", "unfit"]), max_size=40),
    st.integers(1, 300),
    st.integers(0, 30),
)
def test_a_file_published_in_blocks_is_in_the_log_exactly_once_with_its_rejects(
    whats: list[str], block: int, published: int
) -> None:
    """By a second publisher that begins at the beginning, after the first has published some rows."""

    def line(n: int, what: str) -> bytes:
        if what == "bad":
            return b"bad %d" % n
        at = None if what == "untimed" else T0 - 9 * W if what == "late" else T0 + n * W // 3
        fields = {"carrier": "x", "n": n, "delay": n / 4, "late": "no" if what == "unfit" else True, "at": at}
        return json.dumps(fields).encode()

    text = b"".join(line(n, what) + b"\n" for n, what in enumerate(whats))
    expected = PublishedSource(origin=T0 // W - 1)
    whole = [read_jsonl(io.BytesIO(text).readlines(), "at") for _ in range(2)]
    expected.publisher("p", rows=list(whole[0]), timed=True, boundaries=Boundaries.DATA)
    expected.run(3)
    world = PublishedSource(origin=T0 // W - 1)
    first = world.ready("p", boundaries=Boundaries.DATA)
    pump = Pump(first, list(whole[1])[:published], timed=True)
    pump.turn(world.now)
    world.run(1)
    world.memory.kill("p")
    first.stop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "BLOCK_BYTES", block)
        second = world.ready("q", boundaries=Boundaries.DATA)
        again = Pump(second, read_jsonl(io.BytesIO(text), "at"), timed=True)
        while not again.done:
            again.turn(world.now, 7)
    world.run(1)
    got, want = world.folded(), expected.folded()
    assert (got.rows, got.duplicates, got.late, got.rejects) == (want.rows, 0, 0, [])
    told, to_be_told = ([(seq, why.split(":")[0]) for seq, why, _ in of.letters] for of in (got, want))
    assert told == to_be_told
    assert {seq for seq, _, _ in got.letters} == {n for n, what in enumerate(whats) if what != "ok"}
    assert again.read == len(whats)
    assert second.counts.skipped == min(published, len(whats))
