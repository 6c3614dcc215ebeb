"""Run one of the papers' experiments and write what it returns."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from ...models.deep.trainer import computing
from ...sweeps.workers.process_tree import tree_cpu_s
from ..planning.environment import capture
from .catalog import Experiment
from .experiment_files import write, write_facts
from .experiment_result import TINY, ExperimentResult, Setting


def run_experiment(
    experiment: Experiment, setting: Setting
) -> tuple[ExperimentResult, dict[str, Any], list[Path]]:
    """(result, facts, files): the experiment is run and written to the setting's folder. facts:
    seconds, versions and the command that repeats it."""
    run = experiment.function(setting.size)  # first: a wrong one leaves no folder behind
    setting.out.mkdir(parents=True, exist_ok=True)
    size, seed, device, threads = setting.size, setting.seed, setting.device, setting.threads
    began, cpu_began = time.perf_counter(), tree_cpu_s()
    with threadpool_limits(threads), computing(threads):
        result = run(setting)
    if size == "tiny":
        result.remarks.append(TINY)
    seconds, cpu_s = time.perf_counter() - began, tree_cpu_s() - cpu_began
    words = ["bench", "experiment", experiment.name, "--size", size, "--seed", seed]
    words += ["--device", device, "--threads", threads]
    words += ["--out", setting.out.parent]
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
    files = write(experiment, result, setting.out)
    files.append(write_facts(facts, setting.out))
    return result, facts, files


def _gpu(device: str) -> str | None:
    """The name of the GPU in use."""
    if device == "cpu":
        return None
    import torch

    return torch.cuda.get_device_name()
