"""Contexts: what a handler gets beside the payload."""
from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import psycopg

from ._errors import Aborted, PgQueueError
from ._jobs import Job, Json
from ._json import Seconds
from ._lease import FIRST_PAGE, LeaseCalls, step_named
from ._link import foreign_query, foreign_query_async, in_transaction, own_conninfo
from ._node import log

if TYPE_CHECKING:
    from types import TracebackType

Answer = TypeVar("Answer")
_IDLE_MAX = 10
_ENDED_ITSELF = "ctx.transaction ends its transaction itself: its block has ended it, and the job is not settled with what was written"
_NOT_SETTLED = "ctx.settle_in: settle was not called: the job is not settled, whatever was written"


class NeedResult(NamedTuple):
    """The end of a job of a needed step. ``result``: of a job that is done; of a signal, its value."""

    job: str
    outcome: str
    result: Json


class JobFacts:
    """Facts about the running job, and its abort. Base of both contexts."""

    def __init__(self, calls: LeaseCalls) -> None:
        self._calls = calls
        self._attempt = calls.attempt

    @property
    def id(self) -> str:
        return self._attempt.id

    @property
    def task(self) -> str:
        return self._attempt.unit.task.name

    @property
    def queue(self) -> str:
        return self._attempt.queue

    @property
    def key(self) -> str:
        return self._attempt.key

    @property
    def priority(self) -> int:
        return self._attempt.priority

    @property
    def attributes(self) -> Mapping[str, Any]:
        return self._attempt.attributes

    @property
    def tries(self) -> int:
        """Attempts before this one that ran to an error."""
        return self._attempt.tries

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1: of those that ran to an error or were lost with their node, and this one."""
        return self._attempt.tries + self._attempt.crashes + 1

    @property
    def trace(self) -> Mapping[str, str] | None:
        """W3C trace context of the enqueue."""
        return self._attempt.trace  # type: ignore[no-any-return]

    @property
    def saved(self) -> Json:
        """What an earlier attempt has kept by ``checkpoint``; None: nothing."""
        return self._calls.saved()

    @property
    def aborted(self) -> str | None:
        """Why the handler should stop: ``timeout``, ``cancelled``, ``lease_lost``, ``node_silent``, ``shutdown``."""
        return self._attempt.aborted

    def check(self) -> None:
        """Raises :class:`Aborted` if the handler should stop."""
        if self._attempt.aborted is not None:
            raise Aborted(self._attempt.aborted)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        return logging.LoggerAdapter(log, {"job": self.id, "task": self.task, "attempt": self.attempt})


class Context(JobFacts):
    """The context of a handler that is a plain function. Its calls raise :class:`Aborted` if the lease was lost."""

    _transactions: Transactions

    def __init__(self, calls: LeaseCalls, transactions: Transactions) -> None:
        super().__init__(calls)
        self._transactions = transactions

    def wait(self, seconds: float) -> bool:
        """Sleeps. True: the handler should stop, and the sleep ended early."""
        return self._attempt.wait(seconds)

    def extend(self, by: Seconds) -> None:
        """Moves the end of the lease to that time from now."""
        self._calls.extend(by)

    def progress(self, value: Json) -> None:
        """Shows progress, up to 8 KiB of JSON; of calls that come faster than every 250 ms, some are left out."""
        self._calls.progress(value)

    def checkpoint(self, value: Json) -> None:
        """Keeps up to 256 KiB of JSON for the next attempt."""
        self._calls.checkpoint(value)

    def add_jobs(self, jobs: Sequence[Job]) -> None:
        """Adds jobs to the step of this job, at once; in no flow, enqueues them. See :class:`FanOut`."""
        self._calls.add_jobs(jobs)

    @property
    def needs(self) -> Needs:
        """The steps that the step of this job waited for, by name."""
        return Needs(self._calls)

    def transaction(self, result: Json = None) -> Transaction:
        """A transaction that commits the handler's writes and the end of its job together.

        ``with ctx.transaction() as connection:`` gives a connection of psycopg. The job is done when the block ends; its
        result may be set by the attribute ``result`` of the transaction. An error rolls back, and the job is not done.
        """
        return Transaction(self._calls, self._transactions, result)

    def settle_in(self) -> SettleIn:
        """The same for a transaction of your own library.

        ``with ctx.settle_in() as settle:`` gives a function: call ``settle(connection, result)`` as the last thing in the
        transaction, and commit it within the block. Connections: as for :meth:`Producer.enqueue`.
        """
        return SettleIn(self._calls)


class Needs(Mapping[str, "Need"]):
    """Needed steps by name."""

    def __init__(self, calls: LeaseCalls) -> None:
        self._calls = calls
        self._steps = calls.needs()

    def __getitem__(self, name: str) -> Need:
        return Need(self._calls, step_named(self._steps, name))

    def __iter__(self) -> Iterator[str]:
        return (step[0] for step in self._steps)

    def __len__(self) -> int:
        return len(self._steps)


class Need:
    """A needed step. Iterating reads the results of its jobs that are done, by the page."""

    def __init__(self, calls: LeaseCalls, step: list[Any]) -> None:
        self._calls = calls
        self.name, self._step, self.outcome, self.done, self.failed, self.other = step

    def __iter__(self) -> Iterator[NeedResult]:
        return (end for end in self._ends() if end.outcome == "done")

    def failures(self) -> Iterator[NeedResult]:
        """The jobs that are not done."""
        return (end for end in self._ends() if end.outcome != "done")

    def one(self) -> Json:
        """The first result, such as the value of a signal. Raises ``not_found``."""
        for end in self:
            return end.result
        raise PgQueueError("not_found", f"ctx.needs[{self.name!r}].one(): none of its jobs has a result")

    def _ends(self) -> Iterator[NeedResult]:
        after, most = None, FIRST_PAGE
        while True:
            page, following = self._calls.need_page(self._step, after, most)
            yield from (NeedResult(*end) for end in page)
            if len(page) < most:
                return
            after, most = page[-1][0], following


class Transactions:
    """Connections for the transactions of handlers, which nothing else uses."""

    def __init__(self, conninfo: str, node: str) -> None:
        self._conninfo = own_conninfo(conninfo, f"pgqueue {node} handlers")
        self._idle: list[psycopg.Connection[Any]] = []
        self._idle_async: list[psycopg.AsyncConnection[Any]] = []

    def take(self) -> psycopg.Connection[Any]:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
        connection = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return connection

    def give(self, connection: psycopg.Connection[Any], broken: bool) -> None:
        if broken or connection.closed or in_transaction(connection) or len(self._idle) >= _IDLE_MAX:
            connection.close()
        else:
            self._idle.append(connection)

    async def take_async(self) -> psycopg.AsyncConnection[Any]:
        while self._idle_async:
            connection = self._idle_async.pop()
            if not connection.closed:
                return connection
        connection = await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        await connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
        return connection

    async def give_async(self, connection: psycopg.AsyncConnection[Any], broken: bool) -> None:
        if broken or connection.closed or in_transaction(connection) or len(self._idle_async) >= _IDLE_MAX:
            await connection.close()
        else:
            self._idle_async.append(connection)

    async def close_async(self) -> None:
        while self._idle_async:
            await self._idle_async.pop().close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


class Transaction:
    """Made by :meth:`Context.transaction`."""

    def __init__(self, calls: LeaseCalls, transactions: Transactions, result: Json) -> None:
        self._calls, self._transactions = calls, transactions
        self.result = result
        """Result of the job."""

    def __enter__(self) -> psycopg.Connection[Any]:
        self._calls.check_running()
        if self._calls.attempt.unit.is_batch:
            self._calls.attempt.unit.own_rows()
        self._connection = self._transactions.take()
        self._inner = self._connection.transaction()
        try:
            self._inner.__enter__()
        except BaseException:
            self._transactions.give(self._connection, broken=True)
            raise
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        calls, sealed = self._calls, False
        try:
            if error is None:
                if not in_transaction(self._connection):
                    raise PgQueueError("configuration", _ENDED_ITSELF)
                calls.sealed(foreign_query(self._connection, *calls.seal(self.result)))
                sealed = True
            swallowed = bool(self._inner.__exit__(kind, error, trace))
        except BaseException as failure:
            self._transactions.give(self._connection, broken=True)
            if not sealed:
                calls.rolled_back()
                raise
            calls.conclude(failure)
            return False
        self._transactions.give(self._connection, broken=False)
        if sealed:
            calls.committed()
        return swallowed


class SettleIn:
    """Made by :meth:`Context.settle_in`."""

    def __init__(self, calls: LeaseCalls) -> None:
        self._calls = calls
        self._sealed = False

    def __enter__(self) -> Callable[..., None]:
        self._calls.check_running()
        if self._calls.attempt.unit.is_batch:
            self._calls.attempt.unit.own_rows()
        return self._settle

    def _settle(self, connection: Any, result: Json = None) -> None:
        self._sealed = False  # a library may repeat its transaction
        self._calls.sealed(foreign_query(connection, *self._calls.seal(result)))
        self._sealed = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._sealed:
            return self._calls.conclude(error)
        self._calls.rolled_back()
        if error is None:
            raise PgQueueError("configuration", _NOT_SETTLED)


class AsyncContext(JobFacts):
    """The context of an async handler: see :class:`Context`. An abort also cancels the handler's task."""

    def __init__(self, calls: LeaseCalls, transactions: Transactions, executor: Executor) -> None:
        super().__init__(calls)
        self._transactions, self._executor = transactions, executor

    async def _away(self, work: Callable[..., Answer], *given: Any) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work, *given)

    async def extend(self, by: Seconds) -> None:
        await self._away(self._calls.extend, by)

    async def progress(self, value: Json) -> None:
        await self._away(self._calls.progress, value)

    async def checkpoint(self, value: Json) -> None:
        await self._away(self._calls.checkpoint, value)

    async def add_jobs(self, jobs: Sequence[Job]) -> None:
        await self._away(self._calls.add_jobs, jobs)

    async def needs(self) -> Mapping[str, AsyncNeed]:
        """The steps that the step of this job waited for, by name."""
        steps = await self._away(self._calls.needs)
        return {step[0]: AsyncNeed(self, step) for step in steps}

    def transaction(self, result: Json = None) -> AsyncTransaction:
        """``async with ctx.transaction() as connection:`` gives an ``AsyncConnection`` of psycopg."""
        return AsyncTransaction(self, result)

    def settle_in(self) -> AsyncSettleIn:
        """``async with ctx.settle_in() as settle:``; call ``await settle(connection, result)``."""
        return AsyncSettleIn(self)


class AsyncNeed:
    """A needed step: see :class:`Need`."""

    def __init__(self, context: AsyncContext, step: list[Any]) -> None:
        self._context = context
        self.name, self._step, self.outcome, self.done, self.failed, self.other = step

    async def __aiter__(self) -> AsyncIterator[NeedResult]:
        async for end in self._ends():
            if end.outcome == "done":
                yield end

    async def failures(self) -> AsyncIterator[NeedResult]:
        async for end in self._ends():
            if end.outcome != "done":
                yield end

    async def one(self) -> Json:
        async for end in self:
            return end.result
        raise PgQueueError("not_found", f"needs[{self.name!r}].one(): none of its jobs has a result")

    async def _ends(self) -> AsyncIterator[NeedResult]:
        after, most = None, FIRST_PAGE
        while True:
            page, following = await self._context._away(self._context._calls.need_page, self._step, after, most)
            for end in page:
                yield NeedResult(*end)
            if len(page) < most:
                return
            after, most = page[-1][0], following


class AsyncTransaction:
    """Made by :meth:`AsyncContext.transaction`."""

    def __init__(self, context: AsyncContext, result: Json) -> None:
        self._context, self._calls = context, context._calls
        self.result = result

    async def __aenter__(self) -> psycopg.AsyncConnection[Any]:
        self._calls.check_running()
        if self._calls.attempt.unit.is_batch:
            await self._context._away(self._calls.attempt.unit.own_rows)
        self._connection = await self._context._transactions.take_async()
        self._inner = self._connection.transaction()
        try:
            await self._inner.__aenter__()
        except BaseException:
            await self._context._transactions.give_async(self._connection, broken=True)
            raise
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        calls, transactions, sealed = self._calls, self._context._transactions, False
        try:
            if error is None:
                if not in_transaction(self._connection):
                    raise PgQueueError("configuration", _ENDED_ITSELF)
                calls.sealed(await foreign_query_async(self._connection, *calls.seal(self.result)))
                sealed = True
            swallowed = bool(await self._inner.__aexit__(kind, error, trace))
        except BaseException as failure:
            await transactions.give_async(self._connection, broken=True)
            if not sealed:
                calls.rolled_back()
                raise
            await self._context._away(calls.conclude, failure)
            return False
        await transactions.give_async(self._connection, broken=False)
        if sealed:
            await self._context._away(calls.committed)
        return swallowed


class AsyncSettleIn:
    """Made by :meth:`AsyncContext.settle_in`."""

    def __init__(self, context: AsyncContext) -> None:
        self._context, self._calls = context, context._calls
        self._sealed = False

    async def __aenter__(self) -> Callable[..., Any]:
        self._calls.check_running()
        if self._calls.attempt.unit.is_batch:
            await self._context._away(self._calls.attempt.unit.own_rows)
        return self._settle

    async def _settle(self, connection: Any, result: Json = None) -> None:
        self._sealed = False
        self._calls.sealed(await foreign_query_async(connection, *self._calls.seal(result)))
        self._sealed = True

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sealed:
            return await self._context._away(self._calls.conclude, error)
        self._calls.rolled_back()
        if error is None:
            raise PgQueueError("configuration", _NOT_SETTLED)
