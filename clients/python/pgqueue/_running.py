"""Cancels coroutines of handlers."""

from __future__ import annotations

import asyncio

from ._errors import Aborted
from ._unit import Attempt


class Running:
    """The task of the event loop that runs the handlers of a slot: an abort of an attempt cancels its handler."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self.attempt: Attempt | None = None

    def abort(self) -> None:
        attempt = self.attempt
        try:
            self._loop.call_soon_threadsafe(self._cancel, attempt)
        except RuntimeError:
            pass  # the loop has ended

    def _cancel(self, attempt: Attempt | None) -> None:
        if attempt is self.attempt and attempt is not None and attempt.aborted is not None and self._task is not None:
            self._task.cancel()

    def error(self, attempt: Attempt, raised: BaseException) -> BaseException:
        """The error of an attempt whose handler has raised one; a cancellation by an abort has done its duty."""
        if not isinstance(raised, asyncio.CancelledError):
            return raised
        while self._task is not None and hasattr(self._task, "uncancel") and self._task.cancelling():
            self._task.uncancel()
        return Aborted(attempt.aborted) if attempt.aborted is not None else raised
