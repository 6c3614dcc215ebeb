"""Official weights of FT-Transformer and AutoInt, loaded into our networks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from parity import Case
from tabsweep.models.autoint import AutoInt
from tabsweep.models.ft_transformer import FTTransformer
from torch import Tensor

FT_NAMES = {
    "attention.W_out": "attention.out",
    "linear0": "widen",
    "linear1": "narrow",
    "norm0": "norm_in",
    "norm1": "norm_ff",
}
AUTOINT_NAMES = {"linear": "residual", "norm0": "norm"}


def network(model: Any, n_numeric: int, sizes: list[int], n_out: int) -> Any:
    """The network of an estimator for such a table, as its fit makes it, in float64."""
    categorical = np.array([False] * n_numeric + [True] * len(sizes))
    model.preprocessor_ = SimpleNamespace(categorical_=categorical, cardinalities_=sizes)
    model.classes_ = np.arange(n_out)
    return model._network().double().eval()


def made(config: dict[str, Any]) -> Any:
    """Our network of an official configuration, with any weights."""
    sharing = config["kv_compression_sharing"]
    shared: dict[str, Any] = {
        "task": "multiclass" if config["d_out"] > 1 else "regression",
        "n_layers": config["n_layers"],
        "width": config["d_token"],
        "n_heads": config["n_heads"],
        "attention_dropout": config["attention_dropout"],
        "residual_dropout": config["residual_dropout"],
        "linformer": sharing or "none",
    }
    if sharing:
        shared["linformer_ratio"] = config["kv_compression"]
    model: Any
    if "d_ffn_factor" in config:
        model = FTTransformer(
            **shared,
            ffn_factor=config["d_ffn_factor"],
            activation=config["activation"],
            ffn_dropout=config["ffn_dropout"],
        )
    else:
        model = AutoInt(**shared)
    sizes = [int(n) for n in config["categories"] or []]
    return network(model, config["d_numerical"], sizes, config["d_out"])


def put_categories(tokens: Any, tables: list[Tensor]) -> None:
    """The vectors of each column's levels; the row to spare stays as it is."""
    for at, table in zip(tokens.categories.offsets.tolist(), tables, strict=True):
        tokens.categories.weight.data[at : at + len(table)] = table


def loaded(given: Case) -> Any:
    """Our network with the official weights of a file; every one of them is put somewhere."""
    module, config = made(given.meta), given.meta
    names = FT_NAMES if "d_ffn_factor" in config else AUTOINT_NAMES
    with torch.no_grad():
        for name, array in given.under("param/").items():
            put(module, name, torch.from_numpy(array), names, config)
    if config["categories"]:  # ours has a row more for each column
        spare = np.arange(len(config["categories"]))
        offsets = module.tokens.categories.offsets.numpy() - spare
        assert np.array_equal(offsets, given["buffer/tokenizer.category_offsets"])
    return module


def put(module: Any, name: str, value: Tensor, names: dict[str, str], config: Any) -> None:
    """One official parameter."""
    head, *rest = name.split(".")
    if head == "tokenizer" and rest[0] == "category_embeddings":
        put_categories(module.tokens, list(value.split([int(n) for n in config["categories"]])))
    elif head == "tokenizer":
        getattr(module.tokens, rest[0]).copy_(value)
    elif head == "shared_kv_compression":
        module.mixtures.matrices[0].copy_(value)
    elif head in ("head", "last_normalization"):
        target = module.head if head == "head" else module.norm_out
        getattr(target, rest[0]).copy_(value)
    elif rest[1] in ("key_compression", "value_compression"):
        a_layer = len(module.mixtures.matrices) // len(module.blocks)
        at = a_layer * int(rest[0]) + (rest[1] == "value_compression")
        module.mixtures.matrices[at].copy_(value)
    else:
        block, inner = module.blocks[int(rest[0])], ".".join(rest[1:-1])
        if inner[:-1] == "attention.W_" and inner[-1] in "qkv":
            d, third = len(value), "qkv".index(inner[-1])
            found = getattr(block.attention.qkv, rest[-1])[third * d : (third + 1) * d]
        else:
            found = getattr(block.get_submodule(names[inner]), rest[-1])
        found.copy_(value)


def inputs(given: Case) -> tuple[Tensor, Tensor]:
    """Numbers and codes of a file, empty where it has none."""
    n = len(given["in/x_num" if "in/x_num" in given else "in/x_cat"])
    numbers = given.tensor("in/x_num") if "in/x_num" in given else torch.empty(n, 0).double()
    codes = given.tensor("in/x_cat") if "in/x_cat" in given else torch.empty(n, 0).long()
    return numbers, codes
