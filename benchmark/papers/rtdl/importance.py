"""Feature importances from FT-Transformer's attention (Gorishniy et al. 2021, sec. 5.3, Table 6).

Attention maps: the [CLS] token's attention to each feature, averaged over rows, layers and heads.
Integrated gradients (Sundararajan et al. 2017) and the permutation test (Breiman 2001) stand beside
them; the table has the rank correlation of the first two with the third, on training rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import spearmanr

from ....datasets.errors import DatasetUnavailable
from ....datasets.protocols import Fold
from ....datasets.table import Table as Data
from ....models.ft_transformer import Block, FTTransformer, FTTransformerNetwork
from ....reports.metrics import accuracy, rmse
from ....sweeps.store.ledger import Ledger
from ....sweeps.store.run_folder import is_run
from ...errors import SweepError
from ...planning.plan_record import plan_in
from ...results.evidence_builder import load_results
from ...results.stored_predictions import planned_data
from ..available import on_available
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import load

FOLDER = Path(__file__).parent
RUN = "rtdl-paper"  # the run whose tuned transformers the full size explains
MODEL = "ft-transformer"
METHODS = ("attention-maps", "integrated-gradients")
BLOCK = 1024  # rows at once
PUBLISHED = "table6_main"


SMALL = {
    "n_layers": 2, "width": 32, "n_heads": 4, "attention_dropout": 0.0, "ffn_dropout": 0.0,
    "lr": 2e-3, "epochs": 15, "patience": 6,
}  # fmt: skip
TINY = {**SMALL, "n_layers": 1, "width": 4, "n_heads": 1, "epochs": 1, "batch_size": 2048}
ONE = ("california-housing",)
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"datasets": ONE, "seeds": 1, "config": TINY, "rows": 200, "steps": 2},
    "reduced": {"datasets": ONE, "seeds": 5, "config": SMALL, "rows": 4_000, "steps": 20},
    "full": {
        "datasets": tuple(dict.fromkeys(load(FOLDER, PUBLISHED)["dataset"])),
        "seeds": 5,
        "config": None,
        "rows": 10**9,
        "steps": 50,
    },
}


# ---------------------------------------------------------------------- three importances


def _inputs(model: FTTransformer, x: Any) -> list[Any]:
    """The rows as the network takes them, in blocks. ValueError for categories and missing cells:
    a gradient knows nothing of a category, and the network sees a feature with gaps twice."""
    rows = model._rows(model._numbers(x)[0])
    if rows.codes.shape[1] or rows.numbers.shape[1] != x.shape[1]:
        raise ValueError("importances of features need a table of numbers without missing cells")
    return [
        rows.at(torch.arange(at, min(at + BLOCK, len(rows)))) for at in range(0, len(rows), BLOCK)
    ]


def cls_attention(network: FTTransformerNetwork, numbers: torch.Tensor) -> torch.Tensor:
    """Mean over layers and heads of the [CLS] token's attention: (B, F) -> (B, F).

    Its attention to itself is left out, so a row's values sum to less than one.
    """
    codes = torch.empty((len(numbers), 0), dtype=torch.int64, device=numbers.device)
    x = network.tokens(numbers, codes)
    maps = []
    for i, block in enumerate(network.blocks):
        assert isinstance(block, Block)
        normed = x if block.norm_in is None else block.norm_in(x)
        maps.append(block.attention.weights(normed)[:, :, 0, 1:].mean(dim=1))
        if i + 1 < len(network.blocks):
            x = block(x)
    return torch.stack(maps).mean(dim=0)


def attention_maps(model: FTTransformer, x: Any) -> np.ndarray:  # -> (F,)
    """Importances by attention, one forward pass a row. ValueError for Linformer's mixtures, whose
    attention is to no feature."""
    total: Any = 0.0
    n = 0
    for rows in _inputs(model, x):
        with model._ready() as network:
            if network.mixtures is not None:
                raise ValueError("attention to mixtures of features says nothing of features")
            total = total + cls_attention(network, rows.numbers).double().sum(dim=0)
        n += len(rows.numbers)
    return (total / n).cpu().numpy()


def integrated_gradients(
    model: FTTransformer, x: Any, steps: int
) -> tuple[np.ndarray, np.ndarray]:  # -> (N, F), (N,)
    """(what each feature adds to a row's output, the output over that of the zero row).

    The path goes from zero, the middle of a feature after its preprocessing, by the midpoint rule.
    Of several classes the output is the logit of the class that is predicted.
    """
    parts, gains = [], []
    for rows in _inputs(model, x):
        numbers = rows.numbers
        with model._ready() as network:
            pass  # gradients are off inside
        whole = network(numbers, rows.codes).detach()
        at = None if whole.dim() == 1 else whole.argmax(dim=1, keepdim=True)

        def answer(
            z: torch.Tensor, net: Any = network, codes: Any = rows.codes, c: Any = at
        ) -> Any:
            out = net(z, codes)
            return out if c is None else out.gather(1, c)[:, 0]

        total = torch.zeros_like(numbers)
        for k in range(steps):
            z = (numbers * ((k + 0.5) / steps)).requires_grad_()
            total += torch.autograd.grad(answer(z).sum(), z)[0]
        with torch.no_grad():
            gains.append((answer(numbers) - answer(torch.zeros_like(numbers))).cpu().numpy())
        parts.append((numbers * total / steps).detach().cpu().numpy())
    return np.concatenate(parts).astype(np.float64), np.concatenate(gains).astype(np.float64)


def permutation_test(
    model: FTTransformer, x: Any, y: np.ndarray, *, seed: int
) -> np.ndarray:  # -> (F,)
    """How much worse RMSE or accuracy becomes where one feature's values change rows."""
    rng = np.random.default_rng([seed, 53])

    def loss(frame: Any) -> float:
        if model.task == "regression":
            return rmse(y, model.predict(frame))
        return 1.0 - accuracy(y, model.predict_proba(frame))

    base, found = loss(x), []
    for column in x.columns:
        order = rng.permutation(len(x))
        found.append(loss(x.assign(**{column: x[column].to_numpy()[order]})) - base)
    return np.array(found)


def correlations(
    model: FTTransformer, data: Data, fold: Fold, rows: int, steps: int, seed: int
) -> tuple[float, float]:
    """Spearman's rank correlation of both importances with the permutation test's, of one fit."""
    chosen = np.sort(np.random.default_rng([seed, 54]).permutation(fold.train)[:rows])
    x = data.rows(chosen)
    reference = permutation_test(model, x, data.target[chosen], seed=seed)
    others = (
        attention_maps(model, x),
        np.abs(integrated_gradients(model, x, steps)[0]).mean(axis=0),
    )
    maps, gradients = (float(spearmanr(reference, other).statistic) for other in others)
    return maps, gradients


# ---------------------------------------------------------------------- the experiment


def tuned(dataset: str, setting: Setting) -> tuple[Data, Fold, Mapping[str, Any]]:
    """The dataset, its split, and the configuration of the transformer that `RUN` chose, in the
    folder of runs (TABSWEEP_RUNS, or `runs`). Raises DatasetUnavailable where there is none, or the
    data is not that of the run."""
    folder = Path(os.environ.get("TABSWEEP_RUNS") or "runs", RUN)
    frame = load_results(folder) if is_run(folder) else pd.DataFrame({"dataset": []})
    frame = frame[frame["dataset"] == dataset]
    frame = frame.query("selected and model == @MODEL") if len(frame) else frame
    if not len(frame):
        way = f"bench sweep --suite rtdl --budget paper --model {MODEL}"
        raise DatasetUnavailable(dataset, f"{folder} has no tuned transformer of it ({way})")
    try:
        data, folds = planned_data(plan_in(Ledger(folder)), dataset)
    except SweepError as error:
        raise DatasetUnavailable(dataset, str(error)) from None
    return data, folds[0], json.loads(frame["config"].iloc[0])


def run(
    setting: Setting,
    *,
    datasets: Sequence[str],
    seeds: int,
    config: Mapping[str, Any] | None,
    rows: int,
    steps: int,
) -> ExperimentResult:
    """`bench experiment rtdl-importance`.

    config: of the transformer; None for the one that `RUN` chose. rows: training rows that are
    explained, at most. steps: of the integral of gradients.
    """

    def explained(dataset: str) -> list[tuple[float, float]]:
        if config is None:
            data, fold, own = tuned(dataset, setting)
        else:
            data, own = setting.load(dataset), config
            fold = setting.folds(data)[0]
        scores = []
        for seed in setting.seeds(seeds):
            setting.say(f"{dataset}: seed {seed}")
            model = setting.fit(MODEL, data, fold, own, seed)
            scores.append(correlations(model, data, fold, rows, steps, seed))
        return scores

    scores, left_out = on_available(datasets, explained)
    published = load(FOLDER, PUBLISHED).set_index(["dataset", "method"])
    lines = [
        {
            "dataset": dataset,
            "importances": method,
            "rank correlation": float(np.mean(values)),
            "std": float(np.std(values)),
            "published": float(published.loc[(dataset, method), "value"]),
            "published std": float(published.loc[(dataset, method), "spread"]),
        }
        for dataset, found in scores.items()
        for method, values in zip(METHODS, np.transpose(found), strict=True)
    ]
    note = (
        f"Spearman's rank correlation with the permutation test's ranking, of {seeds} "
        "seeds, on training rows. The paper gives no baseline of the gradients; here it is the "
        "zero row after preprocessing."
    )
    if config is not None:
        note += f" Of {rows} rows; one small network, {config['epochs']} epochs at most."
    title = "Importances of features beside those of the permutation test"
    table = ExperimentTable("rtdl-importance", title, lines, note)
    return ExperimentResult([table], remarks=left_out)
