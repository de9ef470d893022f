"""The conformance suite's tasks, by the Python client of this repository."""
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4] / "clients/python"))
from pgqueue import Cancelled, Context, FanOut, GiveUp, Job, Json, Retry, Snooze, Task, Worker, task  # noqa: E402

effects = os.environ["CONFORMANCE_EFFECTS"]


def effect(ctx: Context, what: str, **more: Json) -> None:
    line = json.dumps({"job": ctx.id, "what": what, **more}) + "\n"
    file = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())
    os.close(file)


def wait_for(ctx: Context, gate: str) -> None:
    while not os.path.exists(gate):
        if ctx.wait(0.05):
            ctx.check()
    effect(ctx, "ended")


@task("ack", timeout=60)
def ack(payload, ctx):
    effect(ctx, "started")
    return payload.get("result")


@task("nack", timeout=60)
def nack(payload, ctx):
    effect(ctx, "started")
    if ctx.tries < payload["times"]:
        raise RuntimeError(payload["message"])
    return payload.get("result")


@task("retry-after", timeout=60)
def retry_after(payload, ctx):
    effect(ctx, "started")
    if ctx.tries < payload["times"]:
        raise Retry(payload["ms"] / 1_000, RuntimeError(payload["message"]))
    return payload.get("result")


@task("give-up", timeout=60)
def give_up(payload, ctx):
    effect(ctx, "started")
    raise GiveUp(RuntimeError(payload["message"]))


@task("snooze", timeout=60)
def snooze(payload, ctx):
    effect(ctx, "started")
    return Snooze(payload["ms"] / 1_000)


@task("sleep", timeout=60)
def sleep(payload, ctx):
    effect(ctx, "started")
    if ctx.wait(payload["ms"] / 1_000):
        ctx.check()
    effect(ctx, "ended")


@task("hold", timeout=60)
def hold(payload, ctx):
    effect(ctx, "started")
    wait_for(ctx, payload["gate"])


@task("extend", timeout=60)
def extend(payload, ctx):
    effect(ctx, "started")
    ctx.extend(payload["extendMs"] / 1_000)
    effect(ctx, "extended")
    wait_for(ctx, payload["gate"])


@task("wait-cancelled", timeout=60)
def wait_cancelled(payload, ctx):
    effect(ctx, "started")
    while not ctx.wait(60):
        pass
    if ctx.aborted != "cancelled":
        ctx.check()
    effect(ctx, "cancelled")
    return Cancelled()


@task("progress", timeout=60)
def progress(payload, ctx):
    effect(ctx, "started")
    ctx.progress(payload["value"])
    wait_for(ctx, payload["gate"])


@task("checkpoint", timeout=60)
def checkpoint(payload, ctx):
    effect(ctx, "started")
    if ctx.saved is not None:
        effect(ctx, "resumed", data=ctx.saved)
        return
    ctx.checkpoint(payload["save"])
    raise RuntimeError("the next attempt goes on")


@task("poison", timeout=60)
def poison(payload, ctx):
    effect(ctx, "started")
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


@task("transaction", timeout=60)
def transaction(payload, ctx):
    effect(ctx, "started")
    with ctx.transaction() as connection:
        connection.execute("insert into conformance.written (job, value) values (%s, %s)", [ctx.id, payload["value"]])
        if ctx.tries < payload["times"]:
            raise RuntimeError("rolled back")


@task("needs", timeout=60)
def needs(payload, ctx):
    effect(ctx, "started")
    items = ctx.needs["items"]
    numbers = [end.result["n"] for end in items]
    return {"count": len(numbers), "sum": sum(numbers), "failed": sum(1 for _ in items.failures())}


@task("fan-out", timeout=60)
def fan_out(payload, ctx):
    effect(ctx, "started")
    children = payload["children"]
    return FanOut([Job("ack", {"result": n}, queue=ctx.queue) for n in range(children)], {"children": children})


def run(values: list[object]) -> None:
    environment = os.environ
    logging.basicConfig(level=logging.INFO)
    Worker(
        environment["PGQUEUE_DATABASE_URL"],
        [value for value in values if isinstance(value, Task)],
        schema=environment["PGQUEUE_SCHEMA"],
        node=environment["PGQUEUE_NODE"],
        pool=environment["PGQUEUE_POOL"],
        concurrency=int(environment["PGQUEUE_SLOTS"]),
        heartbeat=int(environment["PGQUEUE_HEARTBEAT_MS"]) / 1_000,
        lost_after=int(environment["PGQUEUE_LOST_AFTER_MS"]) / 1_000,
        drain=int(environment["PGQUEUE_DRAIN_MS"]) / 1_000,
        listen=environment["PGQUEUE_LISTEN"] != "false",
    ).run()


if __name__ == "__main__":
    run(list(globals().values()))
