"""A partition begins in the logs of all inputs that share it, in an order that a successor understands."""

from __future__ import annotations

from collections.abc import Sequence

from borealis_py.ingress.input_writer import InputWriter

NOT_BEGUN = -1
"""In place of a next offset: the topic was made again, and not all inputs' logs say yet that the partition begins at
its beginning."""


class PartitionStart:
    """Tells the logs of all inputs that share a partition that it is copied from its beginning (B54).

    The log of the input that refuses records is told last. Until it has been, whoever copies tells all of them again,
    so nothing may be copied before.

    Args:
        last: the input that refuses records. If its log names an offset of the partition, its writer has taken that
            back already: `at` is `NOT_BEGUN`.
        others: the other inputs.
    """

    def __init__(self, partition: int, last: InputWriter, others: Sequence[InputWriter], now_us: int) -> None:
        self._partition = partition
        self._left: list[Sequence[InputWriter]] = [others, (last,)]
        self._awaited: list[tuple[InputWriter, int]] = []
        if partition in last.at:
            self._write((last,), now_us)
        self.turn(now_us)

    def turn(self, now_us: int) -> bool:
        """Do what can be done. True: all logs have been told."""
        while all(writer.stored >= made for writer, made in self._awaited):
            if not self._left:
                return True
            writers = self._left.pop(0)
            for writer in writers:
                writer.at[self._partition] = 0
            self._write(writers, now_us)
        return False

    def _write(self, writers: Sequence[InputWriter], now_us: int) -> None:
        for writer in writers:
            writer.flush(writer.boundary, now_us)
        self._awaited = [(writer, writer.made) for writer in writers]
