"""What `make compose-test` judges with: its reading of what the subscriber printed."""

from __future__ import annotations

import json

from tests.compose.verdict import history_of


def test_what_was_printed_is_read_line_by_line() -> None:
    line = json.dumps({"id": "17:2", "stime": 5, "value": {"carrier": "UA", "dep_delay": 130.0}})
    session = history_of(f"{line}\n")
    assert [(s.bucket, s.index, s.rows) for s in session.seen] == [(17, 2, ({"carrier": "UA", "dep_delay": 130.0},))]
    assert session.complete
