"""Logs, configured in one place: structlog for ours, the standard library's for others', all to standard error.

People get coloured lines; a process whose standard error is a file or a pipe writes one JSON object a line.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog

from borealis_py.config import logfile

LEVELS = ("debug", "info", "warning", "error")
_QUIET = ("kafka", "py4j", "matplotlib", "asyncio")
"""Libraries that say more than anybody wants to know."""


class _Stderr(logging.StreamHandler[TextIO]):
    """Standard error as it is when a line is written, not as it was when logging was set up.

    Args:
        file: that it is, where it is to be turned over when too large (`logfile.py`); empty: it is left alone.
    """

    def __init__(self, file: str = "") -> None:
        logging.Handler.__init__(self)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if self._file:
            logfile.follow(self._file, (2, 1))

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def configure_logs(level: str = "info", json: bool | None = None, file: str = "") -> None:
    """Set up logging for this process; may be called again.

    Args:
        level: "debug", "info", "warning" or "error".
        json: one object a line; None: if standard error is no terminal.
        file: that standard output and error are, and that is to be bounded; empty: whoever made them sees to it.

    Raises:
        ValueError: unknown level.
    """
    if level not in LEVELS:
        raise ValueError(f"log level {level!r}; choose {', '.join(LEVELS)}")
    as_json = not sys.stderr.isatty() if json is None else json
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso" if as_json else "%H:%M:%S.%f", utc=as_json),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    render: list[structlog.typing.Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if as_json:
        render += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=repr)]
    else:
        render += [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    handler = _Stderr(file)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=render))
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h, _Stderr)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(number)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
