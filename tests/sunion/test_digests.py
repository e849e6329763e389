"""Digests of stable buckets: the same for the same rows however buckets were cut into runs, different otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from sunion.digests import EMPTY, KEPT_MAX, TOLD_MAX, Digest, DigestPair
from sunion.model import Output, Reject
from sunion.output import SOutput
from tests.sunion.unions import output_of

CONTENT = st.dictionaries(st.integers(0, 39), st.integers(0, 3), max_size=20)
CUTS = st.lists(st.integers(1, 39), max_size=6, unique=True)


def output(value: int) -> Output:
    return Output(((1, value),))


def told(content: Mapping[int, int], cuts: Sequence[int], adopted: frozenset[int] = frozenset()) -> SOutput:
    """A replica that emitted buckets 0 to 39 in runs that end at `cuts`, and told the digests after each."""
    of, first = output_of(1, 0), 0
    for end in [*sorted(cuts), 40]:
        outputs = {b: output(v) for b, v in content.items() if first <= b < end}
        of.stable_run(first, end, outputs, computed=first not in adopted)
        first = end
    return of


@given(CONTENT, CUTS, CUTS)
def test_replicas_with_equal_rows_never_differ(content: dict[int, int], mine: list[int], theirs: list[int]) -> None:
    own, peer = told(content, mine), told(content, theirs)
    own.digests.tell()
    assert own.digests.difference(peer.digests.tell()) is None


@given(CONTENT, CONTENT, CUTS, CUTS)
def test_the_first_bucket_that_differs_is_found(
    content: dict[int, int], other: dict[int, int], mine: list[int], theirs: list[int]
) -> None:
    own, peer = told(content, mine), told(other, theirs)
    own.digests.tell()
    found = own.digests.difference(peer.digests.tell())
    first = min((b for b in range(40) if content.get(b) != other.get(b)), default=None)
    assert (None if found is None else found.bucket) == first


@given(CONTENT, CONTENT, CUTS)
def test_what_was_taken_over_from_a_peer_is_not_compared(
    content: dict[int, int], other: dict[int, int], cuts: list[int]
) -> None:
    adopted = frozenset([0, *cuts])
    own, peer = told(content, cuts, adopted), told(other, ())
    assert own.digests.tell() == ()
    assert own.digests.difference(peer.digests.tell()) is None


def test_rows_where_the_other_has_none_are_a_difference() -> None:
    own, peer = told({7: 1}, ()), told({}, ())
    (_, mine, _), (theirs,) = own.digests.tell(), peer.digests.tell()
    assert theirs == Digest(0, 40, EMPTY)
    assert own.digests.difference([theirs]) == DigestPair(7, mine.digest, EMPTY)
    assert peer.digests.difference([mine]) == DigestPair(7, EMPTY, mine.digest)


def test_dead_letters_count_but_not_how_their_reason_is_worded() -> None:
    def of(offset: int, reason: str) -> tuple[Digest, ...]:
        digests = output_of(1, 0).digests
        digests.said(0, 1, Output(None, (Reject("s0", offset, reason),)))
        return digests.tell()

    assert of(3, "not a number: 'x'") == of(3, "no number: 'x'")
    assert of(3, "same") != of(4, "same")


def test_idle_buckets_are_one_digest_however_many_turns_they_took() -> None:
    assert told({}, range(1, 40)).digests.tell() == (Digest(0, 40, EMPTY),)


def test_a_heartbeat_tells_the_newest_and_each_once() -> None:
    of = output_of(1, 0)
    of.stable_run(0, 500, {b: output(b) for b in range(500)})
    assert [d.first for d in of.digests.tell()] == list(range(500 - TOLD_MAX, 500))
    assert of.digests.tell() == ()


def test_a_peer_that_lags_is_compared_with_what_was_told_long_ago_but_not_without_end() -> None:
    of = output_of(1, 0)
    for bucket in range(KEPT_MAX + 10):
        of.stable_run(bucket, bucket + 1, {bucket: output(bucket)})
        of.digests.tell()
    assert of.digests.difference([Digest(10, 11, "other")]) is not None
    assert of.digests.difference([Digest(9, 10, "other")]) is None


def test_what_is_forgotten_is_not_compared() -> None:
    of = told({3: 1}, ())
    of.digests.tell()
    of.digests.forget()
    assert of.digests.difference([Digest(3, 4, "other")]) is None
