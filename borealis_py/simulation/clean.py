"""When something in a simulated world was free of faults."""

from __future__ import annotations

from dataclasses import dataclass, field

from sunion.model import FOREVER


@dataclass(slots=True)
class Clean:
    """When something was free of faults: intervals of simulated time."""

    spans: list[tuple[int, int]] = field(default_factory=list)
    since: int | None = None
    _again_us: int = FOREVER
    _again_from: dict[int, int] = field(default_factory=dict)

    def starts_at(self, us: int) -> None:
        """A replica that starts runs again what has come from then on, however short it was away."""
        self._again_us = min(self._again_us, us)

    def update(self, now_us: int, clean: bool) -> None:
        if clean and self.since is None:
            self.since = now_us
            self._again_from[now_us], self._again_us = self._again_us, FOREVER
        elif not clean and self.since is not None:
            self.spans.append((self.since, now_us))
            self.since = None

    def close(self, now_us: int) -> None:
        self.update(now_us, False)

    def covers(self, first_us: int, last_us: int, backlog: float = 0.0) -> bool:
        """Whether it was clean all that time, and had worked off before what had come while it was not, which takes
        `backlog` times as long as that lasted.
        """
        left, ended = 0.0, self.spans[0][0] if self.spans else 0
        for begun, end in self.spans:
            left += backlog * (begun - min(ended, self._again_from.get(begun, FOREVER)))
            if begun + left <= first_us and last_us <= end:
                return True
            left, ended = max(0.0, begun + left - end), end
        return False
