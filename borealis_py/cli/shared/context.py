"""What most commands start with: the configuration, the broker, the app."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from borealis_py.cli.shared.console import say

if TYPE_CHECKING:
    from borealis_py.app.state import AppState
    from borealis_py.config.config import Config
    from borealis_py.kafka.log import KafkaLog


@dataclass(frozen=True)
class Context:
    """The configuration of a command (`config`), and the log that it reads and writes (`log`)."""

    config: Config
    log: KafkaLog

    @property
    def data_dir(self) -> Path:
        return self.config.data_dir

    def check_broker(self) -> None:
        """End at once where all addresses of the broker refuse connections: clients would try again for 5 s. One that
        does not answer gets its time.

        Raises:
            LogUnreachable: they do.
        """
        from borealis_py.kafka.client import refuse, unreachable

        if refuse(self.log.bootstrap):
            raise unreachable(self.log.bootstrap)

    def app(self, name: str | None) -> AppState:
        """The app of that name, or the only one. Prints a warning if the configuration sets another timing than the
        app's.

        Raises:
            NoSuchApp, LogUnreachable: no such app, or no broker.
            ConfigError: an invalid timing.
        """
        from borealis_py.app.state import read_app
        from borealis_py.app.timing import ignored

        self.check_broker()
        state = read_app(self.log, name)
        if unused := ignored(dict(self.config.timing_overrides()), state.timing):
            say(f"`timing:` here is not that of app {state.name}: {', '.join(unused)}. Only `up` sets it", "yellow")
        return state


def open_context(bootstrap: str | None = None, data_dir: Path | None = None, http: str | None = None) -> Context:
    """Read the configuration; connects to nothing yet.

    Raises:
        ConfigError: an invalid setting.
    """
    from borealis_py.config.config import load
    from borealis_py.config.kafka import log_of

    config = load(bootstrap=bootstrap, data_dir=data_dir, http=http)
    return Context(config, log_of(config))
