"""FT-Transformer with and without feature biases (Gorishniy et al. 2021, sec. 5.2, Table 17).

AutoInt, FT-Transformer without the bias of each feature's token, and FT-Transformer as it is, each
tuned: at full size as the suite `rtdl` tunes them, on the paper's eight datasets.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....reports.sections.seeds import truncated
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import load
from .tuned import Small, left_out_remarks, run_tuned

FOLDER = Path(__file__).parent

WITHOUT = "ft-transformer-no-feature-bias"
METHODS = ("autoint", WITHOUT, "ft-transformer")
TARGET = f"{__package__}.no_feature_bias:FTTransformerNoFeatureBias"
VARIANTS = {WITHOUT: (TARGET, "ft-transformer")}

SMALL = {"epochs": 15, "patience": 6}
TRANSFORMER = {
    **SMALL, "n_layers": 2, "width": 32, "n_heads": 4, "attention_dropout": 0.0, "ffn_dropout": 0.0,
}  # fmt: skip
AUTOINT = {**SMALL, "n_layers": 2, "width": 16}
ONE_EPOCH = {"epochs": 1, "n_layers": 1, "width": 4, "batch_size": 2048}
RATES = (1e-3, 2e-3)


def _small(trials: int, seeds: int, autoint: dict[str, Any], transformer: dict[str, Any]) -> Small:
    fixed = {"autoint": autoint, WITHOUT: transformer, "ft-transformer": transformer}
    return Small(trials, seeds, fixed, RATES)


SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "datasets": ("california-housing",),
        "small": _small(1, 2, ONE_EPOCH, {**ONE_EPOCH, "n_heads": 1}),
    },
    "reduced": {
        "datasets": ("california-housing",),
        "small": _small(2, 3, AUTOINT, TRANSFORMER),
    },
    "full": {"datasets": tuple(dict.fromkeys(load(FOLDER, "table17")["dataset"])), "small": None},
}


def run(setting: Setting, *, datasets: Sequence[str], small: Small | None) -> ExperimentResult:
    """`bench experiment rtdl-biases`. small: as in `run_tuned`."""
    results, left_out = run_tuned(setting, datasets, METHODS, small, VARIANTS)
    published = load(FOLDER, "table17").set_index(["dataset", "method"])
    rows = []
    for dataset in (name for name in datasets if name not in left_out):
        for method in METHODS:
            tuned, paper = results.get((dataset, method)), published.loc[(dataset, method)]
            scores = () if tuned is None else tuned.scores
            rows.append(
                {
                    "dataset": dataset,
                    "method": method,
                    "metric": str(paper["metric"]),
                    "test": float(np.mean(scores)) if scores else None,
                    "std": truncated(float(np.std(scores))) if scores else None,
                    "seeds": len(scores),
                    "published": float(paper["value"]),
                    "published std": truncated(float(paper["spread"])),
                }
            )
    how = "Tuned as the budget `paper` of the suite `rtdl` says, the transformers alike."
    if small is not None:
        how = (
            f"Tuned here: the better of {small.trials} learning rates of one small network, at "
            "most 15 epochs. Published: spaces of the paper, 15 seeds."
        )
    note = (
        "Test score of the tuned configuration on one split: mean and population standard "
        f"deviation over its seeds. {how}"
    )
    title = "AutoInt, and FT-Transformer with and without feature biases"
    table = ExperimentTable("rtdl-biases", title, rows, note)
    return ExperimentResult([table], remarks=left_out_remarks(left_out))
