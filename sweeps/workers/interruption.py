"""Interruptions of a trial from outside: signals that its worker receives."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)
END_S = 1.0  # from the last answer of a worker that was told to end to its end


class Interrupted(BaseException):
    """A signal ended a trial. Not an `Exception`, so that a model's own handlers let it pass."""


class TrialInterrupted(Exception):
    """What a worker answers for a trial that a signal ended: it says nothing about the trial."""


class SignalWatch:
    """Tells a trial that a signal ended from one that ended itself.

    While a trial runs (`trial`), SIGTERM or SIGINT raises `Interrupted` in it; at other times the
    handler of before acts, which in a worker of Ray ends the process. `received` is the name of the
    first signal that came, which holds also where the model's code swallowed the exception.
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
                if found != self._handle:
                    self._before.setdefault(number, found)
                    signal.signal(number, self._handle)
        self._running = True
        try:
            yield
        finally:
            self._running = False

    def _handle(self, number: int, frame: Any) -> None:
        self.received = self.received or signal.Signals(number).name
        if self._running:
            raise Interrupted(self.received)
        before = self._before.get(number)
        if callable(before):
            before(number, frame)

    def check(self) -> None:
        """Raise TrialInterrupted where a signal has come; the process then ends by itself."""
        if self.received:
            threading.Timer(END_S, os.kill, [os.getpid(), signal.SIGTERM]).start()
            raise TrialInterrupted(f"the worker received {self.received}")
