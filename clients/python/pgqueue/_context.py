"""Contexts: what a handler gets beside the payload."""
from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple, TypeVar

from ._codec import Json, kept_result
from ._errors import Aborted, PgQueueError
from ._jobs import Job
from ._json import Seconds
from ._lease import FIRST_PAGE, LeaseCalls, step_named
from ._node import log
from ._transaction import AsyncSettleIn, AsyncTransaction, SettleIn, Transaction, Transactions

Answer = TypeVar("Answer")


class NeedResult(NamedTuple):
    """The end of a job of a needed step. ``result``: of a job that is done; of a signal, its value."""

    job: str
    outcome: str
    result: Json


def _end(end: dict[str, Any]) -> NeedResult:
    return NeedResult(end["job"], end["outcome"], end["result"])


def _result(end: dict[str, Any]) -> NeedResult:
    """The end of a job that is done, or a signal. Raises ``result_lost``."""
    if end["task"] is not None:
        kept_result(end["job"], end["result"])
    return _end(end)


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
        """Shows progress, up to 8 KiB of JSON; of calls that come faster than every 250 ms, some are left out.

        Raises ``invalid_job`` if it is longer, or nested deeper than 500 levels, also if it would be left out.
        """
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
        self.name, number, self.outcome, self.done, self.failed, self.other = step
        self._step = self.name, number

    def __iter__(self) -> Iterator[NeedResult]:
        return (_result(end) for end in self._ends() if end["outcome"] == "done")

    def failures(self) -> Iterator[NeedResult]:
        """The jobs that are not done."""
        return (_end(end) for end in self._ends() if end["outcome"] != "done")

    def one(self) -> Json:
        """The first result, such as the value of a signal. Raises ``not_found``."""
        for end in self:
            return end.result
        raise PgQueueError("not_found", f"ctx.needs[{self.name!r}].one(): none of its jobs has a result")

    def _ends(self) -> Iterator[dict[str, Any]]:
        after, most = None, FIRST_PAGE
        while True:
            page, following = self._calls.need_page(self._step, after, most)
            yield from page
            if len(page) < most:
                return
            after, most = page[-1]["job"], following


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
        return AsyncTransaction(self._calls, self._transactions, self._away, result)

    def settle_in(self) -> AsyncSettleIn:
        """``async with ctx.settle_in() as settle:``; call ``await settle(connection, result)``."""
        return AsyncSettleIn(self._calls, self._away)


class AsyncNeed:
    """A needed step: see :class:`Need`."""

    def __init__(self, context: AsyncContext, step: list[Any]) -> None:
        self._context = context
        self.name, number, self.outcome, self.done, self.failed, self.other = step
        self._step = self.name, number

    async def __aiter__(self) -> AsyncIterator[NeedResult]:
        async for end in self._ends():
            if end["outcome"] == "done":
                yield _result(end)

    async def failures(self) -> AsyncIterator[NeedResult]:
        async for end in self._ends():
            if end["outcome"] != "done":
                yield _end(end)

    async def one(self) -> Json:
        async for end in self:
            return end.result
        raise PgQueueError("not_found", f"needs[{self.name!r}].one(): none of its jobs has a result")

    async def _ends(self) -> AsyncIterator[dict[str, Any]]:
        after, most = None, FIRST_PAGE
        while True:
            page, following = await self._context._away(self._context._calls.need_page, self._step, after, most)
            for end in page:
                yield end
            if len(page) < most:
                return
            after, most = page[-1]["job"], following
