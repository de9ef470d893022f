"""More than one claim takes, by its size."""
from __future__ import annotations

from pgqueue import Job, task

from .support import DatabaseTest, sql, until


class Large(DatabaseTest):
    def test_jobs_of_100_mib_are_claimed_in_parts_and_all_run(self) -> None:
        @task("large")
        def large(payload):
            return len(payload)

        for _ in range(2):
            self.producer.enqueue_many([Job("large", "x" * 262_000) for _ in range(200)])
        self.worker(large, concurrency=300)
        done = "select count(*) from pgqueue.history where task = 'large' and result = '262000'"
        until("all to be done", lambda: sql(done) == [(400,)])
