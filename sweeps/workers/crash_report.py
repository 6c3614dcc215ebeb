"""The output of the trial of a crashed worker, from the machine on which it ran."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from .output_capture import tail_of
from .ray_cluster import on_node
from .ray_thread import bounded
from .trial_actor import output_file

WAIT_S = 5.0  # for an answer of another machine: the driver stands still meanwhile


def output_of(worker: str, node_id: str, here: str) -> str:
    """What the trial of a dead worker had printed, whose file is removed; "" where it cannot be
    had: it is a help for people, and nothing depends on it.

    node_id, here: the ids of the worker's node and of the driver's own.
    """
    if node_id == here:
        return take_output(worker)
    try:
        return output_there(worker, node_id)
    except Exception:
        return ""


def take_output(worker: str) -> str:
    """What the trial of a dead worker of this machine had printed; its file is removed."""
    path = output_file(worker)
    text = tail_of(path)
    with suppress(OSError):
        path.unlink()
    return text


@bounded
def output_there(worker: str, node_id: str) -> str:
    """`take_output` on another machine. Raises an error of Ray where that gives no answer."""
    import ray

    # The path is found there: the folder for temporary files and the user may be others.
    remote: Any = ray.remote(take_output)
    there = remote.options(num_cpus=0, max_retries=0, scheduling_strategy=on_node(node_id))
    return ray.get(there.remote(worker), timeout=WAIT_S)
