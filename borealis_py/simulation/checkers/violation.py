"""What an oracle says when it fails."""

from __future__ import annotations


class Violation(Exception):
    """An oracle failed. `oracle` is its name; `bucket`: where to look, if it is about one."""

    def __init__(self, oracle: str, detail: str, bucket: int | None = None) -> None:
        super().__init__(f"{oracle}: {detail}")
        self.oracle = oracle
        self.detail = detail
        self.bucket = bucket
