"""A module that a process of a worker imports for as long as a test wants."""
from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

from pgqueue import RetryPolicy, task

GATE = os.environ.get("PGQUEUE_TEST_GATE")
if multiprocessing.parent_process() is not None and GATE is not None:
    while not Path(GATE).exists():
        time.sleep(0.02)


@task("starts-slowly", process=True, timeout=1, retry=RetryPolicy(max_tries=1))
def starts_slowly(payload):
    return "ended"
