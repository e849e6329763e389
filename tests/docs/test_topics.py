"""docs/reference/topics.md has each topic of an app, with its retention."""

from __future__ import annotations

import re

from borealis_py.log import topics
from borealis_py.log.base import TopicSpec
from tests.docs.terminal import ROOT

PAGE = ROOT / "docs" / "reference" / "topics.md"
WORDS = {"-1": "for ever", "3600000": "1 h", "600000": "10 min"}


def retention(topic: TopicSpec) -> str:
    settings = dict(topic.config)
    if set(topics.STREAM_SEGMENT) <= set(topic.config) and settings.get("cleanup.policy") is None:
        return "an hour of stime, and what is needed"
    return "compacted" if settings.get("cleanup.policy") == "compact" else WORDS[settings["retention.ms"]]


def test_each_topic_of_an_app_is_on_the_page_with_its_retention() -> None:
    rows = [line.strip("|").split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `shop.")]
    shown = {re.findall("`(.+?)`", row[0])[0]: row[-1].strip() for row in rows}
    made = topics.of_app("shop", ["berlin"], {"sales": 1}, trimmed=["sales"]) + topics.of_redos("shop", {"sales": 1})
    made.append(TopicSpec(topics.kept_files("shop", "sales.r0"), config=topics.KEPT_FILES))
    assert shown == {topic.name: retention(topic) for topic in made}
