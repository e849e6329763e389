"""The audit recomputes from the sources and finds whatever was planted in the corrected topic."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from borealis_py import App
from borealis_py.log.base import Feed
from borealis_py.log.corrected import Progress, progress_record, row_headers, row_id
from borealis_py.query import AppSpec
from reconcile.audit import AuditSpec, audit
from tests.reconcile import flights_world
from tests.reconcile.audits import CORRECTED, CorrectedLog, CorrectedLookup, published, spec
from tests.reconcile.list_world import ORIGIN, ListKernel
from tests.reconcile.lived import Lived


def test_a_right_stream_is_clean():
    result = audit(spec(published(30), 30))
    assert result.clean
    assert (result.query, result.origin, result.upto, result.rows, result.differences) == ("q", 10, 30, 20, 0)
    assert 0 <= result.seconds < 60


def test_it_goes_as_far_as_the_stream_says_it_got():
    result = audit(spec(published(20), 20))
    assert (result.clean, result.upto, result.rows) == (True, 20, 10)


def test_the_whole_audit_misses_what_was_never_published():
    result = audit(spec(published(20), 20, whole=True))
    assert (result.upto, result.rows, result.differences) == (30, 10, 10)
    assert str(result.first).startswith("row 20:0 missing")


def test_without_progress_there_is_nothing_to_compare():
    result = audit(spec([], None))
    assert (result.clean, result.upto, result.rows) == (True, ORIGIN, 0)


@pytest.mark.parametrize(
    ("plant", "first"),
    [
        (lambda rows: rows[:4] + rows[6:], "row 12:0 missing"),
        (
            lambda rows: [*rows[:4], msgspec.structs.replace(rows[4], value=b'{"total": 3.1}'), *rows[5:]],
            "row 12:0 is ",
        ),
        (lambda rows: [*rows[:5], rows[4], *rows[5:]], "row 12:0 repeated"),
        (
            lambda rows: [*rows[:5], msgspec.structs.replace(rows[4], headers=row_headers(12, 1, 5)), *rows[5:]],
            "row 12:1 extra: ",
        ),
        (lambda rows: [*rows[:5], msgspec.structs.replace(rows[4], headers=()), *rows[5:]], "row ? has no readable id"),
    ],
)
def test_planted_rows_are_found(plant, first):
    result = audit(spec(plant(published(30)), 30))
    assert not result.clean
    assert result.differences == 1
    assert str(result.first).startswith(first)


def test_a_stream_that_says_more_than_its_sources_close_is_an_error():
    result = audit(spec(published(30), 35))
    assert not result.clean
    assert (result.upto, result.rows, result.differences, result.dead_letters) == (ORIGIN, 0, 0, None)
    assert 0 <= result.seconds < 60
    assert "source s up to offset 21 closes only the buckets before 30, not those before 35" in result.error


CHAIN_LOGS = {"s": flights_world.log(3, 6), "t": flights_world.log(4, 6)}


def chain() -> AppSpec:
    """Sources s, t -> cleaned -> sums -> totals, and s -> relay -> totals."""
    app = App("chain", bucket="100ms")
    s, t = (app.source(n, schema={"key": "string", "x": "double"}) for n in ("s", "t"))
    cleaned = app.union(s, t).filter("x IS NOT NULL").map(key="key", x="x / 3.0").node("cleaned")
    sums = cleaned.window("500ms").group_by("key").agg(x="sum(x)").map(key="key", x="x").node("sums")
    both = app.union(sums, s.node("relay"))
    app.query("totals", both.window("1s").group_by("key").agg(total="sum(x)", n="count(*)"))
    return app.describe()


def test_a_query_that_was_cut_into_nodes_is_recomputed_from_its_sources():
    lived = Lived(chain(), CHAIN_LOGS)
    records, letters = lived.records["totals"], lived.letters
    (good,) = lived.audit("totals")
    assert (good.error, good.differences, good.rows, good.upto) == (None, 0, len(records), lived.end)
    assert len(records) > 10
    assert (good.dead_letters, good.dead_letter_differences, good.clean) == (len(letters), 0, True)
    assert {dict(r.headers)["query"] for r in letters} == {b"cleaned"}, "the first that reads s tells of it"
    (less,), (more,) = lived.audit("totals", letters[1:]), lived.audit("totals", [*letters, letters[0]])
    assert [(r.clean, r.dead_letter_differences, r.first_dead_letter.kind) for r in (less, more)] == [
        (False, 1, "missing"), (False, 1, "extra"),
    ]  # fmt: skip
    half = lived.end - 30
    behind = {"totals.progress": [progress_record("chain", "totals", Progress("a1", half, 0, 1))]}
    (early,) = lived.audit("totals", **behind)
    assert (early.upto, early.dead_letters, early.clean) == (half, len(letters), True), (
        "the nodes before it are ahead of it"
    )
    assert lived.audit("totals", totals=records[:7] + records[8:])[0].differences == 1
    other = msgspec.structs.replace(records[7], value=records[7].value.replace(b'"n":', b'"n":1'))
    (differs,) = lived.audit("totals", totals=[*records[:7], other, *records[8:]])
    assert str(differs.first).startswith(f"row {row_id(records[7])} is ")


def parted() -> AppSpec:
    """Source s in two partitions -> cleaned in three -> totals in three; kernels of both nodes refuse rows."""
    app = App("parted", bucket="100ms")
    s = app.source("s", schema={"key": "string", "x": "double"}, partitions=2)
    cleaned = s.filter("x IS NOT NULL").map(key="key", x="x", n="CAST(x * 4e7 AS BIGINT)")
    sums = cleaned.node("cleaned", partitions=3, by="key").window("1s").group_by("key")
    app.query("totals", sums.agg(x="sum(x)", n="CAST(sum(n) AS BIGINT)"), partitions=3, by="key")
    return app.describe()


def test_dead_letters_of_partitions_are_compared_once_for_all_of_them():
    lived = Lived(parted(), {"s.0": flights_world.log(3, 6), "s.1": flights_world.log(4, 6)})
    letters = lived.letters
    told = Counter((headers["node"], headers["source"]) for headers in (dict(r.headers) for r in letters))
    assert {node for node, _ in told} >= {b"cleaned.0", b"cleaned.1"}, told
    assert {source for _, source in told} >= {b"s.0", b"s.1", b"cleaned"}, told
    first, *others = lived.audit("totals")
    assert (first.error, first.dead_letters, first.dead_letter_differences, first.clean) == (
        None,
        len(letters),
        0,
        True,
    )
    assert [(r.error, r.dead_letters, r.clean) for r in others] == [(None, None, True)] * 2
    of_source, of_kernel = (next(r for r in letters if dict(r.headers)["source"] == w) for w in (b"s.1", b"cleaned"))
    told = [*(letter for letter in letters if letter is not of_source), of_kernel]
    (wrong,) = lived.audit("totals", told, parts=1)
    assert (wrong.dead_letter_differences, wrong.dead_letters) == (2, len(letters) - 1)


@pytest.mark.parametrize("lost", [1, 4])
def test_a_source_without_its_beginning_is_an_error(lost: int):
    result = audit(spec(published(30), 30, lost=lost))
    assert result.error.startswith(f"source s no longer has its beginning (first kept offset is {lost})")


def test_an_audit_goes_on_where_the_last_one_ended():
    first = audit(spec(published(20), 20, advance=True))
    assert (first.clean, first.upto, first.rows, first.resumed) == (True, 20, 10, False)
    at = first.reached
    assert at.bucket == 20
    (mark,) = at.marks
    second = audit(spec(published(30), 30, start=at, advance=True, lost=mark.offset))
    assert (second.clean, second.origin, second.upto, second.rows) == (True, 20, 30, 10)
    assert (second.resumed, second.reached.bucket) == (True, 30)
    third = audit(spec(published(30), 30, start=second.reached, advance=True))
    assert (third.clean, third.rows, third.reached) == (True, 0, None), "nothing is new"


def test_it_stands_on_the_state_that_the_last_one_computed():
    at = audit(spec(published(20), 20, advance=True)).reached
    wrong = audit(spec(published(30), 30, start=replace(at, state=ListKernel().encode_state(ListKernel().initial()))))
    assert (wrong.clean, wrong.differences) == (False, 10)


def test_who_did_not_ask_for_it_or_found_a_difference_goes_on_nowhere():
    assert audit(spec(published(20), 20)).reached is None
    assert audit(spec(published(20)[:-4], 20, advance=True)).reached is None
    assert audit(spec([], None, advance=True)).reached is None


@pytest.mark.parametrize(
    ("plant", "first"),
    [
        (lambda rows: rows[:-2], "row 29:0 missing"),
        (lambda rows: [*rows, rows[4]], "row 12:0 "),
        (lambda rows: [*rows[:20], rows[4], *rows[20:]], "row 12:0 "),
        (lambda rows: [*rows[:-2], msgspec.structs.replace(rows[-2], value=b'{"total": 3.1}')], "row 29:0 is "),
    ],
)
def test_what_came_since_is_found_also_of_buckets_that_were_verified(plant, first):
    at = audit(spec(published(20), 20, advance=True)).reached
    result = audit(spec(plant(published(30)), 30, start=at))
    assert (result.differences, str(result.first)[: len(first)]) == (1, first)


def test_a_source_that_lost_what_the_next_audit_reads_is_an_error():
    (mark,) = (at := audit(spec(published(20), 20, advance=True)).reached).marks
    result = audit(spec(published(30), 30, start=at, lost=mark.offset + 1))
    assert f"source s no longer has offset {mark.offset}, where the last audit with --advance ended" in result.error
    assert 'retain="audited"' in result.error


@pytest.mark.parametrize("behind", [1, 7, 20, 41])
def test_a_query_that_was_cut_goes_on_from_any_bucket_without_what_lay_before(behind: int):
    """Its windows are open there, and nodes before it are ahead of it. Dead letters go on, too."""
    lived = Lived(chain(), CHAIN_LOGS)
    at, letters = lived.end - behind, lived.letters
    early = {"totals.progress": [progress_record("chain", "totals", Progress("a1", at, 0, 1))]}
    (first,) = lived.audit("totals", advance=True, **early)
    assert (first.clean, first.upto, first.reached.bucket) == (True, at, at)
    sources = dict(zip(("s", "t"), (mark.offset for mark in first.reached.marks), strict=True))
    on = {"starts": {"totals": first.reached}, "trimmed": sources}
    (second,) = lived.audit("totals", advance=True, **on)
    assert (second.error, second.clean, second.origin, second.upto) == (None, True, at, lived.end)
    assert first.rows + second.rows == len(lived.records["totals"])
    assert first.dead_letters + second.dead_letters >= len(letters), "none is passed over"
    (more,) = lived.audit("totals", [*letters, letters[0]], **on)
    assert (more.clean, more.dead_letter_differences, more.first_dead_letter.kind) == (False, 1, "extra")
    (whole,) = lived.audit("totals", trimmed=sources)
    assert whole.error is not None
    assert "no longer has its beginning" in whole.error
    assert "no end of an audit with --advance is kept here" in whole.error


def test_partitions_go_on_each_from_where_its_own_audit_ended():
    lived = Lived(parted(), {"s.0": flights_world.log(3, 6), "s.1": flights_world.log(4, 6)})
    half = lived.end - 25
    early = {"totals.1.progress": [progress_record("parted", "totals.1", Progress("a1", half, 0, 1))]}
    before = lived.audit("totals", advance=True, **early)
    assert all(r.clean for r in before), before
    starts = {r.query: r.reached for r in before}
    assert starts["totals.1"].bucket == half
    after = lived.audit("totals", starts=starts, advance=True)
    assert [(r.error, r.clean) for r in after] == [(None, True)] * 3
    assert [r.rows for r in before][1] + after[1].rows == len(lived.records["totals.1"])


def hidden(looks: int, patience_s: float) -> AuditSpec:
    """The last rows lie behind a transaction that is open for so many looks at the end of the stream."""
    rows = published(30)
    on = spec(rows, 30, patience_s=patience_s)

    class Lookup(CorrectedLookup):
        left = looks

        def bounds(self, feed: Feed) -> tuple[int, int]:
            first, end = super().bounds(feed)
            Lookup.left -= feed == CORRECTED
            return (first, 4) if feed == CORRECTED and Lookup.left >= 0 else (first, end)

        def written(self, feed: Feed) -> int:
            return super().bounds(feed)[1]

    class Log(CorrectedLog):
        def lookup(self) -> CorrectedLookup:
            return Lookup(self.logs, self.lost)

    return replace(on, work=replace(on.work, log=Log({**on.work.log.logs})))


def test_rows_behind_a_transaction_that_ends_are_waited_for():
    assert audit(hidden(looks=3, patience_s=120.0)).clean


def test_rows_behind_a_transaction_that_stays_open_are_not_called_missing():
    result = audit(hidden(looks=10**9, patience_s=0.1))
    assert (result.rows, result.differences) == (0, 0)
    assert "app.q[0]: a transaction that has not ended hides what lies behind offset 4." in result.error
