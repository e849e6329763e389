"""A function that does not return is named in the log, with the line it is at."""

from __future__ import annotations

import threading
from pathlib import Path

import structlog

from borealis_py.engine.applied.watchdog import Watchdog


def test_a_call_that_takes_long_is_named_with_its_line_until_it_returns() -> None:
    dog, said, go = Watchdog(long_s=0.05, look_s=0.01), threading.Event(), threading.Event()
    told: list[dict[str, object]] = []

    def note(logger: object, method: str, event: dict[str, object]) -> dict[str, object]:
        told.append(event)
        said.set()
        raise structlog.DropEvent

    def hang() -> None:
        with dog.watching("my_functions.slow", 7):
            go.wait()

    before = structlog.get_config()["processors"]
    structlog.configure(processors=[note])
    try:
        thread = threading.Thread(target=hang)
        thread.start()
        assert said.wait(60)
        go.set()
        thread.join()
    finally:
        structlog.configure(processors=before)
    assert (told[0]["function"], told[0]["rows"]) == ("my_functions.slow", 7)
    assert Path(threading.__file__).name in str(told[0]["at"])
    assert (told[-1]["event"], told[-1]["function"]) == ("function returned", "my_functions.slow")


def test_a_call_that_returns_in_time_says_nothing(capfd: object) -> None:
    dog = Watchdog(long_s=60)
    with dog.watching("my_functions.fast", 1):
        pass
    assert not dog._calls
