"""What the copies of topics are worth on their cluster, in words. Pure.

An acknowledged record is to survive the loss of a broker (RELIABILITY.md): that is the cluster's part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from borealis_py.log.base import Replication
from borealis_py.log.topics import MIN_INSYNC, UNCLEAN

NAMES_SHOWN = 3
HOW = "Set `topics: {replication: 3, min_insync_replicas: 2}` in borealis.yaml before an app's first `up`"


def remarks(found: Replication, settings: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A line for each way in which these topics lose rows with a broker; none on a cluster of one, which can do no
    better. `settings`: as `log.base.Admin.settings`."""
    if found.brokers < 2:
        return []
    alone = sorted(name for name, copies in found.copies.items() if copies == 1)
    of_all = found.copies.keys() - alone
    early = sorted(name for name in of_all if settings.get(name, {}).get(MIN_INSYNC) == "1")
    unclean = sorted(name for name in of_all if settings.get(name, {}).get(UNCLEAN) == "true")
    lines = []
    if alone:
        lines.append(
            f"{_topics(alone)} one copy on a cluster of {found.brokers} brokers: a broker that dies takes their rows "
            f"away, for as long as it is down or for ever. {HOW}; of topics that are there an administrator changes it "
            "(`kafka-reassign-partitions`)"
        )
    if early:
        lines.append(
            f"{_topics(early)} {MIN_INSYNC}=1: rows that were acknowledged are lost if one broker dies at the wrong "
            f"time. {HOW}; of topics that are there {_altered(early, MIN_INSYNC, '2')}"
        )
    if unclean:
        lines.append(
            f"{_topics(unclean)} {UNCLEAN}=true: rows that others have read may vanish when a broker dies. Change it: "
            f"{_altered(unclean, UNCLEAN, 'false')}"
        )
    return lines


def _topics(names: Collection[str]) -> str:
    shown = [*names][:NAMES_SHOWN]
    more = len(names) - len(shown)
    listed = ", ".join(shown) + (f" and {more} more" if more else "")
    return f"topic{'s' if len(names) > 1 else ''} {listed} {'have' if len(names) > 1 else 'has'}"


def _altered(names: Collection[str], setting: str, value: str) -> str:
    return f"`kafka-configs --alter --topic {next(iter(names))} --add-config {setting}={value}`"
