"""Time of NPT's inductive predictions against the same equations without a fused kernel.

python benchmark/perf/models/npt_prediction.py [--rows 16000] [--asked 1000] [--repeats 3]
    [--threads 1]

Two parts, timed in turn in one run: the pass over the stored rows, which a fitted model makes once
for all its predictions, and the rows that are asked for. The plain form makes the attention weights
a block of queries at a time, and runs every layer for the stored rows, too; nothing reads what the
last one makes of them. Medians; also the time of the matrix products that no form can avoid.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import torch
from tabsweep.benchmark.perf.models import npt
from tabsweep.benchmark.perf.models.networks import options_of, told_of
from tabsweep.models.deep.cells import Cells
from tabsweep.models.deep.trainer import computing
from tabsweep.models.npt.network import Block, Context, NPTNetwork
from tabsweep.models.npt.prediction import (
    PredictionSettings,
    decode_inductive,
    stored_context,
)
from torch import Tensor

WEIGHTS = 2**23  # attention weights of one block of the plain form
KINDS = ("ours", "plain")


def plain_attention(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """softmax(scale q k^T) v, a block of queries at a time."""
    rows = max(128, WEIGHTS // (k.shape[1] * k.shape[2]))
    parts = []
    for at in range(0, q.shape[2], rows):
        logits = torch.matmul(q[:, :, at : at + rows] * scale, k.transpose(-1, -2))
        parts.append(torch.matmul(torch.softmax(logits, dim=-1), v))
    return torch.cat(parts, dim=2)


def plain_context(net: NPTNetwork, cells: Cells) -> Context:
    """Keys and values of the stored rows, from a pass through every layer."""
    x, found = net.embedding(cells), []
    for kind, block in zip(net.kinds, net.blocks, strict=True):
        assert isinstance(block, Block)
        if kind == "abd":
            flat = x.reshape(1, len(x), -1)
            q, k, v = block.heads(flat)
            found.append((k, v))
            x = block.after(flat, plain_attention(q, k, v, block.scale), None).view_as(x)
        else:
            x = block(x)
    return found


def plain_answers(net: NPTNetwork, context: Context, asked: Cells, rows: int) -> Tensor:
    """Targets of rows that see the stored ones and themselves, `rows` at a time."""
    parts = []
    for at in range(0, len(asked), rows):
        x, layers = net.embedding(asked[slice(at, at + rows)]), iter(context)
        for kind, block in zip(net.kinds, net.blocks, strict=True):
            assert isinstance(block, Block)
            if kind != "abd":
                x = block(x)
                continue
            flat = x.reshape(1, len(x), -1)
            (q, k, v), (keys, values) = block.heads(flat), next(layers)
            own = (q * k).sum(dim=-1, keepdim=True)
            logits = torch.cat([torch.matmul(q, keys.transpose(-1, -2)), own], dim=-1)
            weights = torch.softmax(logits * block.scale, dim=-1)
            seen = torch.matmul(weights[..., :-1], values) + weights[..., -1:] * v
            x = block.after(flat, seen, None).view_as(x)
        parts.append(net.decode(x, net.columns.targets).of(net.columns.targets[0]))
    return torch.cat(parts)


def measure(n: int, n_asked: int, repeats: int, settings: PredictionSettings) -> None:
    """Print the table."""
    for rows in (n, n_asked):
        npt.CASES[f"{rows} rows"] = (rows, 9, (), 0, 32)
    task = npt.estimator(f"{n} rows")[1]
    asked = npt.estimator(f"{n_asked} rows")[1].cells
    net, target = task.module, task.columns.targets[0]
    block = int(np.clip(2**22 // (n * settings.n_heads), 16, 256))
    times: dict[str, list[float]] = {}

    def timed(name: str, began: float) -> None:
        times.setdefault(name, []).append(time.perf_counter() - began)

    for _ in range(repeats):
        began = time.perf_counter()
        context = stored_context(net, task.cells, settings)
        timed("stored ours", began)
        began = time.perf_counter()
        ours = decode_inductive(net, context, asked, [target], settings).of(target)
        timed("asked ours", began)
        began = time.perf_counter()
        context = plain_context(net, task.cells)
        timed("stored plain", began)
        began = time.perf_counter()
        plain = plain_answers(net, context, asked, block)
        timed("asked plain", began)
    middle = {name: statistics.median(values) for name, values in times.items()}
    for part in ("stored", "asked"):
        fast, slow = middle[f"{part} ours"], middle[f"{part} plain"]
        print(f"{part:8} {fast:9.2f} s  plain {slow:9.2f} s  ratio {slow / fast:5.2f}")
    whole = [sum(middle[f"{part} {kind}"] for part in ("stored", "asked")) for kind in KINDS]
    print(
        f"{'both':8} {whole[0]:9.2f} s  plain {whole[1]:9.2f} s  ratio {whole[1] / whole[0]:5.2f}"
    )
    print(f"largest difference of an answer {float((ours - plain).abs().max()):.0e}")


def main() -> None:
    """Parse the options and measure."""
    given = options_of(__doc__, rows=16000, asked=1000, repeats=3, threads=1)
    print(
        f"{told_of(given.threads)}; {given.asked} rows asked of {given.rows} stored ones, "
        "10 columns, e=32"
    )
    with computing(given.threads), torch.no_grad():
        model = npt.estimator("d=10 n=500")[0]
        measure(given.rows, given.asked, given.repeats, model)


if __name__ == "__main__":
    main()
