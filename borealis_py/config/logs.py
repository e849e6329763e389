"""Log configuration, in one place: structlog for our own, the standard library for others', all to standard error.

A terminal gets coloured lines; if standard error is a file or a pipe, each line is one JSON object.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog

from borealis_py.config import logfile

LEVELS = ("debug", "info", "warning", "error")
_QUIET = {
    "kafka": logging.ERROR,
    "kafka.net.sasl": logging.WARNING,
    "py4j": logging.WARNING,
    "matplotlib": logging.WARNING,
    "asyncio": logging.WARNING,
}
"""Libraries whose messages are of little use, and from which level on they are shown; from warnings on where
everything is. kafka-python warns of each thing that it tries again, and of its own slowness on a busy machine: whoever
uses it says what failed in the end. Only that a password travels in the clear nobody else says."""


class _Stderr(logging.StreamHandler[TextIO]):
    """Standard error as it is when a line is written, not as it was when logging was configured.

    Args:
        file: the file that standard error is, if it is to be rotated when too large (`logfile.py`); empty: it is not.
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
    """Configure logging for this process; may be called again.

    Args:
        level: "debug", "info", "warning" or "error".
        json: one object per line; None: if standard error is not a terminal.
        file: the file that standard output and error are, if it is to be bounded; empty: it is not.

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
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(logging.WARNING if number <= logging.DEBUG else max(number, least))
