"""Official weights and cells of Hopular, under our names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from tabsweep.models.deep.cells import Cells, Columns
from tabsweep.models.hopular.network import HopularNetwork

SAMPLES = "sample_sample_associations"
FEATURES = "feature_feature_associations"
CORE = "hopfield_lookup.association_core"
SIDES = {"samples": ("sample_norm", SAMPLES), "features": ("feature_norm", FEATURES)}


def columns_of(meta: Mapping[str, Any]) -> Columns:
    """The columns of a case, from its `meta`."""
    categorical = tuple(j in meta["discrete_columns"] for j in range(meta["d"]))
    return Columns(tuple(meta["sizes"]), categorical, tuple(meta["target_columns"]))


def ours(get: Any, n_blocks: int, columns: Columns) -> dict[str, torch.Tensor]:
    """Tensors of the official network by our names; `get` gives one by its official name."""
    d = range(columns.n)
    first, second = "embeddings.feature_embeddings", "embeddings.feature_projections"
    state = {
        "embedding.weight": torch.cat([get(f"{first}.{j}.0.weight").t() for j in d]),
        "embedding.bias": torch.stack([get(f"{first}.{j}.0.bias") for j in d]),
        "embedding.kind": get("embeddings.feature_type_embeddings.weight"),
        "embedding.index": get("embeddings.feature_position_embeddings.weight"),
        "embedding.gain": torch.stack([get(f"{second}.{j}.2.weight") for j in d]),
        "embedding.shift": torch.stack([get(f"{second}.{j}.2.bias") for j in d]),
        "embedding.second": torch.stack([get(f"{second}.{j}.3.weight").t() for j in d]),
        "embedding.second_bias": torch.stack([get(f"{second}.{j}.3.bias") for j in d]),
        "summary.gain": get("summarizations.feature_summarizations.2.weight"),
        "summary.shift": get("summarizations.feature_summarizations.2.bias"),
        "summary.weight": get("summarizations.feature_summarizations.3.weight"),
        "summary.bias": get("summarizations.feature_summarizations.3.bias"),
    }
    for b in range(n_blocks):
        for side, (norm, core) in SIDES.items():
            here, there = f"blocks.{b}.{side}", f"hopular_blocks.{b}.{core}.{CORE}"
            for kind in ("weight", "bias"):
                state[f"{here}.norm.{kind}"] = get(f"hopular_blocks.{b}.{norm}.{kind}")
                state[f"{here}.out.{kind}"] = get(f"{there}.out_proj.{kind}")
            state[f"{here}.bias"] = get(f"{there}.in_proj_bias")
            for name, official in (("query", "q"), ("key", "k"), ("value", "v")):
                state[f"{here}.{name}.weight"] = get(f"{there}.{official}_proj_weight")
    return state


def network(case: Any, **given: Any) -> HopularNetwork:
    """Our network in float64 with a case's weights, without dropout."""
    meta, columns = case.meta, columns_of(case.meta)
    module = HopularNetwork(
        columns,
        width=meta["e"],
        n_blocks=meta["blocks"],
        n_nets=meta["M"],
        scaling=meta["scaling"],
        p_input=0.0,
        p_hopfield=0.0,
        p_output=0.0,
        **given,
    ).double()
    params = case.under("param/")
    state = ours(lambda name: torch.from_numpy(params[name]), meta["blocks"], columns)
    module.load_state_dict(state)
    return module.eval()


def cells_from(
    encoded: np.ndarray, columns: Columns, missing: np.ndarray | None = None
) -> tuple[Cells, torch.Tensor]:
    """(cells, flags) from official rows (n, S + d): of each column the channels, then its flag.
    Cells that are 0 in all channels are hidden, as those that are `missing`."""
    n, at = len(encoded), np.cumsum([0, *(s + 1 for s in columns.sizes)])
    values = np.zeros((n, len(columns.numeric_at)))
    codes = np.zeros((n, len(columns.categories_at)), dtype=np.int64)
    flags = encoded[:, at[1:] - 1] == 1
    hidden = flags.copy() if missing is None else flags | missing
    for i, j in enumerate(columns.numeric_at):
        values[:, i] = encoded[:, at[j]]
    for i, j in enumerate(columns.categories_at):
        channels = encoded[:, at[j] : at[j + 1] - 1]
        codes[:, i] = channels.argmax(axis=1)
        hidden[:, j] |= ~channels.any(axis=1)
    cells = Cells(torch.from_numpy(values), torch.from_numpy(codes), torch.from_numpy(hidden))
    return cells, torch.from_numpy(flags)


def encoded_from(cells: Cells, flags: torch.Tensor, columns: Columns) -> np.ndarray:
    """Official rows (n, S + d) from cells and flags: what `cells_from` undoes."""
    parts = []
    for j, size in enumerate(columns.sizes):
        if columns.categorical[j]:
            codes = cells.codes[:, columns.categories_at.index(j)]
            channels = torch.nn.functional.one_hot(codes, size).to(cells.values.dtype)
        else:
            channels = cells.values[:, columns.numeric_at.index(j)][:, None]
        parts += [channels.masked_fill(cells.hidden[:, j, None], 0.0), flags[:, j, None]]
    return torch.cat(parts, dim=1).numpy()


def official(decoded: Any, columns: Columns) -> torch.Tensor:  # (n, S)
    """Outputs as the official network gives them: columns side by side."""
    parts = []
    for j, size in enumerate(columns.sizes):
        found = decoded.of(j)
        parts.append(found[:, :size] if columns.categorical[j] else found[:, None])
    return torch.cat(parts, dim=1)
