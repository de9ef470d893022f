"""Attempts, and the jobs of one work item that one slot runs one after another."""
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ._statements import ClaimedRow, Lease, Settlement

if TYPE_CHECKING:
    from ._task import Task

BATCH_GRACE_MS = 1_000
"""Time that a batch is leased for beyond its jobs' timeout."""
SLOW = 0.25
"""Seconds after which a running batch is taken apart, and jobs that have not begun are given back."""
_FATES = {"lease_lost": "lost", "cancelled": "cancelled", "node_silent": "back"}


def margin(seconds: float) -> float:
    """Seconds before the end of a lease at which a handler is stopped, so that its settlement lands in time."""
    return min(1.0, max(0.0, seconds) / 10)


class Attempt:
    """One lease under which a handler runs, until it is over: settled, lost, timed out or given back.

    While the handler's own transaction settles it, it is committing: neither its timeout nor a shutdown ends it then.
    """

    __slots__ = (
        "unit", "id", "queue", "key", "priority", "attributes", "payload", "payload_version", "tries", "max_tries",
        "crashes", "retry", "trace", "created_ms", "checkpoint", "began", "ends_at", "timeout", "phase", "aborted",
        "committed", "on_abort", "_event",
    )  # fmt: skip
    id: str
    queue: str
    key: str
    priority: int
    attributes: dict[str, Any]
    payload: Any
    payload_version: int
    tries: int
    crashes: int
    retry: Any
    trace: Any
    checkpoint: Any

    def __init__(self, unit: Unit, job: list[Any], began: float) -> None:
        self.unit = unit
        self.began = began
        own: float | None = None
        if len(job) == 6:  # the rest is as in most jobs
            self.id, self.queue, _, self.key, self.created_ms, self.payload = job
            self.payload_version, self.max_tries = 1, 20
            self.priority = self.tries = self.crashes = 0
            self.attributes = {}
            self.retry = self.trace = self.checkpoint = None
        else:
            (self.id, self.queue, _, key, priority, attributes, self.payload, self.payload_version, tries, self.max_tries,
             crashes, self.retry, self.trace, self.created_ms, own, self.checkpoint) = job  # fmt: skip
            self.key, self.priority, self.attributes = key or "", priority or 0, attributes or {}
            self.tries, self.crashes = tries or 0, crashes or 0
        self.timeout = own if own is not None and unit.is_batch else unit.timeout
        self.ends_at = (began if unit.is_batch else unit.claimed_at) + self.timeout
        self.phase = "running"
        self.aborted: str | None = None
        self.committed = False
        self.on_abort: Callable[[], None] | None = None
        self._event: threading.Event | None = None

    @property
    def lease(self) -> Lease:
        return Lease(self.id, self.unit.token)

    @property
    def due(self) -> float:
        """When the attempt times out, unless it ends before."""
        return self.ends_at - margin(self.timeout)

    def abort(self, reason: str) -> None:
        """Tells the handler to stop. The first reason counts. ``lease_lost`` also ends the attempt."""
        with self.unit.lock:
            if reason == "lease_lost":
                self.phase = "over"
            if self.aborted is not None:
                return
            self.aborted = reason
            event, on_abort = self._event, self.on_abort
        if event is not None:
            event.set()
        if on_abort is not None:
            on_abort()

    def is_live(self) -> bool:
        return self.phase == "running"

    def wait(self, seconds: float) -> bool:
        with self.unit.lock:
            if self._event is None:
                self._event = threading.Event()
            event = self._event
            if self.aborted is not None:
                event.set()
        return event.wait(seconds)

    def finish(self) -> bool:
        """Ends the attempt. True once: that caller reports how it ended."""
        with self.unit.lock:
            ended = self.phase != "over"
            self.phase = "over"
            return ended

    def begin_commit(self) -> bool:
        with self.unit.lock:
            running = self.phase == "running"
            if running:
                self.phase = "committing"
            return running

    def abandon_commit(self) -> None:
        with self.unit.lock:
            if self.phase == "committing":
                self.phase = "running"

    def extended(self, sent_at: float, seconds: float) -> None:
        with self.unit.lock:
            self.timeout, self.ends_at = seconds, sent_at + seconds


class Ended:
    """An attempt that has ended, and its settlement. ``error``: for the log. ``fallback``: if its jobs are refused."""

    __slots__ = ("attempt", "settlement", "error", "fallback", "unanswered")

    def __init__(
        self,
        attempt: Attempt,
        settlement: Settlement,
        error: BaseException | str | None = None,
        fallback: Callable[[BaseException], Settlement] | None = None,
    ) -> None:
        self.attempt, self.settlement, self.error, self.fallback = attempt, settlement, error, fallback
        self.unanswered = False
        """The reply to an earlier try may have been lost."""


class Desk(Protocol):
    """Tells the database what became of jobs; nothing here waits for it."""

    def settle(self, ended: list[Ended]) -> None:
        ...

    def settle_row(self, unit: Unit) -> None:
        ...

    def part(self, unit: Unit, ids: list[str] | None) -> None:
        """Gives jobs of a batch rows of their own, all without ``ids``, then calls :meth:`Unit.parted`."""

    def release(self, leases: list[Lease]) -> None:
        ...

    def release_row(self, unit: Unit) -> None:
        ...


class Unit:
    """The jobs of one work item: one job, or a batch of short ones under one lease.

    While every job of a batch ends as done, they are settled as one. If a job needs a state of its own (it fails, is
    extended, cancelled, given back, or takes long), the batch is taken apart: then each job has a row of its own.
    """

    def __init__(self, desk: Desk, task: Task, token: str, row: ClaimedRow, claimed_at: float) -> None:
        self.desk, self.task, self.token = desk, task, token
        self.position, self.size, self.jobs = row.position, row.size, row.jobs
        self.is_batch = row.size > 1
        self.timeout = (row.lease_ms - (BATCH_GRACE_MS if self.is_batch else 0)) / 1_000
        self.claimed_at = claimed_at
        self.received_at = self.began = time.monotonic()
        self.lock = threading.Lock()
        self.unanswered = False
        """The reply to its settlement as one may have been lost."""
        self.stopping = False
        """True: jobs that have not begun are given back."""
        self.current: Attempt | None = None
        self.done: list[Attempt] = []
        self.busy_us: list[int] = []
        self.data: list[str | None] = []
        self._others: list[Ended] = []
        self._back: list[Lease] = []
        self._fates: dict[str, str] = {}
        self._next = 0
        self._state = "whole" if self.is_batch else "apart"
        self._apart = threading.Event()
        if not self.is_batch:
            self._apart.set()

    @property
    def is_late(self) -> bool:
        """True if a lease ends before it could be used: the reply to the claim came late."""
        return time.monotonic() - self.claimed_at >= self.timeout - margin(self.timeout)

    def start(self) -> None:
        self.began = time.monotonic()
        if self.size != len(self.jobs):  # one of the jobs could not be read: the others must not fail with it
            self._part()

    def begin(self) -> Attempt | None:
        """Begins the next job that is to run here; None: there is none."""
        while self._next < len(self.jobs):
            now = time.monotonic()
            with self.lock:
                job = self.jobs[self._next]
                fate = self._fates.get(job[0]) if self._fates else None
                first = self._next == 0
                self._next += 1
                if fate == "lost":
                    continue
                runs = fate != "back" and (first or not self.is_batch or not (self.stopping or now - self.began > SLOW))
                if runs:
                    attempt = self.current = Attempt(self, job, now)
                    if fate == "cancelled":
                        attempt.aborted = fate
                    return attempt
            self._give_back([Lease(job[0], self.token)])
        self.current = None
        return None

    def end_done(self, attempt: Attempt, data: str | None) -> bool:
        """Ends an attempt as done. False: it is over already."""
        busy_us = int((time.monotonic() - attempt.began) * 1_000_000)
        with self.lock:
            if attempt.phase == "over":
                return False
            attempt.phase = "over"
            attempt.payload = None
            if self._state != "apart":
                self.done.append(attempt)
                self.busy_us.append(busy_us)
                self.data.append(data)
                finished = self._state == "whole" and len(self.done) + len(self._others) == self.size
                if not finished:
                    return True
                self._state = "ending"
            else:
                self.busy_us.append(busy_us)
                finished = False
        if finished:
            self._finish()
        else:
            self.desk.settle([done_ended(attempt, data)])
        return True

    def end_other(self, ended: Ended) -> None:
        """Ends an attempt in any other way; the caller has finished it."""
        with self.lock:
            if self._state == "apart":
                finished = False
            else:
                self._others.append(ended)
                finished = self._state == "whole" and len(self.done) + len(self._others) == self.size
                if not finished:
                    return
                self._state = "ending"
        if finished:
            self._finish()
        else:
            self.desk.settle([ended])

    def give_back(self, attempt: Attempt) -> None:
        """Gives back a job that did not run to its end; the caller has finished the attempt."""
        self._give_back([attempt.lease])

    def through(self) -> None:
        """Call when no other job of the batch will begin."""
        with self.lock:
            partial = self._state == "whole" and len(self.done) + len(self._others) < self.size
        if partial:
            self._part()

    def outlasted(self) -> None:
        """Gives back the jobs that have not begun, since the running one takes long."""
        with self.lock:
            waiting = [job[0] for job in self.jobs[self._next :] if self._fates.get(job[0]) != "lost"]
            self._fates.update((id, "lost") for id in waiting)
        self._give_back([Lease(id, self.token) for id in waiting])
        self._part()

    def own_rows(self) -> None:
        """Waits until each job has a row of its own, as statements about one job need it."""
        self._part()
        self._apart.wait()

    def parted(self, rest: int | None = None) -> None:
        """Called when the batch was taken apart, by the desk. ``rest``: position of the row with the jobs that are done."""
        with self.lock:
            self._state = "apart"
            others, self._others = self._others, []
            back, self._back = self._back, []
            if rest is not None:
                self.position, self.size = rest, len(self.done)
        self._apart.set()
        if rest is not None:
            self.desk.settle_row(self)
        else:
            self.desk.settle([done_ended(attempt, data) for attempt, data in zip(self.done, self.data)])
        self.desk.settle(others)
        self.desk.release(back)

    def waiting(self) -> list[str]:
        """Ids of jobs that have not begun, whose leases this node holds."""
        with self.lock:
            return [job[0] for job in self.jobs[self._next :] if job[0] not in self._fates]

    def abort_waiting(self, id: str, reason: str) -> None:
        """Records that a job which has not begun was lost or cancelled, or is to be given back."""
        with self.lock:
            if self.is_waiting(id):
                self._fates[id] = _FATES[reason]

    def is_waiting(self, id: str) -> bool:
        return any(job[0] == id for job in self.jobs[self._next :])

    def leases(self) -> list[Lease]:
        return [Lease(job[0], self.token) for job in self.jobs]

    def _give_back(self, leases: list[Lease]) -> None:
        if not leases:
            return
        with self.lock:
            held = self._state != "apart"
            if held:
                self._back += leases
        if held:
            self._part()
        else:
            self.desk.release(leases)

    def _finish(self) -> None:
        """Settles the batch after all jobs have ended; those that are not done are taken out before."""
        if not self._others:
            self._apart.set()
            self.desk.settle_row(self)
        else:
            self.desk.part(self, [one.settlement.lease.id for one in self._others] if self.done else None)

    def _part(self) -> None:
        with self.lock:
            if self._state != "whole":
                return
            self._state = "ending"
        self.desk.part(self, None)


def done_ended(attempt: Attempt, data: str | None) -> Ended:
    waited_ms = max(0.0, attempt.began - attempt.unit.received_at) * 1_000
    ended = Ended(attempt, Settlement(attempt.lease, "done", None, data, waited_ms))
    ended.unanswered = attempt.unit.unanswered
    return ended
