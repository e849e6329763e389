"""What is kept of streams, as users say it."""

from __future__ import annotations

import pytest

from borealis_py.query import App
from borealis_py.query.errors import QueryError
from borealis_py.query.partitions import physical
from borealis_py.query.retention import format_retain, parse_retain, parse_source_retain
from borealis_py.query.spec import AppSpec

HOUR_US = 3_600_000_000
SCHEMA = {"n": "int64", "k": "string"}


@pytest.mark.parametrize(("text", "lag_us"), [("all", None), ("needed", 0), ("24h", 24 * HOUR_US), ("90s", 90_000_000)])
def test_words_and_durations(text: str, lag_us: int | None) -> None:
    assert parse_retain(text, "x") == lag_us
    assert parse_retain(format_retain(lag_us), "x") == lag_us


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("need", "did you mean 'needed'"),
        ("audited", '"audited" is for sources'),
        ("audite", 'choose "needed", "all" or a duration'),
        ("", "choose"),
        (None, "choose"),
        (5, "choose"),
        ("24", "no unit"),
        ("0s", "more than zero"),
        ("-3s", "choose"),
    ],
)
def test_anything_else_is_refused_by_name(text: object, said: str) -> None:
    with pytest.raises(QueryError, match=r"query 'x'") as refused:
        parse_retain(text, "query 'x'")
    assert said in str(refused.value)


@pytest.mark.parametrize("text", ["all", "needed", "24h", "audited"])
def test_of_a_source_audited_makes_sense_too(text: str) -> None:
    kept = parse_source_retain(text, "x")
    assert (kept == "audited") == (text == "audited")
    assert parse_source_retain(format_retain(kept), "x") == kept


def test_what_a_source_may_be_kept_as_is_named() -> None:
    with pytest.raises(
        QueryError, match=r"did you mean 'audited'\? choose \"needed\", \"all\", \"audited\" or a duration"
    ):
        parse_source_retain("audite", "source 's'")


def test_sources_of_all_kinds_may_be_kept_as_audited_and_nothing_else() -> None:
    it = App("shop", retain="all")
    own = it.source("own", SCHEMA, partitions=2, retain="audited")
    other = it.topic("other", topic="prod.other", schema=SCHEMA, partitions=2, retain="audited")
    it.query("q", it.union(own, other))
    spec = AppSpec.from_json(it.describe().to_json())
    assert [spec.keeps(name) for name in ("own", "own.1", "other", "q")] == ["audited", "audited", "audited", None]
    assert physical(spec).keeps("other.0") == "audited"
    with pytest.raises(QueryError, match=r"query 'r': retain=\"audited\" is for sources"):
        it.query("r", own, retain="audited")
    with pytest.raises(QueryError, match=r"app 'x': retain=\"audited\" is for sources"):
        App("x", retain="audited")
    with pytest.raises(QueryError, match="'q': it is no source"):
        AppSpec.from_json(spec.to_json().replace('"q":null', '"q":"audited"'))


def an_app(**retain: str) -> AppSpec:
    it = App("shop", **retain)
    kept, trimmed = it.source("kept", SCHEMA), it.source("trimmed", SCHEMA, partitions=2, retain="24h")
    cut = it.union(kept, trimmed).node("cut", partitions=2, by="k")
    it.query("own", cut, retain="needed")
    it.query("other", cut.filter("n > 0"))
    return it.describe()


def test_by_default_an_hour_of_streams_of_replicas_is_kept_and_all_of_sources() -> None:
    spec = an_app()
    assert {name: spec.keeps(name) for name in ("kept", "cut", "other")} == {
        "kept": None,
        "cut": HOUR_US,
        "other": HOUR_US,
    }
    assert (spec.keeps("trimmed"), spec.keeps("own")) == (24 * HOUR_US, 0)


@pytest.mark.parametrize(("retain", "kept"), [("1h", 7_200_000_000), ("3h", 3 * HOUR_US), ("all", None), ("needed", 0)])
def test_of_a_query_not_less_than_its_threshold_is_kept(retain: str, kept: int | None) -> None:
    it = App("shop", retain=retain)
    it.query("q", it.source("s", SCHEMA).node("cut"), delay_threshold="2h")
    assert it.describe().keeps("q") == kept


def test_what_the_app_says_holds_for_streams_of_replicas_that_say_nothing_else() -> None:
    spec = an_app(retain="1h")
    assert [spec.keeps(name) for name in ("kept", "trimmed", "cut", "own", "other")] == [
        None,
        24 * HOUR_US,
        HOUR_US,
        0,
        HOUR_US,
    ]


def test_partitions_are_kept_as_what_they_are_partitions_of() -> None:
    runs = physical(an_app(retain="1h"))
    assert (runs.keeps("trimmed.1"), runs.keeps("cut.0")) == (24 * HOUR_US, HOUR_US)


def test_a_description_keeps_it_and_one_without_keeps_everything() -> None:
    spec = an_app(retain="1h")
    assert AppSpec.from_json(spec.to_json()) == spec
    without = AppSpec.from_json(spec.model_copy(update={"retain": {}}).to_json())
    assert without.keeps("cut") is None


def test_it_changes_no_result_so_an_app_may_change_it() -> None:
    assert an_app().hash == an_app(retain="1h").hash


def test_less_than_the_delay_threshold_is_refused() -> None:
    it = App("shop")
    with pytest.raises(QueryError, match="query 'q': retain='1s' is shorter than its delay threshold, 3s"):
        it.query("q", it.source("s", SCHEMA), retain="1s")


def test_a_description_with_an_unknown_stream_is_refused() -> None:
    spec = an_app()
    with pytest.raises(QueryError, match="retain of 'nobody'"):
        AppSpec.from_json(spec.model_copy(update={"retain": {"nobody": 0}}).to_json())
