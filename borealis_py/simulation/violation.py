"""The error of a failed oracle."""

from __future__ import annotations


class Violation(Exception):
    """An oracle failed. `oracle` is its name; `bucket`: the bucket concerned, if any."""

    def __init__(self, oracle: str, detail: str, bucket: int | None = None) -> None:
        super().__init__(f"{oracle}: {detail}")
        self.oracle = oracle
        self.detail = detail
        self.bucket = bucket
