"""Which statements of the Python client are calls that a history tells of, and how: as calls.ts, for its statements."""
from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Rows = Sequence[Sequence[Any]]
Entry = dict[str, Any]

NAME = os.environ["PGQUEUE_TEST_NAME"]
_CALL = re.compile(
    r"\.(claim|claim_rows|settle|settle_rows|take_out|extend|release|release_rows|leave_node|heartbeat_node)\("
)
_numbers = itertools.count(1)
_batches: dict[tuple[str, str], list[str]] = {}
"""The jobs of batches that this process has claimed, or that were left together, by position and token."""


def _nothing(*_: object) -> None:
    return None


@dataclass
class Heard:
    """A call of one of pgqueue's functions, as it was sent."""

    answered: Callable[[Rows, float], Entry | None]
    invoked: Entry | None = None
    failed: Callable[[bool], Entry | None] = _nothing
    """True: nothing was changed, for sure."""
    leased: dict[str, str] = field(default_factory=dict)
    """The tokens of the jobs that a claim has leased, once it is answered."""


def hearing_of(text: str, given: Sequence[Any]) -> Heard | None:
    """What the history tells of a statement. None: nothing."""
    found = _CALL.search(text)
    if found is None:
        return None
    heard = _HEARINGS[found[1]](f"{NAME}-{os.getpid()}-{next(_numbers)}", given)
    return heard


def _call(kind: str, op: str, invoked: Entry, answer: Callable[[Rows], Entry]) -> Heard:
    return Heard(
        invoked={"type": kind, "phase": "invoke", "op": op, **invoked},
        answered=lambda rows, _: {"type": kind, "phase": "ok", "op": op, **answer(rows)},
        failed=lambda refused: {"type": kind, "phase": "fail" if refused else "unknown", "op": op},
    )


def _list(text: Any) -> list[str]:
    """The members of an array without special characters, as PostgreSQL writes it."""
    inner = str(text)[1:-1]
    return inner.split(",") if inner else []


def _batch(position: Any, token: Any) -> list[str]:
    return _batches.get((str(position), str(token)), [])


def _claim(op: str, given: Sequence[Any]) -> Heard:
    raise AssertionError("the bench has no job that can't be read: such a claim has no lengths of its leases")


def _claim_rows(op: str, given: Sequence[Any]) -> Heard:
    node, _, token = given[:3]
    leased: dict[str, str] = {}

    def answer(rows: Rows) -> Entry:
        leases = []
        for position, size, lease_ms, jobs in rows:
            ids = [job[0] for job in json.loads(jobs or "[]")]
            if size > 1:
                _batches[str(position), token] = ids
            leases += [[id, lease_ms] for id in ids]
        leased.update((id, token) for id, _ in leases)
        return {"leases": leases}

    heard = _call("claim", op, {"node": node, "token": token}, answer)
    heard.leased = leased
    return heard


def _settle(op: str, given: Sequence[Any]) -> Heard:
    # before the lists there may be the texts of a hint, or the time of a transaction
    start = next(place for place, value in enumerate(given) if str(value).startswith("{"))
    leases = list(zip(*(_list(text) for text in given[start : start + 3])))

    def answer(rows: Rows) -> Entry:
        return {"verdicts": list(json.loads(rows[0][0] or "{}").items())}

    return _call("settle", op, {"leases": leases}, answer)


def _settle_rows(op: str, given: Sequence[Any]) -> Heard:
    rows = list(zip(_list(given[0]), _list(given[1])))
    leases = [(id, token, "done") for position, token in rows for id in _batch(position, token)]

    def answer(answers: Rows) -> Entry:
        settled = set(map(str, json.loads(answers[0][0])))
        ended = [id for position, token in rows if position in settled for id in _batch(position, token)]
        return {"verdicts": [(id, "done") for id in ended]}

    return _call("settle", op, {"leases": leases}, answer)


def _take_out(op: str, given: Sequence[Any]) -> Heard:
    """No lease changes: only where the others are."""
    position, token, ids = given

    def answered(rows: Rows, _: float) -> None:
        rest = rows[0][0]
        if rest is not None:
            out = set(_list(ids))
            _batches[str(rest), token] = [id for id in _batch(position, token) if id not in out]

    return Heard(answered=answered)


def _extend(op: str, given: Sequence[Any]) -> Heard:
    id, token, ms = given
    return _call("extend", op, {"leases": [(id, token, ms)]}, lambda rows: {"held": [id] if rows else []})


def _release(op: str, given: Sequence[Any]) -> Heard:
    leases = list(zip(_list(given[0]), _list(given[1])))
    return _call("release", op, {"leases": leases}, lambda rows: {"given": [str(id) for (id,) in rows]})


def _release_rows(op: str, given: Sequence[Any]) -> Heard:
    position, token = given
    ids = _batch(position, token)
    leases = [(id, token) for id in ids]
    return _call("release", op, {"leases": leases}, lambda rows: {"given": ids if rows[0][0] == 1 else []})


def _leave_node(op: str, given: Sequence[Any]) -> Heard:
    leave = {"type": "leave", "node": given[0]}
    # whether it was answered or not, it may have happened
    return Heard(invoked=leave, answered=lambda *_: leave)


def _heartbeat_node(op: str, given: Sequence[Any]) -> Heard:
    def answered(rows: Rows, sent_at: float) -> Entry | None:
        return {"type": "beat", "node": given[0], "sentAt": sent_at} if rows[0][0] is True else None

    return Heard(answered=answered)


_HEARINGS: dict[str, Callable[[str, Sequence[Any]], Heard]] = {
    "claim": _claim,
    "claim_rows": _claim_rows,
    "settle": _settle,
    "settle_rows": _settle_rows,
    "take_out": _take_out,
    "extend": _extend,
    "release": _release,
    "release_rows": _release_rows,
    "leave_node": _leave_node,
    "heartbeat_node": _heartbeat_node,
}
