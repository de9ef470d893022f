"""Jobs to enqueue: their options, checked before any I/O."""
from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Literal, TypedDict

from ._codec import Codec, Json, Place
from ._errors import PgQueueError, problems_error
from ._json import Seconds, is_number, is_uuid, json_text, make_id, milliseconds, shape_problem


@dataclass(frozen=True)
class RetryPolicy:
    """Limits and delays of retries. Delays: ``base``, ``base × try`` or ``base × factor^(try − 1)``, up to ``max``.

    What is left out comes from the task, then from the default: 20 tries, 3 crashes, and an exponential backoff from 1 s, by
    a factor of 2 up to 1 h, less up to 0.2 of it. A job that says nothing of its delays has those of its worker's task.
    """

    max_tries: int | None = None
    max_crashes: int | None = None
    backoff: Literal["fixed", "linear", "exponential"] | None = None
    base: Seconds | None = None
    factor: float | None = None
    max: Seconds | None = None
    jitter: float | None = None

    def problems(self) -> list[str]:
        whole = self.over(DEFAULT_RETRY)
        found = [
            f"retry.{name} must be a whole number from 1 to 1000"
            for name, count in (("max_tries", whole.max_tries), ("max_crashes", whole.max_crashes))
            if type(count) is not int or not 1 <= count <= 1000
        ]
        if whole.backoff not in ("fixed", "linear", "exponential"):
            found.append("retry.backoff must be fixed, linear or exponential")
        if milliseconds(whole.base) is None or milliseconds(whole.max) is None:
            found.append("retry.base and retry.max must be seconds, or timedeltas")
        if not is_number(whole.factor) or not 1 <= whole.factor <= 1000:
            found.append("retry.factor must be 1 to 1000")
        if not is_number(whole.jitter) or not 0 <= whole.jitter <= 1:
            found.append("retry.jitter must be 0 to 1")
        return found

    def over(self, other: RetryPolicy) -> RetryPolicy:
        """This policy; what it leaves out is the other's."""
        return replace(other, **{name: value for name, value in asdict(self).items() if value is not None})

    def stored(self) -> dict[str, Any]:
        """The delays as the column ``retry`` has them."""
        whole = self.over(DEFAULT_RETRY)
        sizes = {"baseMs": milliseconds(whole.base), "maxMs": milliseconds(whole.max)}
        return {"kind": whole.backoff, **sizes, "factor": whole.factor, "jitter": whole.jitter}

    def stored_own(self) -> dict[str, Any] | None:
        """The delays to store with a job; None: it has none of its own."""
        parts = (self.backoff, self.base, self.factor, self.max, self.jitter)
        return None if all(part is None for part in parts) else self.stored()


DEFAULT_RETRY = RetryPolicy(20, 3, "exponential", 1, 2, 3600, 0.2)


@dataclass(frozen=True)
class Unique:
    """A unique key: at most one unfinished job of a task has it. ``on_conflict`` says what becomes of two."""

    key: str
    on_conflict: Literal["keep", "replace", "debounce", "supersede"] = "keep"
    max_wait: Seconds | None = None


class JobOptions(TypedDict, total=False):
    """Options of an enqueue; see :class:`Job`."""

    version: int
    id: str | None
    queue: str
    key: str | None
    priority: int
    attributes: Mapping[str, str | float | bool | None]
    run_after: datetime | None
    delay: Seconds | None
    expires_at: datetime | None
    timeout: Seconds | None
    retry: RetryPolicy | None
    unique_key: str | Unique | None
    trace: Mapping[str, str] | None


@dataclass(frozen=True)
class Job:
    """A job that is built but not enqueued. Times are by the database's clock; datetimes must have a time zone."""

    task: str
    payload: Json = field(default_factory=dict)
    version: int = 1
    id: str | None = None
    queue: str = "default"
    key: str | None = None
    priority: int = 0
    attributes: Mapping[str, str | float | bool | None] = field(default_factory=dict)
    run_after: datetime | None = None
    delay: Seconds | None = None
    expires_at: datetime | None = None
    timeout: Seconds | None = None
    retry: RetryPolicy | None = None
    unique_key: str | Unique | None = None
    trace: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Enqueued:
    """What became of one enqueue. ``id``: the job that stands for it, an older one if that was kept or changed."""

    id: str
    outcome: Literal["enqueued", "repeated", "kept", "replaced", "debounced", "superseded"]
    task: str


def job_of(task: str, payload: Json, options: Mapping[str, Any]) -> Job:
    """A job of a task and options. Raises ``invalid_job`` for an option that does not exist."""
    unknown = set(options) - {one.name for one in fields(Job)}
    if unknown:
        raise PgQueueError("invalid_job", f"enqueue has no options {', '.join(sorted(unknown))}: see pgqueue.Job")
    return Job(task, payload, **options)


def rows_of(jobs: Sequence[Job], codec: Codec | None) -> list[dict[str, Any]]:
    """The rows of jobs: all, or none. Raises ``invalid_job``, with the problems of each job by its index."""
    if (
        isinstance(jobs, (str, bytes))
        or not isinstance(jobs, Sequence)
        or not all(isinstance(job, Job) for job in jobs)
    ):
        raise PgQueueError("invalid_job", "enqueue_many takes a list of pgqueue.Job")
    if len(jobs) > 50_000:
        raise PgQueueError("invalid_job", f"{len(jobs)} jobs in one batch, more than 50000: split it")
    rows, told = [], []
    for index, job in enumerate(jobs):
        try:
            rows.append(_row_of(job, codec))
        except PgQueueError as error:
            if error.code != "invalid_job":
                raise
            told.append(str(error) if len(jobs) == 1 else f"jobs[{index}]: {error}")
            if len(told) == 10:
                break
    if told:
        raise PgQueueError("invalid_job", "\n".join(told))
    size = sum(len(row["payload"]) for row in rows)
    if size > 67_108_864:
        raise PgQueueError("invalid_job", f"{size} characters of payloads in one batch, more than 67108864: split it")
    return rows


def rows_text(rows: list[dict[str, Any]]) -> str:
    """Rows as SQL functions take them. The payloads go in as the texts that they are."""
    others = ({name: value for name, value in row.items() if name != "payload"} for row in rows)
    return (
        "["
        + ",".join(f'{json_text(other)[:-1]},"payload":{row["payload"]}}}' for other, row in zip(others, rows))
        + "]"
    )


def _row_of(job: Job, codec: Codec | None) -> dict[str, Any]:
    problems = _problems(job)
    unique = Unique(job.unique_key) if isinstance(job.unique_key, str) else job.unique_key
    id = (job.id or make_id()).lower() if job.id is None or is_uuid(job.id) else ""
    if codec is not None and isinstance(unique, Unique) and unique.on_conflict in ("replace", "debounce"):
        # the payload is encrypted for the id of the new job: under that of the waiting one nobody could read it
        problems.append("on_conflict replace and debounce don't go with a codec: use supersede")
    payload = _checked_text(job.payload, "payload", 262_144, problems)
    if payload is not None and codec is not None and not problems:
        payload = codec.encode(payload, Place(id, "payload", job.task))
        if len(payload.encode()) > 262_144:
            problems.append(
                "payload has more than 262144 bytes once it is encoded: store it elsewhere and enqueue a reference"
            )
    if problems:
        raise problems_error("invalid_job", f"job of task {job.task!r} can't be enqueued", problems)
    retry = job.retry or RetryPolicy()
    limits = retry.over(DEFAULT_RETRY)
    return {
        "id": id,
        "queue": job.queue,
        "task": job.task,
        "key": job.key or "",
        "priority": job.priority,
        "attributes": dict(job.attributes),
        "run_after": job.run_after and job.run_after.isoformat(),
        "delay_ms": _whole(job.delay),
        "expires_at": job.expires_at and job.expires_at.isoformat(),
        "timeout_ms": _whole(job.timeout),
        "max_tries": limits.max_tries,
        "max_crashes": limits.max_crashes,
        "retry": retry.stored_own(),
        "unique_key": unique and unique.key,
        "mode": unique and unique.on_conflict,
        "max_wait_ms": unique and _whole(unique.max_wait),
        "payload_version": job.version,
        "trace": job.trace and dict(job.trace),
        "payload": payload,
    }


def _whole(value: Seconds | None) -> int | None:
    ms = milliseconds(value)
    return None if ms is None else math.ceil(ms)


def _problems(job: Job) -> list[str]:
    problems: list[str] = []

    def text(name: str, value: object, least: int, most: int) -> None:
        if not isinstance(value, str) or not least <= len(value) <= most:
            problems.append(f"{name} must be a text of {least} to {most} characters")
        elif "\0" in value or _has_surrogates(value):
            problems.append(f"{name} must not contain NUL or lone surrogates")

    text("task", job.task, 1, 200)
    text("queue", job.queue, 1, 100)
    if job.key is not None:
        text("key", job.key, 0, 200)
    if isinstance(job.unique_key, (str, Unique)):
        problems += _unique_problems(
            Unique(job.unique_key) if isinstance(job.unique_key, str) else job.unique_key, text
        )
    elif job.unique_key is not None:
        problems.append("unique_key must be a text or a pgqueue.Unique")
    if job.id is not None and not is_uuid(job.id):
        problems.append(f"id must be a UUID as text, not {job.id!r}")
    for name, value, least in (("priority", job.priority, -2_147_483_647), ("version", job.version, 1)):
        if type(value) is not int or not least <= value <= 2_147_483_647:
            problems.append(f"{name} must be a whole number of 32 bits, at least {least}")
    for name, at in (("run_after", job.run_after), ("expires_at", job.expires_at)):
        if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
            problems.append(f"{name} must be a datetime with a time zone, such as datetime.now(timezone.utc)")
    if job.run_after is not None and job.delay is not None:
        problems.append("give run_after or delay, not both")
    if job.delay is not None and milliseconds(job.delay) is None:
        problems.append("delay must be seconds, or a timedelta, up to 3650 days")
    if job.timeout is not None and not milliseconds(job.timeout):
        problems.append("timeout must be seconds above 0, or a timedelta, up to 3650 days")
    if job.retry is not None:
        problems += (
            job.retry.problems() if isinstance(job.retry, RetryPolicy) else ["retry must be a pgqueue.RetryPolicy"]
        )
    problems += _attribute_problems(job.attributes)
    if job.trace is not None:
        problems += _trace_problems(job.trace)
    return problems


def _trace_problems(trace: object) -> list[str]:
    texts = dict(trace) if isinstance(trace, Mapping) else {}
    parent = re.fullmatch("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", str(texts.get("traceparent")))
    if not parent or not all(isinstance(one, str) for member in texts.items() for one in member):
        return ["trace must be a dict of texts with a W3C traceparent"]
    problems: list[str] = []
    _checked_text(texts, "trace", 4_096, problems)
    return problems


def _unique_problems(unique: Unique, text: Any) -> list[str]:
    text("unique_key", unique.key, 1, 500)
    problems = []
    if unique.on_conflict not in ("keep", "replace", "debounce", "supersede"):
        problems.append("unique_key.on_conflict must be keep, replace, debounce or supersede")
    if unique.max_wait is not None:
        if not milliseconds(unique.max_wait):
            problems.append("unique_key.max_wait must be seconds above 0, or a timedelta")
        if unique.on_conflict != "debounce":
            problems.append("unique_key.max_wait goes with on_conflict debounce only")
    return problems


def _attribute_problems(attributes: object) -> list[str]:
    if not isinstance(attributes, Mapping):
        return ["attributes must be a dict"]
    flat = all(
        isinstance(name, str) and (value is None or isinstance(value, (str, bool)) or is_number(value))
        for name, value in attributes.items()
    )
    if not flat:
        return ["attributes must be flat: texts, finite numbers, booleans and None only"]
    problems: list[str] = []
    _checked_text(dict(attributes), "attributes", 4_096, problems)
    return problems


def _checked_text(value: object, name: str, most: int, problems: list[str]) -> str | None:
    try:
        problem = shape_problem(value)
        text = json_text(value) if problem is None else ""
        if problem is None and len(text.encode()) > most:
            problem = (
                f"has {len(text.encode())} bytes of JSON, more than {most}; store it elsewhere and enqueue a reference"
            )
    except UnicodeEncodeError:
        problem = "must not contain lone surrogates"
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"can't be written as JSON: {error}"
    if problem is None:
        return text
    problems.append(f"{name} {problem}")
    return None


def _has_surrogates(text: str) -> bool:
    return re.search("[\ud800-\udfff]", text) is not None
