"""Parameters: those that the paper gives (Table 5), and how we read what it leaves open."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperSetting:
    """Table 5 of the paper (H 235-241) with its default values.

    Attributes:
        rate_per_s: tuples that Nu sends to N, over all input streams.
        detect_us: from the failure of N until N' knows of it.
        interval_us: M, between two acknowledgements, trimming messages or checkpoints of a node.
        redirect_us: r, until Nu sends to N' once N' has asked for it.
        bits_per_us: what a link carries: 16 Mbps.
        delay_us: d, the way of a message once it is sent.
        filter_us: processor time of a filter for a tuple, and of an aggregate for each window that a tuple falls into.
    """

    rate_per_s: int = 1_000
    detect_us: int = 250_000
    interval_us: int = 50_000
    redirect_us: int = 40_000
    tuple_bytes: int = 50
    id_bytes: int = 8
    bits_per_us: int = 16
    delay_us: int = 5_000
    filter_us: int = 10

    def sending_us(self, size_bytes: int) -> int:
        """How long a message of this size keeps a link busy."""
        return -(-8 * size_bytes // self.bits_per_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperReading:
    """Our assumptions where the paper says nothing. Each has an alternative, which can be run as well.

    Attributes:
        until_output: N' has recovered when it begins to send the first output that N had not sent; else when it has
            processed all tuples that N had. By the words of section 4 (H 83) it is the latter. But a filter and an
            aggregate with an advance of 100 both take 10 us a tuple and replay half a checkpoint interval, and the
            paper has 45.88 ms for the one (H 271) and 47.5 ms for the other (H 291): they differ only in the distance
            of their outputs.
        leaves_late: a window's tuples leave the state of an aggregate when the next window closes; else when their own
            does. With an advance of 100 the paper's checkpoints have 102.6 % (H 291): of 50 new tuples none has left.
        overlaps: a node receives a tuple while it processes another; else it does one after the other. With the latter
            passive standby of table 8 comes out within 1 %, with the former within 3 %.
        together: the timers of all nodes tick at once; else each has a phase of its own, as M lambda for two acks of
            half an interval each has it (H 105, H 201).
        numbered: a checkpoint carries an identifier of its own. H 115 names one for each queue and each state; the
            overheads of H 271 and H 291 are those of one more: 101.27 % is 100 % and four of 0.32 %.
        union_us: processor time of a union for a tuple. Table 5 gives none; a filter's is taken.
    """

    until_output: bool = True
    leaves_late: bool = True
    overlaps: bool = False
    together: bool = False
    numbered: bool = True
    union_us: int = 10


ALTERNATIVES = {
    "recovered with N's state": PaperReading(until_output=False),
    "tuples leave with their window": PaperReading(leaves_late=False),
    "receives while it processes": PaperReading(overlaps=True),
    "all timers at once": PaperReading(together=True),
    "checkpoints without a number": PaperReading(numbered=False),
}
"""What else the paper may mean."""
