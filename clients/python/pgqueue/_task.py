"""Tasks: handlers with their names, versions, timeouts and retries; and outcomes other than a result or an error."""
from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._codec import Json
from ._errors import PgQueueError, problems_error
from ._jobs import Job, JobOptions, RetryPolicy, job_of
from ._json import Seconds, checked_ms, milliseconds

if TYPE_CHECKING:
    from typing_extensions import Unpack

Handler = Callable[..., Any]


class Outcome(Exception):
    """An end of an attempt other than a result or an error. A handler returns it, or raises it from deeper down."""

    def __reduce__(self) -> Any:  # between processes
        return _outcome, (type(self), self.args, self.__dict__)


class Retry(Outcome):
    """Ends the attempt with another try, after that time, or by the job's policy. Counts a try."""

    def __init__(self, after: Seconds | None = None, error: object = "the handler asked for another try") -> None:
        super().__init__(str(error))
        self.after_ms = None if after is None else _delay(after)
        self.error = error


class GiveUp(Outcome):
    """Ends the job without another try: it is a dead letter."""

    def __init__(self, error: object = "the handler gave up, and gave no reason") -> None:
        super().__init__(str(error))
        self.error = error


class Snooze(Outcome):
    """Runs the job again after that time, without counting a try."""

    def __init__(self, after: Seconds) -> None:
        super().__init__(f"snoozed for {after}")
        self.after_ms = _delay(after)


class Cancelled(Outcome):
    """Ends the job as cancelled."""


class FanOut(Outcome):
    """Ends the job as done, and adds jobs to its step, in one transaction: exactly once. In no flow, it enqueues them.

    A job without a key gets that of the job that adds it. Jobs with a unique key are refused.
    """

    def __init__(self, jobs: Sequence[Job], result: Json = None) -> None:
        super().__init__(f"adds {len(jobs)} jobs")
        self.jobs = jobs
        self.result = result


def _outcome(kind: type[Outcome], args: tuple[Any, ...], state: dict[str, Any]) -> Outcome:
    made = kind.__new__(kind, *args)
    made.__dict__.update(state)
    return made


def _delay(value: Seconds) -> float:
    ms = milliseconds(value)
    if ms is None:
        raise PgQueueError("configuration", f"{value!r} must be seconds, or a timedelta, up to 3650 days")
    return ms


@dataclass(frozen=True)
class Task:
    """A handler with what a worker must know of it; made by :func:`task`. Calling it calls the handler."""

    name: str
    handler: Handler
    version: int
    min_version: int
    timeout_ms: float | None
    retry: RetryPolicy | None
    parse: Callable[[Json], Any] | None
    upcast: Callable[[Json, int], Json] | None
    process: bool
    takes_context: bool
    is_async: bool

    def __call__(self, *args: Any) -> Any:
        return self.handler(*args)

    def job(self, payload: Json, **options: Unpack[JobOptions]) -> Job:
        """A job of this task, in its version and with its retries, for ``enqueue_many`` and :class:`FanOut`.

        ``retry`` is merged with that of the task, field by field.
        """
        retry = options.get("retry")
        if retry is None:
            merged = self.retry
        else:
            merged = retry.over(self.retry) if self.retry and isinstance(retry, RetryPolicy) else retry
        return job_of(self.name, payload, {"version": self.version, **options, "retry": merged})

    def described(self) -> dict[str, Any]:
        """The task as the schedulers and the SQL functions know it."""
        isolated = {"isolated": True} if self.process else {}
        return {"min": self.min_version, "max": self.version, "timeoutMs": self.timeout_ms, **isolated}


def task(
    name: str,
    *,
    version: int = 1,
    min_version: int = 1,
    timeout: Seconds | None = None,
    retry: RetryPolicy | None = None,
    parse: Callable[[Json], Any] | None = None,
    upcast: Callable[[Json, int], Json] | None = None,
    process: bool = False,
) -> Callable[[Handler], Task]:
    """Makes a task of a function with the parameters ``payload``, or ``payload`` and ``ctx``; it may be async.

    ``timeout``: of one attempt, default 5 minutes. ``retry``: its delays are those of jobs without delays of their own; its
    limits go with jobs that are enqueued by the task, and not by its name alone. ``parse``: turns the payload into what the handler takes, such as ``Model.model_validate``; a ``ValueError``, ``TypeError`` or
    ``KeyError`` says that it does not fit, and the job is dead. ``version``, ``min_version``: payload versions that it
    takes; ``upcast(payload, version)`` makes older ones new. ``process``: runs the handler in processes of their own,
    whose death costs no other job; the handler must be a function of a module.

    Raises ``configuration``, with all that is wrong.
    """
    problems = []
    if not isinstance(name, str) or not 1 <= len(name) <= 200:
        problems.append("the name must be a text of 1 to 200 characters")
    whole = type(version) is int and type(min_version) is int
    if not whole or not 1 <= min_version <= version < 2**31:
        problems.append("version and min_version must be whole numbers, 1 <= min_version <= version")
    if timeout is not None and not milliseconds(timeout):
        problems.append("timeout must be seconds above 0, or a timedelta, up to 3650 days")
    problems += retry.problems() if retry is not None else []
    if problems:
        raise problems_error("configuration", f"task {name!r}", problems)

    def made(handler: Handler) -> Task:
        parameters = _parameters(name, handler)
        called = getattr(handler, "__call__", None)  # of an object that is called like a function
        is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called)
        if process and is_async:
            raise PgQueueError("configuration", f"task {name!r}: a handler in a process of its own can't be async")
        timeout_ms = None if timeout is None else max(1, math.ceil(checked_ms(timeout, "timeout")))
        return Task(
            name, handler, version, min_version, timeout_ms, retry, parse, upcast, process, parameters == 2, is_async
        )

    return made


def _parameters(name: str, handler: Handler) -> int:
    try:
        kinds = [one.kind for one in inspect.signature(handler).parameters.values()]
    except (TypeError, ValueError):
        kinds = []
    count = sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)
    if count not in (1, 2):
        raise PgQueueError("configuration", f"task {name!r}: its handler must take payload, or payload and ctx")
    return count
