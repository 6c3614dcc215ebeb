"""What a crashed worker left behind: the cause that it reported, and its output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .output_capture import tail_of
from .ray_cluster import on_node
from .trial_actor import output_file


def crash_cause(worker: str) -> str | None:
    """The cause that a worker reported before it ended itself (`report_crash_cause`), or None."""
    from ray.experimental import internal_kv

    try:
        value = internal_kv._internal_kv_get(f"tabsweep/{worker}")
    except Exception:
        return None
    return value.decode() if value else None


def crash_output(worker: str, node_id: str, here: str) -> str:
    """What the trial of a dead worker had printed, "" where it cannot be had.

    It is in a file on the worker's node; `here` is the id of the driver's own node.
    """
    import ray

    path: Path = output_file(worker)
    try:
        if node_id == here:
            return tail_of(path)
        remote: Any = ray.remote(tail_of)
        there = remote.options(num_cpus=0, max_retries=0, scheduling_strategy=on_node(node_id))
        return ray.get(there.remote(path), timeout=5.0)
    except Exception:  # the output is a help for people; nothing depends on it
        return ""
