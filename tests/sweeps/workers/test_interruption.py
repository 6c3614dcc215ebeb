"""A worker's signals: whichever handler acts, one that came is known, and a child's is not its."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tabsweep.sweeps.workers.interruption import (
    SIGNALS,
    Interrupted,
    SignalWatch,
    keyboard_interrupts,
)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_in_a_trial_raises_in_it_and_other_signals_are_none_of_ours() -> None:
    watch = SignalWatch()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    try:
        with watch.trial():
            os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert watch.received == ""
    for number in SIGNALS:
        watch = SignalWatch()
        with pytest.raises(Interrupted), watch.trial():
            os.kill(os.getpid(), number)
        assert watch.received == number.name


def test_between_two_trials_a_signal_ends_the_process_as_before_them() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        child = os.fork()
        if child == 0:
            try:
                signal.signal(number, signal.SIG_DFL)
                with SignalWatch().trial():
                    pass
                os.kill(os.getpid(), number)
            finally:
                os._exit(8)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -number


def test_a_hangup_that_nohup_ignores_interrupts_no_trial() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    watch = SignalWatch()
    with watch.trial():
        os.kill(os.getpid(), signal.SIGHUP)
    watch.check()


def test_what_a_forked_process_of_a_trial_receives_is_not_the_workers() -> None:
    watch = SignalWatch()
    with watch.trial():
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, lambda number, frame: os._exit(7))
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(8)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert watch.received == ""
    watch.check()


def ending_of_a_child(act: Callable[[], object] = lambda: None) -> int:
    """How a process that is forked here ends, where SIGTERM reaches it after `act`."""
    child = os.fork()
    if child == 0:
        try:
            act()
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os._exit(8)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("around", [keyboard_interrupts, lambda: SignalWatch().trial()])
def test_a_process_that_a_trial_forks_ends_by_signals_as_any_other(around) -> None:
    """A pool's `terminate`, say, waits for the end of processes that it sent SIGTERM."""
    plain = signal.default_int_handler
    signal.signal(signal.SIGINT, soft_once())
    signal.signal(signal.SIGTERM, lambda number, frame: None)  # the command's: "stop soon"
    assert ending_of_a_child() == 8  # no trial runs: what forks here is ours
    with around():
        assert ending_of_a_child() == -signal.SIGTERM
        assert ending_of_a_child(lambda: os._exit(signal.getsignal(signal.SIGINT) is plain)) == 1
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(7))  # the model's own
        assert ending_of_a_child() == 7
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    assert ending_of_a_child() == 8


def soft_once() -> Callable[[int, Any], None]:
    """The command's way: the first SIGINT is a request, the next one raises."""
    came: list[int] = []

    def handle(number: int, frame: Any) -> None:
        came.append(number)
        if len(came) > 1:
            raise KeyboardInterrupt

    return handle


def test_a_keyboard_interrupt_that_a_trial_swallows_is_raised_at_its_end() -> None:
    for handler, signals in ((signal.default_int_handler, 1), (soft_once(), 2)):
        signal.signal(signal.SIGINT, handler)
        ran = []
        with pytest.raises(KeyboardInterrupt), keyboard_interrupts():
            try:
                for _ in range(signals):
                    os.kill(os.getpid(), signal.SIGINT)
                ran.append("not interrupted")
            except KeyboardInterrupt:
                ran.append("swallowed")
        assert ran == ["swallowed"] and signal.getsignal(signal.SIGINT) is handler


def test_a_signal_that_raises_nothing_in_a_trial_ends_nothing() -> None:
    handler = soft_once()
    signal.signal(signal.SIGINT, handler)
    with keyboard_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a trial that leaves its own handler behind
    assert signal.getsignal(signal.SIGINT) is handler
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with keyboard_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
