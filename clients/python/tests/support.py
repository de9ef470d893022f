"""The database that the runner of the tests has made, and waits."""
from __future__ import annotations

import os
import time
import unittest
from collections.abc import Callable
from typing import Any

import psycopg
from pgqueue import Enqueued, Json, Producer, Task, Worker
from pgqueue._json import Seconds

ADMIN = os.environ.get("PGQUEUE_TEST_URL", "")
"""Everything is allowed."""
PRODUCER = os.environ.get("PGQUEUE_TEST_PRODUCER_URL", ADMIN)
WORKER = os.environ.get("PGQUEUE_TEST_WORKER_URL", ADMIN)
"""Logins of the roles pgqueue_producer and pgqueue_worker, which may also write into app.written."""


def sql(statement: str, *parameters: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(ADMIN, autocommit=True) as connection:
        cursor = connection.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []


def until(what: str, look: Callable[[], Any], seconds: float = 150) -> Any:
    """Waits until ``look`` returns something true."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.02)


def status(id: str) -> str | None:
    return sql("select (select status from pgqueue.job where id = %s)", id)[0][0]


class Patient(Producer):
    """A producer that waits for results as long as a busy machine may need."""

    def result(self, job: Enqueued | str, *, timeout: Seconds = 150) -> Json:
        return super().result(job, timeout=timeout)


class DatabaseTest(unittest.TestCase):
    """A test with a producer, and with workers that end with it."""

    def setUp(self) -> None:
        self.producer = Patient(PRODUCER)
        self.addCleanup(self.producer.close)

    def worker(self, *tasks: Task, **options: Any) -> Worker:
        worker = Worker(options.pop("conninfo", WORKER), tasks, **{"heartbeat": 0.2, **options})
        worker.start()
        self.addCleanup(worker.stop, drain=0)
        return worker
