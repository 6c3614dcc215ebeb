"""Training time of FT-Transformer over ResNet (Gorishniy et al. 2021, D.1, Table 4).

Whole trainings of both networks, tuned, to the end of their patience, averaged over the evaluation
seeds: what the paper measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import load
from .tuned import Small, left_out_remarks, run_tuned

FOLDER = Path(__file__).parent

MODELS = ("resnet", "ft-transformer")
SMALL = {"epochs": 30, "patience": 4}
ONE_EPOCH = {"n_layers": 1, "width": 4, "epochs": 1, "batch_size": 2048}
RATES = (1e-3, 3e-3)
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "datasets": ("california-housing",),
        "small": Small(
            1, 2, {"resnet": ONE_EPOCH, "ft-transformer": {**ONE_EPOCH, "n_heads": 1}}, RATES
        ),
    },
    "reduced": {
        "datasets": ("california-housing",),
        "small": Small(
            2, 2,
            {
                "resnet": {**SMALL, "n_layers": 2, "width": 64, "hidden_factor": 2.0},
                "ft-transformer": {
                    **SMALL, "n_layers": 2, "width": 32, "n_heads": 4, "attention_dropout": 0.0,
                    "ffn_dropout": 0.0,
                },
            },
            RATES,
        ),
    },
    "full": {"datasets": tuple(load(FOLDER, "table1")["dataset"]), "small": None},
}  # fmt: skip


def published_seconds() -> dict[tuple[str, str], float]:
    """{(dataset, model): seconds} of Table 4."""
    rows = load(FOLDER, "table4")
    rows = rows[rows["metric"] == "training-time"]
    return {(r.dataset, r.method): float(r.value) for r in rows.itertuples(index=False)}


def run(setting: Setting, *, datasets: Sequence[str], small: Small | None) -> ExperimentResult:
    """`bench experiment rtdl-time`. small: as in `run_tuned`."""
    results, left_out = run_tuned(setting, datasets, MODELS, small)
    printed, rows = published_seconds(), []
    for dataset in (name for name in datasets if name not in left_out):
        found = [results.get((dataset, model)) for model in MODELS]
        seconds = [None if tuned is None else float(np.mean(tuned.fit_s)) for tuned in found]
        scores = [None if tuned is None else float(np.mean(tuned.scores)) for tuned in found]
        whole = [printed[dataset, model] for model in MODELS]
        rows.append(
            {
                "dataset": dataset,
                "seeds": min(0 if tuned is None else len(tuned.fit_s) for tuned in found),
                "ResNet s": seconds[0],
                "FT-T s": seconds[1],
                "overhead": seconds[1] / seconds[0] if seconds[0] and seconds[1] else None,
                "ResNet score": scores[0],
                "FT-T score": scores[1],
                "published ResNet s": whole[0],
                "published FT-T s": whole[1],
                "published overhead": whole[1] / whole[0],
            }
        )
    how = (
        "Tuned as the budget `paper` of the suite `rtdl` says; trials copied from a run of that "
        "suite keep their seconds."
    )
    if small is not None:
        how = (
            f"Here the better of {small.trials} learning rates of one small network each, at most "
            "30 epochs, on a CPU; published: the paper's tuned networks on a V100, 15 seeds."
        )
    if setting.threads > 1:
        how += (
            f" {setting.threads} fits ran side by side, which slows each of them; on a GPU they "
            "may have shared it."
        )
    note = (
        "s: of a whole fit of the tuned configuration with its preprocessing, mean over the seeds; "
        f"score: their mean test RMSE or accuracy. {how}"
    )
    title = "Training time of tuned FT-Transformers over tuned ResNets"
    table = ExperimentTable("rtdl-time", title, rows, note)
    return ExperimentResult([table], remarks=left_out_remarks(left_out))
