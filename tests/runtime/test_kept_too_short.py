"""Queries of guarantee "gap" whose source was deleted beyond what they need, on a real broker: they begin anew, and
what is lost is named (R18.8). Whatever is stable is compared with plain arithmetic on what was sent."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from borealis_py.log import topics
from tests.cli.commands import Borealis, borealis  # noqa: F401  # a fixture
from tests.harness.standbys import REPLICAS, SOURCE, StandbyApp, an_app, standing_by
from tests.harness.trimming import delete_before
from tests.harness.waiting import until

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("ways", [["active"], ["active-standby", "passive-standby", "upstream-backup"]], ids="-".join)
def test_what_nobody_can_read_any_more_is_lost_and_named(
    bootstrap: str,
    tmp_path: Path,
    borealis: Borealis,  # noqa: F811
    ways: list[str],
) -> None:
    app = StandbyApp(bootstrap, an_app(f"short-{len(ways)}", ways, "gap"), tmp_path)
    source = topics.source(app.state.name, SOURCE)
    with standing_by(app), closing(app.log.lookup()) as lookup:
        assert not any(app.gaps(query) for query in app.queries)
        app.until_saved()
        app.kill(*REPLICAS)
        end = lookup.bounds(source)[1]
        until(lambda: lookup.bounds(source)[1] > end + 40, "rows that nobody reads")
        delete_before(bootstrap, source, end + 10)
        app.start(*REPLICAS, take_over=True)
        until(lambda: all(app.gaps(query) for query in app.queries), "what is lost is named")
        app.goes_on()
        for query in app.queries:
            said = borealis("verify", query, "--app", app.state.name, "--bootstrap", bootstrap)
            assert said.code == 0, said.out + said.err
