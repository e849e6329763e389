"""Which errors are expected, so that their message suffices. Others are bugs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def is_expected(exc: Exception) -> bool:
    """Whether the message says what happened and what to do: no traceback helps."""
    import msgspec

    from borealis_py.app.errors import LaunchError
    from borealis_py.app.loader import AppFileError
    from borealis_py.client.ingest import IngestError
    from borealis_py.client.target import PublisherError
    from borealis_py.config.address import AddressError
    from borealis_py.config.config import ConfigError
    from borealis_py.demo.data import DemoDataError
    from borealis_py.demo.scenario import DemoFailed
    from borealis_py.log.base import LogError
    from borealis_py.protocol.settings import SettingsError
    from borealis_py.query.errors import QueryError
    from borealis_py.runtime.spark.session import SparkUnavailable
    from sunion.errors import RetentionLost

    ours = (
        AddressError,
        AppFileError,
        ConfigError,
        DemoDataError,
        DemoFailed,
        IngestError,
        LaunchError,
        LogError,
        PublisherError,
        QueryError,
        RetentionLost,
    )
    return isinstance(exc, (*ours, SettingsError, SparkUnavailable, msgspec.DecodeError, OSError))


def hint_of(exc: Exception, arguments: Sequence[str] = ()) -> str | None:
    """A hint, if the message has none. `arguments`: of the command, its name first."""
    from borealis_py.app.loader import AppFileError
    from borealis_py.client.ingest import IngestError
    from borealis_py.protocol.settings import SettingsError

    if isinstance(exc, SettingsError):
        return "raise delay_threshold in the app's file, or lower `timing:` in borealis.yaml"
    # not for a QueryError: it may be about a command's argument instead of a file
    file = next((a for a in arguments if a.endswith(".py") and Path(a).is_file()), None)
    if isinstance(exc, AppFileError) and file is not None and "check" not in arguments:
        return f"`borealis check {file}` tells whether a file is right, without a broker"
    if isinstance(exc, IngestError):
        return "`borealis publish --help` has the formats"
    return None
