"""What a tentative result has to say of itself, exactly (PROTOCOL 1.3, Labels)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from borealis_py.log.records import TentativeHeader
from borealis_py.sim.oracle.reading import Known, Partial

CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Made:
    """What one bucket was made of when it ran live."""

    lacked: frozenset[str]
    missing: frozenset[str]
    share: float
    diverged_from: int


def made(bucket: int, inputs: Sequence[Known]) -> Made:
    """What the inputs have of a bucket now."""
    words = [(known, known.partial(bucket)) for known in inputs if known.closed <= bucket]
    found = [word if word is not None else _nothing(known, bucket) for known, word in words]
    stable = len(inputs) - len(words)
    return Made(
        frozenset().union(*(word.lacked for word in found)),
        frozenset().union(*(word.missing for word in found)),
        (stable + sum(word.completeness for word in found)) / len(inputs),
        min([bucket, *(word.diverged_from for word in found)]),
    )


def _nothing(known: Known, bucket: int) -> Partial:
    return Partial(known.sources, known.sources, 0.0, bucket)


class Divergence:
    """The buckets that ran live since stable and live frontier were one, and what each was made of.

    Args:
        span: a result may depend on so many buckets: its own and those before it.
    """

    def __init__(self, span: int) -> None:
        self._span = span
        self._made: dict[int, Made] = {}

    def over(self) -> None:
        """The live state is the stable one again: nothing tentative is in it."""
        self._made.clear()

    def ran(self, header: TentativeHeader, inputs: Sequence[Known]) -> str | None:
        """A bucket was said. Returns what is wrong with what it says of itself, if anything."""
        bucket = header.bucket
        self._made[bucket] = own = made(bucket, inputs)
        window = [of for b, of in self._made.items() if bucket - self._span < b]
        expected = {
            "lacked": sorted(frozenset().union(*(of.lacked for of in window))),
            "missing": sorted(own.missing),
            "completeness": min(of.share for of in window),
            "diverged_from": min(of.diverged_from for of in self._made.values()),
        }
        if abs(header.completeness - min(of.share for of in window)) > CLOSE:
            return _differs("completeness", header.completeness, expected)
        for field, said in ("lacked", sorted(header.lacked)), ("missing", sorted(header.missing)):
            if said != expected[field]:
                return _differs(field, said, expected)
        if header.diverged_from != expected["diverged_from"]:
            return _differs("diverged_from", header.diverged_from, expected)
        return None


def _differs(field: str, said: object, expected: dict[str, object]) -> str:
    return f"says {field} {said}, expected {expected[field]}"
