"""The conformance suite's tasks, by coroutines of the Python client of this repository."""
import asyncio
import os
import signal

from worker import Cancelled, FanOut, GiveUp, Job, Retry, Snooze, effect, run, task


async def opens(ctx, gate):
    while not os.path.exists(gate):
        await asyncio.sleep(0.05)
    effect(ctx, "ended")


@task("ack", timeout=60)
async def ack(payload, ctx):
    effect(ctx, "started")
    return payload.get("result")


@task("nack", timeout=60)
async def nack(payload, ctx):
    effect(ctx, "started")
    if ctx.tries < payload["times"]:
        raise RuntimeError(payload["message"])
    return payload.get("result")


@task("retry-after", timeout=60)
async def retry_after(payload, ctx):
    effect(ctx, "started")
    if ctx.tries < payload["times"]:
        return Retry(payload["ms"] / 1_000, RuntimeError(payload["message"]))
    return payload.get("result")


@task("give-up", timeout=60)
async def give_up(payload, ctx):
    effect(ctx, "started")
    return GiveUp(RuntimeError(payload["message"]))


@task("snooze", timeout=60)
async def snooze(payload, ctx):
    effect(ctx, "started")
    raise Snooze(payload["ms"] / 1_000)


@task("sleep", timeout=60)
async def sleep(payload, ctx):
    effect(ctx, "started")
    await asyncio.sleep(payload["ms"] / 1_000)
    effect(ctx, "ended")


@task("hold", timeout=60)
async def hold(payload, ctx):
    effect(ctx, "started")
    await opens(ctx, payload["gate"])


@task("extend", timeout=60)
async def extend(payload, ctx):
    effect(ctx, "started")
    await ctx.extend(payload["extendMs"] / 1_000)
    effect(ctx, "extended")
    await opens(ctx, payload["gate"])


@task("wait-cancelled", timeout=60)
async def wait_cancelled(payload, ctx):
    effect(ctx, "started")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        if ctx.aborted != "cancelled":
            raise
    effect(ctx, "cancelled")
    return Cancelled()


@task("progress", timeout=60)
async def progress(payload, ctx):
    effect(ctx, "started")
    await ctx.progress(payload["value"])
    await opens(ctx, payload["gate"])


@task("checkpoint", timeout=60)
async def checkpoint(payload, ctx):
    effect(ctx, "started")
    if ctx.saved is not None:
        effect(ctx, "resumed", data=ctx.saved)
        return
    await ctx.checkpoint(payload["save"])
    raise RuntimeError("the next attempt goes on")


@task("poison", timeout=60)
async def poison(payload, ctx):
    effect(ctx, "started")
    os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(60)


@task("transaction", timeout=60)
async def transaction(payload, ctx):
    effect(ctx, "started")
    async with ctx.transaction() as connection:
        await connection.execute(
            "insert into conformance.written (job, value) values (%s, %s)", [ctx.id, payload["value"]]
        )
        if ctx.tries < payload["times"]:
            raise RuntimeError("rolled back")


@task("needs", timeout=60)
async def needs(payload, ctx):
    effect(ctx, "started")
    items = (await ctx.needs())["items"]
    numbers = [end.result["n"] async for end in items]
    return {"count": len(numbers), "sum": sum(numbers), "failed": len([end async for end in items.failures()])}


@task("fan-out", timeout=60)
async def fan_out(payload, ctx):
    effect(ctx, "started")
    children = payload["children"]
    return FanOut([Job("ack", {"result": n}, queue=ctx.queue) for n in range(children)], {"children": children})


run(list(globals().values()))
