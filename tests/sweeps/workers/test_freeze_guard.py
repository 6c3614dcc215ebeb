"""The guard against a process that a library freezes, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import ctypes, signal, sys, time
from tabsweep.sweeps.workers.freeze_guard import FreezeGuard
given = dict(notice_s=1.5, end_s=3.0, notice="the notice", last_words="the last words")
guard = FreezeGuard(**given)
guard.begin()
time.sleep(2.0)  # other threads go on
if sys.argv[1] == "frozen":
    ctypes.PyDLL(None).sleep(60)  # in C, with Python's lock held
guard.end()
if sys.argv[1] == "quit":
    signal.signal(signal.SIGQUIT, lambda *given: sys.exit(7))
    signal.raise_signal(signal.SIGQUIT)
"""


def test_a_frozen_process_ends_with_exit_code_3_and_others_go_on() -> None:
    found = {}
    for kind in ("frozen", "calm", "quit"):
        command = [sys.executable, "-c", PROGRAM, kind]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        found[kind] = done.returncode, done.stderr.splitlines()
    assert found == {
        "frozen": (3, ["the notice", "the last words"]),
        "calm": (0, []),
        "quit": (7, []),  # the signal's handlers of before are back
    }
