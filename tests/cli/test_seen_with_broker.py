"""An app that runs, seen from outside: over HTTP, and beside another app on the same broker. Real processes."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from borealis_py.cli.main import main
from tests.cli.conftest import Borealis, app_text
from tests.support.running import until

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]
APP, OTHER = "seen", "seen-other"


@pytest.fixture(scope="module")
def site(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory from which two apps were started that differ in their names only; the first answers HTTP."""
    directory = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        patch.setenv("BOREALIS_BOOTSTRAP", bootstrap)
        for name in (APP, OTHER):
            (directory / f"{name}.py").write_text(app_text(name))
        try:
            assert main(["up", f"{APP}.py", "--no-spark", "--http", "127.0.0.1:0"]) == 0
            assert main(["up", f"{OTHER}.py", "--no-spark"]) == 0
            yield directory
        finally:
            main(["down", "--app", APP])
            main(["down", "--app", OTHER])


@pytest.fixture(autouse=True)
def there(site: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(site)
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)


def told(borealis: Borealis, command: str, app: str) -> dict[str, Any]:
    said = borealis(command, "--json", "--app", app)
    assert said.code == 0, said.err
    found: dict[str, Any] = json.loads(said.out)
    return found


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=20) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.read().decode()


def urls(borealis: Borealis) -> dict[tuple[str, int], str]:
    return {(r["query"], r["replica"]): r["http"] for r in told(borealis, "status", APP)["replicas"]}


def test_each_process_answers_for_its_own_replicas(borealis: Borealis) -> None:
    found = urls(borealis)
    assert found["sums", 0] == found["big", 0] != found["sums", 1]
    for url, own in ((found["sums", 0], [("sums", 0), ("big", 0)]), (found["sums", 1], [("sums", 1)])):
        assert get(f"{url}/healthz") == get(f"{url}/readyz") == (200, "ok\n")
        status = json.loads(get(f"{url}/api/v1/status")[1])
        assert [(r["query"], r["replica"]) for r in status["replicas"]] == own
        assert {r["state"] for r in status["replicas"]} == {"STABLE"}
        samples = get(f"{url}/metrics")[1]
        assert f"borealis_replicas_ready {len(own)}.0" in samples
        assert get(f"{url}/nonsense")[0] == 404


def test_the_page_and_the_command_say_the_same(borealis: Borealis) -> None:
    command = told(borealis, "status", APP)
    url = command["replicas"][0]["http"]
    page = json.loads(get(f"{url}/api/v1/status")[1])
    assert page.keys() == command.keys()
    same = ("app", "hash", "bucket_us", "origin_us", "policies", "thresholds_us", "failed_sources_until_wall_us")
    assert {k: page[k] for k in same} == {k: command[k] for k in same}
    assert page["replicas"][0].keys() == command["replicas"][0].keys()


def test_a_threshold_shows_where_it_is_obeyed(borealis: Borealis) -> None:
    url = urls(borealis)["sums", 1]
    assert borealis("threshold", "sums", "700ms", "--app", APP).code == 0
    until(lambda: json.loads(get(f"{url}/api/v1/status")[1])["thresholds_us"] == {"sums": 700_000}, "it is on the page")
    line = 'borealis_replica_delay_threshold_seconds{app="seen",node="sums",replica="1"} 0.7'
    assert line in get(f"{url}/metrics")[1].splitlines()


@pytest.mark.parametrize("command", ["status", "top"])
def test_two_apps_on_one_broker_do_not_see_each_other(borealis: Borealis, command: str) -> None:
    one, other = (told(borealis, command, app) for app in (APP, OTHER))
    assert [(r["query"], r["replica"]) for r in one["replicas"]] == [("sums", 0), ("sums", 1), ("big", 0)]
    assert [(r["query"], r["replica"]) for r in other["replicas"]] == [("sums", 0), ("sums", 1), ("big", 0)]
    for field in ("pid", "uid"):
        assert not {r[field] for r in one["replicas"]} & {r[field] for r in other["replicas"]}
    assert (one["thresholds_us"]["sums"], other["thresholds_us"]["sums"]) == (700_000, 1_000_000)
    assert {r["http"] for r in other["replicas"]} == {""}
    said = borealis(command)
    assert said.code == 1
    assert f"several apps on this broker: {APP}, {OTHER}" in said.err


def test_sigterm_ends_it_with_the_process(borealis: Borealis, site: Path) -> None:
    found = told(borealis, "status", APP)
    url, pid = next((r["http"], r["pid"]) for r in found["replicas"] if (r["query"], r["replica"]) == ("sums", 1))
    process = psutil.Process(pid)
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    with pytest.raises(urllib.error.URLError):
        get(f"{url}/healthz")
    log = (site / f".borealis/{APP}/replica-1.log").read_text()
    assert f'"at": "{url}"' in log
    assert "Traceback" not in log


def test_a_port_that_is_taken_is_said_at_up(borealis: Borealis) -> None:
    taken = urls(borealis)["sums", 0].removeprefix("http://")
    host, _, port = taken.rpartition(":")
    said = borealis("up", f"{APP}.py", "--no-spark", "--http", f"{host}:{int(port) - 1}")
    assert said.code == 1
    assert f"cannot listen for HTTP at {taken}: Address already in use" in said.err
    assert "replica 1 ended while starting" in said.err
