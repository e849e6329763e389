"""A process whose sources have ended stays until it is stopped, or until its app is begun anew."""

from __future__ import annotations

import threading

import pytest

from borealis_py.app.supervisor import exit_codes
from borealis_py.app.supervisor.exit_codes import ExitCode
from borealis_py.log import topics
from borealis_py.log.base import LogUnreachable
from borealis_py.log.messages import Description, encode
from borealis_py.runtime.ingress.after_end import stay
from tests.harness.waiting import PATIENCE_S, until
from tests.support.app_log import NAME, AppLog

ANEW = encode(Description("{}", "h", 0, "", "b2"))
OTHER_VERSION = encode(Description("{}", "h", 0, "", "a1", version=99))
LOOK_S = 0.001


class Staying:
    """`stay` in a thread, over this log; counts how often it has looked."""

    def __init__(self, log: AppLog) -> None:
        self.log, self.looks, self.found = log, 0, list[ExitCode]()
        self.stop, self.answers = threading.Event(), True
        self.thread = threading.Thread(target=lambda: self.found.append(stay(self, NAME, "a1", self.stop, LOOK_S)))
        self.thread.start()

    def lookup(self) -> object:
        self.looks += 1
        if not self.answers:
            raise LogUnreachable("no broker")
        return self.log.lookup()

    def looked(self) -> None:
        before = self.looks
        until(lambda: self.looks > before + 1, "it has looked once more, and not ended")
        assert self.found == []

    def end(self) -> ExitCode:
        self.thread.join(PATIENCE_S)
        return self.found[0]


def test_it_stays_until_it_is_stopped_also_without_a_broker_or_a_description() -> None:
    staying = Staying(AppLog())
    staying.looked()
    staying.log.describe()
    staying.looked()
    staying.answers = False
    staying.looked()
    staying.stop.set()
    assert staying.end() is exit_codes.STOPPED


@pytest.mark.parametrize(("value", "code"), [(ANEW, exit_codes.OTHER_LIFE), (OTHER_VERSION, exit_codes.REFUSED)])
def test_it_ends_once_the_app_is_of_another_life_or_version(value: bytes, code: ExitCode) -> None:
    log = AppLog()
    log.describe()
    staying = Staying(log)
    staying.looked()
    log.put_value(topics.settings(NAME), "app", value)
    assert staying.end() is code
