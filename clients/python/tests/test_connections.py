"""Connections that are lost, as the chaos bench loses them: nothing is believed to be done that is not, and threads go on."""
from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
import unittest
from unittest import mock
from urllib.parse import urlsplit

import psycopg
from pgqueue import AsyncProducer, PgQueueError, Producer, RetryPolicy, _transaction, task
from pgqueue._link import Link
from psycopg.conninfo import make_conninfo

from .support import PRODUCER, WORKER, DatabaseTest, sql, status, until

AT_ONCE = RetryPolicy(base=0, jitter=0)


def end_sessions(name: str) -> None:
    """Ends the sessions of that name, and waits until they are gone."""
    which = "from pg_stat_activity where application_name = %s"
    sql(f"select pg_terminate_backend(pid) {which}", name)
    until(f"the sessions {name} to be gone", lambda: sql(f"select count(*) {which}", name) == [(0,)])


class Links(unittest.TestCase):
    def setUp(self) -> None:
        self.link = Link(WORKER, "pgqueue links")
        self.addCleanup(self.link.close)
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(theirs.close)
        self.waker = ours

    def test_a_wait_on_a_connection_that_is_known_to_be_lost_ends(self) -> None:
        self.link.pid()
        end_sessions("pgqueue links")
        with self.assertRaises(psycopg.OperationalError):
            self.link.connection.execute("select 1")
        self.assertTrue(self.link.connection.closed)
        self.assertFalse(self.link.wait(60, self.waker))
        self.assertEqual(self.link.one("select 1"), 1)

    def test_an_opening_that_fails_leaves_no_connection(self) -> None:
        self.link.channels = ['x"; select 1/0; --']
        with self.assertRaises(psycopg.errors.DivisionByZero):
            self.link.pid()
        self.assertIsNone(self.link.connection)
        self.assertTrue(self.link.wait(0, self.waker))

    def test_a_strict_transaction_whose_commit_was_not_sent_fails(self) -> None:
        strict = make_conninfo(WORKER, options="-c default_transaction_isolation=serializable")
        link = Link(strict, "pgqueue links")
        self.addCleanup(link.close)
        self.assertEqual(link.one("select 1"), 1)
        fetchall = psycopg.Cursor.fetchall

        def losing(cursor):
            rows = fetchall(cursor)
            cursor.connection.pgconn.finish()
            return rows

        with mock.patch.object(psycopg.Cursor, "fetchall", losing), self.assertRaises(psycopg.OperationalError):
            link.one("select 1")
        self.assertEqual(link.one("select 1"), 1)


class Forks(unittest.TestCase):
    """A server that loads the application, and then forks its processes."""

    def in_a_fork(self, work) -> int:
        """Runs ``work`` in a fork; returns the number that it returns there."""
        here, there = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            try:
                os.write(there, str(work()).encode())
            finally:
                os._exit(0)
        os.close(there)
        self.addCleanup(os.close, here)
        os.waitpid(child, 0)
        return int(os.read(here, 100))

    def test_a_fork_has_a_connection_of_its_own(self) -> None:
        link = Link(PRODUCER, "pgqueue forks")
        self.addCleanup(link.close)

        def work() -> int:
            session = link.one("select pg_backend_pid()")
            link.close()
            return session

        def close() -> int:
            link.close()
            return 0

        session = link.one("select pg_backend_pid()")
        self.assertNotEqual(self.in_a_fork(work), session)
        self.assertEqual(self.in_a_fork(close), 0)
        self.assertEqual(link.one("select pg_backend_pid()"), session)

    def test_a_lock_that_a_thread_holds_at_the_fork_is_free_there(self) -> None:
        link = Link(PRODUCER, "pgqueue forks")
        self.addCleanup(link.close)
        taken, free = threading.Event(), threading.Event()

        def hold() -> None:
            with link._lock:
                taken.set()
                free.wait()

        holding = threading.Thread(target=hold)
        holding.start()
        taken.wait()
        try:
            self.assertEqual(self.in_a_fork(lambda: link.one("select 7")), 7)
        finally:
            free.set()
            holding.join()

    def test_so_has_an_asynchronous_producer(self) -> None:
        producer = AsyncProducer(PRODUCER)

        def enqueue() -> int:
            asyncio.run(producer.enqueue("later", queue="forks"))
            return producer._connection.info.backend_pid

        session = enqueue()
        self.assertNotEqual(self.in_a_fork(enqueue), session)
        self.assertEqual(enqueue(), session)
        asyncio.run(producer.close())


class Way:
    """A way to the server that ends so many connections at once, and lets the next ones pass, until they are muted."""

    def __init__(self, conninfo: str, refusals: int = 0) -> None:
        self.left = refusals
        self._connections: list[dict] = []
        self._to = urlsplit(conninfo)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = self._to._replace(
            netloc=f"{self._to.netloc.rsplit('@', 1)[0]}@127.0.0.1:{self._server.getsockname()[1]}"
        ).geturl()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            if self.left > 0:
                self.left -= 1
                client.close()
                continue
            server = socket.create_connection((self._to.hostname, self._to.port))
            connection = {"startup": b"", "muted": False}
            self._connections.append(connection)
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(one, other, connection), daemon=True).start()

    def mute(self, name: bytes) -> None:
        """Passes nothing more of the connections of that application, which stay open."""
        for connection in self._connections:
            if name in connection["startup"]:
                connection["muted"] = True

    def _pass(self, one: socket.socket, other: socket.socket, connection: dict) -> None:
        with other:
            try:
                while data := one.recv(65_536):
                    if b"application_name" in data:
                        connection["startup"] += data
                    if not connection["muted"]:
                        other.sendall(data)
            except OSError:
                pass

    def close(self) -> None:
        self._server.close()


class OfProducers(unittest.TestCase):
    def test_an_enqueue_goes_on_however_many_tries_are_refused_at_once(self) -> None:
        way = Way(PRODUCER, 10)
        self.addCleanup(way.close)
        with Producer(way.url) as producer:
            job = producer.enqueue("later", queue="refused")
        self.assertEqual(way.left, 0)
        self.assertEqual(sql("select id::text from pgqueue.queue where queue = 'refused'"), [(job.id,)])

    def test_a_connection_that_falls_silent_holds_nobody_up(self) -> None:
        way = Way(PRODUCER)
        self.addCleanup(way.close)
        link = Link(way.url, "pgqueue silent")
        self.addCleanup(link.close)
        self.assertEqual(link.query_within(150, "select 1"), [(1,)])
        way.mute(b"pgqueue silent")
        with self.assertRaises(psycopg.OperationalError):
            link.query_within(0.1, "select 1")
        self.assertEqual(link.query_within(150, "select 1"), [(1,)])

    def test_neither_does_one_of_a_producer_that_waits_for_a_result(self) -> None:
        way = Way(PRODUCER)
        self.addCleanup(way.close)
        with Producer(way.url) as producer:
            job = producer.enqueue("later", queue="silent")
            way.mute(b"pgqueue producer")
            with self.assertRaisesRegex(PgQueueError, "has not ended within 10 ms"):
                producer.result(job, timeout=0.01)

        async def asynchronous() -> None:
            async with AsyncProducer(way.url) as producer:
                job = await producer.enqueue("later", queue="silent")
                way.mute(b"pgqueue producer")
                with self.assertRaisesRegex(PgQueueError, "has not ended within 10 ms"):
                    await producer.result(job, timeout=0.01)

        asyncio.run(asynchronous())


class OfHeartbeats(DatabaseTest):
    def test_a_connection_that_falls_silent_loses_no_job(self) -> None:
        aborted, gate = [], threading.Event()

        @task("going-on")
        def going_on(payload, ctx):
            gate.wait(150)
            aborted.append(ctx.aborted)

        way = Way(WORKER)
        self.addCleanup(way.close)
        worker = self.worker(going_on, conninfo=way.url, lost_after=9)
        job = self.producer.enqueue(going_on, None)
        until("it to run", lambda: status(job.id) == "running")
        way.mute(b" heartbeat")
        muted_at = time.monotonic()
        until("a heartbeat by another connection", lambda: worker._node.presence._beat_at > muted_at)
        gate.set()
        self.producer.result(job)
        self.assertEqual(aborted, [None])


class OfHandlers(DatabaseTest):
    def test_a_transaction_whose_commit_was_not_sent_is_not_done(self) -> None:
        lost = []

        def losing(connection, *given):
            answer = foreign_query(connection, *given)
            if not lost:
                connection.pgconn.finish()
                lost.append(connection)
            return answer

        async def losing_async(connection, *given):
            answer = await foreign_query_async(connection, *given)
            if len(lost) < 2:
                connection.pgconn.finish()
                lost.append(connection)
            return answer

        foreign_query, foreign_query_async = _transaction.foreign_query, _transaction.foreign_query_async

        @task("written", retry=AT_ONCE)
        def written(payload, ctx):
            with ctx.transaction() as connection:
                connection.execute("insert into app.written values (%s, %s)", [ctx.queue, ctx.tries])

        @task("written-async", retry=AT_ONCE)
        async def written_async(payload, ctx):
            async with ctx.transaction() as connection:
                await connection.execute("insert into app.written values (%s, %s)", [ctx.queue, ctx.tries])

        patched = mock.patch.multiple(_transaction, foreign_query=losing, foreign_query_async=losing_async)
        with patched:
            self.worker(written, written_async)
            for one in (written, written_async):
                id = self.producer.enqueue(one, None, queue=f"lost-{one.name}").id
                until(f"{one.name} to be done", lambda: status(id) == "done")
                (errors,) = sql("select errors from pgqueue.history where id = %s", id)[0]
                self.assertIn("lost at the end of its transaction", errors[0]["message"])
                self.assertEqual(sql("select n from app.written where queue = %s", f"lost-{one.name}"), [(1,)])
        self.assertEqual(len(lost), 2)

    def test_idle_connections_that_have_ended_cost_no_attempt(self) -> None:
        @task("writing", retry=AT_ONCE)
        def writing(payload, ctx):
            with ctx.transaction() as connection:
                connection.execute("select 1")

        @task("writing-async", retry=AT_ONCE)
        async def writing_async(payload, ctx):
            async with ctx.transaction() as connection:
                await connection.execute("select 1")

        self.worker(writing, writing_async, node="idle")
        for one in (writing, writing_async):
            for _ in range(2):
                id = self.producer.enqueue(one, None).id
                until(f"{one.name} to be done", lambda: status(id) == "done")
                self.assertEqual(sql("select tries from pgqueue.history where id = %s", id), [(0,)])
                end_sessions("pgqueue idle handlers")


if __name__ == "__main__":
    unittest.main()
