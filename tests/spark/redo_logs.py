"""Logs that redo jobs on Spark read."""

from __future__ import annotations

from tests.reconcile.list_world import batch, claim

LOGS = {
    "s": [claim(1, "a"), *(batch(1, "a", i, [(10_000 + 1000 * i, i / 7)], 11_000 + 1000 * i) for i in range(20))],
    "t": [
        claim(1, "a"),
        b"foreign",
        *(
            batch(1, "a", 2 * i, [(10_000 + 900 * i, "x"), (10_500 + 900 * i, 0.1)], 10_900 + 900 * i)
            for i in range(20)
        ),
    ],
}
