"""What an ingress has done since it started."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class IngressCounts:
    """Numbers of foreign records. `rows`: copied; `rejected`: made dead letters (`late` of them because they were
    late); `heartbeats`: proved only that a producer lives; `lost`: deleted by retention before they were read.
    `made_again`: how often a partition began anew, because its topic was deleted and created again. `taken_over`: how
    often this ingress became the owner."""

    rows: int = 0
    rejected: int = 0
    late: int = 0
    heartbeats: int = 0
    lost: int = 0
    made_again: int = 0
    taken_over: int = 0
