"""What feeders and producers of a drill share: their options, and rows at a fixed rate, of which those that the log has
acknowledged are in a file: that much must never be lost.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from pathlib import Path
from typing import IO

FLUSH_ROWS = 20
OUTAGE_S = 120.0
"""A broker may be away for so long."""


def options(description: str | None) -> argparse.ArgumentParser:
    """The options of both."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--period-us", type=int, default=50_000)
    parser.add_argument("--start-us", type=int, required=True)
    parser.add_argument("--acks", type=Path, required=True)
    parser.add_argument("--poison", type=Path, required=True, help="which tuples to replace by what nobody can use")
    return parser


def due(args: argparse.Namespace, n: int, stop: threading.Event) -> bool:
    """Wait until row n is due: at start + n * period, at once if that is past. False: it is over."""
    stop.wait(max(0.0, (args.start_us + n * args.period_us - time.time_ns() // 1000) / 1e6))
    return not stop.is_set()


def note(file: IO[str], source: str, n: int) -> None:
    """The log has acknowledged the rows before row n."""
    file.write(json.dumps({"source": source, "acknowledged": n - 1}) + "\n")
    file.flush()
