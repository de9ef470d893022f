"""Workers, with the rights of pgqueue_worker: outcomes, contexts, transactions, processes, stopping."""
from __future__ import annotations

import asyncio
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import psycopg
from pgqueue import (
    Aborted,
    Cancelled,
    Enqueued,
    FanOut,
    GiveUp,
    Job,
    PgQueueError,
    Retry,
    RetryPolicy,
    Snooze,
    Worker,
    encrypted,
    task,
)

from .slow_start import starts_slowly
from .support import ADMIN, WORKER, DatabaseTest, sql, status, until
from .test_producer import django_connection

AT_ONCE = RetryPolicy(base=0, jitter=0)


def history(id: str) -> tuple:
    return sql("select outcome, result, tries, errors from pgqueue.history where id = %s", id)[0]


def errors(id: str) -> list[dict]:
    return sql(
        "select coalesce((select errors from pgqueue.queue where id = %s), (select errors from pgqueue.dead_letter where id = %s))",
        id,
        id,
    )[0][0]


class Outcomes(DatabaseTest):
    def test_a_result_and_none(self) -> None:
        @task("give")
        def give(payload):
            return payload.get("result")

        @task("give-async")
        async def give_async(payload, ctx):
            await asyncio.sleep(0)
            return [ctx.id, ctx.key, ctx.queue, ctx.attempt, ctx.priority, dict(ctx.attributes), ctx.task]

        self.worker(give, give_async)
        made = self.producer.enqueue("give", {"result": {"a": "ü\n"}})
        self.assertEqual(self.producer.result(made), {"a": "ü\n"})
        none = self.producer.enqueue("give", {})
        self.assertIsNone(self.producer.result(none))
        self.assertEqual(history(none.id)[1], None)
        made = self.producer.enqueue("give-async", key="k", priority=2, attributes={"x": 1})
        self.assertEqual(self.producer.result(made), [made.id, "k", "default", 1, 2, {"x": 1}, "give-async"])

    def test_errors_are_retried_and_kept(self) -> None:
        @task("fails", retry=AT_ONCE)
        def fails(payload, ctx):
            if ctx.tries < 2:
                raise ValueError(f"no {ctx.tries}") from KeyError("cause")
            return ctx.attempt

        @task("fails-async", retry=AT_ONCE)
        async def fails_async(payload, ctx):
            if ctx.tries < 2:
                raise ValueError(f"no {ctx.tries}")
            return ctx.attempt

        self.worker(fails, fails_async)
        for name in ("fails", "fails-async"):
            made = self.producer.enqueue(name)
            self.assertEqual(self.producer.result(made), 3)
            outcome, _, tries, kept = history(made.id)
            self.assertEqual((outcome, tries, [one["message"] for one in kept]), ("done", 2, ["no 0", "no 1"]))
            self.assertEqual(kept[0]["name"], "ValueError")
            self.assertIn("in fails", kept[0]["stack"])

    def test_outcomes_returned_and_raised(self) -> None:
        @task("ends")
        def ends(payload, ctx):
            kind = payload["kind"]
            outcome = {
                "give_up": lambda: GiveUp(RuntimeError("useless")),
                "cancelled": Cancelled,
                "snooze": lambda: Snooze(3600),
                "retry": lambda: Retry(3600, "later"),
                "exit": lambda: SystemExit(3),
            }[kind]()
            if payload.get("raises"):
                raise outcome
            return outcome

        self.worker(ends)
        for raises in (False, True):
            made = {
                kind: self.producer.enqueue("ends", {"kind": kind, "raises": raises}).id
                for kind in ("give_up", "cancelled", "snooze", "retry", "exit")
            }
            until("the dead one", lambda: status(made["give_up"]) == "dead")
            self.assertEqual(errors(made["give_up"])[0]["message"], "useless")
            until("the cancelled one", lambda: status(made["cancelled"]) == "cancelled")
            until("the snoozed one", lambda: status(made["snooze"]) == "delayed")
            self.assertEqual(
                sql("select tries, last_token is not null from pgqueue.queue where id = %s", made["snooze"]),
                [(0, True)],
            )
            until("the retried one", lambda: status(made["retry"]) == "delayed")
            [(tries, seconds)] = sql(
                "select tries, extract(epoch from run_after - now())::float8 from pgqueue.queue where id = %s",
                made["retry"],
            )
            self.assertEqual(tries, 1)
            self.assertGreater(seconds, 3_000)
            until("the one that exits", lambda: (errors(made["exit"]) or [{}])[0].get("name") == "SystemExit")

    def test_payloads_are_parsed_and_upcast(self) -> None:
        def parse(payload):
            if not isinstance(payload["n"], int):
                raise ValueError(f"n is {payload['n']!r}")
            return payload["n"]

        @task(
            "parsed",
            version=3,
            parse=parse,
            upcast=lambda payload, version: {"n": payload["old"]} if version == 2 else payload,
            min_version=2,
        )
        def parsed(n):
            return n + 1

        self.worker(parsed)
        self.assertEqual(self.producer.result(self.producer.enqueue("parsed", {"n": 1}, version=3)), 2)
        self.assertEqual(self.producer.result(self.producer.enqueue("parsed", {"old": 4}, version=2)), 5)
        unknown = [self.producer.enqueue("parsed", {"n": 1}, version=version).id for version in (1, 4)]
        for payload in ({"n": "x"}, {}, None):
            made = self.producer.enqueue("parsed", payload, version=3)
            until("it to be dead", lambda: status(made.id) == "dead")
            [error] = errors(made.id)
            self.assertEqual(error["kind"], "invalid")
            self.assertIn("does not fit", error["message"])
        self.assertEqual({status(id) for id in unknown} & {"running", "done", "dead"}, set())

    def test_results_that_can_not_be_stored(self) -> None:
        @task("unstorable")
        def unstorable(payload):
            return {"set": {1}, "deep": None, "long": "x" * 1_100_000}[payload] if payload != "deep" else _deep()

        def _deep():
            deep = []
            for _ in range(600):
                deep = [deep]
            return deep

        self.worker(unstorable)
        for payload in ("set", "long", "deep"):
            made = self.producer.enqueue("unstorable", payload)
            with self.assertRaises(PgQueueError) as caught:
                self.producer.result(made)
            self.assertEqual(caught.exception.code, "result_lost", payload)

    def test_a_handler_that_has_not_run_is_not_done(self) -> None:
        once = RetryPolicy(max_tries=1)

        async def unseen(payload):
            raise AssertionError("nobody awaits it")

        @task("wrapped", retry=once)
        def wrapped(payload):
            return unseen(payload)

        @task("returned", retry=once)
        async def returned(payload):
            return unseen(payload)

        @task("yielding", retry=once)
        def yielding(payload):
            yield 1

        class Called:
            async def __call__(self, payload):
                return "ran"

        called = task("called")(Called())
        self.worker(wrapped, returned, yielding, called)
        for one, kind in ((wrapped, "coroutine"), (returned, "coroutine"), (yielding, "generator")):
            id = self.producer.enqueue(one, None).id
            until(f"{one.name} to end", lambda: status(id) not in ("pending", "ready", "running"))
            self.assertEqual((one.name, status(id)), (one.name, "dead"))
            self.assertIn(f"the handler returned a {kind}", errors(id)[0]["message"])
        self.assertEqual(self.producer.result(self.producer.enqueue(called, None)), "ran")

    def test_fan_out(self) -> None:
        @task("child")
        def child(payload, ctx):
            return ctx.key

        @task("parent", retry=RetryPolicy(max_tries=1))
        def parent(payload, ctx):
            return FanOut([child.job({"n": n}, unique_key=payload.get("unique")) for n in range(3)], {"children": 3})

        self.worker(child, parent)
        made = self.producer.enqueue(parent, {}, key="acme")
        self.assertEqual(self.producer.result(made), {"children": 3})
        until(
            "the children",
            lambda: sql("select count(*) from pgqueue.history where task = 'child' and result = '\"acme\"'") == [(3,)],
        )
        wrong = self.producer.enqueue(parent, {"unique": "u"})
        until("it to be dead", lambda: status(wrong.id) == "dead")
        self.assertIn("unique_key", errors(wrong.id)[0]["message"])

    def test_a_number_longer_than_python_reads_spoils_no_other_job(self) -> None:
        got = []

        @task("digits")
        def digits(payload):
            got.append(payload)

        jobs = "select 'digits', jsonb_build_object('n', case n when 7 then 1e5000 else n end) from generate_series(0, 19) n"
        sql(f"insert into pgqueue.queue (task, payload) {jobs}")
        self.worker(digits, concurrency=20)
        until("all to run", lambda: len(got) == 20)
        self.assertEqual({one["n"] for one in got}, {*range(20)} - {7} | {10**5000})

    def test_a_batch_whose_jobs_end_in_every_way(self) -> None:
        @task("mixed", retry=RetryPolicy(max_tries=1))
        def mixed(payload, ctx):
            n = payload["n"]
            if n % 50 == 7:
                raise ValueError("seven")
            if n % 50 == 9:
                ctx.progress(n)
            return n if n % 2 else None

        @task("mixed-async", retry=RetryPolicy(max_tries=1))
        async def mixed_async(payload):
            if payload["n"] % 50 == 7:
                raise ValueError("seven")
            return payload["n"]

        self.worker(mixed, mixed_async, concurrency=3)
        for handler in (mixed, mixed_async):
            name = handler.name
            self.producer.enqueue_many([handler.job({"n": n}) for n in range(2_000)])
            until("all to end", lambda: sql("select count(*) from pgqueue.queue where task = %s", name) == [(0,)])
            done = sql("select payload -> 'n', result from pgqueue.history where task = %s and outcome = 'done'", name)
            self.assertEqual(sorted(n for n, _ in done), [n for n in range(2_000) if n % 50 != 7])
            self.assertTrue(all(result == (n if name == "mixed-async" or n % 2 else None) for n, result in done))
            self.assertEqual(
                sql("select count(*), max(tries) from pgqueue.dead_letter where task = %s", name), [(40, 1)]
            )
        self.assertEqual(sql("select count(*) from pgqueue.work_queue where lock_key is not null"), [(0,)])


class Contexts(DatabaseTest):
    def test_extend_progress_and_checkpoint(self) -> None:
        gate = threading.Event()

        @task("long", timeout=4, retry=AT_ONCE)
        def long(payload, ctx):
            if ctx.saved is not None:
                return ctx.saved
            ctx.extend(60)
            ctx.progress({"half": True})
            ctx.checkpoint({"at": 3})
            gate.wait(150)
            raise RuntimeError("again")

        @task("long-async", timeout=4, retry=AT_ONCE)
        async def long_async(payload, ctx):
            if ctx.saved is not None:
                return ctx.saved
            await ctx.extend(60)
            await ctx.progress({"half": True})
            await ctx.checkpoint({"at": 3})
            while not gate.is_set():
                await asyncio.sleep(0.02)
            raise RuntimeError("again")

        self.worker(long, long_async)
        made = [self.producer.enqueue(name) for name in ("long", "long-async")]
        for one in made:
            until(
                "its progress",
                lambda: sql("select progress from pgqueue.job where id = %s", one.id) == [({"half": True},)],
            )
        time.sleep(4.2)  # past their timeouts
        self.assertEqual({status(one.id) for one in made}, {"running"})
        gate.set()
        for one in made:
            self.assertEqual(self.producer.result(one), {"at": 3})
            self.assertEqual(history(one.id)[2], 1)

    def test_progress_that_is_too_large_is_refused_whenever_it_comes(self) -> None:
        @task("shows-much")
        def shows_much(payload, ctx):
            return _shown(ctx)

        self.worker(shows_much, shows_much_there)
        for name in ("shows-much", "shows-much-there"):
            told = self.producer.result(self.producer.enqueue(name))
            deep = "nested deeper than 500 levels"
            large = f'task "{name}" can\'t show this progress: it has 8193 bytes of JSON, more than 8192'
            self.assertEqual(told[0], None)
            for problem, expected in zip(told[1:], (large, deep, large, deep)):
                self.assertEqual(problem[0], "invalid_job")
                self.assertIn(expected, problem[1])

    def test_a_job_that_is_not_done_in_time_is_retried(self) -> None:
        seen = []

        @task("slow", timeout=2, retry=AT_ONCE)
        def slow(payload, ctx):
            if ctx.tries == 0:
                seen.append(ctx.wait(150))
                ctx.check()
            return ctx.tries

        @task("slow-async", timeout=2, retry=AT_ONCE)
        async def slow_async(payload, ctx):
            if ctx.tries == 0:
                try:
                    await asyncio.sleep(150)
                except asyncio.CancelledError:
                    seen.append(ctx.aborted)
                    raise
            return ctx.tries

        self.worker(slow, slow_async)
        for name in ("slow", "slow-async"):
            made = self.producer.enqueue(name)
            self.assertGreaterEqual(self.producer.result(made), 1)
            self.assertIn(("timeout", "TimeoutError"), [(one["kind"], one.get("name")) for one in history(made.id)[3]])
        self.assertLessEqual({True, "timeout"}, set(seen))

    def test_a_handler_that_does_not_stop_is_told_with_the_heartbeat(self) -> None:
        gate = threading.Event()

        @task("stuck", timeout=2, retry=AT_ONCE)
        def stuck(payload, ctx):
            gate.wait(150)

        self.worker(stuck)
        made = self.producer.enqueue("stuck")
        hung = "select hung from pgqueue.node where state = 'alive' and hung > 0"
        until("a slot to hang", lambda: sql(hung) == [(1,)])
        gate.set()
        self.producer.result(made)
        until("no slot to hang", lambda: sql(hung) == [])

    def test_a_running_job_is_cancelled(self) -> None:
        @task("cancel")
        def cancel(payload, ctx):
            ctx.wait(150)
            ctx.check()

        @task("cancel-async")
        async def cancel_async(payload, ctx):
            await asyncio.sleep(150)

        self.worker(cancel, cancel_async)
        for name in ("cancel", "cancel-async"):
            made = self.producer.enqueue(name)
            until("it to run", lambda: status(made.id) == "running")
            sql("select pgqueue.cancel(array[%s::uuid])", made.id)
            until("it to be cancelled", lambda: status(made.id) == "cancelled")

    def test_a_reset_node_drops_its_jobs_and_goes_on(self) -> None:
        seen, gate = [], threading.Event()

        @task("reset")
        def reset(payload, ctx):
            if ctx.attempt == 1:
                ctx.wait(150)
                seen.append(ctx.aborted)
                try:
                    ctx.extend(5)
                except Aborted as error:
                    seen.append(error.reason)
                gate.set()
                return "stale"
            gate.wait(150)
            return "fresh"

        worker = self.worker(reset)
        made = self.producer.enqueue("reset")
        until("it to run", lambda: status(made.id) == "running")
        sql("select pgqueue.reset_node(%s)", worker.node)
        self.assertEqual(self.producer.result(made), "fresh")
        self.assertEqual(seen, ["lease_lost", "lease_lost"])

    def test_a_node_without_a_database_aborts_its_jobs_before_others_take_them(self) -> None:
        seen = []

        @task("fenced")
        def fenced(payload, ctx):
            began = time.monotonic()
            ctx.wait(150)
            seen.append((ctx.aborted, time.monotonic() - began))
            ctx.check()

        worker = self.worker(fenced, lost_after=2)
        made = self.producer.enqueue("fenced")
        until("it to run", lambda: status(made.id) == "running")
        heartbeat = worker._node.presence._link
        with heartbeat._lock:  # none goes out
            until("its handler to stop", lambda: seen)
        self.assertEqual(seen[0][0], "node_silent")
        self.assertLess(seen[0][1], 150)
        until("it to run again", lambda: status(made.id) == "running")
        self.assertEqual(sql("select tries, crashes from pgqueue.queue where id = %s", made.id), [(0, 0)])

    def test_jobs_are_added_at_once(self) -> None:
        @task("adds", retry=RetryPolicy(max_tries=1))
        def adds(payload, ctx):
            ctx.add_jobs([Job("added", {"n": n}, delay=3600) for n in range(2)])
            raise RuntimeError("they stay")

        @task("adds-async", retry=RetryPolicy(max_tries=1))
        async def adds_async(payload, ctx):
            await ctx.add_jobs([Job("added", {"n": n}, delay=3600) for n in range(2)])
            with_no_flow = await ctx.needs()
            raise RuntimeError(f"needs {len(with_no_flow)}")

        self.worker(adds, adds_async)
        for handler in (adds, adds_async):
            made = self.producer.enqueue(handler)
            until("it to be dead", lambda: status(made.id) == "dead")
        self.assertEqual(sql("select count(*) from pgqueue.queue where task = 'added'"), [(4,)])

    def test_a_missing_key_leaves_a_job_waiting_and_a_changed_value_kills_it(self) -> None:
        @task("locked")
        def locked(payload):
            return payload

        old, new = ("old", b"o" * 32), ("new", b"n" * 32)
        self.worker(locked, codec=encrypted([new], plain="refuse"))
        from pgqueue import Producer

        with Producer(ADMIN, codec=encrypted([old], plain="refuse")) as producer:
            waits = producer.enqueue("locked", {"a": 1})
        with Producer(ADMIN, codec=encrypted([("new", b"w" * 32)], plain="refuse")) as producer:
            wrong = producer.enqueue("locked", {"a": 1})
        plain = self.producer.enqueue("locked", {"a": 1})
        for one in (waits, wrong):
            until("it to wait", lambda one=one: status(one.id) == "delayed")
            self.assertEqual(sql("select tries, crashes from pgqueue.queue where id = %s", one.id), [(0, 0)])
        until("it to be dead", lambda: status(plain.id) == "dead")
        self.assertIn("not encrypted", errors(plain.id)[0]["message"])

    def test_an_encrypted_job_waits_where_no_codec_is(self) -> None:
        @task("locked")
        def locked(payload):
            return payload

        codec = encrypted([("k1", b"k" * 32)], plain="refuse")
        without = self.worker(locked)
        from pgqueue import Producer

        with Producer(ADMIN, codec=codec) as producer:
            made = producer.enqueue("locked", {"a": 1})
            until("it to wait", lambda: status(made.id) == "delayed")
            self.assertEqual(sql("select tries, crashes from pgqueue.queue where id = %s", made.id), [(0, 0)])
            without.stop()
            self.worker(locked, codec=codec)
            sql("update pgqueue.queue set run_after = now() where id = %s", made.id)
            self.assertEqual(producer.result(made), {"a": 1})
        with self.assertRaisesRegex(PgQueueError, "key .k1., and this process has no codec") as caught:
            self.producer.result(made)
        self.assertEqual(caught.exception.code, "key_missing")


class Transactions(DatabaseTest):
    """The handler's writes and the end of the job commit together, or not at all."""

    def check(self, queue: str, handler) -> None:
        """``handler(ctx, n)`` writes n under the queue's name, and fails after that if it is odd and tried first."""
        self.worker(task(queue, retry=AT_ONCE)(handler))
        made = [self.producer.enqueue(queue, {"n": n}) for n in range(4)]
        results = [self.producer.result(one) for one in made]
        self.assertEqual(results, [{"n": n} for n in range(4)])
        self.assertEqual(sorted(sql("select n from app.written where queue = %s", queue)), [(n,) for n in range(4)])
        self.assertEqual([history(one.id)[2] for one in made], [0, 1, 0, 1])

    def test_of_pgqueue(self) -> None:
        def handler(payload, ctx):
            transaction = ctx.transaction()
            with transaction as connection:
                connection.execute("insert into app.written (queue, n) values ('own', %s)", [payload["n"]])
                transaction.result = payload
                if payload["n"] % 2 and ctx.tries == 0:
                    raise ValueError("odd")

        self.check("own", handler)

    def test_of_pgqueue_asynchronously(self) -> None:
        async def handler(payload, ctx):
            async with ctx.transaction(payload) as connection:
                await connection.execute("insert into app.written (queue, n) values ('own-async', %s)", [payload["n"]])
                if payload["n"] % 2 and ctx.tries == 0:
                    raise ValueError("odd")

        self.check("own-async", handler)

    def test_of_psycopg(self) -> None:
        def handler(payload, ctx):
            with ctx.settle_in() as settle, psycopg.connect(WORKER) as connection:
                connection.execute("insert into app.written (queue, n) values ('psycopg-own', %s)", [payload["n"]])
                settle(connection, payload)
                if payload["n"] % 2 and ctx.tries == 0:
                    raise ValueError("odd")

        self.check("psycopg-own", handler)

    def test_of_psycopg_asynchronously(self) -> None:
        async def handler(payload, ctx):
            async with ctx.settle_in() as settle:
                async with await psycopg.AsyncConnection.connect(WORKER) as connection:
                    await connection.execute(
                        "insert into app.written (queue, n) values ('psycopg-async', %s)", [payload["n"]]
                    )
                    await settle(connection, payload)
                    if payload["n"] % 2 and ctx.tries == 0:
                        raise ValueError("odd")

        self.check("psycopg-async", handler)

    def test_of_sqlalchemy(self) -> None:
        from sqlalchemy import create_engine, text
        from sqlalchemy.orm import Session

        engine = create_engine(WORKER.replace("postgres://", "postgresql+psycopg2://"), future=True)
        self.addCleanup(engine.dispose)

        def handler(payload, ctx):
            with ctx.settle_in() as settle, Session(engine) as session, session.begin():
                session.execute(text("insert into app.written (queue, n) values ('alchemy-own', :n)"), payload)
                settle(session, payload)
                if payload["n"] % 2 and ctx.tries == 0:
                    raise ValueError("odd")

        self.check("alchemy-own", handler)

    def test_of_django(self) -> None:
        django_connection()
        from django.db import connections, transaction

        def handler(payload, ctx):
            connection = connections["worker"]
            with ctx.settle_in() as settle, transaction.atomic("worker"):
                with connection.cursor() as cursor:
                    cursor.execute("insert into app.written (queue, n) values ('django-own', %s)", [payload["n"]])
                settle(connection, payload)
                if payload["n"] % 2 and ctx.tries == 0:
                    raise ValueError("odd")

        self.check("django-own", handler)

    def test_without_settling_the_job_is_not_done(self) -> None:
        @task("unsettled", retry=RetryPolicy(max_tries=1))
        def unsettled(payload, ctx):
            if payload == "settle":
                with ctx.settle_in():
                    pass
            if payload == "commit":
                with ctx.transaction() as connection:
                    connection.execute("commit")
            if payload == "twice":
                with ctx.transaction():
                    pass
                with ctx.transaction():
                    pass

        self.worker(unsettled)
        for payload, part in (("settle", "settle was not called"), ("commit", "ends its transaction itself")):
            made = self.producer.enqueue(unsettled, payload)
            until("it to be dead", lambda: status(made.id) == "dead")
            self.assertIn(part, errors(made.id)[0]["message"])
        self.assertIsNone(self.producer.result(self.producer.enqueue(unsettled, "twice")))

    def test_a_commit_whose_fate_is_unknown_is_asked_for(self) -> None:
        @task("unsure", retry=AT_ONCE)
        def unsure(payload, ctx):
            with ctx.settle_in() as settle:
                connection = psycopg.connect(WORKER)
                connection.execute("insert into app.written (queue, n) values ('unsure', %s)", [ctx.attempt])
                settle(connection, ctx.attempt)
                if payload == "committed" or ctx.attempt == 2:
                    connection.commit()
                connection.close()
                if payload == "committed" or ctx.attempt == 1:
                    raise psycopg.OperationalError("the reply was lost")

        self.worker(unsure)
        self.assertEqual(self.producer.result(self.producer.enqueue("unsure", "committed")), 1)
        self.assertEqual(self.producer.result(self.producer.enqueue("unsure", "not")), 2)
        self.assertEqual(sorted(sql("select n from app.written where queue = 'unsure'")), [(1,), (2,)])


def _shown(ctx) -> list:
    """What progress raises for some values: the first is written at once, and the others come within 250 ms."""
    most, more = "x" * 8_190, "x" * 8_191
    deep = None
    for _ in range(501):
        deep = [deep]
    told = []
    for value in (most, more, deep, more, deep):
        try:
            told.append(ctx.progress(value))
        except PgQueueError as error:
            told.append([error.code, str(error)])
    return told


@task("shows-much-there", process=True)
def shows_much_there(payload, ctx):
    return _shown(ctx)


@task("square", process=True)
def square(payload, ctx):
    ctx.checkpoint({"n": payload})
    ctx.progress("half")
    return {"square": payload * payload, "pid": os.getpid(), "key": ctx.key}


@task("ends-there", process=True, retry=AT_ONCE)
def ends_there(payload, ctx):
    if payload == "fails" and ctx.tries == 0:
        raise ValueError("in there")
    if payload == "retries" and ctx.tries == 0:
        return Retry(0)
    if payload == "dies" and ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return [ctx.tries, ctx.attempt]


@task("hangs-there", process=True, timeout=3, retry=AT_ONCE)
def hangs_there(payload, ctx):
    if ctx.tries == 0:
        time.sleep(600)
    ctx.extend(600)
    return "went on"


@task("starts-a-program", process=True, timeout=1, retry=RetryPolicy(max_tries=1))
def starts_a_program(payload):
    program = 'exec 3>"$0"; echo began >&3; sleep 30; echo lives on >&3'
    subprocess.run(["sh", "-c", program, payload])


@task("hangs-or-not", process=True, timeout=1, retry=RetryPolicy(max_tries=1))
def hangs_or_not(payload):
    if payload["hangs"]:
        held = bytearray(200_000_000)  # a killed process that holds memory takes its time to end
        time.sleep(600 + len(held))


@task("waits-there", process=True)
def waits_there(payload):
    Path(payload, "began").write_text(f"{os.getpid()}\n")
    while not Path(payload, "end").exists():
        time.sleep(0.02)
    return "ended"


class Unreadable:
    def __reduce__(self):
        return int, ("no number",)


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it has no text")


class Upstream(Exception):
    """Is pickled, but not made again: pickle gives no status."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


@task("refused-there", process=True, retry=AT_ONCE)
def refused_there(payload, ctx):
    error = Upstream("404 upstream", status=404)
    if payload == "raises" and ctx.tries == 0:
        raise Retry(0, error)
    if payload == "returns" and ctx.tries == 0:
        return error
    return GiveUp(error)


@task("tells-there", process=True, retry=RetryPolicy(max_tries=1))
def tells_there(payload, ctx):
    if payload == "unreadable":
        ctx.checkpoint(Unreadable())
    if payload == "silent":
        raise Silent()
    if payload == "threads":

        def extend(seconds: int) -> str:
            try:
                ctx.extend(seconds)
            except PgQueueError as error:
                return error.code
            return "extended"

        with ThreadPoolExecutor(4) as threads:
            return list(threads.map(extend, [0, 30] * 200))
    return payload


LEFT_GO, LEFT_TOLD = threading.Event(), queue.SimpleQueue()


@task("leaves-there", process=True)
def leaves_there(payload, ctx):
    """Leaves a thread, which calls its context while the next job runs."""
    if payload == "leaves":

        def call() -> None:
            LEFT_GO.wait()
            try:
                LEFT_TOLD.put(str(ctx.checkpoint("of the first job")))
            except RuntimeError as error:
                LEFT_TOLD.put(str(error))

        threading.Thread(target=call, daemon=True).start()
        return None
    if ctx.tries == 0:
        LEFT_GO.set()
        return Retry(0, LEFT_TOLD.get())
    return ctx.saved


def _cubed(payload):
    return payload**3


under_another_name = task("cube", process=True)(_cubed)


@task("lacks-there", process=True)
def lacks_there(payload, ctx):
    told = {}
    for name in ("log", "check", "wait", "needs", "transaction", "settle_in"):
        try:
            told[name] = str(getattr(ctx, name))
        except PgQueueError as error:
            told[name] = [error.code, str(error)]
    try:
        ctx.checkpoint("x" * 262_144)
    except PgQueueError as error:
        told["checkpoint"] = [error.code, str(error)]
    return {**told, "others": hasattr(ctx, "others")}


class Processes(DatabaseTest):
    def test_handlers_run_in_other_processes(self) -> None:
        self.worker(square)
        found = [self.producer.result(self.producer.enqueue("square", n, key="k")) for n in (3, 4)]
        self.assertEqual([one["square"] for one in found], [9, 16])
        self.assertNotIn(os.getpid(), [one["pid"] for one in found])
        self.assertEqual(len({one["pid"] for one in found}), 1)  # kept for the next job

    def test_a_handler_that_a_process_finds_under_no_name_is_refused(self) -> None:
        @task("nested", process=True)
        def nested(payload):
            pass

        class Called:
            def __call__(self, payload):
                pass

        lacking = [nested, task("lambda", process=True)(lambda payload: 1), task("object", process=True)(Called())]
        with self.assertRaisesRegex(PgQueueError, "make it a function of a module") as caught:
            Worker(WORKER, [*lacking, square, under_another_name])
        self.assertEqual(caught.exception.code, "configuration")
        self.assertEqual(len(caught.exception.data["problems"]), 3)
        self.worker(under_another_name)
        self.assertEqual(self.producer.result(self.producer.enqueue("cube", 3)), 27)

    def test_a_handler_that_hangs_is_killed(self) -> None:
        self.worker(hangs_there)
        made = self.producer.enqueue("hangs-there")
        self.assertEqual(self.producer.result(made), "went on")
        self.assertIn("timeout", {one["kind"] for one in history(made.id)[3]})

    def test_the_programs_of_a_killed_process_end_with_it(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        said = str(Path(folder.name, "said"))
        os.mkfifo(said)
        self.worker(starts_a_program)
        self.producer.enqueue(starts_a_program, said)
        with open(said) as pipe:
            self.assertEqual(pipe.read(), "began\n")

    def test_the_start_of_a_process_is_no_part_of_its_jobs_time(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.environ["PGQUEUE_TEST_GATE"] = str(Path(folder.name, "gate"))
        self.addCleanup(os.environ.pop, "PGQUEUE_TEST_GATE")
        self.worker(starts_slowly)
        made = self.producer.enqueue(starts_slowly)
        leases = set()

        def extended() -> bool:
            leases.update(
                sql("select lock_timeout from pgqueue.work_queue where id = %s and lock_timeout is not null", made.id)
            )
            return len(leases) > 3 or status(made.id) == "dead"

        until("its lease to be extended past its timeout", extended)
        Path(folder.name, "gate").touch()
        self.assertEqual(self.producer.result(made), "ended")

    def test_a_killed_process_takes_no_other_job_with_it(self) -> None:
        self.worker(hangs_or_not, concurrency=1)
        made = self.producer.enqueue_many([hangs_or_not.job({"hangs": n % 2 == 0}) for n in range(8)])
        until("all to end", lambda: all(status(one.id) in ("done", "dead") for one in made))
        told = sql(
            "select errors::text from pgqueue.job where id = any (%s) and errors is not null", [one.id for one in made]
        )
        self.assertNotIn("crash", str(told))

    def test_what_a_context_lacks_there_is_told(self) -> None:
        self.worker(lacks_there)
        told = self.producer.result(self.producer.enqueue(lacks_there))
        code, why = told.pop("checkpoint")
        self.assertEqual((code, told.pop("others")), ("invalid_job", False))
        self.assertIn("262144 bytes", why)
        self.assertEqual(len(told), 6)
        for name, (code, why) in told.items():
            self.assertEqual(code, "configuration")
            self.assertIn(f"no ctx.{name}: run it without process=True", why)

    def test_what_can_not_be_read_costs_no_other_job(self) -> None:
        self.worker(tells_there, concurrency=1)
        wrong = self.producer.enqueue(tells_there, "unreadable")
        until("it to be dead", lambda: status(wrong.id) == "dead")
        self.assertIn("no number", errors(wrong.id)[0]["message"])
        self.assertEqual(self.producer.result(self.producer.enqueue(tells_there, "next")), "next")
        silent = self.producer.enqueue(tells_there, "silent")
        until("it to be dead", lambda: status(silent.id) == "dead")
        self.assertIn("can not be read", errors(silent.id)[0]["message"])

    def test_errors_within_outcomes_arrive(self) -> None:
        self.worker(refused_there)
        for how in ("raises", "returns"):
            made = self.producer.enqueue(refused_there, how)
            until("it to be dead", lambda: status(made.id) == "dead")
            told = [(one["name"], one["message"]) for one in errors(made.id)]
            self.assertEqual(told, [("Upstream", "404 upstream")] * 2)

    def test_threads_of_a_handler_take_turns(self) -> None:
        self.worker(tells_there)
        self.assertEqual(
            self.producer.result(self.producer.enqueue(tells_there, "threads")), ["configuration", "extended"] * 200
        )

    def test_a_thread_that_a_handler_has_left_does_not_reach_the_next_job(self) -> None:
        self.worker(leaves_there, concurrency=1)
        self.producer.result(self.producer.enqueue(leaves_there, "leaves"))
        made = self.producer.enqueue(leaves_there, "next")
        self.assertIsNone(self.producer.result(made))
        self.assertIn("the handler has returned", history(made.id)[3][0]["message"])

    def test_errors_outcomes_and_deaths(self) -> None:
        self.worker(ends_there)
        made = {kind: self.producer.enqueue("ends-there", kind) for kind in ("fails", "retries", "dies")}
        results = {kind: self.producer.result(one) for kind, one in made.items()}
        self.assertEqual(results, {"fails": [1, 2], "retries": [1, 2], "dies": [0, 2]})
        self.assertIn("in ends_there", history(made["fails"].id)[3][0]["stack"])
        [crash] = history(made["dies"].id)[3]
        self.assertEqual(crash["kind"], "crash")


WITH_PROCESSES = """
import os, sys
from pgqueue import Worker
from tests.test_worker import waits_there

worker = Worker(os.environ["PGQUEUE_TEST_WORKER_URL"], [waits_there], drain=600)
if sys.argv[1] == "run":
    worker.run()
else:
    worker.start()
    input()
"""

SCRIPT = """
import os, sys, time
from pgqueue import Worker, task

@task("script")
def script(payload, ctx):
    print("started", flush=True)
    stopped = ctx.wait(payload["seconds"])
    print("stopped" if stopped else "ended", flush=True)
    ctx.check()

Worker(os.environ["PGQUEUE_TEST_WORKER_URL"], [script], drain=float(sys.argv[1])).run()
"""


class Stopping(DatabaseTest):
    def script(self, argument: object, script: str = SCRIPT) -> subprocess.Popen[str]:
        environment = {**os.environ, "PGQUEUE_TEST_WORKER_URL": WORKER, "PYTHONPATH": str(Path(__file__).parents[1])}
        running = subprocess.Popen(
            [sys.executable, "-c", script, str(argument)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.addCleanup(running.stdin.close)
        self.addCleanup(running.stdout.close)
        self.addCleanup(running.wait)
        self.addCleanup(running.kill)
        return running

    def test_sigterm_lets_handlers_end(self) -> None:
        running = self.script(60)
        made = self.producer.enqueue("script", {"seconds": 1})
        self.assertEqual(running.stdout.readline(), "started\n")
        later = self.producer.enqueue("script", {"seconds": 0})
        running.terminate()
        self.assertIn("ended\n", running.stdout.read())
        self.assertEqual(running.wait(150), 0)
        self.assertEqual(status(made.id), "done")
        sql("delete from pgqueue.queue where id = %s", later.id)

    def waiting(self, how: str) -> tuple[subprocess.Popen[str], Enqueued, Path]:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        running = self.script(how, WITH_PROCESSES)
        made = self.producer.enqueue(waits_there, folder.name)
        began = Path(folder.name, "began")
        until("it to begin", lambda: began.exists() and began.read_text())
        return running, made, Path(folder.name)

    def test_a_signal_to_all_processes_lets_handlers_end(self) -> None:
        for stop in (signal.SIGINT, signal.SIGTERM):  # Ctrl-C, and a supervisor
            running, made, folder = self.waiting("run")
            for group in (int((folder / "began").read_text()), running.pid):
                os.killpg(group, stop)
            self.assertEqual(status(made.id), "running")
            (folder / "end").touch()
            self.assertEqual(running.wait(150), 0)
            self.assertEqual((history(made.id)[1:]), ("ended", 0, None))

    def test_a_program_that_does_not_stop_its_worker_ends_all_the_same(self) -> None:
        running, made, _ = self.waiting("start")
        running.stdin.write("\n")
        running.stdin.flush()
        self.assertEqual(running.wait(150), 0)
        sql("select pgqueue.reset_node(id) from pgqueue.node where state = 'alive'")
        sql("select pgqueue.cancel(array[%s::uuid])", made.id)

    def test_after_its_drain_time_jobs_are_given_back_uncounted(self) -> None:
        running = self.script(0.2)
        made = self.producer.enqueue("script", {"seconds": 600})
        self.assertEqual(running.stdout.readline(), "started\n")
        running.terminate()
        self.assertEqual((running.stdout.read(), running.wait(150)), ("stopped\n", 0))
        self.assertIn(status(made.id), ("ready", "pending"))
        self.assertEqual(
            sql("select tries, crashes, last_token from pgqueue.queue where id = %s", made.id), [(0, 0, None)]
        )
        sql("delete from pgqueue.queue where id = %s", made.id)
        self.assertEqual(sql("select count(*) from pgqueue.node where state = 'alive'"), [(0,)])

    def test_a_handler_that_does_not_stop_loses_its_job(self) -> None:
        gate = threading.Event()
        self.addCleanup(gate.set)

        @task("stubborn")
        def stubborn(payload):
            gate.wait(600)

        worker = self.worker(stubborn)
        made = self.producer.enqueue("stubborn")
        until("it to run", lambda: status(made.id) == "running")
        for drain in (float("inf"), float("nan"), -1, "60", timedelta(days=5_000)):
            with self.assertRaisesRegex(PgQueueError, "drain must be seconds") as caught:
                worker.stop(drain=drain)
            self.assertEqual(caught.exception.code, "configuration")
        self.assertEqual(status(made.id), "running")
        worker.stop(drain=0)
        self.assertIn(status(made.id), ("ready", "pending"))

    def test_in_an_event_loop(self) -> None:
        loops = []

        @task("served")
        async def served(payload):
            loops.append(asyncio.get_running_loop())
            return payload

        async def run() -> None:
            worker = Worker(WORKER, [served])
            serving = asyncio.create_task(worker.serve())
            made = self.producer.enqueue("served", 5)
            self.assertEqual(await asyncio.to_thread(self.producer.result, made), 5)
            self.assertEqual(loops, [asyncio.get_running_loop()])
            serving.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await serving
            self.assertEqual(sql("select state from pgqueue.node where id = %s", worker.node), [("left",)])

        asyncio.run(run())

    def test_a_node_id_that_is_taken(self) -> None:
        @task("any")
        def any_task(payload):
            pass

        self.worker(any_task, node="twin", heartbeat=1)
        with self.assertRaises(PgQueueError) as caught:
            self.worker(any_task, node="twin", heartbeat=1)
        self.assertEqual(caught.exception.code, "node_id_in_use")

    def test_a_wrong_login_is_refused_at_the_start(self) -> None:
        @task("any")
        def any_task(payload):
            pass

        with self.assertRaisesRegex(psycopg.OperationalError, "does not exist"):
            self.worker(any_task, conninfo=psycopg.conninfo.make_conninfo(WORKER, user="nobody_at_all"))


if __name__ == "__main__":
    unittest.main()
