"""Run times of a node's jobs, by task: the scheduler makes batches by them."""
from __future__ import annotations

import math
import threading

RUNS_MIN = 20
RUNS_MAX = 200
SLOW_US = 50_000
"""A task gets no batches if more than 1 % of its runs take longer; one that has batches keeps them up to 3 %."""
SLOW_RUNS = 1_000
FACTOR = 1.5
"""Smallest change of a mean that is told."""
EVERY = 0.25


class RunTimes:
    """Means by task. Threads may add at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[str, list[float]] = {}
        self._told: dict[str, float] = {}
        self._told_at = -math.inf

    def add(self, task: str, busy_us: list[int]) -> None:
        """Adds the run times of a unit."""
        if not busy_us:
            return
        with self._lock:
            runs = self._tasks.setdefault(task, [0, 0.0, 0.0])
            count = len(busy_us)
            runs[0] += count
            share = min(1.0, count / min(runs[0], RUNS_MAX))
            runs[1] += (sum(busy_us) / count / 1_000 - runs[1]) * share
            slow = sum(1 for us in busy_us if us > SLOW_US) / count
            runs[2] += (slow - runs[2]) * min(1.0, count / min(runs[0], SLOW_RUNS))

    def news(self, now: float) -> dict[str, float] | None:
        """The means to tell, in milliseconds; None: nothing new. They count as told."""
        with self._lock:
            if now < self._told_at + EVERY:
                return None
            known = {
                task: max(0.001, min(1e6, mean))
                for task, (count, mean, slow) in self._tasks.items()
                if count >= RUNS_MIN and slow <= (0.03 if task in self._told else 0.01)
            }
            same = known.keys() == self._told.keys() and all(
                self._told[task] / FACTOR <= ms <= self._told[task] * FACTOR for task, ms in known.items()
            )
            if same:
                return None
            self._told, self._told_at = known, now
            return known

    def forget(self) -> None:
        """Call when the last news were lost: they are told again."""
        with self._lock:
            self._told = {}
