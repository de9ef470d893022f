"""A worker process of the bench, by the Python client of this repository: what worker.ts is in TypeScript.

It is told what to do by lines of its standard input, and says by lines of its standard output what it did.
"""
from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import signal
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "clients/python"))
from tap import NAME, tokens, write  # noqa: E402

from pgqueue import AsyncContext, Context, RetryPolicy, Worker, task  # noqa: E402

config = json.loads(os.environ["PGQUEUE_TEST_OPTIONS"])
LEASE = 2.0
"""Seconds, as in workload.ts."""
PATIENT = RetryPolicy(max_tries=4, max_crashes=1_000, backoff="fixed", base=0.2, jitter=0.5)
"""As in tasks.ts, for jobs that were enqueued by plain SQL."""
MEMORY = 160 * 1_048_576
"""What a process may take beyond what it has, once its memory is to end."""


@contextmanager
def recorded(payload, ctx):
    """Records the start and the end of a handler, and makes it fail as its job says."""
    token = tokens.get(ctx.id, "")
    write({"type": "start", "id": ctx.id, "token": token, "node": NAME})
    try:
        yield
        if ctx.tries < payload["fails"]:
            raise RuntimeError(f"fails {payload['fails']} times")
    finally:
        write({"type": "end", "id": ctx.id, "token": token})


def wait(ms: float, ctx: Context) -> None:
    if ctx.wait(ms / 1_000):
        ctx.check()


@task("short", timeout=LEASE, retry=PATIENT)
def short(payload, ctx: Context):
    with recorded(payload, ctx):
        wait(payload["ms"], ctx)


@task("medium", timeout=2 * LEASE, retry=PATIENT)
async def medium(payload, ctx: AsyncContext):
    with recorded(payload, ctx):
        await asyncio.sleep(payload["ms"] / 1_000)


@task("long", timeout=LEASE, retry=PATIENT)
async def long(payload, ctx: AsyncContext):
    with recorded(payload, ctx):
        until = time.monotonic() + payload["ms"] / 1_000
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(LEASE * 0.35, left))
            await ctx.extend(LEASE)


@task("effect", timeout=LEASE, retry=PATIENT)
def effect(payload, ctx: Context):
    with recorded(payload, ctx):
        wait(payload["ms"], ctx)
        if ctx.tries < payload["fails"]:
            return  # the error that follows must leave no effect
        with ctx.transaction() as connection:
            connection.execute("insert into chaos.witness (job) values (%s)", [ctx.id])


@task("poison", timeout=LEASE, retry=PATIENT)
def poison(payload, ctx: Context):
    with recorded(payload, ctx):
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)


def block(ms: float) -> None:
    """Computes, and keeps the GIL, as an extension in C may: no other thread of the process runs."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(ms)  # seconds, and so far longer
    until = time.monotonic() + ms / 1_000
    while time.monotonic() < until:
        pass
    sys.setswitchinterval(usual)


def hog() -> None:
    """Takes all memory that there is; a moment after the other threads have met that, the process dies as by the kernel."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    signal.setitimer(signal.ITIMER_REAL, 0.5)  # its signal ends the process, which needs no memory
    kept = []
    size = 1_048_576
    while True:
        try:
            kept.append(bytes(size))
        except MemoryError:
            size = max(1, size // 2)


def obey(line: str) -> None:
    word, _, ms = line.partition(" ")
    if word == "stop":
        os.kill(os.getpid(), signal.SIGTERM)
    elif word == "block":
        block(float(ms))
    elif word == "hog":
        hog()


def listen() -> None:
    heard = b""
    while (more := os.read(0, 4_096)) != b"":
        *lines, heard = (heard + more).split(b"\n")
        for line in lines:
            obey(line.decode())
    os._exit(0)  # nobody is left to tell it to


class Ready(logging.Handler):
    """Says that the node is registered when the client logs so."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg == "node %s runs %s":
            print(json.dumps({"type": "ready"}), flush=True)


if "FAKETIME_TIMESTAMP_FILE" in os.environ:  # under libfaketime, the call of time.sleep fails as invalid
    time.sleep = lambda seconds: threading.Event().wait(seconds)
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
logging.getLogger("pgqueue").addHandler(Ready())
threading.Thread(target=listen, daemon=True).start()
Worker(
    os.environ["PGQUEUE_TEST_URL"],
    [short, medium, long, effect, poison],
    node=NAME,
    concurrency=config["concurrency"],
    heartbeat=config["heartbeatMs"] / 1_000,
    lost_after=config["lostAfterMs"] / 1_000,
    drain=2,
    listen=config["listen"],
).run()
