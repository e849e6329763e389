"""`python -m tests.runtime.spark.hasty N ...`: the process of a replica index for a cluster of N slots.

Once it has these, it waits no longer for more, where others would wait for a minute."""

from __future__ import annotations

import sys
import threading
from typing import Any

from borealis_py.runtime.process.__main__ import main
from borealis_py.runtime.spark import driver
from borealis_py.runtime.spark.slot_plan import SlotPlan, await_slots, slots_there
from tests.harness.waiting import until


def hasty(slots: int) -> None:
    """Have drivers of this process wait for so many slots, and then no longer."""

    def wait(context: Any, plan: SlotPlan, stop: threading.Event) -> None:
        until(lambda: slots_there(context) >= slots, f"{slots} slots")
        await_slots(context, plan, stop, 0.0)

    driver.await_slots = wait  # type: ignore[assignment]


if __name__ == "__main__":
    hasty(int(sys.argv.pop(1)))
    sys.exit(main())
