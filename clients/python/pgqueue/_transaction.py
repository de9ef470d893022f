"""Transactions of handlers that commit their writes together with the end of the job."""
from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import psycopg

from ._codec import Json
from ._errors import PgQueueError
from ._lease import LeaseCalls
from ._link import foreign_query, foreign_query_async, in_transaction, is_lost, own_conninfo, unsure_commit

if TYPE_CHECKING:
    from types import TracebackType

Away = Callable[..., Awaitable[Any]]
"""Calls a function in a thread."""
_IDLE_MAX = 10
_ENDED_ITSELF = "ctx.transaction ends its transaction itself: its block has ended it, and the job is not settled with what was written"
_NOT_SETTLED = "ctx.settle_in: settle was not called: the job is not settled, whatever was written"


class Transactions:
    """Connections for the transactions of handlers, which nothing else uses."""

    def __init__(self, conninfo: str, node: str) -> None:
        self._conninfo = own_conninfo(conninfo, f"pgqueue {node} handlers")
        self._idle: list[psycopg.Connection[Any]] = []
        self._idle_async: list[psycopg.AsyncConnection[Any]] = []

    def take(self) -> psycopg.Connection[Any]:
        while self._idle:
            connection = self._idle.pop()
            if not is_lost(connection):
                return connection
            connection.close()
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
            if not is_lost(connection):
                return connection
            await connection.close()
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
        self._calls.attempt.unit.own_rows()
        self._connection = self._transactions.take()
        self._inner = self._connection.transaction()
        try:
            self._inner.__enter__()
        except BaseException:
            self._transactions.give(self._connection, broken=True)
            raise
        return self._connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        calls, sealed = self._calls, False
        try:
            if error is None:
                if not in_transaction(self._connection):
                    raise PgQueueError("configuration", _ENDED_ITSELF)
                calls.sealed(foreign_query(self._connection, *calls.seal(self.result)))
                sealed = True
            swallowed = bool(self._inner.__exit__(kind, error, trace))
            if sealed and self._connection.closed:
                raise unsure_commit()
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
        self._calls.attempt.unit.own_rows()
        return self._settle

    def _settle(self, connection: Any, result: Json = None) -> None:
        self._sealed = False  # a library may repeat its transaction
        self._calls.sealed(foreign_query(connection, *self._calls.seal(result)))
        self._sealed = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sealed:
            return self._calls.conclude(error)
        self._calls.rolled_back()
        if error is None:
            raise PgQueueError("configuration", _NOT_SETTLED)


class AsyncTransaction:
    """Made by :meth:`AsyncContext.transaction`."""

    def __init__(self, calls: LeaseCalls, transactions: Transactions, away: Away, result: Json) -> None:
        self._calls, self._transactions, self._away = calls, transactions, away
        self.result = result

    async def __aenter__(self) -> psycopg.AsyncConnection[Any]:
        self._calls.check_running()
        if self._calls.attempt.unit.is_batch:
            await self._away(self._calls.attempt.unit.own_rows)
        self._connection = await self._transactions.take_async()
        self._inner = self._connection.transaction()
        try:
            await self._inner.__aenter__()
        except BaseException:
            await self._transactions.give_async(self._connection, broken=True)
            raise
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        calls, transactions, sealed = self._calls, self._transactions, False
        try:
            if error is None:
                if not in_transaction(self._connection):
                    raise PgQueueError("configuration", _ENDED_ITSELF)
                calls.sealed(await foreign_query_async(self._connection, *calls.seal(self.result)))
                sealed = True
            swallowed = bool(await self._inner.__aexit__(kind, error, trace))
            if sealed and self._connection.closed:
                raise unsure_commit()
        except BaseException as failure:
            await transactions.give_async(self._connection, broken=True)
            if not sealed:
                calls.rolled_back()
                raise
            await self._away(calls.conclude, failure)
            return False
        await transactions.give_async(self._connection, broken=False)
        if sealed:
            await self._away(calls.committed)
        return swallowed


class AsyncSettleIn:
    """Made by :meth:`AsyncContext.settle_in`."""

    def __init__(self, calls: LeaseCalls, away: Away) -> None:
        self._calls, self._away = calls, away
        self._sealed = False

    async def __aenter__(self) -> Callable[..., Any]:
        self._calls.check_running()
        if self._calls.attempt.unit.is_batch:
            await self._away(self._calls.attempt.unit.own_rows)
        return self._settle

    async def _settle(self, connection: Any, result: Json = None) -> None:
        self._sealed = False
        self._calls.sealed(await foreign_query_async(connection, *self._calls.seal(result)))
        self._sealed = True

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sealed:
            await self._away(self._calls.conclude, error)
            return
        self._calls.rolled_back()
        if error is None:
            raise PgQueueError("configuration", _NOT_SETTLED)
