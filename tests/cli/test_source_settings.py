"""`borealis source` as a user meets it, on a log of the test's own."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from borealis_py.app import source_settings as settings
from borealis_py.app.state import AppState, read_settings
from borealis_py.cli.commands import source
from borealis_py.ingress.source_settings import SourceSettings
from borealis_py.log.ingress_status import IngressRole
from tests.cli.commands import Borealis
from tests.support.copied_source import copy, described_log, tell
from tests.support.ingress_statuses import ingress_input, ingress_status
from tests.support.instant_log import InstantLog

SOON = ("--timeout", "100ms")


@dataclass(frozen=True)
class Context:
    """What a command gets instead of its configuration."""

    log: InstantLog

    def app(self, name: str | None) -> AppState:
        found = read_settings(self.log, name or "shop")
        assert found is not None
        return found


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> InstantLog:
    made = described_log()
    monkeypatch.setattr(source, "open_context", lambda bootstrap: Context(made))
    monkeypatch.setattr(settings, "GONE_S", 600.0)  # on a machine that is slow, too
    copy(made, 0, 0, 2)
    copy(made, 1, 1)
    return made


def now(log: InstantLog) -> SourceSettings:
    return Context(log).app(None).source_settings("orders")


def test_a_partition_is_given_up_and_kept_again(borealis: Borealis, log: InstantLog) -> None:
    unreadable = ingress_input(0, missing="partition 2 cannot be read", unreadable=(2,))
    tell(log, ingress_status(inputs=(unreadable, ingress_input(1))), skipped=(2,))
    said = borealis("source", "skip", "orders", "--partition", "2", *SOON)
    assert (said.code, said.out.count("since"), said.out.count("not running")) == (0, 1, 1)
    assert "orders: partition 2 is given up: no result waits for it any more" in said.err
    assert now(log).skipped == {2}
    said = borealis("source", "skip", "orders", "--partition", "2", *SOON)
    assert (said.code, "was given up already" in said.err) == (0, True)
    said = borealis("source", "skip", "orders", "--partition", "2", "--undo", *SOON)
    assert (said.code, "not in force after 100ms at ingress 0" in said.err) == (1, True)
    assert now(log).skipped == frozenset()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("skip", "ordres", "--partition", "0"), "there is no source 'ordres'; did you mean 'orders'?"),
        (("skip", "orders", "--partition", "3"), "Partitions: 0, 1, 2"),
        (("skip", "orders", "--partition", "1"), "can be read, and nothing waits for it"),
        (("end", "own"), "source 'own' has publishers"),
        (("expect", "orders.0", "1s"), "Name 'orders'"),
        (("expect", "orders", "1h"), "has expect 1h, but the query waits 2750ms"),
        (("expect", "orders", "soon"), "'soon' is not a duration"),
    ],
)
def test_what_cannot_be_is_refused_and_not_written(
    borealis: Borealis, log: InstantLog, arguments: tuple[str, ...], told: str
) -> None:
    tell(log, ingress_status())
    said = borealis("source", *arguments, *SOON)
    refused = "nothing waits" in told or "the query waits" in told
    assert (said.code, told in said.err) == (1 if refused else 2, True), said.err
    assert now(log) == SourceSettings()


def test_another_silence_is_expected_and_none(borealis: Borealis, log: InstantLog) -> None:
    tell(log, ingress_status(), expect_us=700_000)
    found = json.loads(borealis("source", "expect", "orders", "700ms", *SOON, "--json").out)
    assert (found["written"], [one["in_force"] for one in found["ingresses"]]) == (True, [True, False])
    tell(log, ingress_status())
    said = borealis("source", "expect", "orders", "none", *SOON)
    assert (said.code, "orders: silence means that nothing happened" in said.err) == (0, True)
    assert now(log).expect_us is None


def test_an_end_is_written_and_what_it_waits_for_is_told(borealis: Borealis, log: InstantLog) -> None:
    said = borealis("source", "end", "orders", *SOON)
    assert (said.code, "no ingress of orders runs" in said.err, now(log).ending) == (0, True, True)
    missing = ingress_input(1, missing="partition 1 cannot be read", unreadable=(1,))
    tell(log, ingress_status(inputs=(ingress_input(0), missing)), ending=True)
    said = borealis("source", "end", "orders", *SOON)
    assert said.code == 0
    assert "END waits for orders.1 (partition 1): partition 1 cannot be read" in said.err
    tell(log, ingress_status(inputs=()), role=IngressRole.ENDED)
    said = borealis("source", "end", "orders", *SOON)
    assert (said.code, "orders: has ended" in said.err, "ended" in said.out) == (0, True, True)
    said = borealis("source", "expect", "orders", "2s", *SOON)
    assert (said.code, "orders: has ended: nothing is expected of it any more" in said.err) == (0, True)
