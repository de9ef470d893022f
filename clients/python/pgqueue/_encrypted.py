"""Encryption of values before they reach the database, as the TypeScript packages have it.

AES-256-GCM is written and read, ChaCha20-Poly1305 is read: TypeScript processes with libsodium write it.
"""
from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
from collections.abc import Sequence
from typing import Any, Literal

from ._codec import Codec, Envelope, Json, Place, envelope_of, said_place
from ._errors import PgQueueError, problems_error
from ._json import json_value

Key = bytes | str
"""32 random bytes, as such or in base64."""
_VERSION = 1
"""What is written. The TypeScript packages write 2 with libsodium."""
_NONCE_BYTES = 12
_TAG_BYTES = 16
_A_KEY = "32 bytes, as bytes or base64"


def encrypted(
    keys: Sequence[tuple[str, Key]], *, plain: Literal["accept", "refuse"], errors: bool = False, progress: bool = False
) -> Codec:
    """A codec that encrypts payloads, results and checkpoints; needs the extra ``pgqueue[encryption]``.

    ``keys``: pairs of an id and a key. The first one encrypts; each of them decrypts. ``plain``: values that are not
    encrypted are read, or a job with one is dead. ``errors``, ``progress``: encrypts them, too. Job id, field and task are
    authenticated: a value that is moved to another job is refused. Give every producer and worker the same.

    Raises ``configuration``, with all that is wrong, and without any key.
    """
    problems = []
    found: dict[str, bytes] = {}
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Sequence) or not keys:
        problems.append("keys must be a list of pairs, such as [('2026-11', key)], with at least one")
        keys = []
    for place, pair in enumerate(keys):
        id, key = pair if isinstance(pair, (tuple, list)) and len(pair) == 2 else (None, None)
        secret = _secret(key)
        if not isinstance(id, str) or not 1 <= len(id) <= 100 or secret is None:
            problems.append(
                f"keys[{place}] must be a pair of an id, a text of 1 to 100 characters, and a key, {_A_KEY}"
            )
        elif id in found:
            problems.append(f"keys has the id {id!r} twice")
        else:
            found[id] = secret
    if plain not in ("accept", "refuse"):
        problems.append("plain must be accept or refuse")
    if problems:
        raise problems_error("configuration", "encrypted", problems)
    return _Encrypted(found, plain == "accept", errors, progress)


def blind(value: str, key: Key) -> str:
    """A text that stands for a value in an attribute, a key or a unique key, which are stored in the clear.

    Equal values give equal texts; without the key nobody can tell the value. HMAC-SHA256 of `pgqueue-blind`, a
    line feed and the value. Use a key of its own.
    """
    secret = _secret(key)
    if secret is None or not isinstance(value, str):
        raise PgQueueError("configuration", f"blind(value, key): value must be a text, and key {_A_KEY}")
    # starts unlike all else that is derived from a key: no value can be chosen that gives the key of a cipher
    digest = hmac.digest(secret, f"pgqueue-blind\n{value}".encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class _Encrypted:
    def __init__(self, keys: dict[str, bytes], accepts_plain: bool, errors: bool, progress: bool) -> None:
        try:
            from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
        except ImportError as error:
            raise PgQueueError(
                "configuration", 'encrypted needs the package cryptography: pip install "pgqueue[encryption]"'
            ) from error
        self.errors, self.progress = errors, progress
        self.writes_with = next(iter(keys))
        self._known: dict[str, tuple[dict[int, Any], str]] = {
            id: ({1: AESGCM(key)}, _fingerprint(key)) for id, key in keys.items()
        }
        try:
            for id, key in keys.items():
                self._known[id][0][2] = ChaCha20Poly1305(_derived(key))
        except UnsupportedAlgorithm:
            pass  # an OpenSSL for FIPS 140 has AES alone
        self._invalid: type[Exception] = InvalidTag
        self.accepts_plain = accepts_plain
        ciphers, fingerprint = self._known[self.writes_with]
        self._cipher = ciphers[_VERSION]
        head = json.dumps(f"{_VERSION}:{self.writes_with}:{fingerprint}:", ensure_ascii=False)
        self._head = f'{{"$enc":{head[:-1]}'

    def encode(self, text: str, place: Place) -> str:
        nonce = os.urandom(_NONCE_BYTES)
        data = nonce + self._cipher.encrypt(nonce, text.encode(), _additional(_VERSION, place))
        return f'{self._head}{base64.b64encode(data).decode()}"}}'

    def decode(self, stored: Json, place: Place) -> Json:
        envelope = envelope_of(stored)
        if envelope is None:
            if self.accepts_plain:
                return stored
            raise _undecodable(place, "it is not encrypted, and the codec has plain='refuse'")
        version = envelope.version
        ciphers, fingerprint = self._known.get(envelope.key, (None, None))
        if ciphers is None or version not in ciphers or fingerprint != envelope.fingerprint:
            raise _key_missing(place, envelope, ciphers, fingerprint)
        try:
            data = base64.b64decode(envelope.data)
            if len(data) < _NONCE_BYTES + _TAG_BYTES:
                raise ValueError(f"it has {len(data)} bytes")
            nonce, sealed = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
            return json_value(ciphers[version].decrypt(nonce, sealed, _additional(version, place)))
        except (self._invalid, ValueError) as error:
            why = f"it was changed, cut, or moved here from another place (key {envelope.key!r})"
            raise _undecodable(place, why) from error


def _secret(key: object) -> bytes | None:
    if isinstance(key, str) and re.fullmatch("[A-Za-z0-9+/_-]{43}=?", key):
        key = base64.b64decode(key.rstrip("=").replace("-", "+").replace("_", "/") + "=")
    return bytes(key) if isinstance(key, (bytes, bytearray)) and len(key) == 32 else None


def _fingerprint(key: bytes) -> str:
    """Tells keys apart, and nothing about the key: 4 bytes of an HMAC."""
    return base64.urlsafe_b64encode(hmac.digest(key, b"pgqueue-key", hashlib.sha256)[:4]).rstrip(b"=").decode()


def _derived(key: bytes) -> bytes:
    """The key of ChaCha20-Poly1305."""
    return hmac.digest(key, b"pgqueue-chacha20-poly1305", hashlib.sha256)


def _additional(version: int, place: Place) -> bytes:
    """Authenticated, and not stored. The name comes last: it may contain any character."""
    return f"pgqueue-enc-{version}\n{place.id.lower()}\n{place.field}\n{place.name}".encode()


def _key_missing(place: Place, envelope: Envelope, ciphers: dict[int, Any] | None, found: str | None) -> PgQueueError:
    key, version = envelope.key, envelope.version
    if ciphers is not None and version not in ciphers:
        why = f"is encrypted in version {version}, which this release of pgqueue can't read: update it"
        if version == 2:
            why = "is encrypted by ChaCha20-Poly1305, which the OpenSSL of this process lacks: run it elsewhere"
    elif found is None:
        why = f"is encrypted under the key {key!r}, which this process does not have: add it to the keys of encrypted()"
    else:
        own = f"and this process has another key under this id, of the fingerprint {found!r}"
        written = f"under the key {key!r} of the fingerprint {envelope.fingerprint!r}"
        why = f"is encrypted {written}, {own}: give encrypted() the right one"
    return PgQueueError("key_missing", f"{said_place(place)} {why}", {**place._asdict(), "key": key})


def _undecodable(place: Place, why: str) -> PgQueueError:
    return PgQueueError("undecodable", f"{said_place(place)} can't be decrypted: {why}", place._asdict())
