"""A worker's signals: whichever handler acts, one that came is known, and a child's is not its."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest
from tabsweep.sweeps.workers.interruption import Interrupted, SignalWatch


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_is_known_where_the_trial_replaced_the_handler_and_exited() -> None:
    watch = SignalWatch()
    with pytest.raises(SystemExit), watch.trial():
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
        os.kill(os.getpid(), signal.SIGTERM)
    assert watch.received == "SIGTERM"


def test_a_signal_in_a_trial_raises_in_it_and_other_signals_are_none_of_ours() -> None:
    watch = SignalWatch()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    try:
        with watch.trial():
            os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert watch.received == ""
    with pytest.raises(Interrupted), watch.trial():
        os.kill(os.getpid(), signal.SIGINT)
    assert watch.received == "SIGINT"


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
