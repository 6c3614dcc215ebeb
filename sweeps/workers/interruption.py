"""Interruptions of a trial from outside: signals that its worker receives."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
END_S = 1.0  # from the last answer of a worker that was told to end to its end


# Signal handlers of a process that a trial forks: a signal ends it, as it ends any other process.
IN_CHILDREN: dict[int, Any] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
    signal.SIGHUP: signal.SIG_DFL,
}

_ours: dict[int, Any] = {}  # while a trial runs: the handlers that are there for this process only


@contextmanager
def _not_in_children() -> Iterator[None]:
    """Around a trial: a process that the trial forks does not inherit the signal handlers of the
    driver or the worker. It inherits the handlers that the trial itself installs."""
    before = dict(_ours)
    _ours.update({number: signal.getsignal(number) for number in IN_CHILDREN})
    try:
        yield
    finally:
        _ours.clear()
        _ours.update(before)


def _forget() -> None:
    """In a process that a trial forked: what it receives is none of the worker's signals."""
    if threading.current_thread() is not threading.main_thread():
        return
    signal.set_wakeup_fd(-1)
    for number, handler in _ours.items():
        if callable(handler) and signal.getsignal(number) == handler:
            signal.signal(number, IN_CHILDREN[number])
    _ours.clear()


os.register_at_fork(after_in_child=_forget)


class Interrupted(BaseException):
    """A signal ended a trial. Not an `Exception`, so that a model's own handlers let it pass."""


class TrialInterrupted(Exception):
    """What a worker answers for a trial that a signal ended: it says nothing about the trial."""


@contextmanager
def keyboard_interrupts() -> Iterator[None]:
    """Run a trial in the calling process so that its code cannot swallow Ctrl-C.

    If SIGINT raised KeyboardInterrupt during the trial, KeyboardInterrupt is raised again at its
    end. The previous signal handler decides whether SIGINT raises. Main thread only.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        with _not_in_children():
            yield
        return
    act: Callable[[int, Any], Any] = before
    raised = False

    def handle(number: int, frame: Any) -> None:
        nonlocal raised
        try:
            act(number, frame)
        except KeyboardInterrupt:
            raised = True
            raise

    signal.signal(signal.SIGINT, handle)
    try:
        with _not_in_children():
            yield
    finally:
        signal.signal(signal.SIGINT, before)
    if raised:
        raise KeyboardInterrupt


class SignalWatch:
    """Tells a trial that a signal ended from one that ended itself.

    While a trial runs (`trial`), SIGTERM, SIGINT or SIGHUP raises `Interrupted` in it; at other
    times the handler of before acts, which in a worker of Ray ends the process. `received` is the
    name of the first signal that came, which holds also where the model's code swallowed the
    exception, or handles the signal itself.
    Works in the main thread only, as Python's handlers do; elsewhere it does nothing.
    """

    def __init__(self) -> None:
        self.received = ""
        self._running = False
        self._before: dict[int, Any] = {}

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Around a trial. Its code may have set handlers of its own in an earlier one."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                found = signal.getsignal(number)
                if number == signal.SIGHUP and found is signal.SIG_IGN:  # as under nohup
                    continue
                if found != self._handle:
                    self._before.setdefault(number, found)
                    signal.signal(number, self._handle)
            noted: AbstractContextManager[None] = self._noted()
        else:
            noted = nullcontext()
        with noted, _not_in_children():
            self._running = True
            try:
                yield
            finally:
                self._running = False

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Around a trial: Python writes the number of each signal that comes into a pipe, whichever
        handler acts on it."""
        numbers, end = os.pipe()
        for file in (numbers, end):
            os.set_blocking(file, False)
        before = signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            with suppress(BlockingIOError):
                for number in os.read(numbers, 65536):
                    if number in SIGNALS:
                        self.received = self.received or signal.Signals(number).name
            os.close(numbers)
            os.close(end)

    def _handle(self, number: int, frame: Any) -> None:
        self.received = self.received or signal.Signals(number).name
        if self._running:
            raise Interrupted(self.received)
        before = self._before.get(number)
        if callable(before):
            before(number, frame)
        elif before is signal.SIG_DFL:  # Python cannot call it: the system ends the process
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def check(self, *, failed: bool = False) -> None:
        """Raise TrialInterrupted where a signal has come; the process then ends by itself.

        failed: a trial has just failed. A signal that is blocked in this process, as where
        deploy/slurm.sh has started Ray, interrupts no trial, but may have ended a process that the
        trial had started: then the failure says nothing about the trial.
        """
        if failed and not self.received:
            self.received = next((s.name for s in SIGNALS if s in signal.sigpending()), "")
        if self.received:
            blocked = signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())
            end = signal.SIGKILL if blocked else signal.SIGTERM
            threading.Timer(END_S, os.kill, [os.getpid(), end]).start()
            raise TrialInterrupted(f"the worker received {self.received}")
