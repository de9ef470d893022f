"""Claims: keeps the slots full, with one claim at a time."""
from __future__ import annotations

import math
import threading
import time
import uuid
from collections import Counter
from typing import Any

from ._errors import NODE_ENDED, is_of_row, is_transient, said, sql_state
from ._json import json_text
from ._node import Node, log
from ._statements import ClaimedRow, Lease, Settlement
from ._unit import Unit
from .producer import pause

PARKED = 1.0
"""Seconds of a wait while no claim is due; a freed slot ends it early."""
GATHER = 0.005
"""While few slots are free, those that free within this time are filled by one claim."""
ASK = 0.1
"""After that many seconds without a claim, the scheduler is told of settled batches all the same."""
SECOND_LOOK = 30.0
"""Seconds until the leases of an unanswered claim are released once more: a broken connection may still deliver it."""


class Pace:
    """How long to wait after a claim that found less than it asked for."""

    def __init__(self) -> None:
        self._wait = 0.05
        self._found_at = self._suspect_at = -math.inf

    def next(self, *, found: bool, filled: bool, suspect: bool, hearing: bool, now: float) -> float:
        if suspect:
            self._suspect_at = now
        if found:
            self._found_at, self._wait = now, 0.05 if hearing else 0.01
        if filled:
            return 0.0
        if hearing:  # polling only covers lost hints; time alone decides when more suspects may begin
            longest = 0.5 if now - self._suspect_at < 60 else 30.0
        else:
            longest = 0.1 if now - self._found_at < 2 else 0.5
        wait = min(self._wait, longest)
        self._wait = min(longest, self._wait * (2 if hearing else 1.5))
        return wait

    def hurry(self) -> None:
        self._wait = 0.05


class LowWater:
    """The position from which claims start, so that they do not re-read deleted rows; and when all are read again."""

    def __init__(self) -> None:
        self._mark = 0
        self._rescan_at = -math.inf
        self._rescans = False

    def range(self, now: float) -> tuple[int, bool]:
        """The position to start from, and whether this is a full rescan, which also reaps expired leases."""
        self._rescans = now >= self._rescan_at
        if not self._rescans:
            return self._mark, False
        self._rescan_at = now + 1
        return 0, True

    def drop(self) -> None:
        self._rescan_at = -math.inf

    def saw(self, last: int, filled: bool, took: float) -> None:
        if self._rescans:  # at most 5 % of the time
            self._rescan_at += max(0.0, min(30.0, took / 0.05) - 1)
        self._rescans = False
        self._mark = last + 1 if filled else max(self._mark, last + 1)


class Claimer:
    """A thread that claims, and hands the jobs to the runner."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._link = node.link("claims")
        self._pace, self._low_water = Pace(), LowWater()
        self._condition = threading.Condition()
        self._awake = False
        self._stopped = False
        self._more = True
        self._short = True
        self._settled = False
        self._gathering = False
        self._claimed_at = -math.inf
        self._unanswered: list[tuple[str, float, bool]] = []
        self.tokens: Counter[str] = Counter()
        """Tokens of claims that are under way, or unanswered."""
        self._thread = threading.Thread(target=self._run, name="pgqueue-claims", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Claims no more; the jobs of the claim under way are still handed over."""
        with self._condition:
            self._stopped = True
            self._condition.notify()
        if self._thread.is_alive():
            self._thread.join(3)

    def hint(self, released: bool) -> None:
        """Call when work may have become ready. ``released``: also below the position from which claims start."""
        self._more = True
        if released:
            self._low_water.drop()
        self._pace.hurry()
        self._wake()

    def slot_freed(self, empty: bool) -> None:
        """Call when a slot is free. ``empty``: the node holds nothing any more."""
        free, ahead = self._node.runner.wanted()
        if empty or (self._more and self._is_due(free, ahead) and not (self._gathering and self._is_few(free, ahead))):
            self._wake()

    def settled(self) -> None:
        """Call when batches were settled. The scheduler is asked for more only after a claim that brought too little."""
        self._settled = True
        self._wake()

    def _wake(self) -> None:
        with self._condition:
            self._awake = True
            self._condition.notify()

    def _is_few(self, free: int, ahead: int) -> bool:
        return free + ahead <= (self._node.settings.concurrency - 1) * 0.25

    def _is_due(self, free: int, ahead: int) -> bool:
        return free > 0 or (ahead > 0 and ahead * 2 >= self._node.settings.concurrency)

    def _run(self) -> None:
        failures = 0
        while True:
            try:
                wait = self._step()
                failures = 0
            except Exception as error:
                self._more = self._short = True
                self._low_water.drop()
                failures += 1
                wait = pause(failures)
                if not self._stopped:
                    log.warning("a claim of node %s failed, and is repeated: %s", self._node.settings.node, said(error))
            with self._condition:
                if not self._awake and not self._stopped:
                    self._condition.wait(wait)
                self._awake = False
                if self._stopped:
                    return

    def _step(self) -> float:
        self._gathering = False
        node = self._node
        incarnation = node.presence.incarnation
        free, ahead = node.runner.wanted()
        now = time.monotonic()
        if incarnation is not None:
            self._tell_runs(incarnation, now)
        if incarnation is None or not self._is_due(free, ahead):
            if not self._settled:
                return PARKED
            if not self._short and now < self._claimed_at + ASK:
                return self._claimed_at + ASK - now
            self._ask()
            return PARKED
        if self._short:
            self._ask()
        gathered = self._claimed_at + GATHER - now
        self._gathering = gathered > 0 and self._is_few(free, ahead)
        if self._gathering:
            return gathered
        self._claimed_at = now
        start, whole = self._low_water.range(now)
        rows, full, token = self._claim(incarnation, {"max": free, "ahead": ahead, "from": start, "reap": whole})
        asked = free + ahead
        got = max(asked, len(rows)) if full else len(rows)
        if free > 0:  # beyond the free slots it took only batches, and may have left single jobs in front of them
            last = rows[:free][-1].position if rows else -1
            self._low_water.saw(last, got >= free, time.monotonic() - now)
            self._more = got >= free
        self._short = got < asked
        if self._short:
            self._ask()
        units = [Unit(node.settler, node.settings.tasks[row.jobs[0][2]], token, row, now) for row in rows]
        node.runner.take(units, 0 if full or got < free else ahead)
        del self.tokens[token]
        suspect = any(len(row.jobs[0]) > 6 and (row.jobs[0][10] or 0) > 0 for row in rows)
        return self._pace.next(
            found=got > 0, filled=got >= asked, suspect=suspect, hearing=node.presence.hearing, now=time.monotonic()
        )

    def _ask(self) -> None:
        """Tells the scheduler that slots are free."""
        if not self._settled:
            return
        self._settled = False
        try:
            self._node.statements.notify(self._link, "done")
        except Exception as error:
            if not is_transient(error):
                raise

    def _tell_runs(self, incarnation: str, now: float) -> None:
        runs = self._node.runner.run_times.news(now)
        if runs is None:
            return
        try:
            self._node.statements.tell_runs(self._link, self._node.settings.node, incarnation, runs)
        except Exception:
            self._node.runner.run_times.forget()
            raise

    def _claim(self, incarnation: str, take: dict[str, Any]) -> tuple[list[ClaimedRow], bool, str]:
        """Claims once, under a new token. A claim without a reply may have leased jobs that no node knows of."""
        self._release_unanswered(incarnation)
        node, statements = self._node.settings.node, self._node.statements
        token, began = str(uuid.uuid4()), time.monotonic()
        self.tokens[token] += 1
        try:
            try:
                rows, full = statements.claim(self._link, node, incarnation, token, take)
            except Exception as error:
                if not is_of_row(error):
                    raise
                full = False
                rows = self._read_apart(token, statements.claim_unread(self._link, node, incarnation, token, take))
        except Exception as error:
            if is_transient(error):
                self._unanswered.append((token, began, False))
                raise
            del self.tokens[token]
            if sql_state(error) != NODE_ENDED:
                raise
            self._node.presence.ended(incarnation)
            return [], False, token
        if self._node.presence.incarnation != incarnation:
            return [], False, token  # these leases were lost with it
        return rows, full, token

    def _release_unanswered(self, incarnation: str) -> None:
        now = time.monotonic()
        for look in list(self._unanswered):
            token, look_at, last = look
            if look_at > now:
                continue
            self._node.statements.release_claim(self._link, self._node.settings.node, incarnation, token)
            self._unanswered.remove(look)
            if last:
                del self.tokens[token]
            else:
                self._unanswered.append((token, now + SECOND_LOOK, True))

    def _read_apart(self, token: str, ids: list[str]) -> list[ClaimedRow]:
        """Reads leased jobs by halves, until one that can't be read is alone; that one becomes a dead letter."""
        if not ids:
            return []
        try:
            return self._node.statements.leased(self._link, token, ids)
        except Exception as error:
            if not is_of_row(error):
                raise
            if len(ids) > 1:
                half = (len(ids) + 1) // 2
                return self._read_apart(token, ids[:half]) + self._read_apart(token, ids[half:])
            log.error("job %s can't be read, and is dead: %s", ids[0], said(error))
            data = json_text({"kind": "error", "message": f"it can't be read: {said(error)}"[:2_000]})
            self._node.statements.settle(self._link, [Settlement(Lease(ids[0], token), "dead", None, data)])
            return []
