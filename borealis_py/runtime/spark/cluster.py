"""What a standalone cluster could still give, according to its master's web page. Knows no replicas."""

from __future__ import annotations

import http.client
import json
from collections.abc import Collection
from typing import Any

from borealis_py.runtime.spark.slot_plan import addresses

UI_PORT = 8080
"""Port of a standalone master's pages, unless `spark.master.ui.port` sets another."""
ANSWER_S = 2.0


def free_slots(master: str, ui_port: int, executor_mb: int, hosts: Collection[str]) -> int | None:
    """Number of cores that an application would get in addition to its own if it were restarted.

    Args:
        master: spark://host:port, or several. ui_port: of their pages.
        executor_mb: memory of one of its executors.
        hosts: where it has executors, whose memory it would give back.

    Returns:
        None: no live master reports it.
    """
    for host, _ in addresses(master):
        page = _page(host, ui_port)
        found = None if page is None else _free(page, executor_mb, hosts)
        if found is not None:
            return found
    return None


def executor_hosts(context: Any) -> set[str]:
    """The hosts of the application's executors."""
    found = context._jsc.sc().statusStore().executorList(True)
    executors = (found.apply(at) for at in range(found.size()))
    return {one.hostPort().rpartition(":")[0] for one in executors if one.id() != "driver"}


def _free(page: Any, executor_mb: int, hosts: Collection[str]) -> int | None:
    """The free cores on a master's page; None for a standby master, and for any other page."""
    try:
        if page["status"] != "ALIVE":
            return None
        workers = [w for w in page["workers"] if w["state"] == "ALIVE"]
        return sum(int(w["coresfree"]) for w in workers if w["memoryfree"] >= executor_mb or w["host"] in hosts)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _page(host: str, port: int) -> Any:
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_S)
    try:
        connection.request("GET", "/json/")
        return json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return None
    finally:
        connection.close()
