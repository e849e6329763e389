"""Which errors are expected, so that their message suffices. Others are bugs.

They are named by their modules, which are not imported here: an error of a module that nobody has loaded was not
raised, and an error message must not wait for the engine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

_EXPECTED = (
    ("borealis_py.app.errors", "LaunchError"),
    ("borealis_py.app.loader", "AppFileError"),
    ("borealis_py.client.ingest", "IngestError"),
    ("borealis_py.client.target", "PublisherError"),
    ("borealis_py.config.address", "AddressError"),
    ("borealis_py.config.config", "ConfigError"),
    ("borealis_py.demo.data", "DemoDataError"),
    ("borealis_py.demo.scenario", "DemoFailed"),
    ("borealis_py.log.base", "LogError"),
    ("borealis_py.protocol.settings", "SettingsError"),
    ("borealis_py.query.errors", "QueryError"),
    ("borealis_py.runtime.spark.session", "SparkUnavailable"),
    ("msgspec", "DecodeError"),
    ("sunion.errors", "RetentionLost"),
)


def is_expected(exc: Exception) -> bool:
    """Whether the message says what happened and what to do: no traceback helps."""
    return isinstance(exc, OSError) or any(_is(exc, module, name) for module, name in _EXPECTED)


def is_wrong_word(exc: Exception) -> bool:
    """Whether a word of the command is wrong: an app, query, source or topic that there is not, or not a duration."""
    return _is(exc, "borealis_py.query.errors", "WrongWord")


def hint_of(exc: Exception, arguments: Sequence[str] = ()) -> str | None:
    """A hint, if the message has none. `arguments`: of the command, its name first."""
    if _is(exc, "borealis_py.protocol.settings", "SettingsError"):
        return "raise delay_threshold in the app's file, or lower `timing:` in borealis.yaml"
    # not for a QueryError: it may be about a command's argument instead of a file
    file = next((a for a in arguments if a.endswith(".py") and Path(a).is_file()), None)
    if _is(exc, "borealis_py.app.loader", "AppFileError") and file is not None and "check" not in arguments:
        return f"`borealis check {file}` tells whether a file is right, without a broker"
    if _is(exc, "borealis_py.client.ingest", "IngestError"):
        return "`borealis publish --help` has the formats"
    return None


def _is(exc: Exception, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(exc, getattr(loaded, name))
