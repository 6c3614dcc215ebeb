"""The one thread that talks to Ray: whoever asks it for something waits for a limited time."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NoReturn, ParamSpec, TypeVar

from ..machine.awake_clock import awake_s
from .pool import ClusterLost
from .ray_start import stat_of

ANSWER_S = 15.0  # for any call, where Ray itself would wait for a minute or for ever
FAR_S = 60.0  # where its state server is on another machine, which may start it again
LOOK_S = 0.5
DIED = "Ray on this machine has died"
# Exceptions of Ray that mean that the cluster failed, and not a trial.
RAY_GONE = {"RaySystemError", "RpcError", "LocalRayletDiedError", "RayChannelError"}

P = ParamSpec("P")
R = TypeVar("R")


class Caller(threading.Thread):
    """A thread that makes one call after the other."""

    def __init__(self) -> None:
        super().__init__(daemon=True)  # nobody waits for a call that hangs
        self._asked: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self.start()

    def submit(self, act: Callable[[], R]) -> Future[R]:
        """What a call will have returned or raised."""
        future: Future[R] = Future()
        self._asked.put((future, act))
        return future

    def run(self) -> None:
        """Make the calls, for ever."""
        while True:
            future, act = self._asked.get()
            try:
                future.set_result(act())
            except BaseException as error:
                future.set_exception(error)
            del future, act  # nothing of Ray is kept until the next call


class RayThread:
    """Calls Ray for all threads of this process, one call after the other.

    lost: why Ray is lost, "" while it is not. Then nothing of Ray is called any more.
    answer_s: seconds for an answer. tell: where another process watches this one, is called with
    the reason once Ray is lost.
    """

    def __init__(self) -> None:
        self.tell: Callable[[str], None] | None = None
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget a Ray that is lost, and the thread that may hang in it: another may be started."""
        self.lost = ""
        self.answer_s = ANSWER_S
        self._daemons: dict[int, float | None] = {}  # process id: since when it stands still
        self._caller: Caller | None = None

    def watch(self, daemons: Iterable[int]) -> None:
        """The process ids of the daemons on this machine without which a Ray that is up is lost."""
        if self.lost:
            self.begin_anew()
        self._daemons = dict.fromkeys(daemons)

    def submit(self, act: Callable[[], R]) -> Future[R]:
        """What a call will have returned; nobody need wait for it.

        The thread lives as long as this process: on Linux Ray's processes ask to be killed when the
        thread that started them ends.
        """
        if self._caller is None:
            self._caller = Caller()
        return self._caller.submit(act)

    def ask(self, act: Callable[[], R], within_s: float = 0.0) -> R:
        """What a call returns, or raises. Raises ClusterLost where it does neither in time."""
        if threading.current_thread() is self._caller:
            return act()
        self.check()
        future, began, within_s = self.submit(act), awake_s(), max(within_s, self.answer_s)
        while True:
            with suppress(TimeoutError):
                error = future.exception(LOOK_S)
                break
            self.check()
            if awake_s() - began > within_s:
                self._lose(f"Ray has not answered for {within_s:g} s")
        if error is not None and {cls.__name__ for cls in type(error).__mro__} & RAY_GONE:
            self._lose(" ".join(str(error).split())[:300])
        return future.result()

    def look_on(self, act: Callable[[], R], look: Callable[[], Any]) -> R:
        """Run the long `act`, which calls Ray itself, in another thread and return its result. This
        thread calls `look` meanwhile; exceptions of `look` are raised."""
        future = Caller().submit(act)
        while True:
            with suppress(TimeoutError):
                future.exception(LOOK_S)
                return future.result()
            look()

    def check(self) -> None:
        """Raises ClusterLost where Ray is lost: it did not answer, or a daemon has died or stands
        still. Ray's library notices that after a minute, and then ends this process."""
        if self.lost:
            raise ClusterLost(self.lost)
        for pid, since in self._daemons.items():
            state = stat_of(pid)[0]
            if state in "ZX":
                self._lose(DIED)
            if state not in "Tt":
                self._daemons[pid] = None
            elif since is None:
                self._daemons[pid] = awake_s()
            elif awake_s() - since > ANSWER_S:
                self._lose(f"Ray's process {pid} was stopped {ANSWER_S:g} s ago")

    def _lose(self, reason: str) -> NoReturn:
        self.lost = reason
        if self.tell is not None:
            self.tell(reason)
        raise ClusterLost(reason)


RAY = RayThread()


def bounded(act: Callable[P, R]) -> Callable[P, R]:
    """A function that calls Ray, called in Ray's thread: raises ClusterLost where Ray is lost."""

    @functools.wraps(act)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        return RAY.ask(functools.partial(act, *args, **kwargs))

    return asked
