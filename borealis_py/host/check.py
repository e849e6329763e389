"""Loading an app's queries as a replica would, to find what is wrong with them before anything starts. No broker."""

from __future__ import annotations

from dataclasses import dataclass

from borealis_py.engine import compile_query
from borealis_py.protocol.settings import SettingsError, Timing, budget
from borealis_py.query.spec import AppSpec, QuerySpec


@dataclass(frozen=True, slots=True)
class QueryReport:
    """What `check` found out about one query. `columns`: name and type of each result column."""

    query: str
    inputs: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    operator_class: str
    threshold_us: int
    least_threshold_us: int
    wait_us: int
    fingerprint: str


def check(spec: AppSpec, timing: Timing) -> list[QueryReport]:
    """Load every query as a replica would.

    Raises:
        QueryError: an expression or type that is wrong.
        SettingsError: a threshold below what the timing allows; names the query and the least that would do.
    """
    timing.validate()
    return [_check(spec, name, query, timing) for name, query in spec.queries.items()]


def _check(spec: AppSpec, name: str, query: QuerySpec, timing: Timing) -> QueryReport:
    kernel = compile_query(spec, name)
    try:
        columns = tuple((field.name, str(field.type)) for field in kernel.output_schema)
        fingerprint = kernel.fingerprint
        operator_class = str(getattr(kernel, "operator_class", ""))
    finally:
        kernel.close()
    return QueryReport(
        query=name,
        inputs=query.inputs,
        columns=columns,
        operator_class=operator_class,
        threshold_us=query.threshold_us,
        least_threshold_us=timing.least_threshold_us(),
        wait_us=checked_budget(timing, name, query.threshold_us),
        fingerprint=fingerprint,
    )


def checked_budget(timing: Timing, query: str, threshold_us: int) -> int:
    """D of the query's node in microseconds. Raises SettingsError with the query's name."""
    try:
        return budget(timing, threshold_us)
    except SettingsError as exc:
        raise SettingsError(f"query {query!r}: {exc}") from exc
