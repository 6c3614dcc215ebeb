"""A guard against a start of Ray that freezes the whole process.

Ray's library connects to its raylet without letting go of Python's lock: while it waits there, no
thread and no handler of this process runs. So a small process of its own watches, and ends it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading

TICK_S = 1.0
# argv: seconds without a tick until the notice, until the end; id of the process; the two texts
WATCH = """
import os, select, signal, sys, time
notice, end, pid = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
last, told = time.monotonic(), False
while True:
    if select.select([0], [], [], 1.0)[0]:
        if not os.read(0, 4096):
            break
        last, told = time.monotonic(), False
    with open(f"/proc/{pid}/stat") as file:
        if file.read().rpartition(")")[2].split()[0] in "Tt":
            last = time.monotonic()
    silent = time.monotonic() - last
    if silent > notice and not told:
        told = True
        os.write(2, (sys.argv[4] + "\\n").encode())
    if silent > end:
        os.write(2, (sys.argv[5] + "\\n").encode())
        os.kill(pid, signal.SIGQUIT)
        break
"""


class FreezeGuard:
    """From `begin` to `end`: a process that freezes for `notice_s` says so on standard error
    (`notice`), and one that freezes for `end_s` ends with exit code 3 and the line `last_words`.

    Its own children end with it where they asked the kernel for that, as Ray's do on Linux. A
    process that somebody stopped (Ctrl-Z) is not taken for a frozen one.
    """

    def __init__(self, *, notice_s: float, end_s: float, notice: str, last_words: str) -> None:
        self._given = [str(notice_s), str(end_s), str(os.getpid()), notice, last_words]
        self._over = threading.Event()
        self._watch: subprocess.Popen[bytes] | None = None
        self._libc = ctypes.CDLL(None)
        self._libc.signal.restype = ctypes.c_void_p
        self._libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]

    def begin(self) -> None:
        """Start to watch, once; only where there is /proc, as on Linux."""
        if self._watch is not None or not os.path.exists(f"/proc/{os.getpid()}/stat"):
            return
        # Python's own handlers would wait for its lock. libc's _exit takes the number of the
        # signal for the exit code: that of SIGQUIT is 3.
        leave = ctypes.cast(self._libc._exit, ctypes.c_void_p)
        self._before = self._libc.signal(signal.SIGQUIT, leave)
        self._watch = subprocess.Popen(
            [sys.executable, "-ISc", WATCH, *self._given],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C is for the process that it watches
        )
        threading.Thread(target=self._tick, args=[self._watch], daemon=True).start()

    def _tick(self, watch: subprocess.Popen[bytes]) -> None:
        assert watch.stdin is not None
        while not self._over.wait(TICK_S):
            try:
                watch.stdin.write(b".")
                watch.stdin.flush()
            except OSError:
                return

    def end(self) -> None:
        """Watch no longer; nothing where it did not begin, or has ended."""
        if self._watch is None or self._over.is_set():
            return
        self._over.set()
        self._watch.kill()
        self._watch.wait()
        self._libc.signal(signal.SIGQUIT, self._before)
