"""What the ingress of a source copies, and into what, from the app's description."""

from __future__ import annotations

from borealis_py.app.state import AppState
from borealis_py.client.target import Target
from borealis_py.ingress.plan import IngressPlan
from borealis_py.query.names import part_name


def plan_of(state: AppState, source: str) -> IngressPlan:
    """The plan of the ingress of a source."""
    spec, timing = state.spec.ingresses[source], state.timing
    targets = tuple(
        Target(
            state.name,
            state.app_uid,
            part_name(source, i),
            state.spec.bucket_us,
            state.origin,
            ahead_max_us=timing.ahead_max_us,
            row_max_bytes=timing.row_max_bytes,
            called=part_name(source, name),
        )
        for i, name in enumerate(spec.input_names())
    )
    begun = state.spec.beginnings.get(source)
    return IngressPlan(spec, state.spec.sources[source], targets, None if begun is None else begun.offsets)
