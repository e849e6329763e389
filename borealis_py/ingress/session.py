"""One ingress of a foreign topic: stands by, takes over, copies, and stands by again when it is fenced.

Single-threaded; never waits. `turn(now)` does everything that is due; `next_wakeup()` tells when something will be. A
process drives it by a thread, the simulator by its scheduler. It reads no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from enum import Enum

import structlog

from borealis_py.client.target import StreamEnded
from borealis_py.engine.codec import ArrowSourceCodec
from borealis_py.ingress.catch_up import BacklogFronts
from borealis_py.ingress.copied_input import CopiedInput
from borealis_py.ingress.copier import IDLE_US, Copier
from borealis_py.ingress.counts import IngressCounts
from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.ingress.foreign_topic import ForeignTopic
from borealis_py.ingress.input_writer import InputWriter
from borealis_py.ingress.inputs import InputLogs
from borealis_py.ingress.partition_start import NOT_BEGUN
from borealis_py.ingress.plan import IngressPlan
from borealis_py.ingress.silence import Silence
from borealis_py.ingress.source_settings import SourceSettings
from borealis_py.ingress.watermark import NEVER
from borealis_py.log.base import EndsQuery, Log, Wake
from borealis_py.log.foreign import ForeignLog
from borealis_py.query.names import base_name

log = structlog.get_logger(__package__)

PATIENCE_US, PATIENCE_STEP_US = 1_000_000, 200_000
"""A standby takes over when it has heard nothing for the first, and the second times its index."""
LOOK_US = 2_000
"""That its own logs' ends are told wakes nobody, so a standby that takes over looks again after this time."""
AGAIN_US = 50_000
"""How soon a standby that could not learn what it must know asks again."""
BEGINS_US = 1_000_000
"""How long other topics' backlogs wait for a session that has just begun and may be about to copy one."""


class IngressState(Enum):
    """What an ingress does now."""

    STANDBY = "it follows what the owner writes"
    CLAIMING = "it is taking over"
    POSITIONING = "it owns the inputs, and the topic was never copied: it finds out where to begin"
    COPYING = "it owns the inputs, and copies"


class IngressSession:
    """Copies one foreign topic into an app's source, or stands by for the process that does.

    Args:
        log: the app's. cluster: where the foreign topic is.
        decoder: of its records.
        uid: of this process, unique forever. index: of this ingress; the lowest that lives takes over first.
        wake: called when there is something to do in a turn.
        catch_up: shared by the ingresses of this process, so that their topics stay in step; None: its own.

    Raises:
        LogUnreachable: no broker of the app's answers.
    """

    def __init__(
        self,
        log: Log,
        cluster: ForeignLog,
        plan: IngressPlan,
        decoder: TopicDecoder,
        uid: str,
        index: int,
        wake: Wake,
        catch_up: BacklogFronts | None = None,
    ) -> None:
        self.state = IngressState.STANDBY
        self.counts = IngressCounts()
        self._plan = plan
        self._decoder = decoder
        self._uid = uid
        self._patience_us = PATIENCE_STEP_US * index
        self._catch_up = catch_up or BacklogFronts()
        self._codecs = [ArrowSourceCodec(t.source, plan.columns, t.row_max_bytes) for t in plan.targets]
        with ExitStack() as opened:  # a begin that fails must leave nothing open, since it is repeated
            self._inputs = opened.enter_context(closing(InputLogs(log, plan, uid, wake)))
            self._topic = opened.enter_context(closing(ForeignTopic(cluster, plan.spec.topic, wake)))
            self._opened = opened.pop_all()
        self._writers: list[InputWriter] = []
        self._copier: Copier | None = None
        self._silence: Silence | None = None
        """Of an owner."""
        self._now_us = 0
        self._begins_until_us: int | None = None
        """Until when others wait for this one; None: it has not had a turn."""
        self._heard_us: int | None = None
        """When an owner was heard last, or this began to listen."""
        self._own_ends: EndsQuery | None = None
        self._asked_us = 0
        self._again_us = 0
        self._absent = False
        """The topic did not exist when this began to copy it."""

    @property
    def owner(self) -> bool:
        """Whether this process owns the inputs."""
        return self.state in (IngressState.POSITIONING, IngressState.COPYING)

    @property
    def missing(self) -> tuple[int, ...]:
        """The partitions that an owner cannot read now."""
        return () if self._copier is None else self._copier.missing

    @property
    def silent(self) -> str:
        """Why this process, although it owns the inputs, writes nothing; empty: it does, or owns none."""
        return "" if self._silence is None else self._silence.why

    @property
    def positions(self) -> Mapping[int, int]:
        """The next offset of each partition, of an owner: everything before has been copied, or is on its way."""
        return {p: queue.copied for p, queue in self._topic.queues.items()}

    @property
    def boundaries(self) -> tuple[int, ...]:
        """What each input has been promised, of an owner."""
        return tuple(writer.boundary for writer in self._writers)

    @property
    def following(self) -> bool:
        """Whether it is known where the source's logs stand, so that it could take over."""
        return self._inputs.read

    @property
    def settings(self) -> SourceSettings:
        """What users have set of the source, as far as it has been read."""
        return self._inputs.settings

    @property
    def absent(self) -> bool:
        """Whether the topic does not exist, as far as its cluster has told."""
        return self._topic.partitions == 0

    @property
    def copied(self) -> tuple[CopiedInput, ...]:
        """How far each input has come, of an owner that copies."""
        if self._copier is None:
            return ()
        topic, copier = self._topic, self._copier
        return tuple(
            CopiedInput.of(writer, self._plan.feeders(i, topic.queues), topic, copier.missing, copier.given_up)
            for i, writer in enumerate(self._writers)
        )

    def turn(self, now_us: int, log_us: int | None = None) -> None:
        """Do what is due.

        Args:
            now_us: this machine's wall clock. log_us: the log's, at least; None: not known.

        Raises:
            StreamEnded: END is in the logs of all inputs. StreamForgotten: retention has deleted how far it was copied.
            BegunAnew: the app was begun anew. PublishFailed: the log refused a record.
            LogError: a log may not be read.
        """
        self._now_us = now_us = max(self._now_us, now_us)  # a clock that is set back must not break a promise
        self._inputs.turn()
        if self._inputs.ended:
            source = base_name(self._plan.targets[0].source)
            raise StreamEnded(f"source {source!r} has ended: nothing can follow END, so nothing is copied", -1)
        new_ends = self._topic.look(now_us)
        heard = self._inputs.heard()
        if self._heard_us is None or heard:
            self._heard_us = now_us
        self._hold_up_others(now_us, heard)
        if self._inputs.lost and self.state is not IngressState.CLAIMING:
            self._step_down(f"{self._plan.name}: another ingress has taken over; this one stands by")
        if self.state is IngressState.STANDBY:
            self._stand_by(now_us)
        if self.state is IngressState.CLAIMING:
            self._claim(now_us)
        if self.state is IngressState.POSITIONING:
            self._position(now_us)
        if self.state is IngressState.COPYING:
            self._copy(now_us, max(now_us, log_us or 0), new_ends)

    def _hold_up_others(self, now_us: int, heard: bool) -> None:
        """Topics stay in step from the start: a session that begins sooner than others waits for them, unless another
        process copies theirs."""
        if self._begins_until_us is None:
            self._begins_until_us = now_us + BEGINS_US
        if heard or self._copier is not None:
            self._begins_until_us = now_us
        self._catch_up.note(self._plan.targets[0].feed, NEVER if now_us < self._begins_until_us else None)

    def next_wakeup(self) -> int:
        """When the next turn is due (µs) if nothing arrives before."""
        now_us = self._now_us
        if self._copier is not None:
            return now_us if self._copier.more else self._copier.next_wakeup(now_us)
        if self._own_ends is not None:
            return now_us + LOOK_US
        due = [self._topic.next_wakeup]
        if self.state is IngressState.STANDBY and self._inputs.read:
            due.append(max(self._due_us(), self._again_us))
        elif self.state is IngressState.POSITIONING:
            due.append(self._again_us)
        return min(due)

    def close(self) -> None:
        """Close the connections. Its inputs wait for another ingress, or for its next start."""
        if self._copier is not None:
            self._copier.close()  # or its partitions would hold up other topics that are to stay in step
        self._catch_up.note(self._plan.targets[0].feed, None)
        self._opened.close()

    # A standby --------------------------------------------------------------------------------------------------------

    def _due_us(self) -> int:
        """When a standby that hears nothing takes over. Where nobody has ever been, the first index does at once, and
        the others wait all the same: only topics that one process copies stay in step."""
        at_once = self._inputs.nobody and not self._patience_us
        return (self._heard_us or 0) + (0 if at_once else PATIENCE_US + self._patience_us)

    def _stand_by(self, now_us: int) -> None:
        """Take over when nothing was heard for long enough, all that was written has been read, and the topic's ends
        can be learned from here: otherwise it would only do as badly as the owner (B50)."""
        if not self._inputs.read or now_us < max(self._due_us(), self._again_us):
            self._own_ends = None
            return
        if self._own_ends is None:
            self._own_ends, self._asked_us = self._inputs.ask_ends(), now_us
            self._topic.ask_ends(now_us)
            return
        ends = self._own_ends.poll()
        if ends is None or (self._topic.asking and not self._inputs.abandoned):
            return
        learned = self._topic.learned_us is not None and self._topic.learned_us >= self._asked_us
        nothing = self._topic.partitions == 0 or self._inputs.abandoned  # that it does not exist is known, too
        known = learned or nothing
        if known and self._inputs.read_up_to(lambda feed: ends.get(feed)):
            self.state, self._own_ends = IngressState.CLAIMING, None
            log.info(f"{self._plan.name}: no ingress is heard; this one takes over", uid=self._uid)
        elif not known or any(end is None for end in ends.values()):
            self._own_ends, self._again_us = None, now_us + AGAIN_US
        # else there is something to be read, which will say whether an owner lives

    def _claim(self, now_us: int) -> None:
        self._inputs.claim()
        if self._inputs.failed():
            self._step_down(f"{self._plan.name}: another ingress was faster; this one stands by")
        elif self._inputs.owned:
            self.state = IngressState.POSITIONING
            self.counts.taken_over += 1
            self._writers = [self._writer(i, now_us) for i in range(len(self._codecs))]
            self._silence = Silence(self._plan.name, now_us)

    def _writer(self, index: int, now_us: int) -> InputWriter:
        owner = self._inputs.owners[index]
        assert owner.end is not None
        fold, at = owner.end.fold, owner.end.at or {}
        codec = self._codecs[index]
        return InputWriter(
            owner.target,
            codec,
            self._uid,
            owner.epoch,
            fold.boundary,
            fold.last_seq,
            at,
            now_us,
            owner.end.topic_id,
            owner.end.spoken,
        )

    def _step_down(self, why: str) -> None:
        log.warning(why, uid=self._uid)
        if self._copier is not None:
            self._copier.close()
        self.state, self._copier, self._silence, self._writers = IngressState.STANDBY, None, None, []
        self._inputs.step_down()
        self._inputs.gather(False)
        self._heard_us, self._own_ends = self._now_us, None

    # An owner ---------------------------------------------------------------------------------------------------------

    def _position(self, now_us: int) -> None:
        """Go on where the logs of the inputs say. If the first says nothing, the topic was never copied: it begins
        where the app says, once that is in all logs, the first one's last. So no row is copied by anybody who might be
        followed by one that begins elsewhere (B49)."""
        if self._inputs.owners[0].positioned:
            self._begin(now_us)
            return
        if now_us < self._again_us:
            return
        self._again_us = now_us + AGAIN_US
        mute = self._must_be_silent(now_us) or self._inputs.full
        for i, writer in enumerate(self._writers):
            if now_us - writer.sent_us >= IDLE_US and not mute:
                self._tell(i, now_us)
        begin = self._first_offsets(now_us)
        if begin is None:
            return
        for writer in self._writers:  # an owner before may have told some inputs where to begin: all begin there
            begin = {p: writer.at.get(p, offset) for p, offset in begin.items()}
        told = True
        for writer in self._writers:
            writer.topic_id = writer.topic_id or self._topic.topic_id
        for i, writer in reversed(list(enumerate(self._writers))):
            own = {p: begin[p] for p in self._plan.feeders(i, begin)}
            if not own or self._inputs.owners[i].positioned:
                continue
            if not writer.at and (i or told):
                writer.at = own
                self._tell(i, now_us)
            told = False
        if told:
            self._begin(now_us)

    def _must_be_silent(self, now_us: int) -> bool:
        assert self._silence is not None
        for writer, owner in zip(self._writers, self._inputs.owners, strict=True):
            writer.heard(owner.position, owner.stored)
        nothing = self._copier is not None and self._copier.abandoned  # of the topic need be known
        unheard_us = min((us for writer in self._writers if (us := writer.unheard_us) is not None), default=None)
        return self._silence.look(now_us if nothing else self._topic.learned_us, unheard_us, now_us)

    def _tell(self, index: int, now_us: int) -> None:
        """Write a record that says how far its topic is copied, and that its owner lives."""
        writer = self._writers[index]
        writer.flush(writer.boundary, now_us)
        for record in writer.drain():
            self._inputs.append(record)

    def _first_offsets(self, now_us: int) -> Mapping[int, int] | None:
        """Where to begin to copy; None: not known yet. What is not committed at the latest end is copied once it is."""
        topic, spec = self._topic, self._plan.spec
        if topic.partitions == 0 and not self._absent:
            self._absent = True
            log.warning(f"{self._plan.name} does not exist: once it does, it is copied from its beginning")
        if self._absent:  # any topic has a first partition; the others will be new
            return dict.fromkeys(range(topic.partitions or 1), 0)
        if (begin := self._plan.begin) is not None:  # a partition that it does not name was added since
            count = topic.partitions
            return None if count is None else {p: begin[p] if p < len(begin) else 0 for p in range(count)}
        known: Mapping[int, int | None] | None
        if spec.start == "earliest":
            known = topic.starts()
        else:
            fresh = not topic.asking and topic.ends_asked_us is not None and len(topic.ends) == topic.partitions
            known = {p: told.committed for p, told in topic.ends.items()} if fresh else None
            if not fresh:
                topic.ask_ends(now_us)
        if known is None:
            return None
        unknown = sorted(p for p, offset in known.items() if offset is None)
        if unknown:
            log.warning(f"{self._plan.name}: it cannot begin before all partitions can be read", partitions=unknown)
            topic.ask_ends(now_us)
            return None
        return {p: offset for p, offset in known.items() if offset is not None}

    def _begin(self, now_us: int) -> None:
        """Read each partition from where some input that it feeds has not got further. One that has begun only in some
        inputs' logs begins again, like one that is new (B54)."""
        plan, topic, writers = self._plan, self._topic, self._writers
        begun = {p for writer in writers for p in writer.at if writers[plan.refuser(p)].at.get(p, NOT_BEGUN) >= 0}
        offsets = {p: min(writers[i].at.get(p, 0) for i in plan.fed_by(p)) for p in begun}
        self._copier = Copier(plan, topic, self._decoder, self._writers, self.counts, self._catch_up)
        self._copier.begin(offsets, now_us)
        self.state = IngressState.COPYING
        log.info(f"{plan.name}: copying", partitions=len(offsets), uid=self._uid)

    def _copy(self, now_us: int, latest_us: int, new_ends: bool) -> None:
        assert self._copier is not None
        silent, settings = self._must_be_silent(now_us), self._inputs.settings
        for record in self._copier.turn(now_us, latest_us, new_ends, silent, self._inputs.full, settings):
            self._inputs.append(record)
        self._inputs.gather(not self._copier.waits_for_logs)
