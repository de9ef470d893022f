"""Producers: enqueue jobs, in a transaction of yours or alone, and await their results."""
from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import time
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import psycopg
from psycopg import IsolationLevel

from ._codec import Codec, Json, Place, decoded, kept_result, opened_error
from ._errors import PgQueueError, explained, is_transient, is_wrong_server, refuses_login
from ._jobs import Enqueued, Job, JobOptions, job_of, rows_of, rows_text
from ._json import Seconds, is_uuid, json_value, milliseconds, plain_array
from ._link import (
    STATEMENT,
    Link,
    check_version,
    checked_schema,
    foreign_query,
    foreign_query_async,
    in_transaction,
    missing_schema,
    own_conninfo,
    version_question,
)
from ._statements import MAY_HINT
from ._task import Task

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

Answer = TypeVar("Answer")
_REPEATED_FOR = 15.0
_EMPTY: Json = {}
_COLUMNS = """id uuid, queue text, task text, key text, priority integer, attributes jsonb, run_after timestamptz, delay_ms float8,
  expires_at timestamptz, timeout_ms float8, max_tries smallint, max_crashes smallint, retry jsonb, payload jsonb,
  payload_version integer, trace jsonb"""
_HINT = f"case when {MAY_HINT} then pg_notify(%s, '')::text = '' else false end"


class _Query(NamedTuple):
    """A statement that a producer runs: on the connection of a caller, or on its own. Its answer is one value."""

    statement: str
    parameters: Sequence[object]
    connection: Any = None
    limit: float = STATEMENT
    """Longest time for an answer, in seconds, on a connection of its own."""


Steps = Generator[_Query | float, Any, Answer]
"""Work of a producer: it yields statements, and seconds to wait. The producer runs them, with threads or without."""


def pause(failures: int, longest: float = 5.0) -> float:
    """Seconds to wait after that many failures in a row."""
    return min(longest, 0.1 * 2.0 ** min(failures - 1, 20)) * (0.5 + random.random() / 2)


class _Producing:
    """All that both producers do, without I/O."""

    def __init__(self, conninfo: str | None = None, *, schema: str = "pgqueue", codec: Codec | None = None) -> None:
        """``conninfo``: for calls without ``conn``, and for results. Raises ``configuration``."""
        self._schema = checked_schema(schema)
        self._codec = codec
        self._conninfo = conninfo
        self._checked = False
        self._closed = False
        if conninfo is not None:
            own_conninfo(conninfo, "")

    def _enqueue_steps(self, jobs: Sequence[Job], connection: Any) -> Steps[list[Enqueued]]:
        self._check_open(connection)
        rows = rows_of(jobs, self._codec)
        if not rows:
            return []
        again = any(job.id is not None for job in jobs)
        own = connection is None
        last = time.monotonic() + _REPEATED_FOR
        for failures in itertools.count(1):
            try:
                yield from self._verify(connection)
                answer = yield _Query(*self._statement(rows, again, own), connection)
                break
            except Exception as error:
                refused = explained(error)
                if refused is not None:
                    raise refused from error
                wait = pause(failures, 1.0)
                if not own or time.monotonic() + wait > last or not is_transient(error) or refuses_login(error):
                    raise
                again = True  # the jobs may be there
                yield wait
        chosen, hinted = answer if own else (answer, True)
        if not hinted:
            yield from self._hint_steps()
        if chosen is None:
            return [Enqueued(row["id"], "enqueued", row["task"]) for row in rows]
        return [Enqueued(id, outcome, rows[n]["task"]) for n, id, outcome in sorted(json.loads(chosen))]

    def _hint_steps(self) -> Steps[None]:
        """Wakes the schedulers. A lost hint costs them one interval of their polling."""
        self._check_open(None)
        notify = "case when pg_notification_queue_usage() < 0.9 then pg_notify(%s, '')::text end"
        statement = f"select set_config('synchronous_commit', 'off', true), {notify}"
        try:
            yield _Query(statement, [f"{self._schema}:queue"])
        except Exception as error:
            if not is_transient(error):
                raise

    def _statement(self, rows: list[dict[str, Any]], again: bool, hints: bool) -> tuple[str, list[object]]:
        """One statement for all rows, and with a hint if it is to commit by itself."""
        more: list[object] = [f"{self._schema}:queue"] * 2 if hints else []
        if again or any(row["unique_key"] for row in rows):
            text = rows_text([{**row, "n": n, "again": again} for n, row in enumerate(rows)])
            call = f"""select json_agg(json_build_array(u.ordinal, u.job_id, u.outcome))::text
              from {self._schema}.enqueue_unique(%s::jsonb) u"""
            return (f"select ({call}), {_HINT}" if hints else call), [text, *more]
        insert = f"""insert into {self._schema}.queue (id, queue, task, key, priority, attributes, run_after, expires_at, timeout,
            max_tries, max_crashes, retry, payload, payload_version, trace)
          select x.id, x.queue, x.task, x.key, x.priority, x.attributes,
            case when x.delay_ms > 0 then clock_timestamp() + x.delay_ms * interval '1 millisecond'
                 when x.run_after > clock_timestamp() then x.run_after end,
            x.expires_at, x.timeout_ms * interval '1 millisecond', x.max_tries, x.max_crashes, x.retry,
            coalesce(x.payload, 'null'), x.payload_version, x.trace
          from json_to_recordset(%s::json) as x ({_COLUMNS})"""
        if hints:
            insert = f"with made as ({insert} returning seq) select null, {_HINT} from (select count(*) from made) m"
        return insert, [rows_text(rows), *more]

    def _result_steps(self, job: Enqueued | str, timeout: Seconds) -> Steps[Json]:
        self._check_open(None)
        id = job.id if isinstance(job, Enqueued) else job
        timeout_ms = milliseconds(timeout)
        if timeout_ms is None or not is_uuid(id):
            raise PgQueueError(
                "configuration", "result takes the id of a job, or what an enqueue returned; and seconds"
            )
        deadline = time.monotonic() + timeout_ms / 1_000
        wait, failures, status = 0.025, 0, None
        look = f"select to_json(r)::text from {self._schema}.job_result(%s::uuid[], %s) r"
        while True:
            last = time.monotonic() >= deadline
            try:
                limit = min(STATEMENT, max(1.0, deadline - time.monotonic()))
                yield from self._verify(None, limit)
                answer = yield _Query(look, [plain_array([id]), last], None, limit)
                failures = 0
            except Exception as error:
                if not is_transient(error) or last:
                    raise
                failures += 1
                answer = None
            if answer is not None:
                found = answer[0]
                if found is None:
                    raise _gone(id, status)
                end = json_value(found)
                status = end["status"]
                if status not in ("delayed", "pending", "ready", "running"):
                    return self._read_end(id, end)
            if last:
                why = "the database has not answered" if status is None else f"it is {status}"
                message = (
                    f"job {id} has not ended within {timeout_ms:g} ms ({why}): it goes on, and can be awaited again"
                )
                raise PgQueueError("result_timeout", message, {"id": id, "status": status})
            yield max(0.0, min(wait if failures == 0 else pause(failures), deadline - time.monotonic()))
            wait = min(1.0, wait * 1.5)

    def _read_end(self, id: str, end: dict[str, Json]) -> Json:
        status, result, error, task = end["status"], end["result"], end["error"], end.get("task") or ""
        if status == "dead":
            error = opened_error(self._codec, error or {}, Place(id, "error", task))
            message = f"job {id} is dead ({error.get('reason')}): {error.get('message')}"
            raise PgQueueError("job_dead", message, {"id": id, "error": error})
        if status in ("cancelled", "expired"):
            raise PgQueueError(
                f"job_{status}", f"job {id} {'was cancelled' if status == 'cancelled' else 'has expired'}", {"id": id}
            )
        if result is not None:
            result = decoded(self._codec, result, Place(id, "result", task))
        return kept_result(id, result)

    def _verify(self, connection: Any, limit: float = STATEMENT) -> Steps[None]:
        """Checks the schema's version before the first statement."""
        if self._checked:
            return
        try:
            answer = yield _Query(version_question(self._schema), [], connection, limit)
        except Exception as error:
            raise missing_schema(self._schema, error) or error from error
        check_version(self._schema, json.loads(answer[0] if connection is None else answer))
        self._checked = True

    def _check_open(self, connection: Any) -> None:
        if self._closed:
            raise PgQueueError("closed", "this producer was closed: make another one")
        if connection is None and self._conninfo is None:
            raise PgQueueError(
                "configuration", "this producer has no database of its own: give conninfo, or conn with the call"
            )


def _job(task: str | Task, payload: Json, options: Any) -> Job:
    return task.job(payload, **options) if isinstance(task, Task) else job_of(task, payload, options)


def _gone(id: str, status: str | None) -> PgQueueError:
    if status is not None:
        why = f"job {id} has ended, and nothing tells how: its queue keeps no history, or it was erased"
    else:
        why = (
            f"there is no job {id}: its enqueue has not committed, it was erased, its history is gone, "
            "or it belongs to a step of a flow that has not opened"
        )
    return PgQueueError("not_found", why, {"id": id})


class Producer(_Producing):
    """Enqueues jobs. Threads may share one; after a fork each process has its own connection.

    With ``conn`` a call writes in the transaction of that connection (psycopg 3, psycopg2, SQLAlchemy, Django): the
    jobs are there when it commits, and not at all if it rolls back. Without, it commits by itself.
    """

    _link: Link | None = None

    def enqueue(
        self, task: str | Task, payload: Json = _EMPTY, *, conn: Any = None, **options: Unpack[JobOptions]
    ) -> Enqueued:
        """Enqueues one job of a task, or of its name; the options are those of :class:`Job`. Raises ``invalid_job``."""
        return self._drive(self._enqueue_steps([_job(task, payload, options)], conn))[0]

    def enqueue_many(self, jobs: Sequence[Job], *, conn: Any = None) -> list[Enqueued]:
        """Enqueues up to 50,000 jobs with one statement, all or none, in their order. Raises ``invalid_job``."""
        return self._drive(self._enqueue_steps(jobs, conn))

    def result(self, job: Enqueued | str, *, timeout: Seconds = 30) -> Json:
        """Waits for the end of a job, and returns what its handler returned.

        Raises ``result_timeout``, ``job_dead``, ``job_cancelled``, ``job_expired``, ``result_lost`` or ``not_found``.
        """
        return self._drive(self._result_steps(job, timeout))

    def hint(self) -> None:
        """Wakes the schedulers: call it after the commit of jobs that were enqueued with ``conn``, if they are urgent."""
        self._drive(self._hint_steps())

    def close(self) -> None:
        self._closed = True
        if self._link is not None:
            self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _drive(self, steps: Steps[Answer]) -> Answer:
        try:
            asked = next(steps)
            while True:
                try:
                    if isinstance(asked, float):
                        time.sleep(asked)
                        answer = None
                    else:
                        answer = self._answer(asked)
                except Exception as error:
                    asked = steps.throw(error)
                else:
                    asked = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _answer(self, query: _Query) -> Any:
        if query.connection is not None:
            return foreign_query(query.connection, query.statement, query.parameters)
        if self._link is None:
            self._link = Link(self._conninfo or "", "pgqueue producer")
        rows = self._link.query_within(query.limit, query.statement, query.parameters)
        return rows[0] if rows else (None,)


class AsyncProducer(_Producing):
    """The same for asyncio. ``conn``: an ``AsyncConnection`` of psycopg 3. Tasks of one event loop may share one."""

    _connection: psycopg.AsyncConnection[Any] | None = None
    _turn: asyncio.Lock | None = None
    _process = os.getpid()

    async def enqueue(
        self, task: str | Task, payload: Json = _EMPTY, *, conn: Any = None, **options: Unpack[JobOptions]
    ) -> Enqueued:
        """See :meth:`Producer.enqueue`."""
        return (await self._drive(self._enqueue_steps([_job(task, payload, options)], conn)))[0]

    async def enqueue_many(self, jobs: Sequence[Job], *, conn: Any = None) -> list[Enqueued]:
        """See :meth:`Producer.enqueue_many`."""
        return await self._drive(self._enqueue_steps(jobs, conn))

    async def result(self, job: Enqueued | str, *, timeout: Seconds = 30) -> Json:
        """See :meth:`Producer.result`."""
        return await self._drive(self._result_steps(job, timeout))

    async def hint(self) -> None:
        """See :meth:`Producer.hint`."""
        await self._drive(self._hint_steps())

    async def close(self) -> None:
        self._closed = True
        self._check_process()
        if self._connection is not None:
            await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_process(self) -> None:
        """In a fork, leaves the connection to the parent process: see Link."""
        if self._process != os.getpid():
            self._process, self._connection, self._turn = os.getpid(), None, None

    async def _drive(self, steps: Steps[Answer]) -> Answer:
        try:
            asked = next(steps)
            while True:
                try:
                    answer = await (asyncio.sleep(asked) if isinstance(asked, float) else self._answer(asked))
                except Exception as error:
                    asked = steps.throw(error)
                else:
                    asked = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _answer(self, query: _Query) -> Any:
        if query.connection is not None:
            return await foreign_query_async(query.connection, query.statement, query.parameters)
        self._check_process()
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            try:
                return await asyncio.wait_for(self._own_answer(query), query.limit)
            except asyncio.TimeoutError:
                raise psycopg.OperationalError(f"no answer within {query.limit:g} s") from None

    async def _own_answer(self, query: _Query) -> Any:
        if self._connection is None or self._connection.closed:
            conninfo = own_conninfo(self._conninfo or "", "pgqueue producer")
            self._connection = await psycopg.AsyncConnection.connect(
                conninfo, autocommit=True, prepare_threshold=None  # see Link
            )
            await self._connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
        connection = self._connection
        try:
            async with connection.transaction():
                cursor = await connection.execute(query.statement, query.parameters)
                return await cursor.fetchone() or (None,)
        except BaseException as error:  # also a cancellation in the middle of a statement
            if in_transaction(connection) or is_wrong_server(error):
                await connection.close()
            raise
