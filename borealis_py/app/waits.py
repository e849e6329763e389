"""Whether queries wait long enough: for what the timing needs, and for silences and latenesses of the foreign topics
that they read. Knows no engine, so that commands which change a setting answer at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from borealis_py.app.origin import show
from borealis_py.node.delays import first_wait_us
from borealis_py.protocol.settings import SettingsError, Timing, check_threshold
from borealis_py.query.errors import QueryError
from borealis_py.query.ingress_spec import IngressSpec
from borealis_py.query.plan import JoinOp, Op, SourceOp, inputs_of
from borealis_py.query.spec import AppSpec
from borealis_py.query.units import format_duration
from borealis_py.query.wholeness import ALWAYS, left_out_until


def check_query_threshold(timing: Timing, query: str, threshold_us: int, depth: int) -> None:
    """Raises SettingsError with the query's name if the threshold cannot hold in a chain of `depth` nodes."""
    try:
        check_threshold(timing, threshold_us, depth)
    except SettingsError as exc:
        raise SettingsError(f"query {query!r}: {exc}") from exc


def check_waits(spec: AppSpec, timing: Timing, queries: Iterable[str]) -> None:
    """Check that these queries wait longer than the silences and the differences in lateness of what they read.

    Raises:
        QueryError: one does not; it names both numbers.
    """
    for query in queries:
        read = _read_by(spec, query)
        if read:
            _check_waits(query, read, _declared_wait_us(spec, query, timing))


def remarks(spec: AppSpec, timing: Timing) -> list[str]:
    """What a user should know at every start: topics that would be waited for only if publishers of other sources had a
    lateness, which no app's file says; and joins of topics of which one is read from its beginning and the other is
    not."""
    found = []
    for query in spec.queries:
        read, wait_us = _read_by(spec, query), _declared_wait_us(spec, query, timing)
        published = [name for name in spec.sources_of(query) if name not in read]
        late = [name for name, one in read.items() if published and one.lateness_us > wait_us]
        if late:
            most = max(late, key=lambda name: read[name].lateness_us)
            over = format_duration(read[most].lateness_us - wait_us)
            found.append(
                f"query {query!r}: source {most!r} has lateness {format_duration(read[most].lateness_us)}, and the "
                f"query waits {format_duration(wait_us)} for an input: unless publishers of {_names(published)} have "
                f"a lateness of {over} at least, all its results are tentative at first"
            )
        found += (f"query {query!r}: {told}" for told in _unlike_starts(spec, query))
    return found


def silence_remarks(spec: AppSpec, timing: Timing) -> list[str]:
    """Queries whose inputs never count as missing as long as Kafka answers, and what to write if they should; one line
    for those that read the same topics. It is a choice that the file makes: telling it once suffices, at `check`."""
    readers: dict[tuple[str, ...], list[str]] = {}
    for query in spec.queries:
        blind = [n for n, i in _read_by(spec, query).items() if i.boundary == "clock" and i.expect_us is None]
        if blind and len(blind) == len(spec.sources_of(query)):
            readers.setdefault(tuple(blind), []).append(query)
    found = []
    for names, queries in readers.items():
        wait_us = min(_declared_wait_us(spec, query, timing) for query in queries)
        expect = format_duration(wait_us // 2 // 1_000 * 1_000 or wait_us)
        topic = spec.ingresses[names[0]].topic
        which, its = ("query", "its") if len(queries) == 1 else ("queries", "their")
        found.append(
            f"{which} {_names(queries)}: no input can be missing unless a broker cannot be read, as silence of "
            f"{_names(list(names))} means that nothing happened. If it should not: write expect={expect!r} in "
            f"app.topic({names[0]!r}, ...), more than the longest gap that `borealis inspect {topic}` shows and less "
            f"than {format_duration(wait_us)}; {its} results are tentative then while an input is silent for longer"
        )
    return found


def left_out(spec: AppSpec) -> list[str]:
    """Queries of which the first results are left out, since rows of theirs came before the app began to read."""
    found = []
    for query in spec.queries:
        bounds = [bound for node in spec.upstream_of(query) for bound in left_out_until(spec, node)]
        if max(bounds) > ALWAYS:
            late = [name for name in spec.sources_of(query) if name in spec.beginnings]
            topics = _names([spec.ingresses[name].topic for name in late if spec.beginnings[name].whole_us])
            found.append(
                f"query {query!r}: results that need rows from before {show(max(bounds))} are left out, as topic "
                f"{topics} is read from its end: the first window is the first whole one. start='earliest' in the "
                "app's file, and `borealis up --reset`, count what a topic has"
            )
    return found


def _unlike_starts(spec: AppSpec, query: str) -> list[str]:
    """Joins whose sides begin at different records of their topics: rows of the one lack partners from before."""
    found = []
    for node in spec.upstream_of(query):
        plan = spec.node(node).plan
        for op in (op for op in plan if isinstance(op, JoinOp)):
            left, right = ({spec.ingresses[s].start: s for s in _of_topics(spec, plan, i)} for i in op.inputs)
            for one, other in ((left, right), (right, left)):
                if "earliest" in one and "latest" in other and "earliest" not in other:
                    found.append(
                        f"a join reads topic {one['earliest']!r} from its first record and {other['latest']!r} from "
                        "the records that come after `borealis up`, so earlier rows of the one have no partners in "
                        "the other. Give both the same start="
                    )
    return list(dict.fromkeys(found))


def _of_topics(spec: AppSpec, plan: Sequence[Op], index: int) -> list[str]:
    """The foreign topics that rows of an operator come from."""
    op = plan[index]
    if isinstance(op, SourceOp):
        names = (op.name,) if op.name in spec.sources else spec.sources_of(op.name)
        return [name for name in names if name in spec.ingresses]
    return [name for i in inputs_of(op) for name in _of_topics(spec, plan, i)]


def _read_by(spec: AppSpec, query: str) -> dict[str, IngressSpec]:
    return {name: spec.ingresses[name] for name in spec.sources_of(query) if name in spec.ingresses}


def _declared_wait_us(spec: AppSpec, query: str, timing: Timing) -> int:
    """How long the first node of a query waits for an input, by the app's file."""
    return first_wait_us(spec, query, timing, spec.query(query).threshold_us)


def _check_waits(query: str, read: Mapping[str, IngressSpec], wait_us: int) -> None:
    wait = format_duration(wait_us)
    for name, ingress in read.items():
        if ingress.expect_us is not None and ingress.expect_us >= wait_us:
            raise QueryError(
                f"query {query!r}: source {name!r} has expect {format_duration(ingress.expect_us)}, but the query "
                f"waits {wait} for an input: its results would never be in time. Choose an expect below {wait}, or "
                "raise the query's delay_threshold"
            )
    least, most = (pick(read, key=lambda name: read[name].lateness_us) for pick in (min, max))
    if read[most].lateness_us - read[least].lateness_us > wait_us:
        ours, theirs = (format_duration(read[name].lateness_us) for name in (most, least))
        raise QueryError(
            f"query {query!r}: source {most!r} has lateness {ours}, source {least!r} {theirs}, and the query waits "
            f"{wait} for an input: it would never wait for {most!r}. Bring the latenesses closer together, or raise "
            "the query's delay_threshold"
        )


def _names(names: Mapping[str, object] | list[str]) -> str:
    return ", ".join(map(repr, names))
