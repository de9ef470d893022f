"""JSON as pgqueue stores it, times in milliseconds, and ids."""
from __future__ import annotations

import json
import math
import os
import re
import time
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeGuard

from ._errors import PgQueueError, storable

Seconds = float | int | timedelta
"""A length of time: seconds, or a timedelta; ten years at most."""

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_LONGEST_MS = 3_650 * 86_400_000
RESULT_MAX = 1_048_576
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def is_number(value: object) -> TypeGuard[int | float]:
    """A finite number that fits a float; a bool is none."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def milliseconds(value: object) -> float | None:
    """The milliseconds of a length of time; None: it is none."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not is_number(seconds):
        return None
    return seconds * 1_000 if 0 <= seconds * 1_000 <= _LONGEST_MS else None


def checked_ms(value: object, name: str) -> float:
    """As :func:`milliseconds`; raises ``configuration`` if it is none, or is 0."""
    ms = milliseconds(value)
    if not ms:
        raise PgQueueError(
            "configuration", f"{name} must be seconds above 0, or a timedelta, up to 3650 days, not {value!r}"
        )
    return ms


def json_text(value: object) -> str:
    """A value as JSON text that jsonb accepts. Raises if JSON can't hold it, or PostgreSQL can't store it."""
    text = _encode(value)
    if "\\u0000" in text and _NUL.search(text):
        raise ValueError("NUL can't be stored")
    text.encode()
    return text


def json_value(text: str | bytes) -> Any:
    """The value of JSON text that the database has stored. A number may be longer than ``int`` takes."""
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(text, parse_int=_whole)


def _whole(digits: str) -> int:
    if len(digits) <= 640:  # so many are never refused
        return int(digits)
    if digits[0] == "-":
        return -_whole(digits[1:])
    low = len(digits) // 2
    power: int = 10**low
    return _whole(digits[:-low]) * power + _whole(digits[-low:])


def result_text(value: object) -> tuple[str | None, str | None]:
    """A result as JSON text, and the problem if it can't be stored: then the text tells that. None: no result."""
    if value is None:
        return None, None
    try:
        try:
            text = json_text(value)
        except (UnicodeEncodeError, ValueError):
            text = json_text(_cleaned(value))
        size = len(text.encode())
        if size <= RESULT_MAX:
            return text, None
        problem = f"it has {size} bytes, more than {RESULT_MAX}"
    except (TypeError, ValueError, RecursionError) as error:
        problem = storable(str(error), 1_000)
    problem = f"the handler's result can't be stored as JSON: {problem}"
    return json_text({"pgqueue_error": problem}), problem


def _cleaned(value: object) -> object:
    if isinstance(value, str):
        return storable(value, len(value))
    if isinstance(value, (list, tuple)):
        return [_cleaned(inner) for inner in value]
    if isinstance(value, dict):
        return {_cleaned(name): _cleaned(inner) for name, inner in value.items()}
    return value


def shape_problem(value: object) -> str | None:
    """The problem that makes a JSON value dangerous to pass on: its depth, or keys that are no texts or reach a prototype."""
    level: list[Any] = [value]
    depth = 0
    while level := [one for one in level if isinstance(one, (dict, list, tuple))]:
        depth += 1
        if depth > 500:
            return "must not be nested deeper than 500 levels"
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                if not all(isinstance(key, str) for key in one):
                    return "must have texts as keys: others could become the same text"
                if "__proto__" in one:
                    return "must not have a key __proto__"
                inner = one.get("constructor")
                if isinstance(inner, dict) and "prototype" in inner:
                    return "must not have a key constructor with a key prototype below it"
                below.extend(one.values())
            else:
                below.extend(one)
        level = below
    return None


def is_uuid(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", value, re.I) is not None


def make_id() -> str:
    """A UUID v7."""
    number = int.from_bytes((time.time_ns() // 1_000_000).to_bytes(6, "big") + os.urandom(10), "big")
    number = number & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62
    return str(uuid.UUID(int=number))


def text_array(texts: Sequence[str | None]) -> str:
    """PostgreSQL's text form of an array of texts."""
    quoted = ("NULL" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts)
    return "{" + ",".join(quoted) + "}"


def plain_array(values: Any) -> str:
    """The same of values without special characters: ids, numbers."""
    return "{" + ",".join(map(str, values)) + "}"
