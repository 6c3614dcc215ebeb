"""Seconds an epoch with and without polynomial attention (Kim et al. 2024, Tables 5, 10 and 11).

Steps of training and 1,000 representations of each host with ordinary attention and with Chebyshev
polynomials of order 5, in the same architecture: the paper's best one of each dataset. The time of
a step and the number of steps that the paper's training rows make give the seconds of an epoch. The
two ways of evaluation, A acting on vectors again and again, and the polynomial written out, are
timed apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ....datasets.catalog import card, load_dataset
from ....datasets.errors import ChecksumMismatch, DatasetUnavailable
from ....datasets.protocols import make_folds
from ....datasets.table import Table
from ....models.deep.layers.polynomial_attention import Polynomial
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
WAYS = ("base", "auto", "recurrence", "explicit")  # base: no polynomial
ORDER = 5
ASKED = 1000  # rows of the representations
SHOWN = {"training": "training-time-per-epoch", "inference": "inference-time-per-1000-samples"}
TABLES = {"training": "table10", "inference": "table11"}
UNITS = {"training": ("s", 1.0), "inference": ("ms", 1e3)}  # of those tables, and ours times that
PARTS = ("training", "pre-training", "inference")
NEVER = 10**6  # epochs: no training here comes to its end


@dataclass(frozen=True)
class Extent:
    """A size of the experiment. datasets: by the paper's names. batch: rows of a step, 0 for the
    suite's. steps: of a measurement, each of which is taken `repeats` times in turn with the
    others. pretraining: whether its steps are timed too."""

    datasets: tuple[str, ...]
    batch: int
    steps: int
    repeats: int
    pretraining: bool
    hosts: tuple[str, ...] = HOSTS


EVERY = (
    "income", "default", "phishing", "alphabank", "clave", "contraceptive", "activity", "buddy",
    "medicalcost", "superconductivity",
)  # fmt: skip
EXTENTS = {
    "tiny": Extent(("contraceptive", "medicalcost"), 64, 1, 1, True),
    "reduced": Extent(EVERY, 128, 1, 5, False),
    "full": Extent(EVERY, 0, 50, 5, True),
}


def our_name(dataset: str) -> str:
    """Our name of one of the paper's datasets; the whole set's where there is a stand-in."""
    return read_paper(FOLDER).file.datasets.get(dataset, dataset)


def stand_ins() -> dict[str, str]:
    """{dataset by the paper's name: our set with other rows}."""
    return {stand_in.of: name for name, stand_in in read_paper(FOLDER).file.stand_ins.items()}


def training_rows() -> dict[str, int]:
    """{dataset by the paper's name: its training rows} of Table 6."""
    rows = load(FOLDER, "table6")
    return {str(r.dataset): int(r.n_train) for r in rows.itertuples(index=False)}


def table_of(dataset: str, setting: Setting) -> Table:
    """One of the paper's datasets; its stand-in where the whole set cannot be had."""
    where = {"mirror": setting.mirror, "cache": setting.cache}
    try:
        return load_dataset(our_name(dataset), **where)
    except (DatasetUnavailable, ChecksumMismatch):
        other = stand_ins().get(dataset)
        if other is None or other == our_name(dataset):
            raise
        setting.say(f"{our_name(dataset)} is not available; {other} stands in for it")
        return load_dataset(other, **where)


def config(host: str, dataset: str, extent: Extent) -> dict[str, Any]:
    """The paper's best setting of a host on a dataset, as the suite `cheatt` has it."""
    _, budget = suite.load("cheatt").budget("paper")
    given = dict(budget.search(f"{host}-cheatt", our_name(dataset)).fixed)
    given |= {"epochs": NEVER, "patience": 0, "order": ORDER}
    if extent.batch:
        given["batch_size"] = extent.batch
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


@dataclass(frozen=True)
class Timed:
    """Seconds by part and way: of a step of training or pre-training, and of 1,000 representations.
    data: our set. batch: rows of a step."""

    data: str
    batch: int
    seconds: Mapping[str, Mapping[str, float]]

    def epoch(self, part: str, way: str, rows: int) -> float:
        """Seconds of an epoch over so many training rows; of 1,000 representations in inference."""
        steps = 1 if part == "inference" else steps_an_epoch(rows, self.batch)
        return steps * self.seconds[part][way]


def measure(host: str, dataset: str, extent: Extent, setting: Setting) -> Timed:
    """The ways take turns; the median of the repeats, after one that does not count."""
    data = table_of(dataset, setting)
    fold = make_folds(data, card(data.name).protocol, seed=setting.seed)[0]
    given, now = config(host, dataset, extent), _clock(setting.device)
    size = int(given["batch_size"])
    rows = fold.train[: max(ASKED, size * extent.steps)]
    frame, y = data.rows(rows), data.target[rows]
    parts = [part for part in PARTS if part != "pre-training" or extent.pretraining]
    found: dict[str, dict[str, list[float]]] = {p: {way: [] for way in WAYS} for p in parts}
    for part in parts:
        trained = {}
        for way in WAYS:
            model = make_model(
                host, task=data.task, seed=setting.seed, threads=setting.threads,
                device=setting.device,
                **{
                    **given,
                    "attention": "softmax" if way == "base" else "chebyshev",
                    "pretrain_epochs": NEVER - 1 if part == "pre-training" else 0,
                },
            )  # fmt: skip
            trained[way] = model._training(model._prepare(frame, y), None)
            for layer in trained[way].task.module.modules():
                if isinstance(layer, Polynomial):
                    layer.how = way
        for repeat in range(extent.repeats + 1):
            for way, training in trained.items():
                began = now()
                if part == "inference":
                    _represent(training, size, setting.device)
                else:
                    training.run(training.step + extent.steps)
                taken = (now() - began) / (1 if part == "inference" else extent.steps)
                if repeat:
                    found[part][way].append(taken)
    seconds = {p: {w: float(np.median(s)) for w, s in ways.items()} for p, ways in found.items()}
    return Timed(data.name, size, seconds)


def _represent(training: Any, size: int, device: str) -> None:
    """1,000 rows through the network, in batches; rows of a smaller table come again."""
    task = training.task
    order = (torch.arange(ASKED) % len(task.rows)).to(torch_device(device))
    with training.final_weights():
        for at in range(0, ASKED, size):
            task.outputs(task.rows.at(order[at : at + size]))


def printed() -> dict[tuple[str, str, str], float]:
    """{(part, method, dataset): published seconds or milliseconds}, of what can be read."""
    return {
        (part, method, dataset): value
        for part, table in TABLES.items()
        for (dataset, method, *_), value in printed_values(FOLDER, table).items()
    }


def ratio(part: str, host: str, dataset: str, theirs: Mapping[Any, float]) -> float | None:
    """The published ratio of +CheAtt and base, where both can be read."""
    more, base = (theirs.get((part, name, dataset)) for name in (f"{host}-cheatt", host))
    return None if more is None or base is None else more / base


Found = Mapping[tuple[str, str], Timed]  # by (host, dataset)


def run(
    setting: Setting,
    extent: Extent | None = None,
    one: Callable[[str, str, Extent, Setting], Timed] = measure,
) -> ExperimentResult:
    """`bench experiment cheatt-time`."""
    extent = EXTENTS[setting.size] if extent is None else extent

    def timed(key: tuple[str, str]) -> Timed:
        setting.say(" on ".join(key))
        return one(*key, extent, setting)

    keys = [(host, dataset) for host in extent.hosts for dataset in extent.datasets]
    found, left_out = on_available(keys, timed)
    machine = _machine(setting)
    tables = [_means(found, machine)]
    tables += [_each(part, found, machine, extent) for part in SHOWN]
    tables += [_ratios(found), _ways(found, extent)]
    return ExperimentResult(tables, remarks=left_out, facts={"machine": machine})


def _machine(setting: Setting) -> str:
    """What ours were measured on, in words."""
    if setting.device != "cpu":
        return f"{torch.cuda.get_device_name()}, time of day"
    threads = "one thread" if setting.threads == 1 else f"{setting.threads} threads"
    return f"{cpu_model()}, {threads}, CPU time"


def _each(part: str, found: Found, machine: str, extent: Extent) -> ExperimentTable:
    """Table 10 or 11: seconds an epoch, or milliseconds of 1,000 representations."""
    theirs, train = printed(), training_rows()
    unit, times = UNITS[part]
    rows: list[list[Any]] = []
    for (host, dataset), timed in found.items():
        base, more = (times * timed.epoch(part, way, train[dataset]) for way in ("base", "auto"))
        rows.append(
            [
                host, dataset, base, more, more / base,
                theirs.get((part, host, dataset)), theirs.get((part, f"{host}-cheatt", dataset)),
                ratio(part, host, dataset, theirs),
            ]
        )  # fmt: skip
    number = TABLES[part].removeprefix("table")
    what = {
        "training": "an epoch of supervised training over the training rows of Table 6, from the "
        f"time of a step{f' of {extent.batch} rows' if extent.batch else ''}",
        "inference": f"{ASKED} representations",
    }[part]
    title = {
        "training": "Seconds an epoch",
        "inference": f"Milliseconds of {ASKED} representations",
    }
    return ExperimentTable(
        f"cheatt-table-{number}",
        f"{title[part]}, published (Table {number}) beside ours",
        [
            "host", "dataset", f"ours, {unit}", f"ours +CheAtt, {unit}", "our ratio",
            f"published, {unit}", f"published +CheAtt, {unit}", "published ratio",
        ],
        rows,
        f"Ours: {what}; {machine}. Published: on an RTX A5000 by the wall clock, in batches that "
        f"the paper does not state; a dash: not legible. {_stood_in(found)}",
    )  # fmt: skip


def _stood_in(found: Found) -> str:
    """Which of the datasets have other rows than the paper's."""
    names = {dataset: timed.data for (_, dataset), timed in found.items()}
    why = {name: stand_in.why for name, stand_in in read_paper(FOLDER).file.stand_ins.items()}
    said = [f"{d} is {ours} ({why[ours]})" for d, ours in names.items() if ours in why]
    return f"Stand-ins: {'; '.join(said)}." if said else ""


def _means(found: Found, machine: str) -> ExperimentTable:
    """Table 5: means over datasets, and what CheAtt adds."""
    train, rows = training_rows(), []
    datasets = {dataset for _, dataset in found}
    for host in dict.fromkeys(host for host, _ in found):
        for part, metric in SHOWN.items():
            stated = printed_values(FOLDER, "table5", metric=metric)
            more_stated = printed_values(FOLDER, "table5", metric=f"{metric}-increase")
            mean = {method: value for (_, method, *_), value in stated.items()}
            increase = {method: value for (_, method, *_), value in more_stated.items()}
            pairs = _pairs(found, host, part, train)
            unit, times = UNITS[part]
            rows.append(
                [
                    host, f"{part}, {unit}",
                    *(times * float(np.mean(side)) for side in zip(*pairs, strict=True)),
                    100 * (_mean_ratio(pairs) - 1),
                    mean.get(host), mean.get(f"{host}-cheatt"), increase.get(f"{host}-cheatt"),
                ]
            )  # fmt: skip
    return ExperimentTable(
        "cheatt-table-5",
        "Seconds an epoch and milliseconds of 1,000 representations, means, published (Table 5) "
        "beside ours",
        [
            "host", "part", "ours", "ours +CheAtt", "ours more, %", "published",
            "published +CheAtt", "published more, %",
        ],
        rows,
        f"Means over {len(datasets)} of the paper's ten datasets, theirs over all; more: the mean "
        f"of what CheAtt adds on each. Ours: {machine}. Published: on an RTX A5000. "
        f"{_stood_in(found)}",
    )  # fmt: skip


def _pairs(
    found: Found, host: str, part: str, train: Mapping[str, int]
) -> list[tuple[float, float]]:
    """(seconds with ordinary attention, with the polynomial) on each dataset."""
    return [
        (timed.epoch(part, "base", train[dataset]), timed.epoch(part, "auto", train[dataset]))
        for (h, dataset), timed in found.items()
        if h == host and part in timed.seconds
    ]


def _ways(found: Found, extent: Extent) -> ExperimentTable:
    """Of a step and of 1,000 representations, by way of evaluation."""
    theirs = printed()
    rows = [
        [
            host, dataset, part, 1e3 * ways["base"],
            *(ways[way] / ways["base"] for way in WAYS[1:]),
            ratio(part, host, dataset, theirs),
        ]
        for (host, dataset), timed in found.items()
        for part, ways in timed.seconds.items()
    ]  # fmt: skip
    return ExperimentTable(
        "cheatt-time",
        "Time with polynomial attention over time without, by way of evaluation",
        ["host", "dataset", "part", "base ms", *WAYS[1:], "published"],
        rows,
        f"ms: of a step{f' of {extent.batch} rows' if extent.batch else ''}, or of {ASKED} "
        "representations, with ordinary attention. Then how many times as long it takes with a "
        f"Chebyshev polynomial of order {ORDER}, in the way that the sizes choose and in either: "
        f"medians of {extent.repeats} turns. Published: Tables 10 and 11 where both are legible.",
    )


def _ratios(found: Found) -> ExperimentTable:
    """Means over datasets of the ratios."""
    theirs, train, rows = printed(), training_rows(), []
    stated = {part: printed_values(FOLDER, "table5", metric=m) for part, m in SHOWN.items()}
    for host in dict.fromkeys(host for host, _ in found):
        for part in PARTS:
            # of steps, not epochs: each dataset weighs what a step of it costs
            pairs = [
                (timed.seconds[part]["base"], timed.seconds[part]["auto"])
                for (h, _), timed in found.items()
                if h == host and part in timed.seconds
            ]
            if not pairs:
                continue
            mean = {method: value for (_, method, *_), value in stated.get(part, {}).items()}
            known = [ratio(part, host, dataset, theirs) for dataset in train]
            legible = [value for value in known if value is not None]
            rows.append(
                [
                    host, part, len(pairs), _mean_ratio(pairs),
                    sum(more for _, more in pairs) / sum(base for base, _ in pairs),
                    max(more / base for base, more in pairs),
                    float(np.mean(legible)) if legible else None,
                    mean[f"{host}-cheatt"] / mean[host] if mean else None,
                ]
            )  # fmt: skip
    return ExperimentTable(
        "cheatt-time-means",
        "Time with polynomial attention over time without, means over datasets",
        [
            "host", "part", "datasets", "mean of ratios", "ratio of means", "largest",
            "published mean of ratios", "published ratio of means",
        ],
        rows,
        "Ours: of steps. Published: the mean of the ratios of Tables 10 and 11 where both are "
        "legible, and the ratio of the means that Table 5 prints, which are of epochs.",
    )  # fmt: skip


def _mean_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """(base, more) -> the mean of more / base."""
    return float(np.mean([more / base for base, more in pairs]))
