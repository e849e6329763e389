"""What an ingress session does, in the words of its status."""

from __future__ import annotations

from borealis_py.ingress.absent_columns import AbsentColumns
from borealis_py.ingress.copied_input import CopiedInput
from borealis_py.ingress.session import IngressSession, IngressState
from borealis_py.log.ingress_status import AbsentField, IngressInput, IngressRole
from borealis_py.query.ingress_spec import IngressSpec
from borealis_py.query.names import part_name
from borealis_py.runtime.ingress.member import SessionReport
from sunion.model import FOREVER

SILENT_US = 500_000
"""How much longer than expected an input's boundary may lag before it is called silent: records and answers travel."""

FRESH_US = 100_000
"""How long a report holds unless the role or its reasons change: to make one costs as much as a turn."""


class ReportedSession:
    """A session with its report. `spec`: of the ingress of `source`; `bucket_us`: the app's bucket width;
    `absent`: what its decoder knows of columns that no record has had; None: nobody asks."""

    def __init__(
        self,
        session: IngressSession,
        source: str,
        spec: IngressSpec,
        bucket_us: int,
        absent: AbsentColumns | None = None,
    ) -> None:
        self._absent = absent
        self._session = session
        self._source = source
        self._spec = spec
        self._bucket_us = bucket_us
        self._now_us = 0
        self._made_us = 0
        self._made = SessionReport(IngressRole.STARTING)
        self._known: tuple[object, ...] = ()
        """What the report was made of that is to be told at once."""

    def turn(self, now_us: int, log_us: int | None) -> None:
        self._now_us = now_us
        self._session.turn(now_us, log_us)

    def next_wakeup(self) -> int:
        return self._session.next_wakeup()

    def close(self) -> None:
        self._session.close()

    def report(self) -> SessionReport:
        session = self._session
        known = session.state, session.following, session.silent, session.absent, session.missing, session.settings
        fresh = self._made_us <= self._now_us < self._made_us + FRESH_US
        if not fresh or known != self._known:
            self._made, self._made_us, self._known = self._make(), self._now_us, known
        return self._made

    def _make(self) -> SessionReport:
        session = self._session
        if not session.owner:
            role = IngressRole.STANDBY if session.following else IngressRole.STARTING
            detail = "" if session.following else "reads what was copied before"
            return SessionReport(role, detail=detail, settings=session.settings)
        inputs = tuple(
            IngressInput(
                name=part_name(self._source, name),
                feeds=self._spec.label(i),
                boundary_us=max(0, one.boundary),
                lag=one.lag,
                rows=one.rows,
                late=one.late,
                dead=one.rejected - one.late,
                missing=self._why_missing(one),
                unreadable=one.unreadable,
                given_up=one.given_up,
                misread=one.misread,
            )
            for i, (name, one) in enumerate(zip(self._spec.input_names(), session.copied, strict=False))
        )
        absent = () if self._absent is None else tuple(AbsentField(*one) for one in self._absent.found())
        return SessionReport(IngressRole.OWNER, inputs, self._detail(), session.settings, absent)

    def _detail(self) -> str:
        session = self._session
        if session.absent:
            return "the topic does not exist"
        if session.silent:
            return f"{session.silent}: another ingress may take over"
        if session.state is IngressState.POSITIONING:
            return "finds out where to begin"
        return "the source ends once all that its topic holds has been copied" if session.settings.ending else ""

    def _why_missing(self, one: CopiedInput) -> str:
        if one.boundary >= FOREVER:
            return ""
        if self._session.absent:
            return "the topic does not exist"
        if one.unreadable:
            many = len(one.unreadable) > 1
            return f"partition{'s' if many else ''} {', '.join(map(str, one.unreadable))} cannot be read"
        if one.waits_for:
            return one.waits_for
        expect_us = self._session.settings.expect_us
        by_silence = self._spec.boundary == "data" or expect_us is not None
        behind_us = self._now_us - self._spec.lateness_us - one.boundary
        allowed_us = (expect_us or 0) + 2 * self._bucket_us + SILENT_US
        if not by_silence or behind_us <= allowed_us:
            return ""
        if one.too_far:
            held = f"partition{'s' * (len(one.too_far) > 1)} {', '.join(map(str, one.too_far))}"
            return f"silent, and what comes next in {held} is stamped too far ahead of that to be copied"
        return "silent" if one.lag == 0 else ""
