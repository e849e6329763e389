"""Whether a command printed what a page shows.

`...` on the page stands for anything. Times, process ids, buckets, ports and the like, which differ at each run, stand
for any other of their kind.
"""

from __future__ import annotations

import doctest
import re

_VARIABLE = (
    (r"\x1b\[[0-9;]*m", ""),
    (r"(?m)^[ ─]*─[ ─]*$", ""),  # below the head of a table
    (r"\d{4}-\d\d-\d\d[T ][\d:.]+Z?", "TIME"),
    (r"\b\d\d:\d\d:\d\d(\.\d+)?", "TIME"),
    (r"\b1\d{15}\b", "STIME"),
    (r"\b1\d{10}\b", "BUCKET"),
    (r"\bpid \d+", "pid PID"),
    (r"\b(127\.0\.0\.1|localhost):\d+", "HOST:PORT"),
    (r"\b\d+(\.\d+)? (s|ms|min|MB)\b", "AMOUNT"),
    (r"\b\d+ rows recomputed", "ROWS recomputed"),
)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def alike(shown: str, printed: str) -> bool:
    """Whether `printed` is what the page shows. Runs of white space count as one space."""
    shown = re.sub(r"\s*\.\.\.\s*", "...", _generalised(shown))
    return doctest.OutputChecker().check_output(shown, _generalised(printed), _FLAGS)


def _generalised(text: str) -> str:
    for pattern, kind in _VARIABLE:
        text = re.sub(pattern, kind, text)
    return text.strip() + "\n"


def pids(shown: str, printed: str) -> dict[str, str]:
    """Which process id came for which one of the page, as `up` prints them: a later command may name one."""
    mine, theirs = (re.findall(r"\bpid (\d+)", text) for text in (shown, printed))
    return dict(zip(mine, theirs, strict=False))
