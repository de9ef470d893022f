"""The Python worker of `npm run bench:python`: its handler does nothing."""
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "clients/python"))
from pgqueue import Worker, task  # noqa: E402


@task("bench")
def nothing(payload):
    pass


@task("bench-async")
async def nothing_async(payload):
    pass


Worker(os.environ["PGQUEUE_TEST_URL"], [nothing, nothing_async]).run()
