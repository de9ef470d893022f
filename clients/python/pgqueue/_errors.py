"""Errors of pgqueue, and how errors of the database are read."""
from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from typing import Any

import psycopg

LOCKED = "55P03"
NODE_ENDED = "PQ001"

_TRANSIENT = re.compile(r"08|53|57P|40|55P03|25006|57014|XX000")
_OF_ROW = re.compile(r"22|23|54|XX001|XX002")
_WRONG_SERVER = re.compile(r"25006|57P|08")


class PgQueueError(Exception):
    """An error that pgqueue raises itself. ``code`` is one of those of the TypeScript packages; ``data`` is plain."""

    def __init__(self, code: str, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data: Mapping[str, Any] = data or {}


class Aborted(Exception):
    """The attempt was aborted: ``timeout``, ``cancelled``, ``lease_lost``, ``node_silent`` or ``shutdown``."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the attempt was aborted: {reason}")
        self.reason = reason


def problems_error(code: str, subject: str, problems: list[str]) -> PgQueueError:
    """All problems of one configuration or job, as one error."""
    return PgQueueError(code, f"{subject}: {'; '.join(problems)}", {"problems": problems})


def sql_state(error: BaseException | None) -> str | None:
    """The SQLSTATE of an error of any driver, or of its causes."""
    for _ in range(4):
        if error is None:
            return None
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if isinstance(state, str):
            return state
        error = error.__cause__
    return None


def is_transient(error: BaseException) -> bool:
    """True if a repetition may succeed: a lost connection, a restart, a lock. Its outcome is unknown."""
    state = sql_state(error)
    if state is not None:
        return _TRANSIENT.match(state) is not None
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError, OSError))


def refuses_login(error: BaseException) -> bool:
    """True if the server has refused a connection for good: a wrong role, password or database."""
    if not isinstance(error, psycopg.OperationalError):
        return False
    if error.sqlstate is not None:
        return error.sqlstate.startswith("28") or error.sqlstate == "3D000"
    return (
        re.search(
            "FATAL: .*(authentication failed|does not exist|pg_hba.conf|permission denied for database)", str(error)
        )
        is not None
    )


def is_of_row(error: BaseException) -> bool:
    """True if a statement failed for the content of one of its rows."""
    return _OF_ROW.match(sql_state(error) or "") is not None


def is_wrong_server(error: BaseException) -> bool:
    """True if the connection leads to a server of no use, and must be closed."""
    return _WRONG_SERVER.match(sql_state(error) or "") is not None


def explained(error: BaseException) -> PgQueueError | None:
    """The error for the caller of an enqueue that the table has refused; None: it is another error."""
    if "queue_payload_size" in str(error):
        return PgQueueError(
            "invalid_job",
            "a payload takes more than 393216 bytes as PostgreSQL writes it; store it elsewhere and enqueue a reference",
        )
    strict = re.search(
        "an enqueue [^:]+ needs a transaction that is read committed, and this one is [a-z]+(?: read)?", str(error)
    )
    if strict is not None:
        advice = 'begin it with "begin isolation level read committed", or enqueue outside of it'
        return PgQueueError("configuration", f"{strict[0]}: {advice}")
    crowded = re.search("queue_key_pending: (.+)", str(error))
    if crowded is None:
        return None
    advice = 'enqueue later, or fewer at once, or raise the limit ("pgqueue queues set QUEUE --key-pending N")'
    return PgQueueError("too_many_pending", f"{crowded[1]}: {advice}")


def said(error: object) -> str:
    """An error for logs and for the job: of the database, without the details and values that it quotes."""
    try:
        primary = getattr(getattr(error, "diag", None), "message_primary", None)
        if not isinstance(primary, str):
            return str(error)
        state = sql_state(error) or ""  # type: ignore[arg-type]
        # of a wrong character only the bytes are told; the server's language has quotation marks of its own
        quotes = state.startswith("22") and state not in ("22021", "22P05")
        return re.sub('["«»‘-‟‹›「-』].*["«»‘-‟‹›「-』]', '"***"', primary, flags=re.DOTALL) if quotes else primary
    except Exception:  # a handler can raise anything
        return "what was raised can not be read"


def storable(text: str, longest: int) -> str:
    """A text as jsonb takes it: without NUL and lone surrogates."""
    return text[:longest].replace("\0", "").encode("utf-8", "replace").decode()


def error_data(error: object) -> dict[str, Any]:
    """An error as plain data, as it is kept with a job: name, message, stack, up to five causes, and those of a group."""
    if isinstance(error, RemoteError):
        return error.data
    if not isinstance(error, BaseException):
        return {"kind": "error", "name": "NonError", "message": storable(str(error), 2_000)}
    return {"kind": "error", **_data_of(error, 0, [8_000])}


def _data_of(error: BaseException, depth: int, left: list[int]) -> dict[str, Any]:
    """``left``: characters that the errors of groups may still take."""
    message = said(error)
    stack = "".join(traceback.format_tb(error.__traceback__)) + f"{type(error).__name__}: {message}"
    outer = depth == 0
    data: dict[str, Any] = {
        "name": storable(type(error).__name__, 200),
        "message": storable(message or type(error).__name__, 2_000 if outer else 1_000),
        "stack": storable(stack[-8_000 if outer else -2_000 :], 8_000),
    }
    left[0] -= 0 if outer else max(100, len(data["message"]) + len(data["stack"]))
    code = getattr(error, "code", None) or sql_state(error)
    if isinstance(code, str):
        data["code"] = storable(code, 100)
    inner = getattr(error, "exceptions", None)
    if isinstance(inner, tuple) and depth < 5:  # an ExceptionGroup, as asyncio.TaskGroup raises it
        told = []
        for one in inner[:10]:
            if left[0] > 0 and isinstance(one, BaseException):
                told.append(_data_of(one, depth + 1, left))
        data["errors"] = told
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and depth < 5:
        data["cause"] = _data_of(cause, depth + 1, left)
    return data


class RemoteError(Exception):
    """An error of a handler in a process of its own; ``data`` as :func:`error_data` makes it."""

    def __init__(self, message: str, data: dict[str, Any]) -> None:
        super().__init__(message, data)
        self.data = data

    def __str__(self) -> str:
        return str(self.args[0])
