"""Imported before the client: what its connections are asked and answered about leases goes into the history.

This is at the boundary of the driver, psycopg's cursors and transactions; the client is as it is.
"""
from __future__ import annotations

import json
import os
import re
import time
import weakref
from typing import Any

import psycopg
from calls import NAME, Entry, Heard, Rows, hearing_of
from psycopg.pq import ConnStatus, TransactionStatus

tokens: dict[str, str] = {}
"""The newest lease of each job that this process has claimed."""
_folder = os.environ["PGQUEUE_TEST_HISTORY"]
_flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_file = os.open(os.path.join(_folder, f"{NAME}-{os.getpid()}-0.jsonl"), _flags, 0o644)
_waiting: weakref.WeakKeyDictionary[Any, list[tuple[Heard, Rows]]] = weakref.WeakKeyDictionary()
"""Answers that count when their transaction commits, by connection."""
_execute = psycopg.Cursor.execute
_exit = psycopg.Transaction.__exit__


def now() -> float:
    """Milliseconds of the machine's monotonic clock."""
    return time.monotonic_ns() / 1e6


def write(entry: Entry, at: float | None = None) -> None:
    """Appends to the history, by one write, so that it outlives a process that is killed right after."""
    line = json.dumps({"at": round(now() if at is None else at, 3), "by": NAME, **entry}, separators=(",", ":"))
    os.write(_file, f"{line}\n".encode())


def was_rolled_back(error: BaseException) -> bool:
    """True if the server itself refused the statement, and so certainly kept nothing of it."""
    state = getattr(error, "sqlstate", None)
    return state is not None and re.match("08|57P", state) is None


def _tell(entry: Entry | None, heard: Heard | None = None) -> None:
    if entry is None:
        return
    write(entry)
    if heard is not None:
        tokens.update(heard.leased)


def _tapped_execute(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
    heard = hearing_of(query, params or ()) if isinstance(query, str) else None
    if heard is None:
        return _execute(self, query, params, **options)
    connection, sent_at = self.connection, now()
    within = connection.info.transaction_status == TransactionStatus.INTRANS
    if heard.invoked is not None:
        write(heard.invoked, sent_at)
    try:
        _execute(self, query, params, **options)
    except BaseException as error:
        _tell(heard.failed(within or was_rolled_back(error)))
        raise
    rows = self.fetchall()
    if rows:
        self.scroll(0, "absolute")  # the client reads them, too
    if within:
        _waiting.setdefault(connection, []).append((heard, rows))
    else:
        _tell(heard.answered(rows, sent_at), heard)
    return self


def _tapped_exit(self: Any, kind: Any, error: Any, trace: Any) -> Any:
    heard = _waiting.pop(self.connection, [])
    commits = kind is None and self.pgconn.status == ConnStatus.OK
    try:
        swallowed = _exit(self, kind, error, trace)
    except BaseException as failure:
        for one, _ in heard:
            _tell(one.failed(not commits or was_rolled_back(failure)))
        raise
    for one, rows in heard:
        _tell(one.answered(rows, now()) if commits else one.failed(True), one)
    return swallowed


psycopg.Cursor.execute = _tapped_execute  # type: ignore[method-assign]
psycopg.Transaction.__exit__ = _tapped_exit  # type: ignore[method-assign]
