"""Run one of the papers' experiments and write what it returns."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from ...models.deep.trainer import computing
from ..planning.environment import capture
from .catalog import Experiment
from .experiment_files import write, write_facts
from .experiment_result import TINY, ExperimentResult, Setting, Size


def run_experiment(
    experiment: Experiment,
    *,
    size: Size = "reduced",
    seed: int = 0,
    device: str = "cpu",
    threads: int = 1,
    out: Path = Path("experiments"),
    say: Callable[[str], None] = lambda text: None,
    mirror: str | None = None,
    cache: str | None = None,
) -> tuple[ExperimentResult, dict[str, Any], list[Path]]:
    """(result, facts, files): the experiment is run and written to out/<name>. The other arguments
    are those of `Setting`. facts: seconds, versions and the command that repeats it."""
    run = experiment.function(size)  # first: a wrong one leaves no folder behind
    folder = out / experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    setting = Setting(size, seed, device, threads, folder, say, mirror, cache)
    began, cpu_began = time.perf_counter(), time.process_time()
    with threadpool_limits(threads), computing(threads):
        result = run(setting)
    if size == "tiny":
        result.remarks.append(TINY)
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    words = ["bench", "experiment", experiment.name, "--size", size, "--seed", seed]
    words += ["--device", device, "--threads", threads, "--out", out]
    words += [] if experiment.paper.is_built_in else ["--paper", experiment.paper.folder]
    facts = {
        "experiment": experiment.name,
        "size": size,
        "seed": seed,
        "device": device,
        "gpu": _gpu(device),
        "threads": threads,
        "seconds": round(seconds, 3),
        "cpu_s": round(cpu_s, 3),
        "command": shlex.join(str(word) for word in words),
        "environment": capture(),
        "remarks": result.remarks,
        "measured": result.facts,
    }
    files = write(experiment, result, folder)
    files.append(write_facts(facts, folder))
    return result, facts, files


def _gpu(device: str) -> str | None:
    """The name of the GPU in use."""
    if device == "cpu":
        return None
    import torch

    return torch.cuda.get_device_name()
