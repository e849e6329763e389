"""Many worlds in several processes; their results as they come."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from typing import Any, TypeVar

T = TypeVar("T")
AHEAD = 4
"""So many jobs of each process wait for it."""


def in_parallel(work: Callable[..., T], jobs: Sequence[tuple[Any, ...]], processes: int | None) -> Iterator[T]:
    """What `work` returns for the arguments of each job, in any order. Picklable.

    Args:
        processes: None: one per core.
    """
    processes = min(processes or os.cpu_count() or 1, len(jobs))
    if processes <= 1:
        for job in jobs:
            yield work(*job)
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), _begin) as pool:
        yield from _as_they_come(pool, work, jobs, AHEAD * processes)


def _as_they_come(
    pool: ProcessPoolExecutor, work: Callable[..., T], jobs: Sequence[tuple[Any, ...]], ahead: int
) -> Iterator[T]:
    running: set[Future[T]] = set()
    left = iter(jobs)
    try:
        for job in left:
            running.add(pool.submit(work, *job))
            if len(running) >= ahead:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    finally:
        for future in running:
            future.cancel()


def _begin() -> None:
    """Initialise each worker: what is there by then stays."""
    gc.collect()
    gc.freeze()
