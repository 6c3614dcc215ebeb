"""FT-Transformer with and without feature biases (Gorishniy et al. 2021, sec. 5.3, Table 17).

AutoInt, FT-Transformer without the bias of each feature's token, and FT-Transformer as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ....datasets.catalog import load_dataset
from ....datasets.protocols import Fold, make_folds
from ....datasets.table import Table as Data
from ....models.ft_transformer import FTTransformer, FTTransformerNetwork
from ....models.registry import make_model
from ....reports.metrics import accuracy, rmse
from ....reports.sections.seeds import truncated
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import load

FOLDER = Path(__file__).parent

WITHOUT = "ft-transformer-no-feature-bias"
METHODS = ("autoint", WITHOUT, "ft-transformer")


class WithoutBiases(FTTransformer):
    """FT-Transformer whose tokens are x_j W_j and E_j[x_j], without b_j."""

    def _network(self) -> FTTransformerNetwork:
        network = super()._network()
        network.tokens.bias = None
        return network


@dataclass(frozen=True)
class Extent:
    """A size of the experiment. settings: of AutoInt and of both transformers."""

    datasets: tuple[str, ...]
    seeds: int
    settings: Mapping[str, Mapping[str, Any]]


SMALL = {"lr": 2e-3, "epochs": 15, "patience": 6}
EXTENTS = {
    "tiny": Extent(
        ("california-housing",),
        1,
        {
            "autoint": {"epochs": 1, "n_layers": 1, "width": 4, "batch_size": 2048},
            "ft-transformer": {
                "epochs": 1, "n_layers": 1, "width": 4, "n_heads": 1, "batch_size": 2048,
            },
        },
    ),
    "reduced": Extent(
        ("california-housing",),
        3,
        {
            "autoint": {**SMALL, "n_layers": 2, "width": 16},
            "ft-transformer": {
                **SMALL, "n_layers": 2, "width": 32, "n_heads": 4, "attention_dropout": 0.0,
                "ffn_dropout": 0.0,
            },
        },
    ),
    "full": Extent(
        ("california-housing", "year", "covtype"),
        15,
        {
            "autoint": {"n_layers": 3, "width": 32, "lr": 1e-4, "epochs": 100_000},
            "ft-transformer": {"epochs": 100_000},
        },
    ),
}  # fmt: skip


def score(
    method: str, data: Data, fold: Fold, settings: Mapping[str, Any], setting: Setting, seed: int
) -> float:
    """Test RMSE or accuracy of one fit."""
    given: dict[str, Any] = {
        **settings, "seed": seed, "threads": setting.threads, "device": setting.device,
    }  # fmt: skip
    if method == WITHOUT:
        model: Any = WithoutBiases(task=data.task, **given)
    else:
        model = make_model(method, task=data.task, **given)
    y = data.target
    model.fit(data.rows(fold.train), y[fold.train], data.rows(fold.val), y[fold.val])
    x = data.rows(fold.test)
    if data.task == "regression":
        return rmse(y[fold.test], model.predict(x))
    return accuracy(y[fold.test], model.predict_proba(x))


def run(
    setting: Setting, extent: Extent | None = None, one: Callable[..., float] = score
) -> ExperimentResult:
    """`bench experiment rtdl-biases`."""
    extent = EXTENTS[setting.size] if extent is None else extent
    published = load(FOLDER, "table17").set_index(["dataset", "method"])
    rows = []
    for dataset in extent.datasets:
        data = load_dataset(dataset, mirror=setting.mirror, cache=setting.cache)
        (fold,) = make_folds(data, "rtdl")
        for method in METHODS:
            setting.say(f"{dataset}: {method}")
            settings = extent.settings["autoint" if method == "autoint" else "ft-transformer"]
            seeds = range(setting.seed, setting.seed + extent.seeds)
            found = [one(method, data, fold, settings, setting, seed) for seed in seeds]
            paper = published.loc[(dataset, method)]
            rows.append(
                [
                    dataset, method, str(paper["metric"]), float(np.mean(found)),
                    truncated(float(np.std(found))), float(paper["value"]),
                    truncated(float(paper["spread"])),
                ]
            )  # fmt: skip
    note = (
        f"Mean and population standard deviation over {extent.seeds} seeds of one split; both "
        "transformers have one setting, where the paper tunes each."
    )
    if setting.full:
        note += " AutoInt is not tuned either."
    columns = ["dataset", "method", "metric", "test", "std", "published", "published std"]
    title = "AutoInt, and FT-Transformer with and without feature biases"
    return ExperimentResult([ExperimentTable("rtdl-biases", title, columns, rows, note)])
