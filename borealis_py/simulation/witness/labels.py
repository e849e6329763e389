"""The exact labels that a tentative result must have (A3.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from borealis_py.log.records import TentativeHeader
from borealis_py.simulation.witness.reading import Known, TentativeWord
from sunion.model import FOREVER

CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Made:
    """What one bucket was computed from when it ran live."""

    missing_sources: frozenset[str]
    missing: frozenset[str]
    share: float
    diverged_from: int


def made(bucket: int, inputs: Sequence[Known], now_us: int) -> Iterator[Made]:
    """What the inputs may have of a bucket now: first everything that was read, then without what memory may have
    dropped.
    """
    open_ = [known for known in inputs if known.closed <= bucket]
    stable = len(inputs) - len(open_)
    for words in product(*(known.partials(bucket, now_us) for known in open_)):
        found = [_nothing(known, bucket) if word is None else word for known, word in zip(open_, words, strict=True)]
        yield Made(
            frozenset().union(*(word.missing_sources for word in found)),
            frozenset().union(*(word.missing for word in found)),
            (stable + sum(word.completeness for word in found)) / len(inputs),
            min([bucket, *(word.diverged_from for word in found)]),
        )


def _nothing(known: Known, bucket: int) -> TentativeWord:
    return TentativeWord(known.sources, known.sources, 0.0, bucket)


@dataclass(frozen=True, slots=True)
class Basis:
    """What the last buckets, as many as matter, may have been computed from; `since`: the least `diverged_from`."""

    since: int
    window: tuple[Made, ...]


class Divergence:
    """The buckets that ran live since stable and live frontier were equal, and what each was computed from.

    Args:
        span: number of buckets that a result may depend on: its own and those before it.
    """

    def __init__(self, span: int) -> None:
        self._span = span
        self._unseen = 0
        """How many of the next results may depend on buckets that ran unseen."""
        self._histories = [Basis(FOREVER, ())]
        """Several where memory was full: a label may fit to what was read and to what was left, and only later ones
        tell to which."""

    def over(self) -> None:
        """The live state equals the stable one again: nothing tentative is in it."""
        self._histories = [Basis(FOREVER, ())]
        self._unseen = 0

    def unseen(self) -> None:
        """Some buckets may have run whose results were not emitted (R17.15)."""
        self._unseen = self._span

    def may_be_over(self) -> None:
        """The same is possible, and cannot be seen."""
        self._histories.append(Basis(FOREVER, ()))

    def follow(self, bucket: int, inputs: Sequence[Known], now_us: int, since: int = FOREVER) -> None:
        """Take the next bucket, whose labels say something else (R18.4). `since`: what it says of buckets before it
        that ran unseen."""
        self._histories = [
            Basis(min(before.since, since, own.diverged_from), (*before.window, own)[-self._span :])
            for own in made(bucket, inputs, now_us)
            for before in self._histories
        ]

    def ran(self, header: TentativeHeader, inputs: Sequence[Known], now_us: int) -> str | None:
        """Take the next bucket that is emitted. Returns what is wrong with its labels, if anything."""
        wrong, fit = None, list[Basis]()
        begins, least = self._unseen == self._span, self._unseen > 0
        self._unseen = max(0, self._unseen - 1)
        for own in made(header.bucket, inputs, now_us):
            for before in self._histories:
                since = header.diverged_from if begins else before.since
                history = Basis(min(since, own.diverged_from), (*before.window, own)[-self._span :])
                why = _wrong(header, own, history, least)
                if why is not None:
                    wrong = wrong or why
                elif history not in fit:
                    fit.append(history)
        self._histories = fit or self._histories
        return None if fit else wrong


def _wrong(header: TentativeHeader, own: Made, history: Basis, least: bool) -> str | None:
    """`least`: it may lack more than this history tells."""
    lacked = frozenset().union(*(of.missing_sources for of in history.window))
    share = min(of.share for of in history.window)
    expected = {
        "missing_sources": sorted(lacked),
        "missing": sorted(own.missing),
        "completeness": share,
        "diverged_from": history.since,
    }
    if header.completeness - share > CLOSE or (share - header.completeness > CLOSE and not least):
        return _differs("completeness", header.completeness, expected)
    said = frozenset(header.missing_sources)
    if said != lacked and not (least and said > lacked):
        return _differs("missing_sources", sorted(said), expected)
    if sorted(header.missing) != expected["missing"]:
        return _differs("missing", sorted(header.missing), expected)
    if header.diverged_from != history.since:
        return _differs("diverged_from", header.diverged_from, expected)
    return None


def _differs(field: str, said: object, expected: dict[str, object]) -> str:
    return f"says {field} {said}, expected {expected[field]}"
