"""Connections: pgqueue's own, and those of callers; the check of the schema's version."""
from __future__ import annotations

import os
import re
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import IsolationLevel
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PipelineStatus, TransactionStatus

from ._errors import PgQueueError, is_wrong_server, sql_state

SCHEMA_NEEDS = 1
"""Oldest migration that the statements of this package need."""
SCHEMA_KNOWS = 1
"""Newest migration that this package knows."""
STATEMENT = 30.0
"""Longest time for one statement, in seconds; then its connection is broken off."""

# Words of SQL: such a name would have to be quoted everywhere.
_RESERVED = frozenset(
    """all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation column
    concurrently constraint create cross current_catalog current_date current_role current_schema current_time
    current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze from
    full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit localtime
    localtimestamp natural not notnull null offset on only or order outer overlaps placing primary references returning
    right select session_user similar some symmetric system_user table tablesample then to trailing true union unique user
    using variadic verbose when where window with public information_schema""".split()
)


def checked_schema(schema: str) -> str:
    """A schema's name, before it becomes part of any statement. Raises ``configuration``."""
    usable = isinstance(schema, str) and re.fullmatch("[a-z_][a-z0-9_]{0,40}", schema) is not None
    if not usable or schema in _RESERVED or schema.startswith("pg_"):
        raise PgQueueError(
            "configuration",
            f"schema {schema!r} is no usable name: give 1 to 41 of a-z, 0-9 and _, not beginning with a digit or pg_, "
            "and no word of SQL's",
        )
    return schema


def version_question(schema: str) -> str:
    """A statement that reads the versions of a schema."""
    newest, breaking = "max(version)", "max(version) filter (where not compatible)"
    return f"select json_build_array({newest}, {breaking})::text from {schema}.migration"


def missing_schema(schema: str, error: BaseException) -> PgQueueError | None:
    """The error for a schema that is not there; None: the statement failed for another reason."""
    if sql_state(error) not in ("42P01", "3F000"):
        return None
    return PgQueueError(
        "schema_version", f'there is no pgqueue in schema "{schema}" of this database: run {_migrating(schema)} first'
    )


def check_version(schema: str, found: Sequence[int | None]) -> None:
    """Refuses a schema that is older than this package needs, or newer with incompatible changes."""
    version, breaking = found[0] or 0, found[1] or 0
    if version < SCHEMA_NEEDS:
        why = f"this package needs {SCHEMA_NEEDS}: run {_migrating(schema)} of the new version first"
    elif breaking > SCHEMA_KNOWS:
        why = f"this package knows {SCHEMA_KNOWS} and can't work with the changes since: upgrade the Python package pgqueue"
    else:
        return
    raise PgQueueError("schema_version", f'schema "{schema}" is at version {version}, {why}', {"version": version})


def _migrating(schema: str) -> str:
    return '"pgqueue migrate"' if schema == "pgqueue" else f'"pgqueue migrate --schema {schema}"'


def own_conninfo(conninfo: str, application_name: str, limit: float = STATEMENT) -> str:
    """A connection string with pgqueue's settings, where it has none of its own. Raises ``configuration``."""
    if not isinstance(conninfo, str):
        raise PgQueueError(
            "configuration", "conninfo must be a connection string, such as postgres://user@host/database"
        )
    defaults = {
        "application_name": application_name[:63],
        "connect_timeout": max(2, min(10, int(limit))),  # 1 is taken for 2
        "keepalives_idle": 20,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }
    try:
        return make_conninfo("", **{**defaults, **conninfo_to_dict(conninfo)})
    except psycopg.Error as error:
        raise PgQueueError("configuration", f"the connection string can't be read: {error}") from None


class Link:
    """One connection, opened when it is needed and again after it broke. Statements of several threads take turns."""

    def __init__(self, conninfo: str, name: str, limit: float = STATEMENT) -> None:
        """``limit``: of one statement, in seconds. Whoever owns the link calls ``abort`` then, or uses ``query_within``."""
        self._conninfo = own_conninfo(conninfo, name, limit)
        self.limit = limit
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._strict = False
        self.connection: psycopg.Connection[Any] | None = None
        self.direct = False
        """Without a pooler in between, through which hints may be lost."""
        self.busy_since: float | None = None
        self.channels: Sequence[str] = ()
        self.on_hint: Callable[[str, str], None] = lambda channel, payload: None

    def query(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        """Runs one statement in its own transaction; returns its rows."""
        self._check_process()
        with self._lock:
            self.busy_since = time.monotonic()
            try:
                connection = self.connection or self._connect()
                if not self._strict:
                    return connection.execute(statement, parameters).fetchall()
                with connection.transaction():
                    rows = connection.execute(statement, parameters).fetchall()
                if connection.closed:
                    raise unsure_commit()
                return rows
            except BaseException as error:
                if self.connection is not None and (self.connection.closed or is_wrong_server(error)):
                    self.close()
                raise
            finally:
                self.busy_since = None

    def query_within(self, seconds: float, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        """The same, and breaks the connection off after that time: a peer that is frozen says nothing."""
        self._check_process()
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(seconds):
                self.abort()

        with self._lock:
            try:
                threading.Thread(target=watch, name="pgqueue-limit", daemon=True).start()
            except RuntimeError:
                pass  # the interpreter ends, and begins no more threads
            try:
                return self.query(statement, parameters)
            finally:
                ended.set()

    def _check_process(self) -> None:
        """In a fork, leaves the connection to the parent process: both would read each other's answers."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._lock = threading.RLock()  # another thread may have held it
            self.connection = None  # not closed: that would tell the server

    def one(self, statement: str, parameters: Sequence[object] = ()) -> Any:
        """The first column of the first row; None: there is none."""
        rows = self.query(statement, parameters)
        return rows[0][0] if rows else None

    def pid(self) -> int | None:
        """The process of the session, as this client knows it."""
        with self._lock:
            self.busy_since = time.monotonic()
            try:
                return (self.connection or self._connect()).info.backend_pid
            finally:
                self.busy_since = None

    def _connect(self) -> psycopg.Connection[Any]:
        # psycopg counts the names of prepared statements: behind a pooler, such a name may be another client's statement
        self.connection = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        try:
            self._prepare(self.connection)
        except BaseException:
            self.close()
            raise
        return self.connection

    def _prepare(self, connection: psycopg.Connection[Any]) -> None:
        session = connection.execute(
            "select current_setting('default_transaction_isolation'), pg_backend_pid()"
        ).fetchone()
        assert session is not None
        self._strict = session[0] not in ("read committed", "read uncommitted")
        self.direct = session[1] == connection.info.backend_pid
        connection.isolation_level = IsolationLevel.READ_COMMITTED
        connection.add_notify_handler(lambda notify: self.on_hint(notify.channel, notify.payload))
        for channel in self.channels:
            connection.execute(f'listen "{channel}"')
        for channel in self.channels:
            self.on_hint(channel, "")  # for those that were missed

    def wait(self, seconds: float, waker: socket.socket) -> bool:
        """Waits for hints, or until ``waker`` can be read. False: the connection has ended."""
        connection = self.connection
        with selectors.DefaultSelector() as selector:
            selector.register(waker, selectors.EVENT_READ)
            if connection is not None:
                try:
                    selector.register(connection.fileno(), selectors.EVENT_READ)
                except (psycopg.Error, OSError, ValueError):
                    self.close()
                    return False
            readable = [key.fileobj for key, _ in selector.select(max(0, seconds))]
        if connection is None or not any(one is not waker for one in readable):
            return True
        with self._lock:
            try:
                connection.pgconn.consume_input()
                while (notify := connection.pgconn.notifies()) is not None:
                    self.on_hint(notify.relname.decode(), notify.extra.decode())
                return not connection.closed
            except (psycopg.Error, OSError):
                self.close()
                return False

    def abort(self) -> None:
        """Breaks the connection of a statement that another thread waits for."""
        connection = self.connection
        try:
            if connection is not None and not connection.closed:
                with socket.socket(fileno=os.dup(connection.fileno())) as copy:
                    copy.shutdown(socket.SHUT_RDWR)
        except (psycopg.Error, OSError):
            pass  # it has just ended

    def close(self) -> None:
        self._check_process()
        with self._lock:
            connection, self.connection = self.connection, None
            if connection is not None:
                connection.close()


def unsure_commit() -> psycopg.OperationalError:
    """The error of a COMMIT that was not sent, or not answered: psycopg skips it on a connection that it knows to be lost."""
    return psycopg.OperationalError("the connection was lost at the end of its transaction")


def foreign_query(connection: Any, statement: str, parameters: Sequence[object]) -> Any:
    """Runs a statement in the transaction of a caller; returns its first value, None if it has no rows.

    Takes connections of psycopg 3, psycopg2 and Django, and connections and sessions of SQLAlchemy.
    """
    if hasattr(connection, "exec_driver_sql"):
        return _alchemy_query(connection, statement, parameters)
    if callable(getattr(connection, "connection", None)):  # a Session of SQLAlchemy
        return _alchemy_query(connection.connection(), statement, parameters)
    if isinstance(connection, psycopg.AsyncConnection) or not callable(getattr(connection, "cursor", None)):
        raise not_a_connection(connection)
    if isinstance(connection, psycopg.Connection):
        _refuse_pipeline(connection)
        with psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
            cursor.execute(statement, parameters)
            return _first(cursor)
    with connection.cursor() as cursor:
        cursor.execute(statement, list(parameters))
        return _first(cursor)


async def foreign_query_async(connection: Any, statement: str, parameters: Sequence[object]) -> Any:
    """As :func:`foreign_query`, for asynchronous connections of psycopg 3."""
    if not isinstance(connection, psycopg.AsyncConnection):
        raise not_a_connection(connection, "an AsyncConnection of psycopg 3")
    _refuse_pipeline(connection)
    async with psycopg.AsyncCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
        await cursor.execute(statement, parameters)
        row = None if cursor.description is None else await cursor.fetchone()
        return row and row[0]


def _refuse_pipeline(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """A pipeline has no answer yet when it is read: a job that was kept would look as if it were new."""
    if connection.pgconn.pipeline_status != PipelineStatus.OFF:
        raise PgQueueError("configuration", "conn is in a pipeline, which has no answers yet: call this outside of it")


def not_a_connection(
    given: object, wanted: str = "a connection of psycopg, psycopg2, SQLAlchemy or Django"
) -> PgQueueError:
    return PgQueueError(
        "configuration", f"conn must be {wanted}, not {type(given).__module__}.{type(given).__qualname__}"
    )


def _alchemy_query(connection: Any, statement: str, parameters: Sequence[object]) -> Any:
    if not connection.in_transaction():
        connection.exec_driver_sql("select 1")  # begins a transaction, except in the legacy mode of SQLAlchemy 1.4
        if not connection.in_transaction():
            raise PgQueueError(
                "configuration", "this connection of SQLAlchemy is in no transaction: use engine.begin()"
            )
    result = connection.exec_driver_sql(statement, tuple(parameters))
    return result.scalar() if result.returns_rows else None


def _first(cursor: Any) -> Any:
    row = None if cursor.description is None else cursor.fetchone()
    return next(iter(row.values())) if isinstance(row, dict) else row and row[0]


def is_lost(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """True if an idle connection has ended, as far as its socket tells: a server says nothing of its own otherwise."""
    if connection.closed:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return bool(selector.select(0))


def in_transaction(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    return connection.info.transaction_status != TransactionStatus.IDLE
