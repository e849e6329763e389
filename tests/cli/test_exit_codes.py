"""Exit codes of commands: the page's table, and a wrong word of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from borealis_py.app.state import NoSuchApp, UnknownName, find_app
from borealis_py.cli.shared.console import FAILED, INTERRUPTED, USAGE
from borealis_py.cli.shared.errors import is_expected, is_wrong_word
from borealis_py.client.ingest import WrongOption
from borealis_py.kafka.access.rights import missing_right
from borealis_py.kafka.client import translated
from borealis_py.log import topics
from borealis_py.log.base import LogError, TopicSpec
from borealis_py.observe.topic_sample import UnknownTopic
from borealis_py.query.errors import QueryError, WrongValue
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.log.client import MemoryLog
from tests.cli.commands import Borealis, app_text
from tests.harness.processes import ROOT
from tests.support.nowhere import NOWHERE


def test_the_page_has_every_code_of_commands() -> None:
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text().partition("## Of commands")[2]
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("|")][2:]
    assert [int(row[0]) for row in rows] == [0, FAILED, USAGE, INTERRUPTED]
    assert all(len(row) == 3 and all(cell.strip() for cell in row) for row in rows)


@pytest.mark.parametrize(
    "arguments",
    [
        ["threshold", "q", "soon"],
        ["threshold", "q", "3"],
        ["threshold", "q", "-1s"],
        ["threshold", "q", "1s", "--timeout", "3"],
        ["policy", "q", "--failure", "wait"],
        ["policy", "q"],
        ["top", "--every", "3"],
        ["top", "--every", "1ms"],
        ["fail", "source", "s", "--for", "3"],
        ["source", "expect", "s", "3"],
        ["recovery", "q", "--sync", "1s"],
        ["publish", "s", "-", "--stime", "at", "--lateness", "3"],
        ["inspect", "t", "--cluster", "gone"],
        ["down", "--app", "gone"],
        ["bench", "nonsense"],
        ["broker", "nonsense"],
        ["fail", "nonsense"],
        ["source", "nonsense"],
        ["demo", "--host", "moon"],
    ],
)
def test_a_wrong_word_is_wrong_usage(borealis: Borealis, here: Path, arguments: list[str]) -> None:
    said = borealis(*arguments)
    assert (said.code, said.out) == (USAGE, "")
    assert "Traceback" not in said.err
    assert said.err.strip()


@pytest.mark.parametrize(
    ("error", "wrong_word"),
    [
        (WrongValue("app 'a' has no query 'q'"), True),
        (UnknownName("no app 'a' on this broker"), True),
        (UnknownTopic("there is no topic 't'"), True),
        (WrongOption("the CSV header has no column 'at'"), True),
        (QueryError("an app's file"), False),
        (NoSuchApp("no app on this broker"), False),
        (LogError("refused"), False),
        (OSError("disk full"), False),
    ],
)
def test_which_errors_are_of_a_wrong_word(error: Exception, wrong_word: bool) -> None:
    assert (is_expected(error), is_wrong_word(error)) == (True, wrong_word)


def test_an_app_with_an_error_is_no_wrong_word(borealis: Borealis, here: Path) -> None:
    (here / "app.py").write_text(app_text(threshold="soon"))
    assert borealis("check", "app.py").code == FAILED


def test_no_broker_is_no_wrong_word(borealis: Borealis, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("borealis_py.kafka.admin.ANSWER_S", 0.1)
    assert borealis("status", "--bootstrap", NOWHERE).code == FAILED


def test_of_apps_that_were_started_here_one_that_does_not_run_may_be_stopped(borealis: Borealis, here: Path) -> None:
    log = here / ".borealis" / "shop" / "replica-0.log"
    log.parent.mkdir(parents=True)
    log.touch()
    said = borealis("down", "--app", "shop")
    assert (said.code, "no replica of app 'shop' runs" in said.err) == (0, True)
    said = borealis("down", "--app", "shp")
    assert (said.code, "did you mean 'shop'" in said.err) == (USAGE, True)


def apps(*names: str) -> MemoryLog:
    log = MemoryLog(Scheduler(1_700_000_000_000_000), 0).client("command")
    log.admin().create([TopicSpec(topic(name)) for name in names for topic in (topics.settings, topics.control)])
    return log


def test_names_of_apps_are_wrong_words_where_there_are_apps() -> None:
    assert find_app(apps("one")) == "one"
    with pytest.raises(NoSuchApp, match="no app on this broker") as none:
        find_app(apps())
    assert not is_wrong_word(none.value)
    for log, name in ((apps("one"), "two"), (apps("one", "two"), None), (apps(), "one")):
        with pytest.raises(UnknownName):
            find_app(log, name)


@pytest.mark.parametrize(
    ("code", "doing", "right"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "read shop.settings[0]", "READ on topic shop.settings"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "see topic shop.settings", "DESCRIBE on topic shop.settings"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "write shop.settings", "WRITE on topic shop.settings"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "create topic shop.a", "CREATE on topic shop.a"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "delete topic shop.a", "DELETE on topic shop.a"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "ask for the end of shop.a[1]", "DESCRIBE on topic shop.a"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "read shop.a[0]", "READ on the consumer group"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "fence the writer w", "WRITE on transactional id w"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "create topic shop.a", "CREATE on the cluster"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "open an appender", "IDEMPOTENT_WRITE on the cluster"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "read shop.a[0]", None),
    ],
)
def test_a_refusal_names_the_right_that_is_missing(code: int, doing: str, right: str | None) -> None:
    assert missing_right(code, doing) == right
    said = str(translated("broker:9092", doing, KafkaError(code)))
    assert ("the ACLs lack" in said) == (right is not None)
    assert right is None or said.endswith(right)
