"""A node: its settings, its parts, its heartbeats, and the hints that it receives."""
from __future__ import annotations

import json
import logging
import os
import random
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ._codec import Codec
from ._errors import PgQueueError, is_transient, refuses_login, said
from ._json import json_text
from ._link import STATEMENT, Link, check_version, missing_schema, version_question
from ._statements import Lease, Statements
from ._task import Task
from ._unit import margin
from .producer import pause

if TYPE_CHECKING:
    from ._claim import Claimer
    from ._run import Runner
    from ._settle import Settler

log = logging.getLogger("pgqueue")
RECONCILE = 60.0


@dataclass(frozen=True)
class Settings:
    """Options of a worker, checked; times in seconds."""

    conninfo: str
    schema: str
    node: str
    pool: str
    tasks: Mapping[str, Task]
    concurrency: int
    heartbeat: float
    lost_after: float
    drain: float
    listen: bool
    codec: Codec | None


def default_node() -> str:
    return f"{socket.gethostname()[:150]}-{os.getpid()}-{random.randbytes(3).hex()}"


class Node:
    """The parts of a worker, which know each other by it."""

    claimer: Claimer
    runner: Runner
    settler: Settler
    presence: Presence

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.statements = Statements(settings.schema)
        self.draining = threading.Event()
        self.links: list[Link] = []

    def link(self, name: str, limit: float = STATEMENT) -> Link:
        """A connection of the node, under its name."""
        link = Link(self.settings.conninfo, f"pgqueue {self.settings.node} {name}", limit)
        self.links.append(link)
        return link


def wakes(payload: str, pool: str, node: str) -> bool:
    """Tells whether a hint of ready work items tells this node to claim."""
    if payload in ("", pool):
        return True
    if not payload.startswith('["'):
        return False
    try:
        of, *nodes = json.loads(payload)
    except ValueError:
        return False  # a pool of such a name, or anyone's text
    return bool(of == pool and node in nodes)


class Held(NamedTuple):
    """A lease as the heartbeat sees it. ``is_live``: neither settled nor being settled."""

    lease: Lease
    abort: Callable[[str], None]
    is_live: Callable[[], bool]


class Presence:
    """Keeps a node registered, by a thread and a connection of its own: a handler that blocks does not lose the node.

    While the database can't be reached, handlers go on; before others may take the node for lost, they are aborted.
    """

    def __init__(self, node: Node, on_fatal: Callable[[PgQueueError], None]) -> None:
        self._node, self._on_fatal = node, on_fatal
        self._settings = node.settings
        # a connection that has died silently leaves the time for another one
        self._link = node.link("heartbeat", min(10.0, node.settings.lost_after / 3))
        self._link.on_hint = self._hear
        if node.settings.listen:
            self._link.channels = [f"{node.settings.schema}:{name}" for name in ("work", "cancel")]
        self.incarnation: str | None = None
        self.fenced = False
        """Others may have taken this node's jobs: it must not claim until a heartbeat has arrived."""
        self._beat_at = time.monotonic()
        self._beat_now = False
        self._reconcile_at = time.monotonic() + RECONCILE
        self._stopped = False
        self._hears, self._waker = socket.socketpair()
        self._hears.setblocking(False)
        self._waker.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="pgqueue-heartbeat", daemon=True)

    @property
    def hearing(self) -> bool:
        """True while hints are received; otherwise the claimer must poll more often."""
        return self._settings.listen and self._link.connection is not None and self._link.direct

    def start(self) -> None:
        """Checks the schema's version, registers the node and starts its heartbeats."""
        failures = 0
        while not self._node.draining.is_set():
            try:
                answer = self._link.one(version_question(self._settings.schema))
                break
            except Exception as error:
                if not is_transient(error) or refuses_login(error):
                    raise missing_schema(self._settings.schema, error) or error from error
                failures += 1
                log.warning("node %s can't reach the database, and tries on: %s", self._settings.node, said(error))
                self._node.draining.wait(pause(failures))
        else:
            return
        check_version(self._settings.schema, json.loads(answer))
        self._register()
        self._thread.start()

    def wake(self) -> None:
        """Sends a heartbeat now."""
        self._beat_now = True
        self._poke()

    def ended(self, incarnation: str) -> None:
        """Call when others have ended that incarnation: its leases are lost."""
        if self.incarnation != incarnation:
            return
        self.incarnation = None
        log.warning("node %s was reset, lost or replaced: it drops its jobs, and registers again", self._settings.node)
        for held in self._node.runner.held():
            held.abort("lease_lost")
        self.wake()

    def fence(self, now: float) -> None:
        """Aborts all jobs if no heartbeat has arrived for so long that others may take them soon."""
        if self.incarnation is None or self.fenced or not self._is_silent(now):
            return
        self.fenced = True
        held = self._node.runner.held()
        log.error(
            "node %s reaches no database: it aborts %d jobs before others take them", self._settings.node, len(held)
        )
        for one in held:
            one.abort("node_silent")

    def stop(self) -> None:
        """Ends the heartbeats, releases all leases of the node, and ends its incarnation."""
        self._stopped = True
        self._poke()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(3)
            if self._thread.is_alive():
                self._link.abort()
                self._thread.join(1)
        last, self.incarnation = self.incarnation, None
        if last is not None:
            try:
                self._node.statements.leave(self._link, self._settings.node, last)
            except Exception as error:
                log.warning("node %s could not leave: %s", self._settings.node, said(error))
        if not self._thread.is_alive():
            self._hears.close()
            self._waker.close()

    def _poke(self) -> None:
        try:
            self._waker.send(b"!")
        except OSError:
            pass  # it is awake anyway, or has ended

    def _is_silent(self, now: float) -> bool:
        lost_after = self._settings.lost_after
        return now - self._beat_at >= lost_after - margin(lost_after)

    def _hear(self, channel: str, payload: str) -> None:
        if channel.endswith(":cancel"):
            self._beat_now = True  # the answer says which jobs
        elif wakes(payload, self._settings.pool, self._settings.node):
            self._node.claimer.hint(released=payload == "")

    def _run(self) -> None:
        due = time.monotonic() + self._settings.heartbeat
        failures = 0
        while not self._stopped:
            connected = self._link.wait(0 if self._beat_now else due - time.monotonic(), self._hears)
            try:
                while self._hears.recv(4096):
                    pass
            except BlockingIOError:
                pass
            # others take the node for dead soon after this session has ended: so that is answered at once
            if self._stopped or (connected and not self._beat_now and time.monotonic() < due):
                continue
            self._beat_now = False
            try:
                again = self._beat()
                due, failures = time.monotonic() + (0 if again else self._settings.heartbeat), 0
            except PgQueueError as error:
                self._on_fatal(error)
                return
            except Exception as error:
                failures += 1
                self._reconcile_at = 0.0  # a failover may have replaced the server
                due = time.monotonic() + pause(failures, min(1.0, self._settings.heartbeat))
                if not self._stopped:
                    log.warning("a heartbeat of node %s failed, and is repeated: %s", self._settings.node, said(error))

    def _beat(self) -> bool:
        """Sends one heartbeat, or registers anew. True: the next one is due at once."""
        node, statements, draining = self._settings.node, self._node.statements, self._node.draining.is_set()
        incarnation = self.incarnation
        if incarnation is None:
            if not draining:
                self._register()
                self._node.claimer.hint(released=True)
            return False
        held = self._node.runner.held()
        sent_at = time.monotonic()
        alive, cancelled, lost = statements.heartbeat(
            self._link, node, incarnation, [one.lease for one in held], draining, self._node.runner.hung()
        )
        if not alive:
            self.ended(incarnation)
            return True
        self._beat_at = sent_at
        if self.fenced and not self._is_silent(time.monotonic()):
            self.fenced = False
            self._node.claimer.hint(released=True)
        gone = set(lost)
        for one in held:
            if not one.is_live():
                continue  # a lease that was settled meanwhile is gone from the table, but not lost
            if one.lease in gone:
                log.warning("the lease of job %s was lost: its handler is aborted", one.lease.id)
                one.abort("lease_lost")
            elif one.lease.id in cancelled:
                one.abort("cancelled")
        if not draining and time.monotonic() >= self._reconcile_at:
            self._reconcile(incarnation)
        return False

    def _register(self) -> None:
        settings, incarnation, seen = self._settings, str(uuid.uuid4()), None
        described = [
            json_text({name: task.described() for name, task in settings.tasks.items()}),
            settings.concurrency,
            settings.pool,
            round(settings.heartbeat * 1_000),
            round(settings.lost_after * 1_000),
            f"pgqueue for Python, {sys.version.split()[0]}",
            incarnation,  # the same for each call, so that one whose reply was lost is accepted again
        ]
        failures = 0
        while not self._node.draining.is_set() and not self._stopped:
            try:
                sent_at = time.monotonic()
                accepted, heartbeat, heartbeat_ms = self._node.statements.register(
                    self._link, settings.node, described, seen
                )
            except Exception as error:
                if not is_transient(error):
                    raise
                failures += 1
                log.warning("node %s can't register, and tries on: %s", settings.node, said(error))
                self._node.draining.wait(pause(failures))
                continue
            if accepted:
                self._beat_at, self.fenced, self.incarnation = sent_at, False, incarnation
                return
            if seen is not None and seen != heartbeat:
                raise PgQueueError(
                    "node_id_in_use",
                    f'another live node has the id "{settings.node}": give each node its own id, or stop the other one',
                )
            seen = heartbeat  # if it stands still for two of its intervals, that node is dead
            self._node.draining.wait(max(0.025, heartbeat_ms / 2_000))

    def _reconcile(self, incarnation: str) -> None:
        """Gives back leases that the node is done with: an asynchronous failover has lost their settlements."""
        self._reconcile_at = time.monotonic() + RECONCILE
        found = self._node.statements.held(self._link, self._settings.node, incarnation)
        tokens = set(self._node.claimer.tokens)
        known = set(self._known())
        forgotten = [one for one in found if one.token not in tokens and one not in known]
        if forgotten and self.incarnation == incarnation:
            log.warning("node %s gives back %d leases that it knows nothing of", self._settings.node, len(forgotten))
            self._node.statements.release(self._link, forgotten)

    def _known(self) -> Iterable[Lease]:
        yield from self._node.settler.pending()
        yield from self._node.runner.leases()
        yield from self._node.settler.pending()  # what went there from the runner meanwhile
