"""What the statuses of ingresses look like to a person."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from borealis_py.app.state import IngressStatuses
from borealis_py.cli.shared.ingress_table import ingress_table
from borealis_py.ingress.source_settings import SourceSettings
from borealis_py.log.ingress_status import AbsentField, IngressRole
from borealis_py.observe.ingress_overview import ingress_overview, ingress_remarks
from sunion.model import FOREVER
from tests.support.ingress_statuses import ingress_input, ingress_state, ingress_status
from tests.support.statuses import WALL_US


def printed(statuses: IngressStatuses, now_us: int = WALL_US) -> list[str]:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(ingress_table(ingress_state(), statuses, now_us))
    return [" ".join(line.split()) for line in capture.get().splitlines()]


def both(**changes: object) -> IngressStatuses:
    """Ingress 0 with these changes, and 1 that stands by."""
    standby = ingress_status(ingress=1, role=IngressRole.STANDBY)
    return {("orders", 0): ingress_status(**changes), ("orders", 1): standby}


def test_the_owner_shows_its_inputs_and_the_standby_does_not() -> None:
    inputs = (ingress_input(0), ingress_input(1, lag=None, late=2, dead=3, missing="its partition cannot be read"))
    lines = printed(both(inputs=inputs))
    assert "orders 0 owner" in lines
    assert "orders.0: partition 0 22:13:17.5 2.5 s 7 90" in lines
    assert "orders.1: partition 1 22:13:17.5 2.5 s 90 2 3 its partition cannot be read" in lines
    assert "orders 1 standby" in lines
    assert sum("partition" in line for line in lines) == 2


def test_boundaries_before_the_first_and_after_the_last() -> None:
    lines = printed(both(inputs=(ingress_input(0, boundary_us=0), ingress_input(1, boundary_us=FOREVER))))
    assert "orders.0: partition 0 7 90" in lines
    assert "orders.1: partition 1 END 7 90" in lines


def test_one_that_is_silent_or_has_stopped_is_gone() -> None:
    assert "orders 0 gone, was owner" in printed(both(at_wall_us=WALL_US - 6_000_000))
    assert "orders 0 gone, was stopped why" in printed(both(role=IngressRole.STOPPED, detail="why"))
    assert "orders 0 not running" in printed({})


def test_it_is_told_what_is_missing_and_who_copies() -> None:
    state = ingress_state()
    assert ingress_remarks(state, both(), WALL_US) == []
    (told,) = ingress_remarks(state, both(inputs=(ingress_input(1, missing="silent for 2.1 s"),)), WALL_US)
    assert told == "missing: orders.1 (partition 1): silent for 2.1 s"
    (told,) = ingress_remarks(state, both(inputs=(ingress_input(0, late=1), ingress_input(1, late=1))), WALL_US)
    assert told.startswith("source orders: 2 rows came later than its lateness allows")
    (told,) = ingress_remarks(state, both(role=IngressRole.STARTING, detail="no broker"), WALL_US)
    assert told == "source orders: no ingress copies it now: no broker"
    (told,) = ingress_remarks(state, both(), WALL_US + 60_000_000)
    assert told == "source orders: no ingress runs, so nothing of it arrives. `borealis up` starts them"


def test_a_machine_whose_clock_differs_from_the_broker_s_is_named_with_what_that_does() -> None:
    state = ingress_state()
    (told,) = ingress_remarks(state, both(clock_ahead_us=3_700_000_000), WALL_US)
    assert (
        told == "the clock of ingress 0 on here is 3700.0 s ahead of the broker's: rows come late, and are dead letters"
    )
    (told,) = ingress_remarks(state, both(clock_ahead_us=-1_500_000), WALL_US)
    assert told == "the clock of ingress 0 on here is 1.5 s behind the broker's: its sources wait"
    assert ingress_remarks(state, both(clock_ahead_us=999_999), WALL_US) == []


def test_it_is_told_which_columns_no_record_has_had_and_what_they_have_instead() -> None:
    absent = (
        AbsentField("userId", 1_204, "user_id"), AbsentField("note", 1), AbsentField("lat", 2, "$.geo.Lat", "$.geo.lat")
    )  # fmt: skip
    assert ingress_remarks(ingress_state(), both(absent=absent), WALL_US) == [
        "source orders: column `userId` was in none of 1 204 records of topic prod.orders, so it is null in all rows; "
        "they have `user_id`",
        "source orders: column `note` was not in the only record of topic prod.orders, so it is null in all rows; "
        "`borealis inspect` shows what they have",
        "source orders: column `lat` (field `$.geo.lat`) was in none of 2 records of topic prod.orders, so it is null "
        "in all rows; they have `$.geo.Lat`",
    ]


def test_it_is_told_how_times_seem_to_be_read_wrong() -> None:
    wrong = '1790000000 looks like seconds and is read as microseconds: set stime_unit="s"'
    told, late = ingress_remarks(
        ingress_state(), both(inputs=(ingress_input(0), ingress_input(1, late=3, misread=wrong))), WALL_US
    )
    assert told == (
        f"source orders: times of topic prod.orders seem to be read wrong, and their rows are dead letters: {wrong} in "
        "app.topic('orders', ...), and begin the app anew: `borealis up --reset`"
    )
    assert late.startswith("source orders: 3 rows came later")


def test_it_is_told_what_users_have_set() -> None:
    state = replace(ingress_state(), set_of_sources={"orders": SourceSettings(1_500_000, frozenset({0, 4}), True)})
    told = ingress_remarks(state, both(), WALL_US)
    assert [line.split(",")[0].split("(")[0].strip() for line in told] == [
        "source orders is to end",
        "source orders: nothing waits for partition 0",
        "source orders: an input that is silent for 1500ms is missing",
    ]
    assert "partition 0, 4 of its topic" in told[1]
    lines = printed(both(inputs=(ingress_input(0, given_up=(0, 4)), ingress_input(1, missing="silent", given_up=(1,)))))
    assert any(line.startswith("orders.0") and line.endswith("partition 0, 4 given up") for line in lines)
    assert any(line.endswith("silent; partition 1 given up") for line in lines)


def test_a_source_that_has_ended_is_not_called_gone() -> None:
    ended = both(role=IngressRole.ENDED, detail="source 'orders' has ended", inputs=(), at_wall_us=1)
    assert "orders 0 ended source 'orders' has ended" in printed(ended)
    state = replace(ingress_state(), set_of_sources={"orders": SourceSettings(None, frozenset(), True)})
    assert ingress_remarks(state, ended, WALL_US) == [
        "source orders has ended: nothing of its topic is copied any more"
    ]


def test_it_is_all_in_the_json() -> None:
    owner, standby = ingress_overview(ingress_state(), both(), WALL_US + 1_000_000)
    assert (owner["role"], owner["running"], owner["age_s"]) == ("owner", True, 1.0)
    assert owner["inputs"][1]["lag"] == 7
    assert standby["ingress"] == 1
    assert [one["running"] for one in ingress_overview(ingress_state(), {}, WALL_US)] == [False, False]
