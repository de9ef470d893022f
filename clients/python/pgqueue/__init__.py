"""pgqueue: producer and worker of a Postgres job queue that is fair and exact about limits."""
from ._codec import Codec, Json, Place
from ._context import AsyncContext, AsyncNeed, Context, Need, NeedResult
from ._errors import Aborted, PgQueueError
from ._jobs import Enqueued, Job, RetryPolicy, Unique
from ._encrypted import blind, encrypted
from ._process import ProcessContext
from ._task import Cancelled, FanOut, GiveUp, Outcome, Retry, Snooze, Task, task
from .producer import AsyncProducer, Producer
from .worker import Worker

__all__ = [
    "Aborted",
    "AsyncContext",
    "AsyncNeed",
    "AsyncProducer",
    "Cancelled",
    "Codec",
    "Context",
    "Enqueued",
    "FanOut",
    "GiveUp",
    "Job",
    "Json",
    "Need",
    "NeedResult",
    "Outcome",
    "PgQueueError",
    "Place",
    "ProcessContext",
    "Producer",
    "Retry",
    "RetryPolicy",
    "Snooze",
    "Task",
    "Unique",
    "Worker",
    "blind",
    "encrypted",
    "task",
]
