"""A slow reference of NPT, number by number, that shares no code with ours.

NumPy and `math` alone, one row, head and column after the other, from the equations of Kossen et
al. 2021 (secs. 2.2 to 2.6) and the places where the authors' code differs from them (Block in
models/npt/network.py names these). `made(name)` gives the cases that stand in tests/parity.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]
CASES: dict[str, dict[str, Any]] = {
    # kinds of columns, a type embedding, missing cells, two layers of each kind
    "npt_own_mixed": {
        "H": [1, 3, 2], "cat_columns": [1, 2], "target_columns": [2],
        "e": 4, "h": 2, "L": 4, "n": 7, "norm": "query", "seed": 1,
    },
    # numbers alone, so no type embedding; the layer norm of the printed eq. 4
    "npt_own_printed": {
        "H": [1, 1, 1], "cat_columns": [], "target_columns": [0],
        "e": 4, "h": 4, "L": 2, "n": 6, "norm": "all", "seed": 2,
    },
}  # fmt: skip


def linear(x: np.ndarray, p: Arrays, name: str) -> np.ndarray:
    """(n, in) -> (n, out): the layer `name`."""
    w, b = p[f"{name}.weight"], p[f"{name}.bias"]
    return np.array([[float(np.dot(w[o], row)) + b[o] for o in range(len(b))] for row in x])


def layer_norm(x: np.ndarray, p: Arrays, name: str) -> np.ndarray:
    """(n, W) -> (n, W): the normalisation `name`."""
    rows = []
    for row in x:
        mean = sum(row) / len(row)
        variance = sum((v - mean) ** 2 for v in row) / len(row)
        rows.append([(v - mean) / math.sqrt(variance + 1e-12) for v in row])
    return np.array(rows) * p[f"{name}.weight"] + p[f"{name}.bias"]


def gelu(x: np.ndarray) -> np.ndarray:
    """GELU by the error function, element by element."""
    return np.array([[v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in row] for row in x])


def softmax(row: list[float]) -> list[float]:
    """Softmax of one row."""
    top = max(row)
    powers = [math.exp(v - top) for v in row]
    return [v / sum(powers) for v in powers]


def block(x: np.ndarray, p: Arrays, name: str, h: int, norm: str) -> tuple[np.ndarray, np.ndarray]:
    """(T, W) tokens -> (T, W), and the (h, T, T) attention weights."""
    tokens, width = x.shape
    normed = layer_norm(x, p, f"{name}.ln0")
    source = normed if norm == "all" else x
    q = linear(normed, p, f"{name}.fc_q")
    k, v = linear(source, p, f"{name}.fc_k"), linear(source, p, f"{name}.fc_v")
    size = width // h
    attended, maps = np.zeros_like(x), np.zeros((h, tokens, tokens))
    for m in range(h):
        at = slice(m * size, (m + 1) * size)
        for i in range(tokens):
            logits = [float(np.dot(q[i, at], k[j, at])) / math.sqrt(width) for j in range(tokens)]
            maps[m, i] = softmax(logits)
            for j in range(tokens):
                attended[i, at] += maps[m, i, j] * v[j, at]
    r = linear(attended, p, f"{name}.fc_mix_heads") + linear(x, p, f"{name}.fc_res")
    wide = gelu(linear(layer_norm(r, p, f"{name}.ln1"), p, f"{name}.rff.0"))
    return r + linear(wide, p, f"{name}.rff.3"), maps


def forward(inputs: list[np.ndarray], p: Arrays, meta: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Inputs (n, H_j + 1) of each column -> `act/*`, `att/*` and `out/*` as the files name them."""
    n, d, e = len(inputs[0]), len(meta["H"]), meta["e"]
    x = np.zeros((n, d, e))
    for j in range(d):
        x[:, j] = linear(inputs[j], p, f"in_embedding.{j}")
        x[:, j] += p["feature_index_embedding.weight"][j]
        if "feature_type_embedding.weight" in p:
            x[:, j] += p["feature_type_embedding.weight"][int(j in meta["cat_columns"])]
    found = {"act/embedding": x.copy()}
    for i in range(meta["L"]):
        name = f"enc.{2 * i + 1}.mab"
        if i % 2 == 0:
            flat, maps = block(x.reshape(n, d * e), p, name, meta["h"], meta["norm"])
            x = flat.reshape(n, d, e)
        else:
            each = [block(row, p, name, meta["h"], meta["norm"]) for row in x]
            x = np.array([out for out, _ in each])
            maps = np.array([found for _, found in each])  # (n, h, d, d)
        found[f"act/block{i}"], found[f"att/block{i}"] = x.copy(), maps
    for j in range(d):
        found[f"out/{j}"] = linear(x[:, j], p, f"out_embedding.{j}")
    return found


def mean_loss(found: Arrays, truth: list[np.ndarray], chosen: np.ndarray, cats: list[int]) -> float:
    """Cross-entropies and squared errors over the chosen cells, by their number."""
    total = 0.0
    for i, j in zip(*np.nonzero(chosen), strict=True):
        out, cell = found[f"out/{j}"][i], truth[j][i]
        if j in cats:
            total -= math.log(softmax(list(out))[int(np.argmax(cell[:-1]))])
        else:
            total += (out[0] - cell[0]) ** 2
    return total / int(chosen.sum())


def parameters(meta: Mapping[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random parameters of a case, by their official names."""
    d, e, sizes = len(meta["H"]), meta["e"], meta["H"]
    shapes: dict[str, tuple[int, ...]] = {"feature_index_embedding.weight": (d, e)}
    if 0 < len(meta["cat_columns"]) < d:
        shapes["feature_type_embedding.weight"] = (2, e)
    for j, size in enumerate(sizes):
        shapes |= {f"in_embedding.{j}.weight": (e, size + 1), f"in_embedding.{j}.bias": (e,)}
        shapes |= {f"out_embedding.{j}.weight": (size, e), f"out_embedding.{j}.bias": (size,)}
    for i in range(meta["L"]):
        w, name = (d * e if i % 2 == 0 else e), f"enc.{2 * i + 1}.mab"
        layers = dict.fromkeys(("fc_q", "fc_k", "fc_v", "fc_mix_heads", "fc_res"), (w, w))
        for layer, shape in {**layers, "rff.0": (4 * w, w), "rff.3": (w, 4 * w)}.items():
            shapes |= {f"{name}.{layer}.weight": shape, f"{name}.{layer}.bias": shape[:1]}
        for layer in ("ln0", "ln1"):
            shapes |= {f"{name}.{layer}.weight": (w,), f"{name}.{layer}.bias": (w,)}
    made = {}
    for name, shape in shapes.items():
        value = rng.normal(size=shape) / (2 * shape[-1] ** 0.5)
        shifted = ".ln" in name and name.endswith("weight")
        made[name] = np.round((value + shifted) * 4096) / 4096
    return made


def made(name: str) -> dict[str, np.ndarray]:
    """All arrays of one case."""
    meta = {**CASES[name], "d": len(CASES[name]["H"])}
    rng = np.random.default_rng(meta["seed"])
    params = parameters(meta, rng)
    truth, inputs = [], []
    missing = rng.random((meta["n"], meta["d"])) < 0.15
    hidden = missing | (rng.random(missing.shape) < 0.3)
    for j, size in enumerate(meta["H"]):
        cells = np.zeros((meta["n"], size + 1))
        if j in meta["cat_columns"]:
            cells[np.arange(meta["n"]), rng.integers(0, size, meta["n"])] = 1.0
        else:
            cells[:, 0] = np.round(rng.normal(size=meta["n"]) * 4096) / 4096
        for kept, out in ((missing, truth), (hidden, inputs)):
            one = cells.copy()
            one[kept[:, j]] = 0.0
            one[kept[:, j], -1] = 1.0
            out.append(one)
    chosen = hidden & ~missing
    found = forward(inputs, params, meta)
    arrays = {"meta": np.array(json.dumps(meta)), "chosen": chosen, **found}
    arrays["loss"] = np.array(mean_loss(found, truth, chosen, meta["cat_columns"]))
    arrays |= {f"in/{j}": x for j, x in enumerate(inputs)}
    arrays |= {f"true/{j}": x for j, x in enumerate(truth)}
    for key, value in params.items():
        arrays[f"param/{key}"] = value
    return arrays


def slope(arrays: Arrays, key: str, direction: np.ndarray, step: float = 1e-5) -> float:
    """The loss's slope along a direction of one parameter, by central differences."""
    meta = json.loads(str(arrays["meta"]))
    d = range(meta["d"])
    params = {k[len("param/") :]: v for k, v in arrays.items() if k.startswith("param/")}
    ends = []
    for sign in (1, -1):
        moved = {**params, key: params[key] + sign * step * direction}
        found = forward([arrays[f"in/{j}"] for j in d], moved, meta)
        truth = [arrays[f"true/{j}"] for j in d]
        ends.append(mean_loss(found, truth, arrays["chosen"], meta["cat_columns"]))
    return (ends[0] - ends[1]) / (2 * step)
