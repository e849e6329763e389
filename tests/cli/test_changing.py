"""`borealis threshold` and `borealis policy` on a running chain: real broker, replica processes without Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest

from borealis_py.app.state import put_settings, read_app
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.messages import DisagreementSetting, Policy, Threshold
from borealis_py.protocol.incarnation import Disagreement
from tests.cli.commands import Borealis, status, statuses
from tests.harness.waiting import until, until_equal

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("there")]
APP = "changing"
SUMS = (("sums", 0), ("sums", 1))
TEXT = f"""
from borealis_py import App

app = App("{APP}")
left, right = (app.source(s, schema={{"key": "string", "value": "double"}}) for s in ("left", "right"))
cleaned = app.union(left, right).filter("value >= 0").node("cleaned")
app.query("sums", cleaned.window("1s").group_by("key").agg(n="count(*)"), delay_threshold="2s", replicas=2)
app.query("big", cleaned.filter("value > 10"), delay_threshold="1s", on_failure="suspend", replicas=1)
"""


def changed(borealis: Borealis, *arguments: str) -> dict[str, Any]:
    said = borealis(*arguments, "--app", APP, "--timeout", "120s", "--json")
    assert said.code == 0, said.err
    found: dict[str, Any] = json.loads(said.out)
    after = found["after"]
    told = status(borealis, APP)
    assert told["thresholds_us"][found["query"]] == after["threshold_us"]
    assert told["policies"][found["query"]] == [after["failure"], after["stabilization"]]
    assert all(r["in_force"] for r in found["replicas"])
    return found


def test_a_threshold_is_in_force_at_every_node_of_the_query(borealis: Borealis) -> None:
    said = borealis("threshold", "sums", "700ms", "--app", APP, "--timeout", "120s")
    assert said.code == 0, said.err
    assert "sums: threshold 2s -> 700ms" in said.err
    assert "serves other queries" not in said.err  # none of them is more hurried
    for replica in ("cleaned.r0", "cleaned.r1", "sums.r0", "sums.r1"):
        assert replica in said.out
    assert said.out.count("since") == 4
    assert "big.r0" not in said.out
    until_equal(
        lambda: {key: r["threshold_us"] for key, r in statuses(borealis, APP).items()},
        {(node, k): 700_000 for node in ("cleaned", "sums") for k in (0, 1)} | {("big", 0): 1_000_000},
        "the status says so",
    )


def test_policies_are_in_force_and_what_is_not_named_stays(borealis: Borealis) -> None:
    found = changed(borealis, "policy", "sums", "--failure", "delay", "--stabilization", "SUSPEND")
    assert {(r["node"], r["replica"]) for r in found["replicas"]} == {
        (n, k) for n in ("cleaned", "sums") for k in (0, 1)
    }
    found = changed(borealis, "policy", "sums", "--failure", "suspend")
    assert found["before"]["failure"] == "delay"
    assert (found["after"]["failure"], found["after"]["stabilization"]) == ("suspend", "suspend")

    def shown() -> list[tuple[str, str]]:
        found = statuses(borealis, APP)
        of_each = (found["sums", 1], found["big", 0], found["cleaned", 0])  # the last: the most eager of each
        return [(r["failure_policy"], r["stabilization_policy"]) for r in of_each]

    wanted = [("suspend", "suspend"), ("suspend", "process"), ("suspend", "process")]
    until_equal(shown, wanted, "the status says so")
    table = borealis("status", "--app", APP).out
    assert "sums 700ms (failure suspend, stabilization suspend)" in table
    assert "big 1s (failure suspend, stabilization process)" in table


def test_the_same_again_says_that_nothing_changed(borealis: Borealis) -> None:
    changed(borealis, "threshold", "big", "900ms")
    assert not changed(borealis, "threshold", "big", "0.9s")["written"]
    said = borealis("threshold", "big", "900ms", "--app", APP)
    assert said.code == 0
    assert "nothing changed: big has threshold 900ms, failure suspend, stabilization process already" in said.err
    changed(borealis, "policy", "big", "--failure", "delay")
    assert not changed(borealis, "policy", "big", "--failure", "delay")["written"]
    assert changed(borealis, "policy", "big", "--failure", "suspend")["written"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["threshold", "sum", "1s"], 2, "did you mean 'sums'"),
        (["threshold", "cleaned", "1s"], 2, "is a node of app 'changing', not a query"),
        (["policy", "left", "--failure", "delay"], 2, "has no query 'left'"),
        (["threshold", "sums", "499ms"], 1, "the least that would do: `borealis threshold sums 500ms`"),
        (["threshold", "sums", "400d"], 2, "more than 366d"),
        (["threshold", "sums", "soon"], 2, "is not a duration"),
        (["threshold", "sums", "1"], 2, "no unit"),
        (["threshold", "sums", "-1s"], 2, "more than zero"),
        (["threshold", "sums", "1s", "--timeout", "10"], 2, "--timeout: '10' has no unit"),
        (["threshold", "sums"], 2, "value"),
        (["policy", "sums"], 2, "nothing to change: give --failure"),
        (["policy", "sums", "--failure", "dely"], 2, "did you mean 'delay'"),
        (["policy", "sums", "--stabilization", "never"], 2, "choose process, delay or suspend"),
    ],
)
def test_what_makes_no_sense_is_refused(borealis: Borealis, arguments: list[str], code: int, message: str) -> None:
    before = statuses(borealis, APP)
    said = borealis(*arguments, "--app", APP)
    assert said.code == code
    assert message in said.err
    assert ("the least that would do" in said.err) == ("499ms" in arguments)
    assert "Traceback" not in said.err
    assert said.out == ""
    after = statuses(borealis, APP)
    assert {k: r["threshold_us"] for k, r in after.items()} == {k: r["threshold_us"] for k, r in before.items()}


def test_a_query_that_is_gone_is_called_so(borealis: Borealis, bootstrap: str) -> None:
    put_settings(KafkaLog(bootstrap), APP, {"threshold/older": Threshold(1_000_000)})
    said = borealis("threshold", "older", "1s", "--app", APP)
    assert said.code == 2
    assert "has no query 'older' any more" in said.err
    put_settings(KafkaLog(bootstrap), APP, {"policy/old": Policy("delay", "delay")})
    said = borealis("policy", "old", "--failure", "delay", "--app", APP)
    assert said.code == 2
    assert "has no query 'old' any more; queries: sums, big" in said.err
    assert "older" not in status(borealis, APP)["thresholds_us"]  # nobody obeys it


def test_a_query_whose_replicas_differed_is_published_again_once_somebody_says_so(
    borealis: Borealis, bootstrap: str
) -> None:
    said = borealis("resume", "sums", "--app", APP)
    assert (said.code, "nothing to resume: no replicas of sums or of a node" in said.err) == (0, True)
    found = Disagreement(7, 0, "aa", 1, "bb", "sums")
    log, app_uid = KafkaLog(bootstrap), read_app(KafkaLog(bootstrap), APP).app_uid
    put_settings(log, APP, {f"diverged/{node}": DisagreementSetting(app_uid, found) for node in ("cleaned", "sums")})
    stopped = (*SUMS, ("cleaned", 0), ("cleaned", 1))
    until(lambda: all(statuses(borealis, APP)[key]["diverged"] == str(found) for key in stopped), "stopped")
    assert "DIVERGED: nothing of sums is published" in borealis("status", "--app", APP).err
    said = borealis("resume", "sums", "--app", APP, "--json")
    told = {"cleaned": str(found), "sums": str(found)}
    assert json.loads(said.out) == {"app": APP, "query": "sums", "written": True, "diverged": told}
    until(lambda: all(statuses(borealis, APP)[key]["diverged"] == "" for key in stopped), "resumed")
    assert "did you mean 'sums'" in borealis("resume", "sum", "--app", APP).err


def test_an_app_that_is_gone_is_called_so(borealis: Borealis) -> None:
    for change in (("threshold", "sums", "1s"), ("policy", "sums", "--failure", "delay")):
        said = borealis(*change, "--app", "changed")
        assert said.code == 2
        assert "no app 'changed' on this broker" in said.err


def test_without_replicas_it_is_written_and_counts_when_they_start(borealis: Borealis) -> None:
    """The last test: it stops them."""
    assert borealis("down", "--app", APP).code == 0
    said = borealis("threshold", "big", "800ms", "--app", APP)
    assert said.code == 0
    assert "big: threshold 900ms -> 800ms" in said.err
    assert "cleaned serves other queries too: it obeys the lowest threshold" in said.err
    assert "no replica of big runs: it will be in force when one starts" in said.err
    assert said.out.count("not running") == 3
    said = borealis("policy", "big", "--stabilization", "delay", "--app", APP)
    assert said.code == 0
    assert "no replica of big runs: it will be in force when one starts" in said.err
    assert borealis("up", "app.py", "--host", "process").code == 0
    assert not changed(borealis, "threshold", "big", "800ms")["written"]
    assert not changed(borealis, "policy", "big", "--stabilization", "delay")["written"]
