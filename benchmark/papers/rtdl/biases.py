"""FT-Transformer with and without feature biases (Gorishniy et al. 2021, sec. 5.2, Table 17).

AutoInt, FT-Transformer without the bias of each feature's token, and FT-Transformer as it is, each
tuned: at full size as the suite `rtdl` tunes them, on the paper's eight datasets.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ....reports.sections.seeds import truncated
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import load
from .tuned import Small, left_out_remarks, paper_suite, run_tuned, small_suite

FOLDER = Path(__file__).parent

WITHOUT = "ft-transformer-no-feature-bias"
METHODS = ("autoint", WITHOUT, "ft-transformer")
TARGET = f"{__package__}.no_feature_bias:FTTransformerNoFeatureBias"
VARIANTS = {WITHOUT: (TARGET, "ft-transformer")}


@dataclass(frozen=True)
class Extent:
    """A size of the experiment. small: the sweep; None for the budget `paper` of `rtdl`."""

    datasets: tuple[str, ...]
    small: Small | None


EVERY = tuple(dict.fromkeys(load(FOLDER, "table17")["dataset"]))
SMALL = {"epochs": 15, "patience": 6}
TRANSFORMER = {
    **SMALL, "n_layers": 2, "width": 32, "n_heads": 4, "attention_dropout": 0.0, "ffn_dropout": 0.0,
}  # fmt: skip
ONE_EPOCH = {"epochs": 1, "n_layers": 1, "width": 4, "n_heads": 1, "batch_size": 2048}
RATES = {"lr": [1e-3, 2e-3]}
EXTENTS = {
    "tiny": Extent(
        ("california-housing",),
        Small(
            1, 2,
            {
                "autoint": {"epochs": 1, "n_layers": 1, "width": 4, "batch_size": 2048},
                WITHOUT: ONE_EPOCH,
                "ft-transformer": ONE_EPOCH,
            },
            dict.fromkeys(METHODS, RATES),
            {WITHOUT: TARGET},
        ),
    ),
    "reduced": Extent(
        ("california-housing",),
        Small(
            2, 3,
            {
                "autoint": {**SMALL, "n_layers": 2, "width": 16},
                WITHOUT: TRANSFORMER,
                "ft-transformer": TRANSFORMER,
            },
            dict.fromkeys(METHODS, RATES),
            {WITHOUT: TARGET},
        ),
    ),
    "full": Extent(EVERY, None),
}  # fmt: skip


def run(setting: Setting, extent: Extent | None = None) -> ExperimentResult:
    """`bench experiment rtdl-biases`."""
    extent = EXTENTS[setting.size] if extent is None else extent
    small = extent.small
    if small is None:
        suite = paper_suite(VARIANTS)
    else:
        suite = small_suite("rtdl-biases", extent.datasets, small)
    results, left_out = run_tuned(setting, suite, extent.datasets, METHODS)
    published = load(FOLDER, "table17").set_index(["dataset", "method"])
    rows: list[list[object]] = []
    for dataset in extent.datasets:
        for method in METHODS:
            if dataset in left_out:
                continue
            found, paper = results.get((dataset, method)), published.loc[(dataset, method)]
            scores = None if found is None else found.scores
            rows.append(
                [
                    dataset, method, str(paper["metric"]),
                    None if scores is None else float(np.mean(scores)),
                    None if scores is None else truncated(float(np.std(scores))),
                    0 if scores is None else len(scores), float(paper["value"]),
                    truncated(float(paper["spread"])),
                ]
            )  # fmt: skip
    note = (
        "Test score of the tuned configuration on one split: mean and population standard "
        "deviation over its seeds. "
    )
    if small is None:
        note += "Tuned as the budget `paper` of the suite `rtdl` says, the transformers alike."
    else:
        note += (
            f"Tuned here: the better of {small.trials} learning rates of one small network, at "
            "most 15 epochs. Published: spaces of the paper, 15 seeds."
        )
    columns = ["dataset", "method", "metric", "test", "std", "seeds", "published", "published std"]
    title = "AutoInt, and FT-Transformer with and without feature biases"
    table = ExperimentTable("rtdl-biases", title, columns, rows, note)
    return ExperimentResult([table], remarks=left_out_remarks(left_out))
