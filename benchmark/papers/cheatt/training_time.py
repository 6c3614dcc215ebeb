"""Seconds an epoch with and without polynomial attention (Kim et al. 2024, Tables 5, 10 and 11).

Steps of training and 1,000 representations of each host with ordinary attention and with Chebyshev
polynomials of order 5, in the same architecture: the paper's best one of each dataset. The time of
a step and the number of steps that the paper's training rows make give the seconds of an epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from ....datasets.errors import ChecksumMismatch, DatasetUnavailable
from ....datasets.table import Table
from ....models.deep.row_network import steps_an_epoch
from ....models.deep.trainer import torch_device
from ....models.registry import make_model
from ...planning import suite
from ...planning.environment import cpu_model
from ..available import on_available
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..paper_file import read_paper
from ..published_values import load, printed_values

FOLDER = Path(__file__).parent

HOSTS = ("tabtransformer", "saint", "met")
ATTENTION = {"base": "softmax", "more": "chebyshev"}  # without and with CheAtt
ORDER = 5
ASKED = 1000  # rows of the representations
NEVER = 10**6  # epochs: no training here comes to its end


class Part(NamedTuple):
    """A timed part of the training: its table, its metric in Table 5, the unit of both, the factor
    from our seconds to that unit, and a description."""

    table: str
    metric: str
    unit: str
    scale: float
    title: str
    what: str


PARTS = {
    "training": Part(
        "table10",
        "training-time-per-epoch",
        "s",
        1.0,
        "Seconds an epoch",
        "an epoch over the training rows of Table 6, from the time of a training step",
    ),
    "inference": Part(
        "table11",
        "inference-time-per-1000-samples",
        "ms",
        1e3,
        f"Milliseconds of {ASKED} representations",
        f"{ASKED} representations",
    ),
}

EVERY = (
    "income", "default", "phishing", "alphabank", "clave", "contraceptive", "activity", "buddy",
    "medicalcost", "superconductivity",
)  # fmt: skip
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"datasets": ("contraceptive", "medicalcost"), "batch": 64, "steps": 1, "repeats": 1},
    "reduced": {"datasets": EVERY, "batch": 128, "steps": 1, "repeats": 5},
    "full": {"datasets": EVERY, "batch": 0, "steps": 50, "repeats": 5},
}


def table_of(dataset: str, setting: Setting) -> Table:
    """One of the paper's datasets; its stand-in where the whole set cannot be had."""
    file = read_paper(FOLDER).file
    whole = file.datasets.get(dataset, dataset)
    try:
        return setting.load(whole)
    except (DatasetUnavailable, ChecksumMismatch):
        other = next((name for name, s in file.stand_ins.items() if s.of == dataset), whole)
        if other == whole:
            raise
        setting.say(f"{whole} is not available; {other} stands in for it")
        return setting.load(other)


def config(host: str, dataset: str, batch: int) -> dict[str, Any]:
    """The paper's best setting of a host on a dataset, as the suite `cheatt` has it. batch: rows of
    a step, 0 for the suite's."""
    _, budget = suite.load("cheatt").budget("paper")
    ours = read_paper(FOLDER).file.datasets.get(dataset, dataset)
    given = dict(budget.search(f"{host}-cheatt", ours).fixed)
    given |= {"epochs": NEVER, "patience": 0, "order": ORDER}
    if batch:
        given["batch_size"] = batch
    if host == "saint":  # the paper's way; ours keeps other rows
        given["batch_prediction"] = True
    return given


def _clock(device: str) -> Callable[[], float]:
    """A function that returns seconds: on a GPU those of the clock once its work is done, on a CPU
    those of this process, which other programs on a shared machine change less."""
    if device == "cpu":
        return time.process_time

    def now() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return now


def measure(
    setting: Setting, host: str, dataset: str, batch: int, steps: int, repeats: int
) -> list[dict[str, Any]]:
    """Seconds without and with CheAtt (`base`, `more`): of a training step, and of 1,000
    representations. `steps`: how many of them are an epoch over the training rows of Table 6.

    Both take turns; the median of the repeats, after one that does not count.
    """
    data = table_of(dataset, setting)
    given, now = config(host, dataset, batch), _clock(setting.device)
    size = int(given["batch_size"])
    rows = setting.folds(data)[0].train[: max(ASKED, size * steps)]
    found = []
    for part in PARTS:
        trainings = {}
        for side, attention in ATTENTION.items():
            model = make_model(
                host, task=data.task, seed=setting.seed, threads=setting.threads,
                device=setting.device,
                **{**given, "attention": attention, "pretrain_epochs": 0},
            )  # fmt: skip
            ready = model._prepare(data.rows(rows), data.target[rows])
            trainings[side] = model._training(ready, None)
        taken: dict[str, list[float]] = {side: [] for side in trainings}
        for repeat in range(repeats + 1):
            for side, training in trainings.items():
                began = now()
                if part == "inference":
                    _represent(training, size, setting.device)
                else:
                    training.run(training.step + steps)
                if repeat:
                    taken[side].append(now() - began)
        n_timed = steps if part == "training" else 1
        n_steps = steps_an_epoch(training_rows()[dataset], size) if part == "training" else 1
        medians = {side: float(np.median(s)) / n_timed for side, s in taken.items()}
        found.append({"data": data.name, "part": part, "steps": n_steps, **medians})
    return found


def _represent(training: Any, size: int, device: str) -> None:
    """1,000 rows through the network, in batches; rows of a smaller table come again."""
    task = training.task
    order = (torch.arange(ASKED) % len(task.rows)).to(torch_device(device))
    with training.final_weights():
        for at in range(0, ASKED, size):
            task.outputs(task.rows.at(order[at : at + size]))


def training_rows() -> dict[str, int]:
    """{dataset by the paper's name: its training rows} of Table 6."""
    rows = load(FOLDER, "table6")
    return {str(r.dataset): int(r.n_train) for r in rows.itertuples(index=False)}


def published(part: str, host: str, dataset: str) -> tuple[float, float]:
    """Table 10 or 11 without and with CheAtt, NaN where the number cannot be read."""
    values = printed_values(FOLDER, PARTS[part].table)
    base, more = (values.get((dataset, m), np.nan) for m in (host, f"{host}-cheatt"))
    return base, more


def run(
    setting: Setting, *, datasets: Sequence[str], batch: int, steps: int, repeats: int
) -> ExperimentResult:
    """`bench experiment cheatt-time`.

    datasets: by the paper's names. batch: rows of a step, 0 for the suite's. steps: of a
    measurement, each of which is taken `repeats` times in turn with the others.
    """

    def measured(key: tuple[str, str]) -> list[dict[str, Any]]:
        setting.say(" on ".join(key))
        return measure(setting, *key, batch, steps, repeats)

    keys = [(host, dataset) for host in HOSTS for dataset in datasets]
    found, left_out = on_available(keys, measured)
    times = pd.DataFrame(
        [{"host": h, "dataset": d, **line} for (h, d), lines in found.items() for line in lines]
    )
    machine = _machine(setting)
    tables = tables_of(times, machine, batch)
    return ExperimentResult(tables, remarks=left_out, facts={"machine": machine})


def _machine(setting: Setting) -> str:
    """What ours were measured on, in words."""
    if setting.device != "cpu":
        return f"{torch.cuda.get_device_name()}, time of day"
    threads = "one thread" if setting.threads == 1 else f"{setting.threads} threads"
    return f"{cpu_model()}, {threads}, CPU time"


def tables_of(times: pd.DataFrame, machine: str, batch: int) -> list[ExperimentTable]:
    """All tables, from the rows of `measure` with their host and dataset."""
    why = {name: stand_in.why for name, stand_in in read_paper(FOLDER).file.stand_ins.items()}
    used = times[["dataset", "data"]].drop_duplicates().itertuples(index=False)
    said = [f"{dataset} is {data} ({why[data]})" for dataset, data in used if data in why]
    stood_in = f" Stand-ins: {'; '.join(said)}." if said else ""
    of_batch = f" of {batch} rows" if batch else ""
    return [
        _means(times, f"{machine}. Published: on an RTX A5000.{stood_in}"),
        *(_each(times, part, machine, of_batch, stood_in) for part in PARTS),
    ]


def _each(
    times: pd.DataFrame, name: str, machine: str, of_batch: str, stood_in: str
) -> ExperimentTable:
    """Table 10 or 11: seconds an epoch, or milliseconds of 1,000 representations."""
    part, number = PARTS[name], PARTS[name].table.removeprefix("table")
    rows = []
    for r in times[times["part"] == name].itertuples(index=False):
        base, more = published(name, r.host, r.dataset)
        rows.append(
            {
                "host": r.host,
                "dataset": r.dataset,
                f"ours, {part.unit}": part.scale * r.steps * r.base,
                f"ours +CheAtt, {part.unit}": part.scale * r.steps * r.more,
                "our ratio": r.more / r.base,
                f"published, {part.unit}": base,
                f"published +CheAtt, {part.unit}": more,
                "published ratio": more / base,
            }
        )
    return ExperimentTable(
        f"cheatt-table-{number}",
        f"{part.title}, published (Table {number}) beside ours",
        rows,
        f"Ours: {part.what}{of_batch * (name == 'training')}; {machine}. Published: on an RTX "
        "A5000 by the wall clock, in batches that the paper does not state; a dash: not legible."
        f"{stood_in}",
    )


def _means(times: pd.DataFrame, measured: str) -> ExperimentTable:
    """Table 5: means over datasets, and what CheAtt adds."""
    stated = load(FOLDER, "table5").set_index(["metric", "method"])["value"].to_dict()
    rows = []
    for (host, name), mine in times.groupby(["host", "part"], sort=False):
        part = PARTS[str(name)]
        rows.append(
            {
                "host": host,
                "part": f"{name}, {part.unit}",
                "ours": part.scale * float((mine["steps"] * mine["base"]).mean()),
                "ours +CheAtt": part.scale * float((mine["steps"] * mine["more"]).mean()),
                "ours more, %": 100 * (float((mine["more"] / mine["base"]).mean()) - 1),
                "published": stated.get((part.metric, host)),
                "published +CheAtt": stated.get((part.metric, f"{host}-cheatt")),
                "published more, %": stated.get((f"{part.metric}-increase", f"{host}-cheatt")),
            }
        )
    return ExperimentTable(
        "cheatt-table-5",
        "Seconds an epoch and milliseconds of 1,000 representations, means, published (Table 5) "
        "beside ours",
        rows,
        f"Means over {times['dataset'].nunique()} of the paper's ten datasets, theirs over all; "
        f"more: the mean of what CheAtt adds on each. Ours: {measured}",
    )
