"""Runs handlers: in threads, in an event loop, or in processes of their own; and watches their times."""
from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from ._context import AsyncContext, Context
from ._ending import TimedOut, conclude, encoded_result, read_payload
from ._errors import Aborted, said
from ._lease import LeaseCalls
from ._node import Held, Node, log
from ._process import ProcessDied, Processes
from ._run_times import RunTimes
from ._running import Running
from ._statements import Lease
from ._transaction import Transactions
from ._unit import SLOW, Attempt, Unit

TICK = 0.05
"""Longest time between two looks at the times of running handlers, in seconds."""
AHEAD = 0.1
"""Longest wait of a claimed batch for a slot; then it is given back, so that no job waits beside idle nodes."""
REST = 0.2
"""Time without prefetch after batches were given back."""
_FACTS = ("id", "task", "queue", "key", "priority", "attributes", "tries", "attempt", "trace", "saved", "aborted")


class Runner:
    """The slots of a node: the units that run, and the batches that wait for a slot."""

    def __init__(self, node: Node) -> None:
        self._node, self._settings = node, node.settings
        self._link = node.link("leases")
        self._transactions = Transactions(node.settings.conninfo, node.settings.node)
        self._processes = Processes()
        self._lock = threading.RLock()
        self._quiet = threading.Condition(self._lock)
        self._running: set[Unit] = set()
        self._ahead: deque[Unit] = deque()
        self._seen_batches = False
        self._rests_until = 0.0
        self._units: queue.SimpleQueue[Unit | None] = queue.SimpleQueue()
        self._threads = self._idle = 0
        self.run_times = RunTimes()
        self._ticks = threading.Condition()
        self._closed = False
        self._clock = threading.Thread(target=self._watch, name="pgqueue-clock", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._own_loop: threading.Thread | None = None
        self._executor = ThreadPoolExecutor(8, "pgqueue-calls")
        self._async_units: set[asyncio.Task[None]] = set()

    def start(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """``loop``: runs the async handlers; None: one in a thread of its own."""
        if any(task.is_async for task in self._settings.tasks.values()):
            self._loop = loop or asyncio.new_event_loop()
            if loop is None:
                self._own_loop = threading.Thread(target=self._loop.run_forever, name="pgqueue-loop", daemon=True)
                self._own_loop.start()
        self._clock.start()

    @property
    def running(self) -> int:
        return len(self._running)

    def wanted(self) -> tuple[int, int]:
        """Work items that the node can take now, and batches beyond them."""
        node = self._node
        if not self._takes() or node.settler.full:
            return 0, 0
        slots = self._settings.concurrency
        rests = not self._seen_batches or time.monotonic() < self._rests_until
        return max(0, slots - len(self._running)), 0 if rests else max(0, slots - len(self._ahead))

    def take(self, units: list[Unit], sought: int) -> None:
        """Runs the units of a claim; those beyond the free slots wait. ``sought``: batches that would have come."""
        with self._lock:
            if self._node.draining.is_set():
                for unit in units:
                    self._give_back(unit)
                return
            if any(unit.is_batch for unit in units):
                self._seen_batches = True
            free = max(0, self._settings.concurrency - len(self._running))
            if len(units) - free < sought:
                self._seen_batches = False
            self._ahead.extend(units[free:])
            for unit in units[:free]:
                self._start(unit)
        with self._ticks:
            self._ticks.notify()

    def held(self) -> list[Held]:
        """Leases of running attempts and of jobs that have not begun."""
        with self._lock:
            running, waiting = list(self._running), list(self._ahead)
        found = []
        for unit in running:
            attempt = unit.current
            if attempt is not None and attempt.is_live():
                found.append(Held(attempt.lease, attempt.abort, attempt.is_live))
            for id in unit.waiting():
                abort, is_live = partial(unit.abort_waiting, id), partial(unit.is_waiting, id)
                found.append(Held(Lease(id, unit.token), abort, is_live))
        for unit in waiting:
            found.append(Held(unit.leases()[0], partial(self._drop, unit), partial(self._is_ahead, unit)))
        return found

    def hung(self) -> int:
        """Slots of handlers that run on although the time of their jobs is over."""
        return sum(one.phase == "over" and not one.committed for one in self._attempts())

    def leases(self) -> list[Lease]:
        with self._lock:
            return [lease for unit in [*self._running, *self._ahead] for lease in unit.leases()]

    def drain(self) -> None:
        """Begins no more jobs: gives back what has not begun."""
        with self._lock:
            while self._ahead:
                self._give_back(self._ahead.popleft())
            for unit in self._running:
                unit.stopping = True

    def quiet(self, seconds: float) -> bool:
        """Waits until every attempt is over; handlers that do not stop may still run."""

        def is_quiet() -> bool:
            return all(unit.current is None or unit.current.phase == "over" for unit in self._running)

        deadline = time.monotonic() + seconds
        with self._quiet:
            while not is_quiet():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._quiet.wait(min(left, TICK))  # an attempt may be over before its handler returns
            return True

    def abort(self, reason: str) -> None:
        for attempt in self._attempts():
            attempt.abort(reason)

    def abandon(self) -> list[Lease]:
        """Ends the attempts whose handlers do not stop; returns their leases."""
        return [attempt.lease for attempt in self._attempts() if attempt.phase == "running" and attempt.finish()]

    def close(self) -> None:
        self._closed = True
        with self._ticks:
            self._ticks.notify()
        for _ in range(self._threads):
            self._units.put(None)
        self._processes.close()
        self._executor.shutdown(wait=False)
        self._transactions.close()
        if self._loop is not None and self._own_loop is not None:
            loop = self._loop

            async def end() -> None:
                await self._transactions.close_async()
                loop.stop()

            asyncio.run_coroutine_threadsafe(end(), loop)
            self._own_loop.join(1)
            if not self._own_loop.is_alive():
                loop.close()

    async def close_async(self) -> None:
        await self._transactions.close_async()

    def _takes(self) -> bool:
        node = self._node
        return not node.draining.is_set() and node.presence.incarnation is not None and not node.presence.fenced

    def _attempts(self) -> list[Attempt]:
        with self._lock:
            return [unit.current for unit in self._running if unit.current is not None]

    def _give_back(self, unit: Unit) -> None:
        if unit.is_batch:
            self._node.settler.release_row(unit)
        else:
            self._node.settler.release(unit.leases())

    def _drop(self, unit: Unit, reason: str) -> None:
        with self._lock:
            if unit not in self._ahead:
                return
            self._ahead.remove(unit)
        if reason != "lease_lost":
            self._give_back(unit)

    def _is_ahead(self, unit: Unit) -> bool:
        with self._lock:
            return unit in self._ahead

    def _start(self, unit: Unit) -> None:
        if unit.is_late:
            return self._give_back(unit)
        self._running.add(unit)
        self._dispatch(unit)

    def _dispatch(self, unit: Unit) -> None:
        if unit.task.is_async and self._loop is not None:
            self._loop.call_soon_threadsafe(self._begin_async, unit)
            return
        if self._idle > 0:
            self._idle -= 1
        else:
            self._threads += 1
            threading.Thread(target=self._work, name=f"pgqueue-{self._threads}", daemon=True).start()
        self._units.put(unit)

    def _next(self, unit: Unit) -> Unit | None:
        """Frees the slot of a unit, and gives it to a waiting one; returns that if the caller can run it."""
        self.run_times.add(unit.task.name, unit.busy_us)
        following = None
        with self._lock:
            self._running.discard(unit)
            self._quiet.notify_all()
            while following is None and self._ahead and self._takes():
                following = self._ahead.popleft()
                if following.is_late:
                    self._give_back(following)
                    following = None
            if following is not None:
                self._running.add(following)
                if following.task.is_async != unit.task.is_async:
                    self._dispatch(following)
                    following = None
            if following is None and not unit.task.is_async:
                self._idle += 1
        self._node.claimer.slot_freed(not self._running)
        return following

    def _work(self) -> None:
        while True:
            unit = self._units.get()
            if unit is None:
                return
            while unit is not None:
                try:
                    self._run(unit)
                except BaseException:
                    log.exception("a unit of jobs ended with an error of pgqueue's own")
                unit = self._next(unit)

    def _run(self, unit: Unit) -> None:
        task, codec = unit.task, self._settings.codec
        unit.start()
        while (attempt := unit.begin()) is not None:
            value, error = None, None
            try:
                if attempt.aborted is not None:
                    raise Aborted(attempt.aborted)
                payload = read_payload(task, attempt, codec)
                if task.process:
                    value = self._run_process(attempt, payload)
                elif task.takes_context:
                    value = task.handler(payload, Context(self._calls(attempt), self._transactions))
                else:
                    value = task.handler(payload)
            except BaseException as raised:  # also SystemExit: it must not end this thread
                error = raised
            if value is None and error is None:
                unit.end_done(attempt, None)
            else:
                self._end(attempt, value, error)
        unit.through()

    def _calls(self, attempt: Attempt) -> LeaseCalls:
        return LeaseCalls(self._node, self._link, attempt)

    def _run_process(self, attempt: Attempt, payload: Any) -> Any:
        calls = self._calls(attempt)
        context = Context(calls, self._transactions)
        facts = {name: getattr(context, name) for name in _FACTS}
        return self._processes.run(attempt.unit.task, payload, calls, facts)

    def _begin_async(self, unit: Unit) -> None:
        running = asyncio.get_running_loop().create_task(self._run_async(unit))
        self._async_units.add(running)
        running.add_done_callback(self._async_units.discard)

    async def _run_async(self, first: Unit) -> None:
        unit: Unit | None = first
        running = Running()
        while unit is not None:
            try:
                unit.start()
                while (attempt := unit.begin()) is not None:
                    running.attempt = attempt
                    attempt.on_abort = running.abort
                    value, error = None, None
                    try:
                        if attempt.aborted is not None:
                            raise Aborted(attempt.aborted)
                        payload = read_payload(unit.task, attempt, self._settings.codec)
                        if unit.task.takes_context:
                            calls = self._calls(attempt)
                            value = await unit.task.handler(
                                payload, AsyncContext(calls, self._transactions, self._executor)
                            )
                        else:
                            value = await unit.task.handler(payload)
                    except BaseException as raised:
                        error = running.error(attempt, raised)
                    running.attempt = None
                    if value is None and error is None:
                        unit.end_done(attempt, None)
                    else:
                        self._end(attempt, value, error)
                unit.through()
            except BaseException:
                log.exception("a unit of jobs ended with an error of pgqueue's own")
            unit = self._next(unit)
            if unit is not None:
                await asyncio.sleep(0)

    def _end(self, attempt: Attempt, value: Any, error: BaseException | None) -> None:
        """Ends an attempt, unless it is over."""
        unit, settler = attempt.unit, self._node.settler
        if isinstance(error, ProcessDied) and attempt.phase == "running":
            unit.own_rows()
            if attempt.finish():
                log.error("job %s of task %s: %s", attempt.id, unit.task.name, said(error))
                settler.crash(attempt.lease, str(error))
            return
        if error is None and not isinstance(value, BaseException):
            try:
                text, problem = encoded_result(self._settings.codec, value, attempt)
                if problem is None:
                    unit.end_done(attempt, text)
                    return
            except Exception as failure:  # of the codec
                error = failure
        if attempt.phase == "over":
            if attempt.committed and error is not None:
                log.error(
                    "job %s of task %s: its handler failed when its job was done",
                    attempt.id,
                    unit.task.name,
                    exc_info=error,
                )
            return
        ended = conclude(attempt, value, error, self._settings.codec, time.monotonic())
        if not attempt.finish():
            return
        if ended is None:
            if isinstance(error, Exception) and not isinstance(error, Aborted):
                log.warning("job %s of task %s is given back: %s", attempt.id, unit.task.name, said(error))
            unit.give_back(attempt)
        else:
            unit.end_other(ended)

    def _watch(self) -> None:
        """Times out attempts, takes slow batches apart, and gives back batches that wait for long. Does no I/O."""
        while not self._closed:
            now = time.monotonic()
            due = now + TICK
            self._node.presence.fence(now)
            with self._lock:
                running, idle = list(self._running), not self._ahead
            for unit in running:
                due = min(due, self._check(unit, now))
            self._check_ahead(now)
            for link in self._node.links:
                if link.busy_since is not None and now - link.busy_since > link.limit:
                    link.abort()
            with self._ticks:
                if not self._closed:
                    self._ticks.wait(0.5 if idle and not running else max(0.001, due - time.monotonic()))

    def _check(self, unit: Unit, now: float) -> float:
        attempt = unit.current
        if unit.is_batch and now - unit.began > SLOW:
            unit.outlasted()
        if attempt is None or attempt.phase != "running":
            return now + TICK
        if now < attempt.due:
            return attempt.due
        self._end(attempt, None, TimedOut())  # before the handler can end it by what the abort makes it raise
        attempt.abort("timeout")
        return now + TICK

    def _check_ahead(self, now: float) -> None:
        with self._lock:
            if self._ahead and now - self._ahead[0].received_at > AHEAD:
                self._rests_until = now + REST
                while self._ahead:
                    self._give_back(self._ahead.popleft())
