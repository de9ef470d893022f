"""Settlements: a thread that tells the database what became of jobs, many with one statement."""
from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

from ._errors import LOCKED, error_data, explained, is_of_row, is_transient, said, sql_state
from ._json import json_text
from ._node import Node, log
from ._statements import Lease, Settlement
from ._unit import Ended, Unit
from .producer import pause

Answer = TypeVar("Answer")
ROW_JOBS_MAX = 2_000
BATCH_MAX = 1_000
BYTES_MAX = 4 * 1_048_576
"""Limits of one statement: jobs of batches, single jobs, characters of their results."""
PENDING_MAX = 2_000
PENDING_BYTES_MAX = 16 * 1_048_576
"""Limits of what waits, beyond which the node claims no more."""
GATHER = 0.01
"""Shortest time between two statements for batches, unless many jobs wait."""
MANY = 100
RIDERS_MAX = 4
"""Most settlements in a statement that carries the hint itself."""
TOLD_MAX = 16
LOOK = 0.5
"""Seconds between two looks at jobs that an application has locked."""


class Settler:
    """Settles, parts and releases by one connection. While the database can't be reached, all of it waits in memory.

    A job that another transaction has locked waits apart, and holds up no other.
    """

    def __init__(self, node: Node) -> None:
        self._node, self._link, self._statements = node, node.link("settlements"), node.statements
        self._condition = threading.Condition()
        self._parts: deque[tuple[Unit, list[str] | None]] = deque()
        self._rows: deque[Unit] = deque()
        self._singles: deque[Ended] = deque()
        self._batches: deque[tuple[list[Ended], int]] = deque()
        """Batches of single settlements: the one that is sent, and others made from it. The number: fallbacks tried."""
        self._locked: list[Ended] = []
        self._look_at = 0.0
        self._releases: list[Lease] = []
        self._row_releases: deque[Unit] = deque()
        self._crashes: deque[tuple[Lease, str]] = deque()
        self._jobs = self._bytes = 0
        self._rows_sent_at = 0.0
        self._busy = False
        self._stopped = False
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgqueue-settlements", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def full(self) -> bool:
        """True while so much waits that no more jobs should be claimed."""
        return self._jobs > PENDING_MAX or self._bytes > PENDING_BYTES_MAX

    def settle(self, ended: list[Ended]) -> None:
        if not ended:
            return
        with self._condition:
            self._count(len(ended), _characters(ended))
            self._singles.extend(ended)
            self._condition.notify_all()

    def settle_row(self, unit: Unit) -> None:
        with self._condition:
            self._count(len(unit.done), _length(unit))
            self._rows.append(unit)
            self._condition.notify_all()

    def part(self, unit: Unit, ids: list[str] | None) -> None:
        with self._condition:
            self._parts.append((unit, ids))
            self._condition.notify_all()

    def release(self, leases: list[Lease]) -> None:
        with self._condition:
            self._releases += leases
            self._condition.notify_all()

    def release_row(self, unit: Unit) -> None:
        with self._condition:
            self._row_releases.append(unit)
            self._condition.notify_all()

    def crash(self, lease: Lease, why: str) -> None:
        with self._condition:
            self._crashes.append((lease, why))
            self._condition.notify_all()

    def pending(self) -> Iterator[Lease]:
        """Leases that the database has not acknowledged as settled or released."""
        with self._condition:
            units = [unit for unit, _ in self._parts] + [*self._rows, *self._row_releases]
            ended = [*self._singles, *self._locked, *(one for batch, _ in self._batches for one in batch)]
            others = [*self._releases, *(lease for lease, _ in self._crashes)]
        for unit in units:
            yield from unit.leases()
        for one in ended:
            yield one.settlement.lease
        yield from others

    def idle(self, seconds: float) -> bool:
        """Waits until nothing is left to tell the database."""
        with self._condition:
            return self._condition.wait_for(lambda: not (self._busy or self._has_work() or self._locked), seconds)

    def stop(self) -> None:
        """Gives up whatever can't be sent."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
        self._abandoned.set()
        if self._thread.is_alive():
            self._thread.join(1)
        for unit, _ in list(self._parts):
            unit.parted()  # nobody waits for it any more

    def _count(self, jobs: int, characters: int) -> None:
        self._jobs += jobs
        self._bytes += characters

    def _has_work(self) -> bool:
        return bool(
            self._parts
            or self._rows
            or self._singles
            or self._batches
            or self._releases
            or self._row_releases
            or self._crashes
        )

    def _run(self) -> None:
        failures = 0
        while True:
            with self._condition:
                self._busy = False
                self._condition.notify_all()
                while not self._has_work() and not (self._locked and time.monotonic() >= self._look_at):
                    if self._stopped:
                        return
                    self._condition.wait(max(0.0, self._look_at - time.monotonic()) if self._locked else None)
                self._busy = True
            try:
                self._step()
                failures = 0
            except Exception as error:
                if self._abandoned.is_set():
                    return
                failures += 1
                retry = pause(failures)
                log.warning(
                    "a settlement of node %s failed, and is repeated: %s", self._node.settings.node, said(error)
                )
                self._abandoned.wait(retry)

    def _step(self) -> None:
        """Sends one statement of each kind. Raises transient errors: what was not answered stays where it is."""
        if self._parts:
            self._part(*self._parts[0])
        if self._rows:
            self._settle_rows()
        if self._singles and not self._batches:
            self._form_batch()
        if self._batches:
            self._settle_batch(*self._batches[0])
        if self._locked and time.monotonic() >= self._look_at:
            self._look()
        if self._crashes:
            self._tolerating(lambda: self._statements.crash(self._link, *self._crashes[0]))
            self._crashes.popleft()
            self._hint("done")
        if self._releases:
            leases = list(self._releases)
            self._tolerating(lambda: self._statements.release(self._link, leases))
            with self._condition:
                del self._releases[: len(leases)]
        if self._row_releases:
            unit = self._row_releases[0]
            whole = self._tolerating(lambda: self._statements.release_row(self._link, unit.position, unit.token))
            self._row_releases.popleft()
            if whole is False:  # taken apart meanwhile
                self.release(unit.leases())

    @staticmethod
    def _tolerating(work: Callable[[], Answer]) -> Answer | None:
        """Logs an error that a repetition would meet again: the lease runs out, or ends when the node leaves."""
        try:
            return work()
        except Exception as error:
            if is_transient(error):
                raise
            log.error("the database refused a statement about leases: %s", said(error))
            return None

    def _part(self, unit: Unit, ids: list[str] | None) -> None:
        rest = None
        if ids is not None:
            rest = self._tolerating(lambda: self._statements.take_out(self._link, unit.position, unit.token, ids))
        if rest is None:
            self._tolerating(lambda: self._statements.take_out(self._link, unit.position, unit.token))
        unit.parted(rest)
        self._parts.popleft()

    def _settle_rows(self) -> None:
        waiting = self._rows_sent_at + GATHER - time.monotonic()
        if (
            waiting > 0
            and sum(len(unit.done) for unit in list(self._rows)) < MANY
            and not (self._parts or self._singles)
        ):
            self._abandoned.wait(waiting)
        self._rows_sent_at = time.monotonic()
        jobs = characters = 0
        units: list[Unit] = []
        for unit in list(self._rows):
            jobs, characters = jobs + len(unit.done), characters + _length(unit)
            if units and (jobs > ROW_JOBS_MAX or characters > BYTES_MAX):
                break
            units.append(unit)
        rows = [(unit.position, unit.token, len(unit.done)) for unit in units]
        data = [text for unit in units for text in unit.data]
        has_data = any(text is not None for text in data)
        try:
            busy = (us for unit in units for us in unit.busy_us)
            settled = self._statements.settle_rows(self._link, rows, busy, data if has_data else None)
            self._node.claimer.settled()
        except Exception as error:
            if is_transient(error) and sql_state(error) != LOCKED:
                for unit in units:
                    unit.unanswered = True
                raise
            if not is_transient(error):
                log.error("the database refused a settlement; its jobs are settled one by one: %s", said(error))
            settled = set()
        with self._condition:
            for unit in units:
                self._rows.popleft()
                self._count(-len(unit.done), -_length(unit))
                if unit.position not in settled:
                    self._parts.append((unit, None))  # lost, taken apart, locked, or with a job that can't be settled
        self._node.claimer.slot_freed(False)

    def _form_batch(self) -> None:
        """The next single settlements, each job once: the database answers by job. One that adds jobs goes alone."""
        batch: list[Ended] = []
        ids: set[str] = set()
        characters = 0
        with self._condition:
            while self._singles and len(batch) < BATCH_MAX:
                one = self._singles[0]
                characters += _characters([one])
                alone = one.settlement.jobs is not None or (batch and batch[0].settlement.jobs is not None)
                if batch and (alone or characters > BYTES_MAX or one.settlement.lease.id in ids):
                    break
                ids.add(one.settlement.lease.id)
                batch.append(self._singles.popleft())
            self._batches.append((batch, 0))

    def _settle_batch(self, batch: list[Ended], fallbacks: int) -> None:
        try:
            verdicts, hinted = self._send(batch)
        except Exception as error:
            if not is_transient(error):
                return self._refused(batch, fallbacks, error)
            if sql_state(error) != LOCKED or not self._set_aside(batch, fallbacks):
                for one in batch:
                    one.unanswered = True
                raise
            return
        self._answered(batch)
        if not hinted:
            done = len(batch) <= TOLD_MAX and all(verdicts.get(one.settlement.lease.id) == "done" for one in batch)
            self._hint("done", ",".join(one.settlement.lease.id for one in batch) if done else "")
        for one in batch:
            self._tell(one, verdicts.get(one.settlement.lease.id))
        self._node.claimer.slot_freed(False)

    def _send(self, batch: list[Ended]) -> tuple[dict[str, str], bool]:
        settlements = [one.settlement for one in batch]
        repeat = any(one.unanswered for one in batch)
        if settlements[0].jobs is not None:
            if self._statements.fan_out(self._link, settlements[0]):
                self._hint("queue")
                return {settlements[0].lease.id: "done"}, False
            if not repeat:
                return {}, True
        elif not repeat and len(batch) <= RIDERS_MAX:
            return self._statements.settle_and_hint(self._link, settlements)
        return self._statements.settle(self._link, settlements, repeat), False

    def _refused(self, batch: list[Ended], fallbacks: int, error: Exception) -> None:
        """Finds the one settlement that the database can't store, by halves, and tries what may go instead."""
        if len(batch) > 1:
            half = (len(batch) + 1) // 2
            self._batches[0] = (batch[:half], fallbacks)
            self._batches.insert(1, (batch[half:], fallbacks))
            return
        one = batch[0]
        log.error("the database refused the settlement of job %s: %s", one.settlement.lease.id, said(error))
        for number, instead in list(enumerate((_without_data, _as_failed, _as_dead)))[fallbacks:]:
            settlement = instead(one, error)
            if settlement is not None:
                other = Ended(one.attempt, settlement, error)
                other.unanswered = one.unanswered
                self._batches[0] = ([other], number + 1)
                return
        self._answered(batch)

    def _answered(self, batch: list[Ended]) -> None:
        with self._condition:
            self._batches.popleft()
            self._count(-len(batch), -_characters(batch))

    def _set_aside(self, batch: list[Ended], fallbacks: int) -> bool:
        """Puts jobs that another transaction has locked aside. False: there are none any more."""
        free = self._statements.unlocked(self._link, [one.settlement.lease for one in batch])
        locked = [one for one in batch if one.settlement.lease.id not in free]
        with self._condition:
            self._locked += locked
            self._look_at = time.monotonic() + LOOK
            rest = [one for one in batch if one.settlement.lease.id in free]
            if rest:
                self._batches[0] = (rest, fallbacks)
            else:
                self._batches.popleft()
        return bool(locked)

    def _look(self) -> None:
        self._look_at = time.monotonic() + LOOK
        free = self._statements.unlocked(self._link, [one.settlement.lease for one in self._locked])
        with self._condition:
            self._singles.extend(one for one in self._locked if one.settlement.lease.id in free)
            self._locked = [one for one in self._locked if one.settlement.lease.id not in free]

    def _hint(self, channel: str, payload: str = "") -> None:
        try:
            self._statements.notify(self._link, channel, payload)
        except Exception as error:  # a lost hint costs one interval of polling
            log.debug("a hint was not sent: %s", said(error))

    def _tell(self, one: Ended, verdict: str | None) -> None:
        attempt, task = one.attempt, one.attempt.unit.task.name
        if verdict is None:
            log.warning("job %s of task %s: its lease was lost, and its end here changes nothing", attempt.id, task)
            attempt.abort("lease_lost")
        elif one.error is not None:
            codec = self._node.settings.codec
            why = type(one.error).__name__ if codec is not None and codec.errors else said(one.error)
            log.warning("job %s of task %s: %s after %s", attempt.id, task, verdict, why)


def _without_data(one: Ended, error: Exception) -> Settlement | None:
    settlement = one.settlement
    if settlement.data is None:
        return None
    done = settlement.outcome == "done"
    note = f"the {'result' if done else 'error'} can't be stored: {error_data(error)['message']}"
    data = json_text({"pgqueue_error": note} if done else {"kind": "error", "message": note})
    return Settlement(
        settlement.lease, settlement.outcome, settlement.delay_ms, data, settlement.waited_ms, settlement.jobs
    )


def _as_failed(one: Ended, error: Exception) -> Settlement | None:
    if one.settlement.jobs is None or one.fallback is None:
        return None
    return one.fallback(explained(error) or error)


def _as_dead(one: Ended, error: Exception) -> Settlement | None:
    settlement = one.settlement
    if settlement.outcome != "done" and not is_of_row(error):
        return None
    return Settlement(settlement.lease, "dead", None, json_text(error_data(error)), settlement.waited_ms)


def _characters(ended: list[Ended]) -> int:
    return sum(len(one.settlement.data or "") + len(one.settlement.jobs or "") for one in ended)


def _length(unit: Unit) -> int:
    return sum(len(text) for text in unit.data if text is not None)
