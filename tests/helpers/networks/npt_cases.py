"""Official weights and cells of NPT, under our names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from tabsweep.models.deep.cells import Cells, Columns
from tabsweep.models.npt.network import NPTNetwork

LAYERS = {
    "fc_q": "query",
    "fc_k": "key",
    "fc_v": "value",
    "fc_mix_heads": "mix",
    "fc_res": "residual",
    "ln0": "norm_in",
    "ln1": "norm_ff",
    "rff.0": "widen",
    "rff.3": "narrow",
}


def columns_of(meta: Mapping[str, Any]) -> Columns:
    """The columns of a case, from its `meta`."""
    categorical = tuple(j in meta["cat_columns"] for j in range(meta["d"]))
    return Columns(tuple(meta["H"]), categorical, tuple(meta["target_columns"]))


def ours(official: Mapping[str, np.ndarray], columns: Columns) -> dict[str, torch.Tensor]:
    """A state of our network from the official one's parameters."""

    def get(name: str) -> torch.Tensor:
        return torch.from_numpy(np.array(official[name]))

    state = {
        "embedding.weight": torch.cat(
            [get(f"in_embedding.{j}.weight").t() for j in range(columns.n)]
        ),
        "embedding.bias": torch.stack([get(f"in_embedding.{j}.bias") for j in range(columns.n)]),
        "embedding.index": get("feature_index_embedding.weight"),
        "decoder.weight": torch.cat([get(f"out_embedding.{j}.weight") for j in range(columns.n)]),
        "decoder.bias": torch.cat([get(f"out_embedding.{j}.bias") for j in range(columns.n)]),
    }
    if "feature_type_embedding.weight" in official:
        state["embedding.kind"] = get("feature_type_embedding.weight")
    for name in official:
        if name.startswith("enc."):
            _, at, _, rest = name.split(".", 3)
            layer, kind = rest.rsplit(".", 1)
            state[f"blocks.{(int(at) - 1) // 2}.{LAYERS[layer]}.{kind}"] = get(name)
    return state


def cells_from(encoded: Mapping[str, np.ndarray], columns: Columns) -> Cells:
    """Cells from the official one-hot inputs {column: (n, H_j + 1)}; mask channel last."""
    both = [encoded[str(j)] for j in range(columns.n)]
    n = len(both[0])
    values = np.zeros((n, len(columns.numeric_at)))
    codes = np.zeros((n, len(columns.categories_at)), dtype=np.int64)
    for i, j in enumerate(columns.numeric_at):
        values[:, i] = both[j][:, 0]
    for i, j in enumerate(columns.categories_at):
        codes[:, i] = both[j][:, :-1].argmax(axis=1)
    hidden = np.stack([b[:, -1] == 1 for b in both], axis=1)
    return Cells(torch.from_numpy(values), torch.from_numpy(codes), torch.from_numpy(hidden))


def network(case: Any, **given: Any) -> NPTNetwork:
    """Our network in float64 with a case's weights, without dropout."""
    meta, columns = case.meta, columns_of(case.meta)
    module = NPTNetwork(
        columns,
        width=meta["e"],
        n_layers=meta["L"],
        n_heads=meta["h"],
        p=0.0,
        p_weights=0.0,
        **given,
    ).double()
    module.load_state_dict(ours(case.under("param/"), columns))
    return module.eval()
