"""What the demo's summary says of who corrected what."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

from rich.console import Console

from borealis_py.demo.content import ContentReport
from borealis_py.demo.measure import Arrival, measure
from borealis_py.demo.picture import MARKED, UNMARKED
from borealis_py.demo.report import LOOKED_UP, Facts, _corrected_by_turns, finish
from borealis_py.demo.watch import Story

W, T0 = 100_000, 1_700_000_000_000_000


def told(*reconciliations: tuple[int, str, int], failed: Mapping[int, list[str]] | None = None) -> tuple[bool, str]:
    """Of query q with two replicas; each reconciliation: replica, engine, jobs on Spark. `failed`: by replica, why jobs
    did."""
    facts = cast(Facts, SimpleNamespace(spark=True, story=SimpleNamespace(newest={("q", 0): None, ("q", 1): None})))
    found: list[dict[str, Any]] = [{"query": "q", "replica": k, "engine": e, "jobs": j} for k, e, j in reconciliations]
    for one in found:
        one["failed"] = (failed or {}).get(one["replica"], [])
    _, held, detail = _corrected_by_turns(facts, {"reconciliations": found, "overlap_of_reconciliations_s": 0})
    return held, detail


def test_a_replica_that_also_took_a_peers_checkpoint_over_is_counted_there_too() -> None:
    assert told((0, "spark", 2), (1, "spark", 1), (1, "peer", 0)) == (
        True,
        "2 on Spark, 1 from a peer (1 both ways), of 2",
    )


def test_a_replica_that_only_took_over_is_not_on_spark() -> None:
    assert told((0, "spark", 2), (1, "peer", 0)) == (True, "1 on Spark, 1 from a peer, of 2")


def test_a_correction_in_the_replica_breaks_no_promise_and_names_what_was_slow() -> None:
    slow = "no answer within 7.5 s"
    assert told((0, "inline", 0), (1, "spark", 1), failed={0: [slow]}) == (
        True,
        f"1 on Spark, 1 inline, 0 from a peer, of 2. Spark was slow: {slow}",
    )
    assert told((0, "inline", 0), (1, "peer", 0), failed={0: [slow], 1: [slow]})[0]
    assert not told((0, "spark", 1))[0], "one was not corrected at all"
    assert not told((0, "peer", 0), (1, "peer", 0))[0], "nobody redid it"


def test_the_weather_that_very_late_flights_had_is_in_report_picture_and_summary(tmp_path: Path) -> None:
    content = tmp_path / "content.json"
    content.write_text(json.dumps({**asdict(ContentReport()), "ok": True}))
    first = T0 // W
    arrivals = [Arrival(b, (b + 1) * W + 5_000, "STABLE") for b in range(first, first + 60)]
    delays = measure(arrivals, W, first, first + 60, T0 + 5_000_000)
    rows = [
        {"hour": "2013-01-02T05", "visibility": 0.5, "rain": 0.1},
        {"hour": "2013-01-05T17", "visibility": 10.0, "rain": 0.0},
        {"hour": "2013-01-05T17", "visibility": None, "rain": None},
    ]
    cut = (T0 + 5_000_000, T0 + 5_500_000)
    facts = Facts(
        1.0, "lga", cut, T0, 6, {"ewr": 3}, Story(), {"carrier_delays": delays, LOOKED_UP: delays}, rows, content, [],
        False, W,
    )  # fmt: skip
    verdict = finish(facts, tmp_path)
    assert verdict.report["weather"] == {"very_late_flights": 3, "with_weather": 2, "poor_visibility": 1}
    picture = ElementTree.fromstring((tmp_path / "timeline.svg").read_text())
    tips = {
        r.findtext("{http://www.w3.org/2000/svg}title"): r.get("fill")
        for r in picture.iter("{http://www.w3.org/2000/svg}rect")
    }
    assert tips["very late flights in 0.5 miles of visibility"] == MARKED
    assert tips["very late flights in 10 miles of visibility"] == UNMARKED
    assert [t.text for t in picture.iter("{http://www.w3.org/2000/svg}text")].count("visibility") == 1
    said = io.StringIO()
    verdict.print(Console(file=said, width=200))
    assert "1 of 3 very late flights were to leave at a visibility below 3 miles" in said.getvalue()
