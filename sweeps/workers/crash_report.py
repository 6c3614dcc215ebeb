"""The output of the trial of a crashed worker, from the machine on which it ran."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from ..machine.output_capture import tail_of
from .ray_cluster import on_node
from .ray_thread import bounded
from .trial_actor import output_file

WAIT_S = 5.0  # for the output of one worker on another machine
MOST_S = 10.0  # for all of them, within PERIOD_S: the driver stands still meanwhile
PERIOD_S = 60.0


def take_output(worker: str) -> str:
    """What the trial of a dead worker of this machine had printed; its file is removed."""
    path = output_file(worker)
    text = tail_of(path)
    with suppress(OSError):
        path.unlink()
    return text


@bounded
def output_there(worker: str, node_id: str, within_s: float) -> str:
    """`take_output` on another machine. Raises an error of Ray where that gives no answer."""
    import ray

    # The path is found there: the folder for temporary files and the user may be others.
    remote: Any = ray.remote(take_output)
    there = remote.options(num_cpus=0, max_retries=0, scheduling_strategy=on_node(node_id))
    return ray.get(there.remote(worker), timeout=within_s)


class CrashOutputs:
    """What the trials of dead workers had printed, from the machines on which they ran.

    here: the id of the driver's own node. Where many die at once on machines that answer late, the
    outputs of some are done without: they are a help for people, and nothing depends on them.
    """

    def __init__(self, here: str) -> None:
        self._here = here
        self._since = self._waited_s = 0.0

    def take(self, worker: str, node_id: str) -> str:
        """The output of a worker, whose file is removed; "" where it cannot be had."""
        if node_id == self._here:
            return take_output(worker)
        began = time.monotonic()
        if began - self._since > PERIOD_S:
            self._since, self._waited_s = began, 0.0
        left_s = min(WAIT_S, MOST_S - self._waited_s)
        if left_s <= 0:
            return ""
        try:
            return output_there(worker, node_id, left_s)
        except Exception:
            return ""
        finally:
            self._waited_s += time.monotonic() - began
