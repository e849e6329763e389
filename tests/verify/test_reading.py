"""Bytes of the topics and lines of a subscriber's file -> what the checker judges."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from borealis_py.verify.envelope import Raw, life_of
from borealis_py.verify.evidence import (
    DeadLetterRecord,
    ProgressRecord,
    Saw,
    corrected_rows,
    dead_letters,
    progress,
    subscriber_history,
)
from borealis_py.verify.source_log import SourceRules, fold
from tests.harness.network import COLUMNS
from tests.verify.records import record

RULES = SourceRules(dict.fromkeys(COLUMNS, ""), 90, 10)


def batch(offset: int, epoch: int, uid: str, first: int, stimes: list[int], boundary: int | None = None) -> Raw:
    """Tuples of a publisher."""
    rows = [{"origin": "a", "k": n, "v": None} for n in range(first, first + len(stimes))]
    packed = struct.pack(f"<{len(stimes)}q", *stimes)
    return record(offset, "TUPLES", epoch, uid, first, packed, boundary, "json", rows=rows if stimes else None)


def test_a_sources_log_is_folded_by_the_protocols_table() -> None:
    log = fold(
        [
            record(0, "EPOCH", 1, "u"),
            batch(1, 1, "u", 0, [100, 101], 150),
            Raw(2, b"garbage"),
            batch(3, 1, "u", 1, [160, 161]),  # seq 1 again
            batch(4, 1, "u", 3, [120]),  # late
            record(5, "EPOCH", 2, "v"),
            batch(6, 1, "u", 9, [170]),  # fenced
            batch(7, 2, "v", 4, [170], 180),  # 3 was late, so that nothing is missing
            batch(8, 2, "v", 5, [], 1 << 62),
            batch(9, 2, "v", 5, [200]),  # after END
        ],
        RULES,
    )
    assert [(row[1], row[-1]) for row in log.rows] == [(0, 100), (1, 101), (2, 161), (4, 170)]
    assert (list(log.seqs), log.missing, log.repeated, log.fenced) == ([0, 1, 2, 4], [], 1, 1)
    assert dict(log.dead) == {2: 1, 4: 1}
    assert log.ended
    assert fold([record(0, "EPOCH", 1, "u"), batch(1, 1, "u", 2, [100])], RULES).missing == [0, 1]


def test_a_record_tells_of_which_life_it_is() -> None:
    assert [life_of(r.value) for r in (record(0, "EPOCH", 1, "u"), Raw(1, b"garbage"), Raw(2, None))] == [
        "a1",
        None,
        None,
    ]


def test_records_become_evidence() -> None:
    rows = list(corrected_rows([Raw(3, b'{"n": 1}', (("id", b"17:2"), ("stime", b"1799"))), Raw(4, b"{}")]))
    assert (rows[0].id, rows[0].stime, rows[0].row, rows[1].id) == ((17, 2), 1799, {"n": 1}, None)
    assert list(progress([Raw(0, b'{"bucket": 5, "replica": 0, "inc": 1}'), Raw(1, None)])) == [ProgressRecord(0, 5)]
    headers = (("source", b"a"), ("offset", b"7"), ("reason", b"late"), ("query", b"q"))
    assert list(dead_letters([Raw(0, b"?", headers)])) == [DeadLetterRecord("a", 7, "late", raw=b"?")]


def test_a_killed_subscribers_last_line_may_be_cut(tmp_path: Path) -> None:
    line = {"view": "live", "saw": {"at_us": 1, "kind": "STABLE", "bucket": 2, "end": 3, "rows": [{"n": 1}]}}
    path = tmp_path / "seen.jsonl"
    path.write_text(json.dumps(line) + "\n" + json.dumps(line)[:30])
    found = subscriber_history(path, "live")
    assert (found.seen, found.complete) == ([Saw(1, "STABLE", 2, 3, ({"n": 1},))], False)
    path.write_text(json.dumps(line) + "\n" + json.dumps({"ended": "live"}) + "\n")
    assert subscriber_history(path, "live").complete
    assert subscriber_history(path, "corrected").seen == []
