"""NPT's loss of accuracy when all other rows are corrupted (Kossen et al. 2021, Table 2).

The ten tables of sec. 4.1, in batches where one batch does not hold them; the two image sets of the
table are not measured. `corrupted_rows.py` has the algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ..available import on_available
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import printed_values
from .corrupted_rows import scores_of
from .fitted_inputs import fitted, inputs_of, paper_configs, some_rows

FOLDER = Path(__file__).parent
PUBLISHED = "table2"

# Share of masked targets of the small tables in the authors' corruption script: which of the eight
# variants is fitted. The other tables have one configuration, and batches.
TARGETS = {"yacht": 0.1, "breast-cancer-wdbc": 0.1, "boston": 0.5, "concrete": 0.5}
IMAGES = dict.fromkeys(("cifar-10", "mnist"), "images are no tables")
# Below the full size: other tables, a narrower network, and what is not measured.
STAND_INS = {"poker-hand": "poker-hand-25k", "forest-cover": "forest-cover-93k"}
WIDEST = {"breast-cancer-wdbc": 8}
LEFT_OUT = {"higgs": "its 11 million rows are a download of 2.8 GB, and no part of it is to be had"}

NOTHING = {
    "measured on": "not measured",
    **dict.fromkeys(("metric", "rows", "constant", "before", "after", "change")),
}

# DIFF(Kossen 2021, C.1.2): narrow, shallow, few steps, at a rate that learns in them.
REDUCED: dict[str, Any] = {
    "width": 16,
    "n_layers": 4,
    "n_heads": 2,
    "steps": 300,
    "lr": 1e-2,
    "eval_every": 10,
    "dropout": 0.0,
    "dropout_weights": 0.0,
}
TINY = {**REDUCED, "width": 4, "n_layers": 2, "n_heads": 1, "steps": 2}
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "folds": 1,
        "rows": 120,
        "asked": 4,
        "settings": TINY,
        "batched": {"batch_size": 50},
    },
    "reduced": {
        "folds": 1,
        "rows": 4000,
        "asked": 500,
        "settings": REDUCED,
        "batched": {"batch_size": 512, "max_width": 256, "eval_every": 50},
    },
    "full": {"folds": 10, "rows": 0, "asked": 0, "settings": {}, "batched": {}},
}


def config_of(name: str, settings: Mapping[str, Any], batched: Mapping[str, Any]) -> dict[str, Any]:
    """Hyperparameters of NPT for a table: the paper's, but for `settings` of every fit, and
    `batched` of those in batches."""
    configs = paper_configs(name)
    chosen = next(c for c in configs if c["p_target"] == TARGETS.get(name, c["p_target"]))
    found = {**chosen, **settings, **({} if name in TARGETS else batched)}
    if settings and name in WIDEST:
        found["width"] = min(WIDEST[name], found["width"])
    return found


def run(
    setting: Setting,
    *,
    folds: int,
    rows: int,
    asked: int,
    settings: Mapping[str, Any],
    batched: Mapping[str, Any],
) -> ExperimentResult:
    """`bench experiment npt-corruption`: the columns of Table 2 in the paper's order, those that
    could not be measured with the published value alone.

    folds: of each table, at most. rows: of a table in batches, drawn from each part of its split;
    asked: test rows predicted in each fold; 0 for all. settings, batched: see `config_of`.
    """

    def measured(name: str) -> dict[str, Any]:
        data = setting.load(name if setting.full else STAND_INS.get(name, name))
        found = []
        for fold in setting.folds(data)[:folds]:
            setting.say(f"{data.name}, fold {fold.index}: fitting")
            part = fold if name in TARGETS else some_rows(fold, rows, setting.seed)
            model = fitted(setting, data, part, config_of(name, settings, batched))
            y_train, y_test = data.target[part.train], data.target[part.test]
            whole = inputs_of(model, data, part)
            score = scores_of(whole, y_train, y_test, asked, setting.seed)
            change = "{before:.4g} before, {after:.4g} after".format(**score)
            setting.say(f"{data.name}, fold {fold.index}: {change}")
            found.append(score)
        return _row(data.name, found, bool(data.classes))

    printed = {name: value for (name, _), value in printed_values(FOLDER, PUBLISHED).items()}
    reasons = IMAGES if setting.full else IMAGES | LEFT_OUT
    found, left_out = on_available([n for n in printed if n not in reasons], measured, at_least=0)
    lines = [
        {
            "dataset": name,
            **found.get(name, NOTHING),
            "change, paper": value,
        }
        for name, value in printed.items()
    ]
    sizes = "The paper's settings; mean over the folds."
    if not setting.full:
        sizes = (
            f"A narrow network, {settings['steps']} steps; the first fold. Larger tables: "
            f"{rows} of their rows in batches of about {batched['batch_size']}, each with its "
            "share of training, validation and test rows. Where the second column names other "
            "data, the published change says only which column is meant."
        )
    table = ExperimentTable(
        "npt-corruption",
        "Test scores before and after all other rows are corrupted",
        lines,
        f"{sizes} change: RMSE in percent of the score before, accuracy in percentage points; "
        "negative is worse. rows: predicted test rows. constant: the mean or commonest class of "
        "the training rows.",
    )
    remarks = [f"Left out: {name}: {reason}" for name, reason in reasons.items()]
    return ExperimentResult([table], remarks=[*remarks, *left_out])


def _row(measured: str, scores: list[dict[str, float]], classes: bool) -> dict[str, Any]:
    """The row of a column: means over the folds. The change is in points of accuracy or, as the
    paper has it, in percent of the error before; negative is worse."""
    folds = pd.DataFrame(scores)
    means = folds[["constant", "before", "after"]].mean().to_dict()
    change = means["after"] - means["before"]
    return {
        "measured on": measured,
        "metric": "accuracy, %" if classes else "RMSE",
        "rows": int(folds["rows"].sum()),
        **means,
        "change": change if classes else -100 * change / means["before"],
    }
