"""How an attempt that has ended is settled, and what its handler is given."""
from __future__ import annotations

import inspect
import math
import random
from collections.abc import Mapping
from typing import Any

from ._codec import Codec, Field, Json, Place, decoded, encoded_error
from ._errors import Aborted, PgQueueError, error_data
from ._jobs import Job, RetryPolicy, rows_of, rows_text
from ._json import RESULT_MAX, is_number, json_text, result_text, shape_problem
from ._statements import Settlement
from ._task import Cancelled, FanOut, GiveUp, Outcome, Retry, Snooze, Task
from ._unit import Attempt, Ended


KEY_PAUSE_MS = 10_000
"""Pause of a job whose key this node does not have, plus up to half as much again."""


class Invalid(Exception):
    """The payload does not fit the task: another attempt would not change that."""


class TimedOut(Exception):
    """The handler was not done when its lease ended."""


def read_payload(task: Task, attempt: Attempt, codec: Codec | None) -> Any:
    """The payload as the handler takes it: decoded, in the newest version, and parsed. Raises ``Invalid``."""
    payload = decoded(codec, attempt.payload, place_of(attempt, "payload"))
    if attempt.checkpoint is not None:
        attempt.checkpoint = decoded(codec, attempt.checkpoint, place_of(attempt, "checkpoint"))
    problem = shape_problem(payload)
    if problem is not None:
        raise Invalid(f"it {problem}")
    if task.upcast is not None and attempt.payload_version != task.version:
        try:
            payload = task.upcast(payload, attempt.payload_version)
        except Exception as error:
            raise Invalid(f"it can't be brought to version {task.version}: {error}") from error
    if task.parse is None:
        return payload
    try:
        return task.parse(payload)
    except (ValueError, TypeError, KeyError) as error:
        raise Invalid(f"{type(error).__name__}: {error}") from error


def place_of(attempt: Attempt, field: Field) -> Place:
    return Place(attempt.id, field, attempt.unit.task.name)


def encoded_result(codec: Codec | None, value: Json, attempt: Attempt) -> tuple[str | None, str | None]:
    """A result as it is stored, and the problem if it can't be stored: then the text tells that.

    Raises ``configuration`` for a coroutine or a generator: nobody has run it, and the job is not done.
    """
    if inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value):
        kind = type(value).__name__
        raise PgQueueError(
            "configuration",
            f"the handler returned a {kind}, which has not run: in an async def await it; in place of yield return a list",
        )
    text, problem = result_text(value)
    if codec is None or text is None:
        return text, problem
    stored = codec.encode(text, place_of(attempt, "result"))
    if problem is None and len(stored) > RESULT_MAX:
        problem = f"the handler's result can't be stored: it has more than {RESULT_MAX} bytes once it is encoded"
        stored = codec.encode(json_text({"pgqueue_error": problem}), place_of(attempt, "result"))
    return stored, problem


def conclude(
    attempt: Attempt, value: Json, error: BaseException | None, codec: Codec | None, now: float
) -> Ended | None:
    """The end of an attempt whose handler returned ``value``, or raised ``error``. None: its job is given back.

    A cancelled job ends as cancelled unless it is done. A job that lacks a key waits for it, uncounted. The job of a
    handler that fails after a shutdown has aborted it is given back.
    """
    if error is None and isinstance(value, BaseException):
        error = value
    try:
        ended = _conclude(attempt, value, error, codec, now)
    except Exception as failure:  # jobs that can't be added, or a delay that can't be read
        ended = _conclude(attempt, None, failure, codec, now)
    if ended is not None and attempt.aborted == "cancelled" and ended.settlement.outcome != "done":
        return Ended(attempt, Settlement(attempt.lease, "cancelled", waited_ms=ended.settlement.waited_ms))
    return ended


def _conclude(
    attempt: Attempt, value: Json, error: BaseException | None, codec: Codec | None, now: float
) -> Ended | None:
    waited_ms = max(0.0, attempt.began - attempt.unit.received_at) * 1_000

    def ended(outcome: str, why: object = None, delay_ms: float | None = None, **more: Any) -> Ended:
        data = None
        if why is not None:
            told = {**error_data(why), **more, "ms": round((now - attempt.began) * 1_000)}
            if codec is not None and (codec.errors or more.get("kind") == "invalid"):  # that one quotes the payload
                told = encoded_error(codec, told, place_of(attempt, "error"))
            data = json_text(told)
        settlement = Settlement(attempt.lease, outcome, delay_ms, data, waited_ms)
        return Ended(attempt, settlement, why if isinstance(why, BaseException) or why is None else str(why))

    def done(result: Json, jobs: str | None = None) -> Ended:
        text, problem = encoded_result(codec, result, attempt)
        return Ended(attempt, Settlement(attempt.lease, "done", None, text, waited_ms, jobs), problem)

    def again(why: object, **more: Any) -> Ended:
        return ended("retry", why, retry_delay(attempt), **more)

    if error is None:
        return done(value)
    if isinstance(error, FanOut):
        made = done(error.result, added_jobs(attempt, error.jobs, codec))
        made.fallback = lambda refusal: again(refusal).settlement
        return made
    if isinstance(error, Retry):
        return again(error.error) if error.after_ms is None else ended("retry", error.error, error.after_ms)
    if isinstance(error, GiveUp):
        return ended("dead", error.error)
    if isinstance(error, Snooze):
        return ended("snooze", None, error.after_ms)
    if isinstance(error, Cancelled):
        return ended("cancelled")
    if isinstance(error, TimedOut):
        return again(f"it was not done within {attempt.timeout * 1_000:.0f} ms", kind="timeout", name="TimeoutError")
    if isinstance(error, Outcome) or attempt.aborted in ("shutdown", "node_silent"):
        return None
    if isinstance(error, PgQueueError) and error.code == "key_missing":
        # given back at once, the same node would claim it again, thousands of times a second
        return Ended(
            attempt,
            Settlement(attempt.lease, "snooze", KEY_PAUSE_MS * (1 + random.random() / 2), None, waited_ms),
            error,
        )
    if isinstance(error, PgQueueError) and error.code == "undecodable":
        return ended("dead", error)
    if isinstance(error, Invalid):
        return ended("dead", f"the payload does not fit: {error}", kind="invalid")
    return again(error)


def retry_delay(attempt: Attempt) -> float:
    """Milliseconds until the next attempt, by the job's own policy, or its task's; unusable parts of it by default."""
    policy: Mapping[str, Any] = (
        attempt.retry if isinstance(attempt.retry, dict) else (attempt.unit.task.retry or RetryPolicy()).stored()
    )
    default = RetryPolicy().stored()

    def amount(name: str) -> float:
        value = policy.get(name)
        return float(value if is_number(value) and value >= 0 else default[name])

    number, base = attempt.tries + 1, amount("baseMs")
    kind = policy.get("kind")
    if kind == "fixed":
        grown = base
    elif kind == "linear":
        grown = base * number
    else:
        grown = base * min(1e15, amount("factor") ** min(number - 1, 60)) if amount("factor") <= 1e3 else math.inf
    return max(0.0, min(amount("maxMs"), grown) * (1 - min(1.0, amount("jitter")) * random.random()))


def added_jobs(attempt: Attempt, jobs: Any, codec: Codec | None) -> str:
    """Jobs that a running job adds to its step, as the SQL functions take them. Raises ``invalid_job``."""
    rows = rows_of(jobs, codec)
    if any(row["unique_key"] for row in rows):
        raise PgQueueError("invalid_job", "jobs with a unique_key can't be added to the step of a job")
    for row, job in zip(rows, jobs):
        assert isinstance(job, Job)
        if job.key is None:
            row["key"] = attempt.key
        row["trace"] = row["trace"] or attempt.trace
    return rows_text(rows)


def aborted_error(attempt: Attempt) -> Exception:
    """The error of a call whose attempt is over."""
    if attempt.aborted is not None:
        return Aborted(attempt.aborted)
    if attempt.committed:
        return PgQueueError(
            "configuration",
            "a transaction of its handler has settled this job as done, and a job is settled once: put all writes into it",
        )
    return RuntimeError("this attempt is over: its job is settled")
