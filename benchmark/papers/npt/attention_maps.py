"""Attention maps of every head of a fitted NPT, as figures, and their entropies.

As in Kossen et al. 2021 (Fig. 4, B.3.1): the rows are sorted by their feature distance to one test
row, so that neighbours in a map of the attention between datapoints (ABD) are alike; the logarithm
of the weights is drawn. Maps between attributes (ABA) are averaged over the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....models.npt.batches import deal
from ....models.npt.prediction import TEST
from ..experiment_files import new_figure, save_figure
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from .fitted_inputs import TINY, YACHT, TableInputs, fitted, inputs_of

FLOOR = 1e-6  # weights below it are drawn alike

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"dataset": "diabetes", "config": TINY, "rows": 30, "heads": 2},
    "reduced": {"dataset": "yacht", "config": {**YACHT, "n_heads": 4}, "rows": 77, "heads": 4},
    "full": {"dataset": "protein", "config": None, "rows": 2048, "heads": 4},
}


def entropies(weights: Tensor) -> Tensor:  # (..., Tk) -> (...)
    """Entropy of each row of attention weights, in nats; ln Tk where all weigh alike."""
    return torch.special.entr(weights.double()).sum(dim=-1)


def reach(weights: Tensor, distances: Tensor) -> Tensor:  # (H, N, N), (N, N) -> (H,)
    """Mean distance of what a head attends to, as a share of the mean distance of all pairs: 1 for
    a head that weighs all rows alike, less for one that looks at similar rows."""
    return (weights.double() * distances).sum(dim=-1).mean(dim=-1) / distances.mean()


def sorted_by_distance(seen: TableInputs, anchor: int) -> TableInputs:
    """The rows from the nearest to the farthest of one row, which comes first itself."""
    distance = seen.distances(anchor)
    distance[anchor] = -1.0
    return seen[np.argsort(distance, kind="stable")]


@dataclass(frozen=True)
class Layer:
    """Attention of one layer, the first being 1. weights: (H, T, T), for "aba" averaged over the
    rows of the table. entropy: (H,) mean entropy of a query's weights, in nats."""

    number: int
    kind: str
    weights: Tensor
    entropy: Tensor


def layers_of(seen: TableInputs) -> list[Layer]:
    """The attention of every layer of a fitted network on a table."""
    with torch.no_grad():
        maps = seen.module.maps(seen.cells)
    found = []
    for number, (kind, weights) in enumerate(zip(seen.module.kinds, maps, strict=True), start=1):
        entropy = entropies(weights).mean(dim=-1)
        if kind == "aba":
            weights, entropy = weights.mean(dim=0), entropy.mean(dim=0)
        found.append(Layer(number, kind, weights, entropy))
    return found


def draw(layers: Sequence[Layer], heads: int, path: Path, names: Sequence[str] = ()) -> Path:
    """A grid of maps, a line a layer, a column a head, and log10 of the weights as colour.

    names: of the tokens, written beside the outer maps.
    """
    heads = min(heads, len(layers[0].weights))
    figure, axes = new_figure(heads, n_rows=len(layers), width=2.4, height=2.4)
    for line, layer in zip(axes, layers, strict=True):
        drawn = layer.weights[:heads].double().clamp(min=FLOOR).log10().cpu().numpy()
        for head, axis in enumerate(line):
            image = axis.imshow(drawn[head], vmin=drawn.min(), vmax=drawn.max(), cmap="viridis")
            axis.set_title(f"layer {layer.number}, head {head + 1}", fontsize=8)
            axis.set_xticks([])
            axis.set_yticks([])
        line[0].set_yticks(range(len(names)), names, fontsize=5)
        figure.colorbar(image, ax=list(line), shrink=0.8)
    for axis in axes[-1]:
        axis.set_xticks(range(len(names)), names, rotation=90, fontsize=5)
    return save_figure(figure, path)


def run(
    setting: Setting, *, dataset: str, config: Mapping[str, Any] | None, rows: int, heads: int
) -> ExperimentResult:
    """`bench experiment npt-maps`. config: of the NPT, None for the paper's. rows: of the drawn
    table. heads: drawn of each layer, at most."""
    data = setting.load(dataset)
    fold = setting.folds(data)[0]
    setting.say(f"fitting NPT on {data.name}")
    whole = inputs_of(fitted(setting, data, fold, config), data, fold)
    rng = np.random.default_rng(setting.seed)
    seen = whole[deal(whole.parts, min(rows, len(whole.parts)), rng)[0]]
    seen = sorted_by_distance(seen, int(rng.choice(np.flatnonzero(seen.parts == TEST))))
    layers = layers_of(seen)
    columns = [*seen.model.preprocessor_.numeric_names_, *seen.model.preprocessor_.category_names_]
    figures = []
    for kind, tokens in (("abd", []), ("aba", [*map(str, columns), "target"])):
        drawn = [layer for layer in layers if layer.kind == kind]
        if drawn:
            path = setting.out / f"npt-maps-{kind}.png"
            figures.append(draw(drawn, heads, path, tokens))
    return ExperimentResult([_table(layers, seen)], figures)


def _table(layers: Sequence[Layer], seen: TableInputs) -> ExperimentTable:
    x = torch.from_numpy(seen.features)
    distances = torch.cdist(x, x).square().to(layers[0].weights.device)
    rows: list[dict[str, Any]] = []
    for layer in layers:
        keys = layer.weights.shape[-1]
        near = reach(layer.weights, distances) if layer.kind == "abd" else None
        rows.append(
            {
                "layer": layer.number,
                "kind": layer.kind.upper(),
                "keys": keys,
                "ln keys": float(np.log(keys)),
                "entropy": float(layer.entropy.mean()),
                "sharpest head": float(layer.entropy.min()),
                "reach": None if near is None else float(near.mean()),
                "nearest head": None if near is None else float(near.min()),
            }
        )
    return ExperimentTable(
        "npt-maps",
        "How sharply does each layer attend, and to rows how near?",
        rows,
        "entropy: of a query's weights in nats, mean over queries and heads; at most ln keys. "
        "reach: distance of what is attended to over the mean distance of two rows, mean over "
        "heads; below 1 where similar rows weigh more, as the paper's diagonals show.",
    )
