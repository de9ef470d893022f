"""Handlers in processes of their own: their death costs no other job, and an abort kills them."""
from __future__ import annotations

import atexit
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from multiprocessing import connection as pipes
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from typing import Any

from ._codec import Json
from ._context import Context
from ._errors import Aborted, PgQueueError, RemoteError, error_data, said
from ._json import Seconds
from ._lease import LeaseCalls, progress_text
from ._task import GiveUp, Outcome, Retry, Task

_NAME = "pgqueue handler"
_STOPS = (signal.SIGINT, signal.SIGTERM)
"""Signals to the worker, which a terminal or a supervisor may send to its handlers as well."""
_MASKS = hasattr(signal, "pthread_sigmask")
START = 300.0
"""Longest start of a process, with its imports, that does not count against the time of its job, in seconds."""
_CALLS = ("extend", "progress", "checkpoint", "add_jobs")


class ProcessDied(Exception):
    """The process of a handler ended before the handler did."""


class ProcessContext:
    """The context of a handler in a process of its own; an abort kills it. It has the facts, and calls about the lease."""

    task: str

    def __init__(self, pipe: Any, facts: dict[str, Any]) -> None:
        self._pipe = pipe
        self._turn = threading.Lock()
        self._over = False
        self.__dict__.update(facts)

    def extend(self, by: Seconds) -> None:
        self._call("extend", by)

    def progress(self, value: Json) -> None:
        progress_text(self.task, value)  # refused here: one that is too deep can't be sent
        self._call("progress", value)

    def checkpoint(self, value: Json) -> None:
        self._call("checkpoint", value)

    def add_jobs(self, jobs: Any) -> None:
        self._call("add_jobs", jobs)

    def __getattr__(self, name: str) -> Any:
        if hasattr(Context, name):
            raise PgQueueError(
                "configuration",
                f"a handler in a process of its own has no ctx.{name}: run it without process=True",
            )
        raise AttributeError(name)

    def _call(self, name: str, *given: Any) -> None:
        with self._turn:  # of the threads of a handler
            if self._over:
                raise RuntimeError(f"ctx.{name}: the handler has returned, and a thread that it has left can't call it")
            self._pipe.send(("call", name, given))
            kind, value = self._pipe.recv()
        if kind == "aborted":
            raise Aborted(value)
        if kind == "error":
            raise PgQueueError(*value)

    def _end(self) -> None:
        """Refuses calls from then on: the pipe serves the next job."""
        with self._turn:
            self._over = True


class Processes:
    """Processes that run handlers, one at a time each; they are kept for the next job."""

    def __init__(self) -> None:
        self._idle: list[_Child] = []
        self._closed = False

    def run(self, task: Task, payload: Any, calls: LeaseCalls, facts: dict[str, Any]) -> Any:
        """Runs a handler. Raises what it raises, and ``ProcessDied``."""
        child = self._child()
        attempt = calls.attempt
        with child.lock:
            child.serves = attempt
        attempt.on_abort = lambda: child.kill(attempt)
        try:
            if attempt.aborted is not None:
                raise Aborted(attempt.aborted)
            kind, value = child.run(task, payload, calls, facts)
        except (EOFError, OSError) as error:
            child.lost = True
            if attempt.aborted is not None:
                raise Aborted(attempt.aborted) from None
            raise ProcessDied(f"the process of its handler died ({child.exit_code()})") from error
        except (
            Exception
        ):  # what can't be sent, or read: its handler may wait for an answer, and the next job would get it
            child.kill(attempt)
            raise
        finally:
            with child.lock:
                child.serves = None
            if child.lost or self._closed:
                child.pipe.close()
            else:
                self._idle.append(child)
        if kind == "error":
            raise value
        return value

    def _child(self) -> _Child:
        """A process that waits for work, or a new one."""
        try:
            while not (child := self._idle.pop()).process.is_alive():
                child.pipe.close()
            return child
        except IndexError:
            return _Child()

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().pipe.close()


class _Child:
    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other,), name=_NAME, daemon=True)
        if _MASKS:  # inherited, so that no signal ends the process before it serves
            resource_tracker.ensure_running()  # or the first start would begin it, which takes the mask off
            before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        try:
            self.process.start()
        finally:
            if _MASKS:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        other.close()
        self.lock = threading.Lock()
        self.serves: object = None
        self._loaded: set[tuple[str, str]] = set()
        self.lost = False
        """It was killed, or has died: it runs no other job, even while it still looks alive."""

    def run(self, task: Task, payload: Any, calls: LeaseCalls, facts: dict[str, Any]) -> tuple[str, Any]:
        place = _place(task)
        if place not in self._loaded:
            self._load(place, calls)
        self.pipe.send((*place, (task.takes_context, payload, facts)))
        while True:
            kind, *told = self.pipe.recv()
            if kind != "call":
                return kind, told[0]
            self.pipe.send(_answer(calls, *told))

    def _load(self, place: tuple[str, str], calls: LeaseCalls) -> None:
        """Waits until the process has imported the handler. Extends the lease: that time is not the job's."""
        attempt, began = calls.attempt, time.monotonic()
        self.pipe.send((*place, None))
        while not self.pipe.poll(max(0.0, attempt.due - time.monotonic()) / 2) and time.monotonic() - began < START:
            calls.extend(attempt.timeout)
        kind, value = self.pipe.recv()
        if kind == "error":
            raise value
        calls.extend(attempt.timeout)
        self._loaded.add(place)

    def kill(self, attempt: object) -> None:
        with self.lock:
            if self.serves is attempt:
                self.lost = True
                _kill(self.process)

    def exit_code(self) -> str:
        self.process.join(1)
        code = self.process.exitcode
        return "no exit code" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"


def unreachable(task: Task) -> str | None:
    """The problem of a process handler that no process would find; None: there is none."""
    try:
        module, name = _place(task)
        found = _found(module, name)
        handler = found.handler if isinstance(found, Task) else found
        has_file = module != "__main__" or getattr(sys.modules[module], "__file__", None) is not None
        if handler == task.handler and has_file:
            return None
    except Exception:
        pass
    return (
        f"task {task.name}: a process of its own can't find its handler: make it a function of a module,"
        " in no other function and no lambda, under its own name; or leave out process=True"
    )


def _place(task: Task) -> tuple[str, str]:
    return task.handler.__module__, task.handler.__qualname__


def _found(module: str, name: str) -> Any:
    """The task or the function of that name. Raises ``AttributeError`` and what the import raises."""
    found: Any = sys.modules.get(module) or importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _answer(calls: LeaseCalls, name: str, given: Any) -> tuple[str, Any]:
    if name not in _CALLS:
        return "error", ("configuration", f"a handler in a process of its own has no ctx.{name}")
    try:
        getattr(calls, name)(*given)
        return "ok", None
    except Aborted as error:
        return "aborted", error.reason
    except Exception as error:
        return "error", (error.code if isinstance(error, PgQueueError) else "configuration", str(error))


def _serve(pipe: Any) -> None:
    """The main loop of such a process. The worker ends it: signals to all processes at once must not."""
    for stop in _STOPS:
        signal.signal(stop, lambda *_: None)  # not SIG_IGN, which programs that a handler starts would inherit
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # so that the programs of its handlers end with it
    if _MASKS:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            module, name, work = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            found = _found(module, name)
            told = "value", None if work is None else _worked(pipe, found, *work)
        except BaseException as error:
            told = "error", _sendable(error)
        try:
            pipe.send(told)
        except Exception as error:  # the result can't be pickled
            pipe.send(("error", _remote(error)))


def _worked(pipe: Any, handler: Any, takes_context: bool, payload: Any, facts: dict[str, Any]) -> Any:
    context = ProcessContext(pipe, facts)
    try:
        return _sendable(handler(payload, context) if takes_context else handler(payload))
    finally:
        context._end()


def _sendable(value: Any) -> Any:
    """A result or an outcome, with errors as data: a class of errors may take what pickle does not give it."""
    if isinstance(value, (Retry, GiveUp)) and isinstance(value.error, BaseException):
        value.error = _remote(value.error)
    elif isinstance(value, BaseException) and not isinstance(value, Outcome):
        return _remote(value)
    return value


def _remote(error: BaseException) -> RemoteError:
    return RemoteError(said(error), error_data(error))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        pipes.wait([parent.sentinel])
        if hasattr(os, "killpg"):
            os.killpg(0, signal.SIGKILL)
        os._exit(1)


def _kill(process: BaseProcess) -> None:
    """Kills such a process, with the programs that its handlers have started."""
    assert process.pid is not None
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (AttributeError, OSError):  # on Windows, or before it serves
        process.kill()


@atexit.register
def _end_all() -> None:
    """Ends those that a worker has left, before multiprocessing would wait for them after a SIGTERM."""
    for process in multiprocessing.active_children():
        if process.name == _NAME:
            _kill(process)
