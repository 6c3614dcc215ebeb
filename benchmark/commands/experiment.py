"""How does `bench experiment` run one? Its module is called, what it returns is written."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from ..console import OK, Console, duration
from ..papers.experiments import EXPERIMENTS, Experiment
from ..papers.outcome import Outcome, Setting, Size


def list_experiments(face: Console) -> int:
    """`bench experiment` without a name."""
    rows = [[e.name, e.title, e.source] for e in EXPERIMENTS.values()]
    face.data(
        [
            {
                "name": e.name,
                "title": e.title,
                "source": e.source,
                "reduced": e.reduced,
                "full": e.full,
                "published": list(e.beside),
            }
            for e in EXPERIMENTS.values()
        ]
    )
    face.table(["experiment", "what", "source"], rows)
    return OK


def describe(face: Console, experiment: Experiment) -> None:
    """What is about to run."""
    face.say(f"{experiment.name}: {experiment.title} ({experiment.source})")


def experiment_command(
    face: Console,
    experiment: Experiment,
    *,
    size: Size,
    seed: int,
    device: str,
    threads: int,
    out: Path,
    mirror: str | None,
    cache: str | None,
) -> int:
    """`bench experiment NAME`: runs it, prints its tables, says where the files are."""
    from ..papers import write

    folder = out / experiment.name
    describe(face, experiment)
    face.say(f"size {size}: {experiment.full if size == 'full' else experiment.reduced}")
    outcome, facts, files = run_experiment(
        experiment,
        size=size,
        seed=seed,
        device=device,
        threads=threads,
        out=out,
        say=face.say,
        mirror=mirror,
        cache=cache,
    )
    for table in outcome.tables:
        face.say(f"\n{table.title}")
        face.table(list(table.columns), write.cells(table))
        if table.note:
            face.say(table.note)
    face.say()
    for remark in outcome.remarks:
        face.say(remark)
    face.say(f"{duration(facts['seconds'])}; written to {folder}:")
    for path in files:
        face.say(f"  {path.relative_to(folder)}")
    face.data(
        {
            "experiment": experiment.name,
            "tables": {
                t.name: [dict(zip(t.columns, row, strict=True)) for row in t.rows]
                for t in outcome.tables
            },
            "remarks": outcome.remarks,
            "files": [str(path) for path in files],
            "facts": facts,
        }
    )
    return OK


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
) -> tuple[Outcome, dict[str, Any], list[Path]]:
    """(outcome, facts, files): the experiment is run and written to out/<name>."""
    from threadpoolctl import threadpool_limits

    from ...models.deep.trainer import computing
    from ..papers import write
    from ..planning.environment import capture

    folder = out / experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    module, _, function = experiment.run.partition(":")
    run = getattr(import_module(f"..papers.{module}", __package__), function)
    setting = Setting(size, seed, device, threads, folder, say, mirror, cache)
    began, cpu_began = time.perf_counter(), time.process_time()
    with threadpool_limits(threads), computing(threads):
        outcome: Outcome = run(setting)
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    words = ["bench", "experiment", experiment.name, "--size", size, "--seed", seed]
    words += ["--device", device, "--threads", threads, "--out", out]
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
        "measured": outcome.facts,
    }
    files = write.write(experiment, outcome, folder)
    files.append(write.write_facts(facts, folder))
    return outcome, facts, files


def _gpu(device: str) -> str | None:
    if device == "cpu":
        return None
    import torch

    return torch.cuda.get_device_name()
