"""Where audits ended, as files and as a record, and what becomes of those that cannot be used."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from borealis_py.app.audited import KEEP, AuditPlace, tell
from borealis_py.app.state import AppState
from borealis_py.log import topics
from borealis_py.log.acks import read_audit
from borealis_py.log.base import Feed, LogError
from borealis_py.log.description import Life
from borealis_py.log.messages import Description
from borealis_py.node.checkpoint_storage import LocationError
from borealis_py.query import App
from borealis_py.query.spec import AppSpec
from reconcile.audit import Audited
from sunion.source import SourceFold
from sunion.union import Mark
from tests.support.instant_log import InstantLog

NAME = "audited"


def spec_of(where: str = "x > 0", partitions: int | None = None) -> AppSpec:
    app = App(NAME)
    source = app.source("s", schema={"x": "int64", "k": "string"})
    parts = {} if partitions is None else {"partitions": partitions, "by": "k"}
    app.query("q", source.filter(where), **parts)  # type: ignore[arg-type]
    return app.describe()


def state_of(spec: AppSpec, app_uid: str = "a1", fingerprint: str = "f") -> AppState:
    return AppState(NAME, spec, Description(spec.to_json(), spec.hash, 0, fingerprint, app_uid))


def ended(bucket: int = 7, offset: int = 40) -> Audited:
    mark = Mark(offset, SourceFold(1_000, 2, "p", 11, 500))
    return Audited(bucket, b"state" * bucket, (mark,), corrected=3, letters=5)


SPEC = spec_of()
STATE = state_of(SPEC)


@pytest.fixture(params=["local", "uri", "kafka"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> AuditPlace:
    uris = {"local": "", "uri": tmp_path.as_uri(), "kafka": "kafka"}
    return AuditPlace(InstantLog(), tmp_path, uris[request.param])


def files(place: AuditPlace) -> list[Path]:
    return sorted(place.directory.rglob("*.ckpt"))


def test_what_is_kept_comes_back_and_the_newest_counts(place: AuditPlace) -> None:
    assert place.read(STATE, SPEC, "q") == {}
    for bucket in range(5, 9):
        place.write(STATE, SPEC, "q", {"q": ended(bucket)})
    assert place.read(STATE, SPEC, "q") == {"q": ended(8)}
    assert len(files(place)) == (0 if place.uri == "kafka" else KEEP)


def test_each_partition_has_its_own(place: AuditPlace) -> None:
    spec = spec_of(partitions=2)
    state, both = state_of(spec), {"q.0": ended(5), "q.1": ended(9)}
    place.write(state, spec, "q", both)
    assert place.read(state, spec, "q") == both


def test_a_torn_file_is_passed_over_for_the_one_before(tmp_path: Path) -> None:
    place = AuditPlace(InstantLog(), tmp_path)
    place.write(STATE, SPEC, "q", {"q": ended(5)})
    place.write(STATE, SPEC, "q", {"q": ended(6)})
    newest = files(place)[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    assert place.read(STATE, SPEC, "q") == {"q": ended(5)}


@pytest.mark.parametrize(
    ("state", "spec"),
    [
        (state_of(SPEC, app_uid="a2"), SPEC),
        (state_of(SPEC, fingerprint="g"), SPEC),
        (STATE, spec_of("x > 1")),
    ],
)
def test_that_of_another_life_kernel_or_query_is_passed_over(place: AuditPlace, state: AppState, spec: AppSpec) -> None:
    place.write(STATE, SPEC, "q", {"q": ended()})
    assert place.read(state, spec, "q") == {}


def test_a_place_where_nothing_can_be_kept_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocationError, match="the audit's end cannot be kept there"):
        AuditPlace(InstantLog(), tmp_path / "file").write(STATE, SPEC, "q", {"q": ended()})


def test_topics_of_ends_are_found_when_an_app_begins_anew() -> None:
    topic = topics.kept_files(NAME, "q.1.audit")
    assert topics.keeper_of(NAME, topic) == "q.1.audit"


def test_the_log_is_told_the_least_that_any_partition_reads() -> None:
    log, (mark,) = InstantLog(), ended().marks
    log.create([topics.acks(NAME)])
    far = replace(ended(9), marks=(mark, replace(mark, offset=90)))
    tell(log, STATE, "q", {"q.0": (("s.0", "s.1"), far), "q.1": (("s.0", "s.1"), replace(far, marks=(mark, mark)))})
    feed = Feed(topics.acks(NAME))
    with closing(log.lookup()) as lookup:
        said = [read_audit(record, Life("a1")) for record in lookup.read(feed, *lookup.bounds(feed))]
    assert said == [("q", {"s.0": 40, "s.1": 40})]


def test_a_log_that_does_not_take_it_is_an_error() -> None:
    with pytest.raises(LogError, match=r"audit of q: .* so nothing is trimmed"):
        tell(InstantLog(), STATE, "q", {"q": (("s",), ended())})
