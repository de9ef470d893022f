"""Producers, with the rights of pgqueue_producer: in transactions of every library, alone, and their results."""
from __future__ import annotations

import asyncio
import json
import threading
import unittest
from datetime import datetime, timedelta, timezone
from urllib.parse import urlsplit

import psycopg
from pgqueue import AsyncProducer, Job, PgQueueError, Producer, Unique, encrypted, task
from psycopg.rows import dict_row

from .support import ADMIN, PRODUCER, WORKER, DatabaseTest, sql, status, until


def jobs(queue: str) -> list[object]:
    return [n for (n,) in sql("select payload -> 'n' from pgqueue.queue where queue = %s order by seq", queue)]


class InATransaction(DatabaseTest):
    """Jobs are there when the caller's transaction commits, and not at all when it rolls back."""

    def check(self, queue: str, commit, roll_back) -> None:
        """Both get a function that enqueues in the transaction of a connection, and write into app.written."""

        def enqueue(connection: object, n: int) -> None:
            self.producer.enqueue("later", {"n": n}, queue=queue, conn=connection)
            self.producer.enqueue_many(
                [Job("later", {"n": n + 1}, queue=queue, unique_key=f"{queue}-{n}")], conn=connection
            )

        commit(enqueue)
        with self.assertRaises(ZeroDivisionError):
            roll_back(enqueue)
        self.assertEqual(jobs(queue), [1, 2])
        self.assertEqual(sql("select n from app.written where queue = %s", queue), [(1,)])
        Producer().enqueue(
            "later", {"n": 9}, queue=queue, conn=(last := psycopg.connect(PRODUCER))
        )  # needs no database of its own
        last.close()  # rolls back
        self.assertEqual(jobs(queue), [1, 2])

    def test_psycopg(self) -> None:
        def run(enqueue, n: int, fail: int) -> None:
            with psycopg.connect(PRODUCER, row_factory=dict_row) as connection:
                connection.execute("insert into app.written (queue, n) values ('psycopg', %s)", [n])
                enqueue(connection, n)
                1 / (1 - fail)

        self.check("psycopg", lambda enqueue: run(enqueue, 1, 0), lambda enqueue: run(enqueue, 5, 1))

    def test_a_pipeline_of_psycopg_is_refused(self) -> None:
        with Producer(PRODUCER) as producer, psycopg.connect(PRODUCER) as connection:
            producer.enqueue("unseen", queue="pipeline", conn=connection, unique_key="one")
            with connection.pipeline(), self.assertRaisesRegex(PgQueueError, "in a pipeline"):
                producer.enqueue("unseen", queue="pipeline", conn=connection, unique_key="one")

    def test_psycopg2(self) -> None:
        import psycopg2
        from psycopg2.extras import RealDictCursor

        def run(enqueue, n: int, fail: int) -> None:
            connection = psycopg2.connect(PRODUCER, cursor_factory=RealDictCursor)
            with connection, connection.cursor() as cursor:
                cursor.execute("insert into app.written (queue, n) values ('psycopg2', %s)", [n])
                enqueue(connection, n)
                1 / (1 - fail)

        self.check("psycopg2", lambda enqueue: run(enqueue, 1, 0), lambda enqueue: run(enqueue, 5, 1))

    def test_sqlalchemy_connection_and_session(self) -> None:
        from sqlalchemy import create_engine, text
        from sqlalchemy.orm import Session

        engine = create_engine(
            PRODUCER.replace("postgres://", "postgresql+psycopg2://").replace(
                "postgresql://", "postgresql+psycopg2://"
            ),
            future=True,
        )
        self.addCleanup(engine.dispose)
        insert = text("insert into app.written (queue, n) values (:queue, :n)")

        def run(enqueue, queue: str, n: int, fail: int) -> None:
            with engine.begin() as connection:
                connection.execute(insert, {"queue": queue, "n": n})
                enqueue(connection, n)
                1 / (1 - fail)

        def run_session(enqueue, queue: str, n: int, fail: int) -> None:
            with Session(engine) as session, session.begin():
                session.execute(insert, {"queue": queue, "n": n})
                enqueue(session, n)
                1 / (1 - fail)

        for queue, way in (("alchemy", run), ("session", run_session)):
            self.check(queue, lambda enqueue: way(enqueue, queue, 1, 0), lambda enqueue: way(enqueue, queue, 5, 1))
        with engine.connect() as connection:  # it begins a transaction of its own
            self.producer.enqueue("later", {"n": 7}, queue="autobegun", conn=connection)
            connection.commit()
        self.assertEqual(jobs("autobegun"), [7])
        with create_engine(engine.url).connect() as connection:
            with self.assertRaisesRegex(PgQueueError, "engine.begin"):
                self.producer.enqueue("later", {"n": 8}, queue="autobegun", conn=connection)
        self.assertEqual(jobs("autobegun"), [7])

    def test_django(self) -> None:
        connection = django_connection()
        from django.db import transaction

        def run(enqueue, n: int, fail: int) -> None:
            with transaction.atomic():
                with connection.cursor() as cursor:
                    cursor.execute("insert into app.written (queue, n) values ('django', %s)", [n])
                enqueue(connection, n)
                1 / (1 - fail)

        self.check("django", lambda enqueue: run(enqueue, 1, 0), lambda enqueue: run(enqueue, 5, 1))

    def test_psycopg_asynchronously(self) -> None:
        async def run() -> None:
            async with AsyncProducer() as producer:
                async with await psycopg.AsyncConnection.connect(PRODUCER) as connection:
                    await producer.enqueue("later", {"n": 1}, queue="async", conn=connection)
                connection = await psycopg.AsyncConnection.connect(PRODUCER)
                await producer.enqueue("later", {"n": 2}, queue="async", conn=connection)
                await connection.rollback()
                with self.assertRaisesRegex(PgQueueError, "AsyncConnection"):
                    await producer.enqueue("later", conn=psycopg.connect(PRODUCER))
                with self.assertRaisesRegex(PgQueueError, "conn must be"):
                    self.producer.enqueue("later", conn=connection)
                await connection.close()

        asyncio.run(run())
        self.assertEqual(jobs("async"), [1])


def django_connection():
    """Django's default connection, of a producer; its connection "worker" is of a worker."""
    import django
    from django.conf import settings

    if not settings.configured:
        settings.configure(DATABASES={"default": _django(PRODUCER), "worker": _django(WORKER)}, INSTALLED_APPS=[])
        django.setup()
    from django.db import connection

    return connection


def _django(address: str) -> dict[str, object]:
    url = urlsplit(address)
    names = {
        "NAME": url.path[1:],
        "USER": url.username,
        "PASSWORD": url.password or "",
        "HOST": url.hostname,
        "PORT": url.port,
    }
    return {"ENGINE": "django.db.backends.postgresql", **names}


@task("echo")
def echo(payload):
    return payload


@task("fail")
def fail(payload):
    raise ValueError("never")


class Alone(DatabaseTest):
    def test_jobs_keep_their_options(self) -> None:
        at = datetime.now(timezone.utc) + timedelta(hours=1)
        made = self.producer.enqueue(
            "later", {"n": 1}, queue="options", key="k", priority=3, attributes={"a": 1}, run_after=at, expires_at=at,
            timeout=90, version=2, trace={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"},
        )  # fmt: skip
        [found] = sql(
            """select key, priority, attributes, run_after, expires_at, extract(epoch from timeout)::integer, payload_version,
              trace ->> 'traceparent' from pgqueue.queue where id = %s""",
            made.id,
        )
        self.assertEqual(found, ("k", 3, {"a": 1}, at, at, 90, 2, f"00-{'a' * 32}-{'b' * 16}-01"))

    def test_payloads_of_any_kind(self) -> None:
        for payload in (None, 0, "ünï\\cødé\n\t'%s'", [1, {"a": None}], 12345678901234567890, {"big": 1e20}):
            made = self.producer.enqueue("later", payload, queue="kinds")
            self.assertEqual(sql("select payload from pgqueue.queue where id = %s", made.id)[0][0], payload)

    def test_a_delay_is_by_the_clock_of_the_database(self) -> None:
        made = self.producer.enqueue("later", queue="delayed", delay=3600)
        [(seconds,)] = sql(
            "select extract(epoch from run_after - created)::float8 from pgqueue.queue where id = %s", made.id
        )
        self.assertAlmostEqual(seconds, 3600, delta=60)
        past = self.producer.enqueue("later", queue="delayed", run_after=datetime(2020, 1, 1, tzinfo=timezone.utc))
        self.assertEqual(sql("select run_after from pgqueue.queue where id = %s", past.id), [(None,)])

    def test_many_jobs_keep_their_order(self) -> None:
        made = self.producer.enqueue_many([Job("later", {"n": n}, queue="many") for n in range(3_000)])
        self.assertEqual(jobs("many"), list(range(3_000)))
        self.assertEqual({one.outcome for one in made}, {"enqueued"})
        self.assertEqual(self.producer.enqueue_many([]), [])

    def test_unique_keys(self) -> None:
        def enqueue(n: int, mode: str, **more: object) -> tuple[str, bool]:
            unique = Unique("u", mode, **more)  # type: ignore[arg-type]
            made = self.producer.enqueue("unique", {"n": n}, queue="unique", unique_key=unique, delay=3600)
            return made.outcome, made.id == first.id

        first = self.producer.enqueue("unique", {"n": 0}, queue="unique", unique_key="u", delay=3600)
        self.assertEqual(enqueue(1, "keep"), ("kept", True))
        self.assertEqual(jobs("unique"), [0])
        self.assertEqual(enqueue(2, "replace"), ("replaced", True))
        self.assertEqual(enqueue(3, "debounce", max_wait=60), ("debounced", True))
        self.assertEqual(jobs("unique"), [3])
        self.assertEqual(enqueue(4, "supersede"), ("superseded", False))
        self.assertEqual(jobs("unique"), [4])

    def test_an_id_is_enqueued_once(self) -> None:
        first = self.producer.enqueue("later", {"n": 1}, queue="ids")
        made = self.producer.enqueue_many(
            [Job("later", {"n": 1}, id=first.id.upper(), queue="ids"), Job("later", {"n": 2}, queue="ids")]
        )
        self.assertEqual([one.outcome for one in made], ["repeated", "enqueued"])
        self.assertEqual(jobs("ids"), [1, 2])

    def test_an_enqueue_whose_connection_breaks_is_repeated_once(self) -> None:
        self.producer.enqueue("later", {"n": 0}, queue="broken")
        sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pgqueue producer'")
        self.producer.enqueue("later", {"n": 1}, queue="broken")
        self.assertEqual(jobs("broken"), [0, 1])

    def test_threads_share_a_producer(self) -> None:
        threads = [
            threading.Thread(target=self.producer.enqueue, args=("later", {"n": 1}), kwargs={"queue": "threads"})
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(jobs("threads")), 8)

    def test_a_full_key_and_a_payload_that_is_too_long_as_jsonb(self) -> None:
        sql("insert into pgqueue.queue_config (queue, key_pending) values ('full', 1)")
        self.producer.enqueue("later", queue="full", key="k")
        with self.assertRaises(PgQueueError) as caught:
            self.producer.enqueue("later", queue="full", key="k")
        self.assertEqual(caught.exception.code, "too_many_pending")
        sql("delete from pgqueue.queue_config where queue = 'full'")
        with self.assertRaises(PgQueueError) as caught:
            self.producer.enqueue("later", [1e300] * 2_000)
        self.assertEqual(caught.exception.code, "invalid_job")

    def test_an_id_of_its_own_in_a_transaction_whose_snapshot_may_be_old(self) -> None:
        id = "0b0e4f2a-8f62-7cc3-9d3c-3c1f0a4a7d14"
        with psycopg.connect(PRODUCER) as connection:
            connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
            self.producer.enqueue("later", conn=connection)
            with self.assertRaisesRegex(PgQueueError, "and this one is serializable: begin it with") as caught:
                self.producer.enqueue("later", id=id, conn=connection)
            self.assertEqual(caught.exception.code, "configuration")
            connection.rollback()

    def test_a_closed_producer(self) -> None:
        self.producer.close()
        with self.assertRaisesRegex(PgQueueError, "closed"):
            self.producer.enqueue("later")


class Results(DatabaseTest):
    def test_results_of_jobs(self) -> None:
        self.worker(echo, fail)
        for value in (None, 0, {"a": ["ü", 1.5]}, "text"):
            self.assertEqual(self.producer.result(self.producer.enqueue("echo", value)), value)
        made = self.producer.enqueue("echo", 1)
        self.assertEqual(self.producer.result(made.id.upper()), 1)

    def test_ends_without_a_result(self) -> None:
        self.worker(fail)
        from pgqueue import RetryPolicy

        dead = self.producer.enqueue("fail", retry=RetryPolicy(max_tries=1))
        self.assert_ends("job_dead", dead.id, "never")
        cancelled = self.producer.enqueue("nobody", delay=3600)
        sql("select pgqueue.cancel(array[%s::uuid])", cancelled.id)
        self.assert_ends("job_cancelled", cancelled.id)
        self.assert_ends("not_found", "01930000-0000-7000-8000-000000000000")
        waiting = self.producer.enqueue("nobody")
        self.assert_ends("result_timeout", waiting.id, "pending", timeout=0.2)
        self.assert_ends("configuration", "no id")

    def assert_ends(self, code: str, id: str, part: str = "", timeout: float = 150) -> None:
        with self.assertRaises(PgQueueError) as caught:
            self.producer.result(id, timeout=timeout)
        self.assertEqual(caught.exception.code, code)
        self.assertIn(part, str(caught.exception))

    def test_asynchronously(self) -> None:
        self.worker(echo)

        async def run() -> None:
            async with AsyncProducer(PRODUCER) as producer:
                made = await producer.enqueue_many([Job("echo", n) for n in range(20)])
                found = await asyncio.gather(*(producer.result(one) for one in made))
                self.assertEqual(found, list(range(20)))
                await producer.hint()
                with self.assertRaises(asyncio.TimeoutError):  # cancelled in the middle of a statement
                    await asyncio.wait_for(producer._drive(_slow()), 0.2)
                self.assertEqual(await producer.result(made[3]), 3)

        asyncio.run(run())

    def test_encrypted_payloads_and_results(self) -> None:
        codec = encrypted([("k", b"k" * 32)], plain="refuse")
        seen = []

        @task("secret")
        def secret(payload):
            seen.append(payload)
            return {"secret": "of the handler"}

        self.worker(secret, codec=codec)
        with Producer(PRODUCER, codec=codec) as producer:
            made = producer.enqueue("secret", {"secret": "of the caller"})
            end = sql_end(made.id)
            self.assertEqual(seen, [{"secret": "of the caller"}])
            self.assertNotIn("secret", json.dumps(end))
            if tells_tasks():
                self.assertEqual(producer.result(made), {"secret": "of the handler"})
            else:  # without the task that its result is bound to, it stays closed
                with self.assertRaisesRegex(PgQueueError, "can't be decrypted"):
                    producer.result(made)

    def test_wrong_schemas_are_refused(self) -> None:
        with psycopg.connect(ADMIN, autocommit=True) as connection:
            connection.execute("create schema newer")
            connection.execute("create table newer.migration as select 9 as version, false as compatible")
            connection.execute("create schema older")
            connection.execute("create table older.migration as select 0 as version, true as compatible")
        for schema, part in (("newer", "upgrade"), ("older", "pgqueue migrate"), ("absent", "pgqueue migrate")):
            with Producer(ADMIN, schema=schema) as producer:
                with self.assertRaises(PgQueueError) as caught:
                    producer.enqueue("later")
                self.assertEqual(caught.exception.code, "schema_version")
                self.assertIn(part, str(caught.exception))
            with self.assertRaisesRegex(PgQueueError, part):
                self.worker(echo, conninfo=ADMIN, schema=schema)
        sql("drop schema newer cascade")
        sql("drop schema older cascade")


def tells_tasks() -> bool:
    """True if the SQL function job_result tells the task of a job."""
    return sql("select 'task' = any (proargnames) from pg_proc where oid = 'pgqueue.job_result'::regproc") == [(True,)]


def _slow():
    from pgqueue.producer import _Query

    yield _Query("select pg_sleep(60)::text", [])


def sql_end(id: str) -> list[object]:
    until("the job to end", lambda: status(id) == "done")
    return list(sql("select payload, result from pgqueue.history where id = %s", id))


if __name__ == "__main__":
    unittest.main()
