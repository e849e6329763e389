"""Lines that nobody can use: what the product makes of each, and that the checker tells of anything else."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from borealis_py.client.ingest import InputRow, read_jsonl
from borealis_py.client.rows import BadRow, RowSchema
from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.engine.kernel import compile_query
from borealis_py.protocol.settings import ROW_MAX_BYTES
from borealis_py.verify import AnomalyKind
from borealis_py.verify.envelope import Raw, Row
from borealis_py.verify.evidence import DeadLetterRecord, dead_letters
from borealis_py.verify.network import Network, stime_of
from borealis_py.verify.source_log import SourceRules, fold
from tests.harness.app import drill_app
from tests.harness.network import BUCKET_US, CHAIN, COLUMNS, NODE, PARTED, SOURCES, poisoned, row_of
from tests.harness.poison import KERNEL, PUBLISHER, WHATS, PoisonPlan, line_of
from tests.support.right import exactly
from tests.verify.handmade import B0, HandmadeTopics, good, source_log
from tests.verify.records import record

SCHEMA = {"origin": "string", "k": "int64", "v": "int64"}


def taken(line: bytes) -> dict[str, object] | None:
    """A line as a publisher takes it; None: it refuses it."""
    (one,) = read_jsonl([line])
    if not isinstance(one, InputRow):
        return None
    try:
        row: dict[str, object] = json.loads(RowSchema(SCHEMA, ROW_MAX_BYTES).encode(one.values))
    except BadRow:
        return None
    return row


def test_a_publisher_refuses_what_is_no_row_and_takes_the_rest() -> None:
    assert {what for what in WHATS if taken(line_of(what, "a", 5)) is None} == set(PUBLISHER)


def test_the_kernel_refuses_what_the_checker_says_and_nothing_else() -> None:
    rows = [row for what in KERNEL for n in (0, 4) if (row := taken(line_of(what, "a", n))) is not None]
    rows += [row_of("b", n) for n in range(30)]
    values = [(*(row[c] for c in COLUMNS), at) for at, row in enumerate(rows)]
    schema = segment_schema(SCHEMA)
    batch = pa.RecordBatch.from_pylist([dict(zip(schema.names, v, strict=True)) for v in values], schema=schema)
    with closing(compile_query(drill_app("x", True, "3s").describe(), NODE)) as kernel:
        _, outputs = kernel.step(kernel.initial(), 0, 1, {0: (batch, None, None)})
    refused = [json.loads(reject.raw) for reject in outputs[0].rejects]
    assert [tuple(row[c] for c in schema.names) for row in refused] == [v for v in values if poisoned(v)]  # type: ignore[arg-type]
    assert len(refused) == 2 * len(KERNEL)
    assert outputs[0].rows.num_rows == len([n for n in range(30) if row_of("b", n)["v"] is not None])


def test_all_publishers_of_a_source_find_the_same_poison(tmp_path: Path) -> None:
    writes, reads = (PoisonPlan(tmp_path / "poison.jsonl") for _ in range(2))
    assert reads.of("a", 7) is None
    writes.add("a", 7, ["no JSON", "cast fails"])
    assert [reads.of("a", n) for n in (6, 7, 8, 9)] == [None, "no JSON", "cast fails", None]
    writes.add("b", 7, ["mistyped"])
    assert reads.of("b", 7) == "mistyped"
    assert reads.by_source("a") == {7: "no JSON", 8: "cast fails"}


# What the checker makes of it -----------------------------------------------------------------------------------------

REFUSED, ROW = 9, 11
"""Tuples of `a` in place of which its publisher refused a line, and took a row that the kernel refuses."""


def poisoned_world(network: Network = CHAIN) -> HandmadeTopics:
    """A good history of it."""
    logs = {s: source_log(s) for s in SOURCES}
    log = logs["a"]
    bad: Row = ("a", 2, -1, stime_of(log.rows[ROW]))
    log.rows[ROW] = bad
    del log.rows[REFUSED], log.seqs[REFUSED]
    log.refused[REFUSED] = 30
    log.dead[30] += 1
    world = good(network, logs)
    world.poison["a"] = {REFUSED: False, ROW: True}
    stage = network.stages[0]
    world.dead += [DeadLetterRecord("a", 30, "malformed", REFUSED), letter_of(stage.parts[stage.part_of(bad)], bad)]
    return world


def letter_of(node: str, row: Row) -> DeadLetterRecord:
    raw = json.dumps(dict(zip((*COLUMNS, "stime"), row, strict=True))).encode()
    return DeadLetterRecord("cleaned", -1, "tuple at stime", node=node, bucket=stime_of(row) // BUCKET_US, raw=raw)


@pytest.mark.parametrize("network", [CHAIN, PARTED])
def test_poison_that_was_told_once_gives_no_word(network: Network) -> None:
    verdict = poisoned_world(network).judge()
    with exactly():
        assert verdict.anomalies == []
    assert (verdict.looked_at["dead letters"], verdict.looked_at["refused by kernels"]) == (4, 1)


def refuses_a_good_line(w: HandmadeTopics) -> None:
    del w.poison["a"][REFUSED]


def takes_what_is_no_row(w: HandmadeTopics) -> None:
    w.poison["a"][8] = False


def sends_another_row(w: HandmadeTopics) -> None:
    w.poison["a"][12] = True


def loses_what_a_publisher_refused(w: HandmadeTopics) -> None:
    del w.dead[-2]


def tells_another_line(w: HandmadeTopics) -> None:
    w.dead[-2] = replace(w.dead[-2], seq=REFUSED + 1)


def loses_what_a_kernel_refused(w: HandmadeTopics) -> None:
    del w.dead[-1]


def repeats_what_a_kernel_refused(w: HandmadeTopics) -> None:
    w.dead.append(w.dead[-1])


def tells_it_with_another_bucket(w: HandmadeTopics) -> None:
    w.dead[-1] = replace(w.dead[-1], bucket=w.dead[-1].bucket + 1)


def tells_it_without_its_row(w: HandmadeTopics) -> None:
    w.dead[-1] = replace(w.dead[-1], raw=b"[]")


def tells_it_for_another_node(w: HandmadeTopics) -> None:
    w.dead[-1] = replace(w.dead[-1], node="sums")


def refuses_a_row_that_is_good(w: HandmadeTopics) -> None:
    w.dead.append(letter_of(NODE, w.sources["a"].rows[5]))


LOST, TWICE, TORN = {AnomalyKind.LOST_WRITE}, {AnomalyKind.DUPLICATE}, {AnomalyKind.INCONSISTENT_OFFSETS}
FAULTS: list[tuple[Callable[[HandmadeTopics], None], set[AnomalyKind]]] = [
    (refuses_a_good_line, LOST),
    (takes_what_is_no_row, TORN),
    (sends_another_row, TORN),
    (loses_what_a_publisher_refused, LOST),
    (tells_another_line, LOST | TWICE),
    (loses_what_a_kernel_refused, LOST),
    (repeats_what_a_kernel_refused, TWICE),
    (tells_it_with_another_bucket, LOST | TWICE),
    (tells_it_without_its_row, LOST | TWICE),
    (tells_it_for_another_node, LOST | TWICE),
    (refuses_a_row_that_is_good, TWICE),
]


@pytest.mark.parametrize(("fault", "kinds"), [pytest.param(f, w, id=f.__name__) for f, w in FAULTS])
def test_what_else_is_made_of_poison_is_told(fault: Callable[[HandmadeTopics], None], kinds: set[AnomalyKind]) -> None:
    world = poisoned_world()
    fault(world)
    assert world.judge().kinds == kinds


def test_what_a_publisher_refused_has_a_position_of_its_own() -> None:
    refused = [[1, "malformed", b"?", 0], [3, "malformed", b"?", 0]]
    stimes = struct.pack("<2q", 100, 101)
    rows = [{"origin": "a", "k": n, "v": None} for n in (0, 2)]
    said = record(1, "TUPLES", 1, "u", 0, stimes, 150, "json", 0, refused, rows=rows)
    only = record(3, "TUPLES", 1, "u", 4, b"", 1 << 62, "json", 0, [[4, "malformed", b"?", 0]])
    log = fold(
        [record(0, "EPOCH", 1, "u"), said, replace(said, offset=2), only],
        SourceRules(dict.fromkeys(COLUMNS, ""), 90, 10),
    )
    assert (list(log.seqs), log.refused, log.missing) == ([0, 2], {1: 1, 3: 1, 4: 3}, [])
    assert [row[1] for row in log.rows] == [0, 2]
    assert dict(log.dead) == {1: 2, 3: 1}
    assert log.repeated == 4


def test_a_dead_letter_says_whose_it_is_and_of_which_line() -> None:
    headers = {"source": "a", "offset": "7", "reason": "malformed", "node": "cleaned.1", "bucket": str(B0), "seq": "9"}
    raw = Raw(0, b"{}", tuple((name, value.encode()) for name, value in headers.items()))
    assert list(dead_letters([raw])) == [DeadLetterRecord("a", 7, "malformed", 9, "cleaned.1", B0, b"{}")]
