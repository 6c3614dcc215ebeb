"""Time with polynomial attention over time without (Kim et al. 2024, Tables 5, 10 and 11).

Steps of training and 1,000 representations of each host with ordinary attention and with Chebyshev
polynomials of order 5, in the same architecture: the paper's best one of each dataset. The two ways
of evaluation, A acting on vectors again and again, and the polynomial written out, are timed apart.
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
from ....datasets.protocols import make_folds
from ....models.deep.layers.polynomial_attention import Polynomial
from ....models.deep.trainer import torch_device
from ....models.registry import make_model
from ...planning import suite
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..paper_file import read_paper
from ..published_values import printed_values

FOLDER = Path(__file__).parent

HOSTS = ("tabtransformer", "saint", "met")
WAYS = ("base", "auto", "recurrence", "explicit")  # base: no polynomial
ORDER = 5
ASKED = 1000  # rows of the representations
SHOWN = {"training": "training-time-per-epoch", "inference": "inference-time-per-1000-samples"}
TABLES = {"training": "table10", "inference": "table11"}
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
    "reduced": Extent(EVERY, 128, 1, 5, False),
    "full": Extent(EVERY, 0, 50, 5, True),
}


def our_name(dataset: str) -> str:
    """Our name of one of the paper's datasets."""
    return read_paper(FOLDER).file.datasets.get(dataset, dataset)


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


def measure(
    host: str, dataset: str, extent: Extent, setting: Setting
) -> dict[str, dict[str, float]]:
    """{part: {way: seconds}}: of a step of training or pre-training, and of 1,000 representations.
    The ways take turns; the median of the repeats, after one that does not count."""
    name = our_name(dataset)
    data = load_dataset(name, mirror=setting.mirror, cache=setting.cache)
    fold = make_folds(data, card(name).protocol, seed=setting.seed)[0]
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
    return {p: {way: float(np.median(s)) for way, s in ways.items()} for p, ways in found.items()}


def _represent(training: Any, size: int, device: str) -> None:
    """1,000 rows through the network, in batches; rows of a smaller table come again."""
    task = training.task
    order = (torch.arange(ASKED) % len(task.rows)).to(torch_device(device))
    with training.final_weights():
        for at in range(0, ASKED, size):
            task.outputs(task.rows.at(order[at : at + size]))


def printed() -> dict[tuple[str, str, str], float]:
    """{(part, host, dataset): published ratio of +CheAtt and base}, of what can be read."""
    found = {}
    for part, table in TABLES.items():
        stated = printed_values(FOLDER, table)
        for (dataset, method, *_), seconds in stated.items():
            base = stated.get((dataset, method.removesuffix("-cheatt")))
            if method.endswith("-cheatt") and base is not None:
                found[part, method.removesuffix("-cheatt"), dataset] = seconds / base
    return found


def run(
    setting: Setting,
    extent: Extent | None = None,
    one: Callable[..., dict[str, dict[str, float]]] = measure,
) -> ExperimentResult:
    """`bench experiment cheatt-time`."""
    extent = EXTENTS[setting.size] if extent is None else extent
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for host in extent.hosts:
        for dataset in extent.datasets:
            setting.say(f"{host} on {dataset}")
            found[host, dataset] = one(host, dataset, extent, setting)
    beside = printed()
    rows: list[list[Any]] = []
    for (host, dataset), parts in found.items():
        for part, ways in parts.items():
            rows.append(
                [
                    host, dataset, part, 1e3 * ways["base"],
                    *(ways[way] / ways["base"] for way in WAYS[1:]),
                    beside.get((part, host, dataset)),
                ]
            )  # fmt: skip
    note = (
        f"ms: of a step{f' of {extent.batch} rows' if extent.batch else ''}, or of {ASKED} "
        "representations, with ordinary attention. Then how many times as long it takes with a "
        f"Chebyshev polynomial of order {ORDER}, in the way that the sizes choose and in either: "
        f"medians of {extent.repeats} turns. Published: Tables 10 and 11 where both are legible."
    )
    each = ExperimentTable(
        "cheatt-time",
        "Time with polynomial attention over time without",
        ["host", "dataset", "part", "base ms", *WAYS[1:], "published"],
        rows,
        note,
    )
    return ExperimentResult([_summary(found, extent, beside), each])


def _summary(
    found: Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]],
    extent: Extent,
    beside: Mapping[tuple[str, str, str], float],
) -> ExperimentTable:
    rows: list[list[Any]] = []
    for host in extent.hosts:
        for part in PARTS:
            pairs = [
                (parts[part]["auto"], parts[part]["base"])
                for (h, _), parts in found.items()
                if h == host and part in parts
            ]
            if not pairs:
                continue
            metric = SHOWN.get(part)
            stated = printed_values(FOLDER, "table5", metric=metric) if metric else {}
            mean = {method: value for (_, method, *_), value in stated.items()}
            theirs = [ratio for (p, h, _), ratio in beside.items() if (p, h) == (part, host)]
            rows.append(
                [
                    host, part, len(pairs), _mean_ratio(pairs), _ratio_of_means(pairs),
                    max(a / b for a, b in pairs),
                    float(np.mean(theirs)) if theirs else None,
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
        "Published: the mean of the ratios of Tables 10 and 11 where both are legible, and the "
        "ratio of the means that Table 5 prints.",
    )  # fmt: skip


def _mean_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    return float(np.mean([a / b for a, b in pairs]))


def _ratio_of_means(pairs: Sequence[tuple[float, float]]) -> float:
    return sum(a for a, _ in pairs) / sum(b for _, b in pairs)
