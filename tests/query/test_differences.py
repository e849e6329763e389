"""What is said when an app's partitions or columns are not what they were."""

from __future__ import annotations

from typing import Any

import pytest

from borealis_py import App
from borealis_py.app.errors import LaunchError
from borealis_py.app.launch import refuse_changed
from borealis_py.app.state import AppState
from borealis_py.log.messages import Description
from borealis_py.query import AppSpec
from borealis_py.query.differences import of_columns, of_partitions


def spec(source: int | None = 2, node: int | None = 3, query: int | None = None, by: Any = "k") -> AppSpec:
    app = App("a")
    s = app.source("s", schema={"k": "string", "j": "string", "x": "double"}, partitions=source)
    clean = s.filter("x > 0").node("clean", partitions=node, by=by if node else None)
    sums = clean.window("1s").group_by("k", "j").agg(n="count(*)")
    app.query("q", sums, partitions=query, by=by if query else None)
    return app.describe()


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        (spec(), []),
        (spec(source=4), ["source 's': 2 partitions on the broker, 4 partitions in the file"]),
        (spec(source=None), ["source 's': 2 partitions on the broker, not partitioned in the file"]),
        (spec(node=1), ["node 'clean': 3 partitions by k on the broker, 1 partition by k in the file"]),
        (spec(by=("k", "j")), ["node 'clean': 3 partitions by k on the broker, 3 partitions by k, j in the file"]),
        (
            spec(source=1, query=2),
            [
                "source 's': 2 partitions on the broker, 1 partition in the file",
                "query 'q': not partitioned on the broker, 2 partitions by k in the file",
            ],
        ),
    ],
)
def test_each_is_named_with_both_numbers(after: AppSpec, lines: list[str]) -> None:
    assert of_partitions(spec(), after) == lines


def test_an_app_with_other_partitions_than_before_is_not_started_and_nothing_of_it_is_touched() -> None:
    before = spec()
    state = AppState("a", before, Description(before.to_json(), before.hash, 0, "", "a1"))
    refuse_changed(state, spec())
    with pytest.raises(LaunchError) as told:
        refuse_changed(state, spec(source=4))
    said = str(told.value)
    assert "source 's': 2 partitions on the broker, 4 partitions in the file" in said
    assert "keys would move" in said
    assert "node 'clean': " in said  # whose results depend on it, with both hashes
    assert "borealis up --reset" in said


def test_names_that_came_or_went_are_told_elsewhere() -> None:
    other = App("a")
    other.query("p", other.source("t", schema={"k": "string"}, partitions=2), partitions=2, by="k")
    assert of_partitions(spec(), other.describe()) == []


def test_a_column_of_another_type_is_named_with_both_and_the_old_name_of_int64_with_what_to_write() -> None:
    def made(**columns: str) -> AppSpec:
        app = App("a")
        app.query("q", app.source("s", schema=columns).filter("k = 'a'"))
        return app.describe()

    before = made(k="string", at="int", x="double")
    assert of_columns(before, before) == []
    assert of_columns(before, made(k="string", at="timestamp", y="decimal(12,2)")) == [
        "source 's': column 'at' is int64 on the broker, timestamp in the file (timestamp was another name of int64: "
        "write int64 to go on with it)",
        "source 's': column 'x' is double on the broker, not there in the file",
        "source 's': column 'y' is not there on the broker, decimal(12,2) in the file",
    ]
    state = AppState("a", before, Description(before.to_json(), before.hash, 0, "", "a1"))
    with pytest.raises(LaunchError, match="timestamp was another name of int64: write int64 to go on with it"):
        refuse_changed(state, made(k="string", at="timestamp", x="double"))
