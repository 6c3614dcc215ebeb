"""Seconds an epoch with and without polynomial attention (Kim et al. 2024, Tables 5, 10 and 11).

Steps of training and 1,000 representations of each host with ordinary attention and with Chebyshev
polynomials of order 5, in the same architecture: the paper's best one of each dataset. The time of
a step and the number of steps that the paper's training rows make give the seconds of an epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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
from ..paper_file import StandIn, read_paper
from ..published_values import load, printed_values

FOLDER = Path(__file__).parent

HOSTS = ("tabtransformer", "saint", "met")
ATTENTION = {"base": "softmax", "more": "chebyshev"}  # without and with CheAtt
ORDER = 5
ASKED = 1000  # rows of the representations
NEVER = 10**6  # epochs: no training here comes to its end
# of a part: its table, its metric in Table 5, the unit of both, and ours times that
PARTS = {
    "training": ("table10", "training-time-per-epoch", "s", 1.0),
    "inference": ("table11", "inference-time-per-1000-samples", "ms", 1e3),
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


def our_name(dataset: str) -> str:
    """Our name of one of the paper's datasets; the whole set's where there is a stand-in."""
    return read_paper(FOLDER).file.datasets.get(dataset, dataset)


def _stand_ins() -> dict[str, StandIn]:
    """{name of a set of ours with other rows than the paper's: whose it stands for, and why}."""
    return read_paper(FOLDER).file.stand_ins


def table_of(dataset: str, setting: Setting) -> Table:
    """One of the paper's datasets; its stand-in where the whole set cannot be had."""
    whole = our_name(dataset)
    try:
        return setting.load(whole)
    except (DatasetUnavailable, ChecksumMismatch):
        other = next((name for name, s in _stand_ins().items() if s.of == dataset), whole)
        if other == whole:
            raise
        setting.say(f"{whole} is not available; {other} stands in for it")
        return setting.load(other)


def config(host: str, dataset: str, batch: int) -> dict[str, Any]:
    """The paper's best setting of a host on a dataset, as the suite `cheatt` has it. batch: rows of
    a step, 0 for the suite's."""
    _, budget = suite.load("cheatt").budget("paper")
    given = dict(budget.search(f"{host}-cheatt", our_name(dataset)).fixed)
    given |= {"epochs": NEVER, "patience": 0, "order": ORDER}
    if batch:
        given["batch_size"] = batch
    if host == "saint":  # the paper's way; ours keeps other rows
        given["batch_prediction"] = True
    return given


def _clock(device: str) -> Callable[[], float]:
    """Of a GPU the time of day, when it has done its work; of a CPU the time of this process, which
    other programs on a shared machine change less."""
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
    values = printed_values(FOLDER, PARTS[part][0])
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
    pairs = [published(r.part, r.host, r.dataset) for r in times.itertuples(index=False)]
    times = times.assign(printed=[base for base, _ in pairs], printed_more=[m for _, m in pairs])
    of_batch = f" of {batch} rows" if batch else ""
    why = {name: stand_in.why for name, stand_in in _stand_ins().items()}
    used = times[["dataset", "data"]].drop_duplicates().itertuples(index=False)
    said = [f"{dataset} is {data} ({why[data]})" for dataset, data in used if data in why]
    stood_in = f"Stand-ins: {'; '.join(said)}." if said else ""
    return [
        _means(times, machine, stood_in),
        *(_each(times, part, machine, of_batch, stood_in) for part in PARTS),
        _ratios(times),
    ]


def _each(
    times: pd.DataFrame, part: str, machine: str, of_batch: str, stood_in: str
) -> ExperimentTable:
    """Table 10 or 11: seconds an epoch, or milliseconds of 1,000 representations."""
    table, _, unit, scale = PARTS[part]
    number = table.removeprefix("table")
    title, what = {
        "training": (
            "Seconds an epoch",
            "an epoch of supervised training over the training rows of Table 6, from the time of a "
            f"step{of_batch}",
        ),
        "inference": (f"Milliseconds of {ASKED} representations", f"{ASKED} representations"),
    }[part]
    rows = [
        {
            "host": r.host,
            "dataset": r.dataset,
            f"ours, {unit}": scale * r.steps * r.base,
            f"ours +CheAtt, {unit}": scale * r.steps * r.more,
            "our ratio": r.more / r.base,
            f"published, {unit}": r.printed,
            f"published +CheAtt, {unit}": r.printed_more,
            "published ratio": r.printed_more / r.printed,
        }
        for r in times[times["part"] == part].itertuples(index=False)
    ]
    return ExperimentTable(
        f"cheatt-table-{number}",
        f"{title}, published (Table {number}) beside ours",
        rows,
        f"Ours: {what}; {machine}. Published: on an RTX A5000 by the wall clock, in batches that "
        f"the paper does not state; a dash: not legible. {stood_in}",
    )


def _means(times: pd.DataFrame, machine: str, stood_in: str) -> ExperimentTable:
    """Table 5: means over datasets, and what CheAtt adds."""
    stated = load(FOLDER, "table5").set_index(["metric", "method"])["value"].to_dict()
    rows = []
    for (host, part), mine in times.groupby(["host", "part"], sort=False):
        _, metric, unit, scale = PARTS[part]
        rows.append(
            {
                "host": host,
                "part": f"{part}, {unit}",
                "ours": scale * float((mine["steps"] * mine["base"]).mean()),
                "ours +CheAtt": scale * float((mine["steps"] * mine["more"]).mean()),
                "ours more, %": 100 * (float((mine["more"] / mine["base"]).mean()) - 1),
                "published": stated.get((metric, host)),
                "published +CheAtt": stated.get((metric, f"{host}-cheatt")),
                "published more, %": stated.get((f"{metric}-increase", f"{host}-cheatt")),
            }
        )
    return ExperimentTable(
        "cheatt-table-5",
        "Seconds an epoch and milliseconds of 1,000 representations, means, published (Table 5) "
        "beside ours",
        rows,
        f"Means over {times['dataset'].nunique()} of the paper's ten datasets, theirs over all; "
        "more: the mean of what CheAtt adds on each. Ours: "
        f"{machine}. Published: on an RTX A5000. {stood_in}",
    )


def _ratios(times: pd.DataFrame) -> ExperimentTable:
    """Means over datasets of the ratios, of steps, not epochs: each dataset weighs what a step of
    it costs."""
    stated = load(FOLDER, "table5").set_index(["metric", "method"])["value"].to_dict()
    rows = []
    for (host, part), mine in times.groupby(["host", "part"], sort=False):
        ratios = mine["more"] / mine["base"]
        printed = np.array([published(part, host, d) for d in training_rows()], dtype=float)
        legible = (printed[:, 1] / printed[:, 0])[np.isfinite(printed).all(axis=1)]
        metric = PARTS[part][1]
        rows.append(
            {
                "host": host,
                "part": part,
                "datasets": len(mine),
                "mean of ratios": float(ratios.mean()),
                "ratio of means": float(mine["more"].sum() / mine["base"].sum()),
                "largest": float(ratios.max()),
                "published mean of ratios": float(legible.mean()) if len(legible) else None,
                "published ratio of means": stated[metric, f"{host}-cheatt"] / stated[metric, host],
            }
        )
    return ExperimentTable(
        "cheatt-time-means",
        "Time with polynomial attention over time without, means over datasets",
        rows,
        "Ours: of steps. Published: the mean of the ratios of Tables 10 and 11 where both are "
        "legible, and the ratio of the means that Table 5 prints, which are of epochs.",
    )
