"""An app's topics on a simulated log, whose time passes as tests want: the base of what they put there."""

from __future__ import annotations

from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord, TopicSpec
from borealis_py.log.description import APP_KEY
from borealis_py.log.messages import Description, encode
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.log.client import MemoryLog

START_US = 1_700_000_000_000_000
APP = "app"


class SimulatedApp:
    """The log and its clock. `names`: of the topics that there are."""

    def __init__(self, *names: str, start_us: int = START_US) -> None:
        self.scheduler = Scheduler(start_us)
        self.log = MemoryLog(self.scheduler, 0)
        self.create(*names)

    def create(self, *names: str, partitions: int = 1) -> None:
        self.log.client("admin").admin().create([TopicSpec(name, partitions) for name in names])

    def describe(self, app_uid: str, origin: int) -> None:
        """As `up` does; another app_uid is the app's next life."""
        description = Description("{}", "h", origin, "f", app_uid)
        self.append(NewRecord(Feed(topics.settings(APP)), encode(description), APP_KEY.encode()))

    def append(self, *records: NewRecord) -> None:
        """At once, whatever is under way."""
        for record in records:
            self.log.broker.append(record)

    def after(self, seconds: float) -> None:
        self.scheduler.run_until(self.scheduler.now_us + round(seconds * 1_000_000))
