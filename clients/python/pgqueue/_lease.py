"""Calls about the lease of a running job: they repeat while it is held, and tell its handler when it was lost."""
from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ._codec import Json, Place, decoded
from ._ending import aborted_error, added_jobs, encoded_result, place_of
from ._errors import Aborted, PgQueueError, explained, is_transient, said
from ._json import checked_ms, json_text, json_value
from ._link import Link
from ._node import Node, log
from ._statements import Settlement
from ._unit import Attempt
from .producer import pause

Answer = TypeVar("Answer")
PROGRESS = 0.25
"""Shortest time between two writes of progress, in seconds: people read them."""
PROGRESS_MAX = 8_192
"""Longest progress, in bytes of JSON."""
PAGE_MAX = 1_000
FIRST_PAGE = 100
PAGE_CHARACTERS = 4 * 1_048_576


class LeaseCalls:
    """What a context does, without threads or an event loop of its own."""

    def __init__(self, node: Node, link: Link, attempt: Attempt) -> None:
        self.node, self.attempt = node, attempt
        self._link, self._statements, self._codec = link, node.statements, node.settings.codec
        self._progress_at = float("-inf")

    def extend(self, by: Any) -> None:
        ms = checked_ms(by, "extend")
        sent_at = time.monotonic()

        def send() -> bool | None:
            nonlocal sent_at
            sent_at = time.monotonic()
            return self._statements.extend(self._link, self.attempt.lease, ms)

        cancelled = self._held(send)
        if cancelled is None:
            self._lost()
        self.attempt.extended(sent_at, ms / 1_000)
        if cancelled:
            self.attempt.abort("cancelled")

    def progress(self, value: Json) -> None:
        text = progress_text(self.attempt.unit.task.name, value)
        now = time.monotonic()
        if now - self._progress_at < PROGRESS and not self.attempt.aborted:
            return
        self._progress_at = now
        if self._codec is not None and self._codec.progress:
            text = self._codec.encode(text, place_of(self.attempt, "progress"))
        if not self._held(lambda: self._statements.progress(self._link, self.attempt.lease, text)):
            self._lost()

    def checkpoint(self, value: Json) -> None:
        steps = _steps_of(self.attempt.checkpoint)
        text = json_text(value if steps is None else {"pgqueue": steps, "data": value})
        if self._codec is not None and value is not None:
            text = self._codec.encode(text, place_of(self.attempt, "checkpoint"))
        if len(text.encode()) > 262_144:
            raise PgQueueError("invalid_job", "a checkpoint has at most 262144 bytes of JSON: keep a reference to more")
        if not self._held(lambda: self._statements.checkpoint(self._link, self.attempt.lease, text)):
            self._lost()

    def saved(self) -> Json:
        """The checkpoint of an earlier attempt; None: none."""
        stored: Json = self.attempt.checkpoint
        return stored if _steps_of(stored) is None else stored["data"]

    def add_jobs(self, jobs: Any) -> None:
        rows = added_jobs(self.attempt, jobs, self._codec)
        tried = False

        def send() -> bool:
            nonlocal tried
            again, tried = tried, True
            return self._statements.add_jobs(self._link, self.attempt.lease, rows, again)

        try:
            if not self._held(send):
                self._lost()
        except Exception as error:
            raise explained(error) or error from error
        try:
            self._statements.notify(self._link, "queue")
        except Exception as error:
            log.debug("a hint was not sent: %s", said(error))

    def needs(self) -> list[list[Any]]:
        return self._held(lambda: self._statements.needs(self._link, self.attempt.lease))

    def need_page(self, step: tuple[str, int], after: str | None, most: int) -> tuple[list[dict[str, Json]], int]:
        """A page of the ends of a step's jobs, and how many the next one should have."""
        name, number = step
        text, held = self._held(lambda: self._statements.need_page(self._link, self.attempt.lease, number, after, most))
        if not held:
            self._lost()
        ends: list[dict[str, Json]] = json_value(text)
        for end in ends:
            task, result = end.get("task"), end["result"]
            if result is not None or (task is None and end["outcome"] == "done"):
                place = Place(end["job"], "result", task) if task is not None else Place(end["job"], "signal", name)
                end["result"] = decoded(self._codec, result, place)
        return ends, min(PAGE_MAX, max(1, PAGE_CHARACTERS * len(ends) // max(1, len(text))))

    def check_running(self) -> None:
        if self.attempt.phase != "running":
            raise aborted_error(self.attempt)

    def seal(self, result: Json) -> tuple[str, list[object]]:
        """The statement that settles the job in a transaction of its handler."""
        text, _ = encoded_result(self._codec, result, self.attempt)
        if not self.attempt.begin_commit() and self.attempt.phase != "committing":
            raise aborted_error(self.attempt)
        idle_ms = min(60_000.0, max(1_000.0, (self.attempt.ends_at - time.monotonic()) * 1_000))
        return self._statements.settle_within([Settlement(self.attempt.lease, "done", None, text)], idle_ms)

    def sealed(self, answer: str | None) -> None:
        """Reads the answer of that statement. Raises if the lease was lost."""
        if self.attempt.id not in json.loads(answer or "{}"):
            self._lost()

    def rolled_back(self) -> None:
        self.attempt.abandon_commit()

    def committed(self) -> None:
        if self.attempt.finish():
            self.attempt.committed = True
            try:
                self._statements.notify(self._link, "done", self.attempt.id)
            except Exception as error:
                log.debug("a hint was not sent: %s", said(error))

    def conclude(self, error: BaseException | None) -> None:
        """Finds out if a COMMIT without a sure reply took effect; raises if it did not.

        A lease that can still be extended says that it did not. If the lease is gone, the job was settled under its token,
        or lost. Without an ``error`` a library has reported the commit, and that is believed.
        """
        for failures in range(1, 1_000_000):
            try:
                fate = self._fate(believed=error is None)
                break
            except Exception as failure:
                if not is_transient(failure) or time.monotonic() > self.attempt.ends_at:
                    fate = "committed" if error is None else "lost"
                    break
                log.warning("job %s: asking for the fate of its transaction failed: %s", self.attempt.id, said(failure))
                time.sleep(pause(failures, 1.0))
        if fate == "committed":
            self.committed()
        elif fate == "lost":
            self._lost()
        else:
            self.rolled_back()
            raise error or RuntimeError("the transaction that settled the job did not commit")

    def _fate(self, believed: bool) -> str:
        left_ms = max(1.0, (self.attempt.ends_at - time.monotonic()) * 1_000)
        if self._statements.extend(self._link, self.attempt.lease, left_ms) is not None:
            return "rolled_back"
        if believed:
            return "committed"
        done = Settlement(self.attempt.lease, "done")
        return "committed" if self._statements.settle(self._link, [done], repeat=True) else "lost"

    def _held(self, send: Callable[[], Answer]) -> Answer:
        """Repeats a statement after transient errors, while the lease is held and has a row of its own."""
        failures = 0
        while True:
            if self.attempt.phase == "over":
                raise aborted_error(self.attempt)
            self.attempt.unit.own_rows()
            try:
                return send()
            except Exception as error:
                if not is_transient(error):
                    raise
                failures += 1
                time.sleep(pause(failures, 1.0))

    def _lost(self) -> None:
        log.warning("the lease of job %s was lost: its handler is aborted", self.attempt.id)
        self.attempt.abort("lease_lost")
        raise Aborted("lease_lost")


def step_named(steps: list[list[Any]], name: str) -> list[Any]:
    """The step that a handler means: of that name, or of a nested flow by its last part. Raises ``not_found``."""
    found = sorted(
        (step for step in steps if step[0] == name or step[0].endswith(f".{name}")), key=lambda step: len(step[0])
    )
    if found:
        return found[0]
    names = ", ".join(repr(step[0]) for step in steps)
    why = (
        f'the step of this job needs no step "{name}", but {names}'
        if steps
        else "this job is in no flow, its step needs no other, or its flow ended more than seven days ago"
    )
    raise PgQueueError("not_found", f"ctx.needs[{name!r}]: {why}", {"need": name})


def progress_text(task: str, value: Json) -> str:
    """Checked before it may be left out: the same value is refused whenever it comes."""
    if _too_deep(value):
        why = "it is nested deeper than 500 levels"
    else:
        text = json_text(value)
        size = len(text.encode())
        if size <= PROGRESS_MAX:
            return text
        why = f"it has {size} bytes of JSON, more than {PROGRESS_MAX}"
    raise PgQueueError(
        "invalid_job", f'task "{task}" can\'t show this progress: {why}; show a summary of it instead', {"task": task}
    )


def _too_deep(value: object) -> bool:
    level: list[Any] = [value]
    for _ in range(501):
        level = [one for one in level if isinstance(one, (dict, list, tuple))]
        if not level:
            return False
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return True


def _steps_of(stored: Json) -> Json:
    """The steps that a handler in TypeScript has kept beside its checkpoint; None: there are none."""
    if isinstance(stored, dict) and set(stored) == {"pgqueue", "data"} and isinstance(stored["pgqueue"], dict):
        return stored["pgqueue"] if stored["pgqueue"].get("v") == 1 else None
    return None
