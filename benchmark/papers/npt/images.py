"""Accuracy of NPT's image variants, with and without corrupted other pictures.

Both variants of Kossen et al. 2021, sec. B.8. `reduced` runs on scikit-learn's digits, which the
paper does not use; `full` on MNIST and CIFAR-10 with the paper's settings.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ....datasets.images import Images, load_images
from ....models.npt.image_estimators import NPTPatches, NPTResNet
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import load

FOLDER = Path(__file__).parent

INDUCTIVE, ALL, ITSELF = "training pictures", "all pictures", "itself"
COLUMNS = (
    "data",
    "model",
    "sees",
    "accuracy",
    "change under corruption",
    "published for",
    "published accuracy",
    "published change",
)


@dataclass(frozen=True)
class Case:
    """One row. like: (dataset, method) of the published numbers beside it."""

    data: str
    label: str
    sees: str
    model: str
    options: dict[str, Any] = field(default_factory=dict)
    like: tuple[str, str] | None = None


MNIST, CIFAR = ("mnist", "npt-linear-patches"), ("cifar-10", "npt-linear-patches")
RESNET, ALONE = ("cifar-10", "npt-resnet-18"), ("cifar-10", "resnet-18")

_PATCHES = {
    "width": 16,
    "n_layers": 4,
    "n_heads": 2,
    "n_patches": 4,
    "steps": 400,
    "lr": 3e-2,
    "batch_size": 512,
    "p_target": 0.15,
    "eval_every": 20,
}
_RESNET = {"base": 16, "n_channels": 1, "steps": 200, "lr": 1e-2, "eval_every": 20}
REDUCED = (
    Case("digits", "patches", ALL, "patches", {**_PATCHES, "transductive": True}, MNIST),
    Case("digits", "patches", INDUCTIVE, "patches", _PATCHES, MNIST),
    Case("digits", "patches, no ABA", INDUCTIVE, "patches", {**_PATCHES, "aba": False}),
    Case("digits", "ResNet-18 + 4 ABD", INDUCTIVE, "resnet", _RESNET, RESNET),
    Case("digits", "ResNet-18", ITSELF, "resnet", {**_RESNET, "n_blocks": 0}, ALONE),
    Case("digits", "1 nearest neighbour", INDUCTIVE, "neighbour"),
)

# C.1.1, B.8 and the authors' scripts; an evaluation an epoch
_BASE = {"n_layers": 8, "n_heads": 8, "lr": 1e-3, "batch_size": 512, "transductive": True}
_MNIST = {
    **_BASE,
    "width": 16,
    "n_patches": 49,
    "steps": 500_000,
    "schedule_share": 0.3,
    "p_target": 0.15,
    "eval_every": 137,
}
_CIFAR = {
    **_BASE,
    "n_channels": 3,
    "width": 64,
    "n_patches": 64,
    "steps": 1_000_000,
    "schedule_share": 0.7,
    "p_target": 1.0,
    "augment": True,
    "eval_every": 118,
}
_EPOCHS = {"n_channels": 3, "steps": 35_200, "eval_every": 352, "augment": True}  # 100 of 352
FULL = (
    Case("mnist", "patches", ALL, "patches", _MNIST, MNIST),
    Case("cifar-10", "patches", ALL, "patches", _CIFAR, CIFAR),
    Case("cifar-10", "ResNet-18 + 4 ABD", INDUCTIVE, "resnet", _EPOCHS, RESNET),
    Case("cifar-10", "ResNet-18", ITSELF, "resnet", {**_EPOCHS, "n_blocks": 0}, ALONE),
)

NOTE = (
    "Accuracy in percent, changes in percentage points. Corruption: every pixel (and label) column "
    "of the training pictures that a test picture sees is permuted by itself, once for all test "
    "pictures (the paper: anew for each). A dash: not measured."
)
OTHER_DATA = (
    "The published numbers are those of other data (MNIST, CIFAR-10) and far longer training: they "
    "say which row is meant, not what ours should reach."
)


def run(setting: Setting) -> ExperimentResult:
    """The table of accuracies. Raises DatasetUnavailable, before any training, where the files of
    a dataset cannot be had."""
    cases: tuple[Case, ...] = FULL if setting.full else REDUCED
    if setting.size == "tiny":
        steps = {"steps": 2, "eval_every": 1}
        cases = tuple(replace(case, options={**case.options, **steps}) for case in cases)
    return measured(cases, setting)


def measured(cases: tuple[Case, ...], setting: Setting) -> ExperimentResult:
    """The result with a row for each case."""
    where = {"mirror": setting.mirror, "cache": setting.cache}
    sets = {name: load_images(name, **where) for name in dict.fromkeys(c.data for c in cases)}
    rows, facts = [], {}
    for case in cases:
        setting.say(f"{case.data}: {case.label}, sees {case.sees}")
        wall, cpu = time.perf_counter(), time.process_time()
        accuracy, change = result(case, sets[case.data], setting)
        facts[f"{case.data}, {case.label}, sees {case.sees}"] = {
            "seconds": round(time.perf_counter() - wall, 1),
            "cpu_s": round(time.process_time() - cpu, 1),
        }
        rows.append([case.data, case.label, case.sees, accuracy, change, *published(case)])
    note = NOTE if setting.full else f"{NOTE} {OTHER_DATA}"
    title = "Accuracy of NPT's image variants on test pictures"
    return ExperimentResult(
        [ExperimentTable("npt-images", title, COLUMNS, rows, note)], facts=facts
    )


def published(case: Case) -> list[Any]:
    """[dataset, accuracy, change under corruption] of the paper, None where it has none."""
    if case.like is None:
        return [None, None, None]
    dataset, method = case.like
    table = load(FOLDER, "images")
    table = table[(table["dataset"] == dataset) & (table["method"] == method)]
    values = table.set_index("metric")["value"].to_dict()
    return [dataset, values["accuracy"], values.get("delta-accuracy-under-corruption")]


def result(case: Case, images: Images, setting: Setting) -> tuple[float, float | None]:
    """(test accuracy in percent, its change in points under corruption)."""
    train, val, test = images.parts(setting.seed)
    x, y = images.pixels.reshape(len(images.labels), -1), images.labels

    def accuracy(model: Any) -> float:
        return 100 * float(np.mean(model.predict(x[test]) == y[test]))

    if case.model == "neighbour":
        from sklearn.neighbors import KNeighborsClassifier

        return accuracy(KNeighborsClassifier(1).fit(x[train], y[train])), None
    made: Any = {
        "task": "multiclass",
        "seed": setting.seed,
        "threads": setting.threads,
        "device": setting.device,
        **case.options,
    }
    model = NPTPatches(**made) if case.model == "patches" else NPTResNet(**made)
    more = {"X_test": x[test]} if case.sees == ALL else {}
    model.fit(x[train], y[train], x[val], y[val], **more)
    found = accuracy(model)
    if case.sees == ALL:  # the other test pictures, too, would have to be corrupted
        return found, None
    return found, accuracy(corrupted(model, setting.seed)) - found


def corrupted(model: Any, seed: int) -> Any:
    """A copy of an inductive model whose stored pictures have every column permuted separately."""
    rng = np.random.default_rng([seed, 5])
    made = copy.copy(model)
    kept = {
        name: rng.permuted(model.model_[name], axis=0)
        for name in ("x", "y")
        if name in model.model_
    }
    made.model_ = {**model.model_, **kept}
    made._contexts = {}
    return made
