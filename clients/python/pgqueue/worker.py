"""Workers: nodes that run jobs."""
from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ._claim import Claimer
from ._codec import Codec
from ._errors import PgQueueError, problems_error
from ._json import Seconds, milliseconds
from ._link import checked_schema, own_conninfo
from ._node import Node, Presence, Settings, default_node, log
from ._process import unreachable
from ._run import Runner
from ._settle import Settler
from ._task import Task

if TYPE_CHECKING:
    from typing_extensions import Self

GRACE = 1.0
"""Longest wait for handlers to stop after a shutdown has aborted them, in seconds."""
LOOK = 0.1
"""Time between two looks for a signal."""
SETTLE = 5.0
"""Longest wait for the last settlements."""
_DRAIN = "drain must be seconds, or a timedelta, up to 3650 days"


class Worker:
    """One worker node. ``run`` it until SIGTERM, or ``start`` and ``stop`` it, or use it as a context manager.

    ``conninfo``: a direct connection, or with ``listen=False`` one through PgBouncer. ``concurrency``: handlers at a time,
    1 to 1,000 (more for async ones, up to 10,000). ``drain``: longest time that a stop waits for running handlers.
    ``node``: its id, by which it can be reset; no two live nodes share one.
    """

    def __init__(
        self,
        conninfo: str,
        tasks: Iterable[Task],
        *,
        concurrency: int = 10,
        node: str | None = None,
        pool: str = "default",
        schema: str = "pgqueue",
        drain: Seconds = 30,
        heartbeat: Seconds = 5,
        lost_after: Seconds | None = None,
        listen: bool = True,
        codec: Codec | None = None,
    ) -> None:
        """Opens no connection yet. Raises ``configuration``, with all that is wrong."""
        found = list(tasks)
        problems = [] if found else ["tasks is empty: a worker without tasks can run nothing"]
        if not all(isinstance(one, Task) for one in found):
            problems.append('tasks must be functions with the decorator @task("name")')
            found = [one for one in found if isinstance(one, Task)]
        names = [one.name for one in found]
        problems += [
            f"task {name} has more than one handler"
            for name in sorted({name for name in names if names.count(name) > 1})
        ]
        problems += [problem for one in found if one.process and (problem := unreachable(one))]
        if type(concurrency) is not int or not 1 <= concurrency <= 10_000:
            problems.append("concurrency must be a whole number from 1 to 10000")
        for name, text, most in (("node", node or "node", 200), ("pool", pool, 100)):
            if not isinstance(text, str) or not 1 <= len(text) <= most:
                problems.append(f"{name} must be a text of 1 to {most} characters")
        beats, drains = milliseconds(heartbeat), milliseconds(drain)
        lost = max(30_000.0, 2 * (beats or 0)) if lost_after is None else milliseconds(lost_after)
        if beats is None or not 50 <= beats <= 3_600_000:
            problems.append("heartbeat must be 0.05 to 3600 seconds")
        if lost is None or lost > 86_400_000 or lost < 2 * (beats or 0):
            problems.append("lost_after must be at least two heartbeats, and at most a day")
        if drains is None:
            problems.append(_DRAIN)
        own_conninfo(conninfo, "")
        if problems or beats is None or lost is None or drains is None:
            raise problems_error("configuration", "the worker", problems)
        self._settings = Settings(
            conninfo, checked_schema(schema), node or default_node(), pool, {one.name: one for one in found}, concurrency,
            beats / 1_000, lost / 1_000, drains / 1_000, listen, codec,
        )  # fmt: skip
        self._node = Node(self._settings)
        self._node.claimer = Claimer(self._node)
        self._node.runner = Runner(self._node)
        self._node.settler = Settler(self._node)
        self._node.presence = Presence(self._node, self._fail)
        self._asked = threading.Event()
        self._stopped: threading.Event | None = None
        self._started = False
        self._fatal: PgQueueError | None = None

    @property
    def node(self) -> str:
        return self._settings.node

    @property
    def running(self) -> int:
        """Slots in use: handlers that have not returned."""
        return self._node.runner.running

    def start(self) -> None:
        """Checks the schema's version, registers the node and begins to claim. A database that can't be reached is tried again.

        Raises ``schema_version``, or ``node_id_in_use``.
        """
        self._start(None)

    def _start(self, loop: asyncio.AbstractEventLoop | None) -> None:
        if self._started:
            raise PgQueueError("configuration", "this worker was started before: make another one")
        self._started = True
        node = self._node
        node.settler.start()
        node.runner.start(loop)
        try:
            node.presence.start()
        except BaseException:
            self.stop(drain=0)
            raise
        if node.presence.incarnation is not None:
            node.claimer.settled()  # the node's slots are free
            node.claimer.start()
            log.info("node %s runs %s", self.node, ", ".join(self._settings.tasks))

    def stop(self, *, drain: Seconds | None = None) -> None:
        """Ends in order: claims no more, waits for running handlers, aborts the others, gives back their jobs, and leaves.

        Raises ``configuration``, and stops nothing, if ``drain`` is no length of time.
        """
        drains = self._settings.drain * 1_000 if drain is None else milliseconds(drain)
        if drains is None:
            raise PgQueueError("configuration", f"{_DRAIN}, not {drain!r}")
        first = self._stopped is None
        if self._stopped is None:
            self._stopped = threading.Event()
        if not first:
            self._stopped.wait()
            return
        node = self._node
        try:
            node.draining.set()
            node.presence.wake()
            node.runner.drain()
            node.claimer.stop()
            if not node.runner.quiet(drains / 1_000):
                node.runner.abort("shutdown")
                node.runner.quiet(GRACE)
                node.settler.release(node.runner.abandon())
            if not node.settler.idle(SETTLE):
                log.error("node %s could not settle all of its jobs: their leases are given back", self.node)
            node.settler.stop()
            node.presence.stop()
            node.runner.close()
            for link in node.links:
                if link.busy_since is not None:
                    link.abort()
                link.close()
        finally:
            self._stopped.set()
            self._asked.set()

    def run(self) -> None:
        """Runs until SIGTERM or SIGINT, then stops in order; a second signal ends the process. Call it in the main thread."""
        signals: list[int] = []  # no lock is taken in a signal handler: the main thread may hold it
        names = (signal.SIGTERM, signal.SIGINT)
        previous = {name: signal.signal(name, lambda number, _frame: signals.append(number)) for name in names}
        failures: list[BaseException] = []
        starting = threading.Thread(target=self._start_into, args=(failures,), name="pgqueue-start", daemon=True)
        starting.start()
        try:
            while not signals and not failures:
                if self._asked.wait(LOOK):
                    break
            for name in names:
                signal.signal(name, signal.SIG_DFL)
            self._ask()
            starting.join()
            self.stop()
        finally:
            for name, handler in previous.items():
                signal.signal(name, handler)
        if failures:
            raise failures[0]
        if self._fatal is not None:
            raise self._fatal

    def _start_into(self, failures: list[BaseException]) -> None:
        try:
            self.start()
        except BaseException as error:
            failures.append(error)

    def _ask(self) -> None:
        """Asks the worker to stop, also while it starts."""
        self._node.draining.set()
        self._asked.set()

    async def serve(self) -> None:
        """As ``run``, in the running event loop, which also runs the async handlers. A cancellation stops it, too."""
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            try:
                loop.add_signal_handler(name, self._ask)
            except (NotImplementedError, RuntimeError, ValueError):
                pass  # not in the main thread
        try:
            await loop.run_in_executor(None, self._start, loop)
            while not self._asked.is_set():
                await asyncio.sleep(LOOK)
        finally:
            await asyncio.shield(loop.run_in_executor(None, self.stop))
            await self._node.runner.close_async()
            for name in (signal.SIGTERM, signal.SIGINT):
                try:
                    loop.remove_signal_handler(name)
                except (NotImplementedError, RuntimeError, ValueError):
                    pass
        if self._fatal is not None:
            raise self._fatal

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _fail(self, error: PgQueueError) -> None:
        """Called when the node can't go on: another node has taken its id."""
        log.error("%s", error)
        self._fatal = error
        self._ask()
        threading.Thread(target=self.stop, kwargs={"drain": 0}, name="pgqueue-stop", daemon=True).start()
