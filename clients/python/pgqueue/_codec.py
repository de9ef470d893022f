"""Codecs: turn values into the form that the database keeps, and back."""
from __future__ import annotations

import json
import re
from typing import Any, Literal, NamedTuple, Protocol

from ._errors import PgQueueError

Json = Any
"""A value that survives JSON: None, bool, numbers, texts, lists, dicts with texts as keys."""
Field = Literal["payload", "result", "checkpoint", "error", "progress", "signal"]


class Place(NamedTuple):
    """The place of one value, which an encoded value is bound to: moved to another place, it is refused."""

    id: str
    """Of the job; of the flow, for a signal."""
    field: Field
    name: str
    """Of the job's task; of the step, for a signal."""


class Codec(Protocol):
    """Made by :func:`encrypted`. Both directions are pure: no I/O."""

    @property
    def errors(self) -> bool:
        """Encodes the errors of attempts, too."""

    @property
    def progress(self) -> bool:
        """Encodes progress, too."""

    @property
    def accepts_plain(self) -> bool:
        """Decodes values that are not encrypted, as they are."""

    @property
    def writes_with(self) -> str:
        """Id of the key that ``encode`` uses."""

    def encode(self, text: str, place: Place) -> str:
        """The JSON text that is stored in place of a JSON text."""

    def decode(self, stored: Json, place: Place) -> Json:
        """The value of a stored value. Raises ``key_missing``, ``undecodable``."""


def decoded(codec: Codec | None, stored: Json, place: Place) -> Json:
    """The value of a stored value. Without a codec an encrypted one lacks its key. Raises ``key_missing``, ``undecodable``."""
    if codec is not None:
        return codec.decode(stored, place)
    envelope = envelope_of(stored)
    if envelope is None:
        return stored
    key = envelope.key
    why = f"is encrypted under the key {key!r}, and this process has no codec: give it codec=encrypted(…)"
    raise PgQueueError("key_missing", f"{said_place(place)} {why}", {**place._asdict(), "key": key})


def kept_result(id: str, result: Json) -> Json:
    """The result of a job that is done. Raises ``result_lost``: it could not be stored."""
    if isinstance(result, dict) and isinstance(result.get("pgqueue_error"), str):
        raise PgQueueError(
            "result_lost", f"job {id} is done, and its result is lost: {result['pgqueue_error']}", {"id": id}
        )
    return result


class Envelope(NamedTuple):
    """The parts of an encrypted value, which is stored as ``{"$enc": text}``: the parts, separated by colons."""

    version: int
    """Number of its cipher."""
    key: str
    """Id of its key, which may have colons itself."""
    fingerprint: str
    """Of the key."""
    data: str
    """Base64 of the nonce, the encrypted text and the tag."""


def envelope_of(stored: Json) -> Envelope | None:
    """The parts of an encrypted value, alone or with plain members beside it. None: it is plain."""
    text = stored.get("$enc") if isinstance(stored, dict) else None
    found = re.fullmatch("([1-9][0-9]{0,8}):(.*):([^:]*):([^:]*)", text, re.DOTALL) if isinstance(text, str) else None
    return None if found is None else Envelope(int(found[1]), found[2], found[3], found[4])


def said_place(place: Place) -> str:
    owner, kind = ("flow", "step") if place.field == "signal" else ("job", "task")
    return f"the {place.field} of {owner} {place.id} ({kind} {place.name!r})"


def encoded_error(codec: Codec, error: dict[str, Json], place: Place) -> dict[str, Json]:
    """An error as it is stored: its kind and run time stay readable, and its message says that it is encoded."""
    plain = {name: error[name] for name in ("kind", "ms") if name in error}
    message = f"encrypted under the key {json.dumps(codec.writes_with, ensure_ascii=False)}"
    text = json.dumps(error, ensure_ascii=False)
    return {**plain, "message": message, **json.loads(codec.encode(text, place))}


def opened_error(codec: Codec | None, error: dict[str, Json], place: Place) -> dict[str, Json]:
    """A stored error for people: decoded where that is possible, and otherwise as it is stored.

    A plain one has no text if the codec encodes errors and refuses what is plain, unless the database writes such ones:
    anybody who may write rows can have made it up.
    """
    if codec is None:
        return error
    if envelope_of(error) is None:
        own = error.get("kind") == "crash" or str(error.get("message")).startswith("it can't be processed: ")
        if own or not codec.errors or codec.accepts_plain or not error:
            return error
        kept = {name: error[name] for name in ("kind", "reason", "ms", "node", "try", "at") if name in error}
        return {**kept, "message": "its text is not encrypted, and the codec has plain='refuse'"}
    try:
        found = codec.decode(error, place)
    except PgQueueError:
        return error
    plain = {name: value for name, value in error.items() if name != "$enc"}
    return {**plain, **found} if isinstance(found, dict) else error
