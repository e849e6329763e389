"""SUnions over drawn logs."""

from __future__ import annotations

from hypothesis import strategies as st

from sunion.model import Input, SourceRecord
from sunion.output import SOutput
from sunion.union import SUnion
from tests.sunion.lists import AHEAD_US, BUCKETS, OPS, W, bad, batch, claim


def union(inputs: int = 2, origin: int = 0) -> SUnion:
    return SUnion([Input.source(f"s{i}") for i in range(inputs)], origin, BUCKETS, OPS, ahead_max_us=AHEAD_US)


def output_of(inc: int, start: int, *, rows_max: int = 200_000, bytes_max: int = 2**62) -> SOutput:
    return SOutput(inc, start, OPS, unpublished_rows_max=rows_max, unpublished_bytes_max=bytes_max)


@st.composite
def logs(draw: st.DrawFn, inputs: int = 2) -> list[list[SourceRecord]]:
    """Logs with rows out of order inside the open region, duplicates, zombies, dead letters and late tuples."""
    made = []
    for index in range(inputs):
        records, seq, boundary = [claim(0)], 0, 0
        for offset in range(1, draw(st.integers(1, 12))):
            what = draw(st.integers(0, 9))
            if what == 0:
                records.append(bad(offset, f"s{index}"))
                continue
            rows = [
                (boundary + draw(st.integers(-W // 2, 3 * W)), offset * 10 + n) for n in range(draw(st.integers(0, 3)))
            ]
            boundary += draw(st.sampled_from([0, 0, W // 3, W, 2 * W]))
            first = max(0, seq - draw(st.sampled_from([0, 0, 0, 1, 2])))
            uid = "a" if what > 1 else "zombie"
            records.append(batch(offset, first, rows, boundary, uid=uid))
            seq = max(seq, first + len(rows)) if uid == "a" else seq
        made.append(records)
    return made
