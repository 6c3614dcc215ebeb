"""ModernNCA's means of neighbours, against the same blocks under torch's gradients.

python benchmark/perf/models/neighbours.py [--rows 2000 13000] [--repeats 5]

A batch of 1,024 rows of width 128 (the defaults' size) asks so many candidates. Both sides take
distances in float64 and make the weights of a block anew in the backward pass; `plain` is written
in torch's operations with checkpoints, as it stood here before. Timed in turn in one run, one
thread, medians of CPU time of a forward and backward pass, and of a pass without gradients.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

import torch
from tabsweep.benchmark.perf.measuring import verdict
from tabsweep.models.deep.layers.neighbours import BLOCK, SAME, neighbour_mean
from tabsweep.models.deep.trainer import computing
from torch import Tensor
from torch.utils.checkpoint import checkpoint

BATCH, WIDTH, TEMPERATURE = 1024, 128, 1.0
TARGET = 1.5  # times as fast, forward and backward
Mean = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Sums = tuple[Tensor, Tensor, Tensor]


def ours(queries: Tensor, candidates: Tensor, labels: Tensor, own: Tensor) -> Tensor:
    """The layer of ModernNCA."""
    return neighbour_mean(queries, candidates, labels, temperature=TEMPERATURE, own=own)


def plain(queries: Tensor, candidates: Tensor, labels: Tensor, own: Tensor) -> Tensor:
    """The same mean in torch's operations."""
    n = len(queries)
    sums = (
        queries.new_full((n,), -torch.inf),
        queries.new_zeros(n),
        queries.new_zeros(n, labels.shape[1]),
    )
    for at in range(0, len(candidates), BLOCK):
        given = queries, candidates[at : at + BLOCK], labels[at : at + BLOCK], own - at, *sums
        if torch.is_grad_enabled():
            sums = checkpoint(_added, *given, use_reentrant=False, preserve_rng_state=False)
        else:
            sums = _added(*given)
    return sums[2] / sums[1][:, None]


def _added(
    queries: Tensor,
    candidates: Tensor,
    labels: Tensor,
    own: Tensor,
    top: Tensor,
    total: Tensor,
    mean: Tensor,
) -> Sums:
    wide, other = queries.double(), candidates.double()
    lengths = wide.square().sum(1)[:, None] + other.square().sum(1)
    squares = lengths - 2 * wide @ other.T
    apart = ~(squares <= SAME * lengths)
    logits = -torch.where(apart, squares, 1.0).sqrt().mul(apart).float() / TEMPERATURE
    logits = logits.masked_fill(own[:, None] == torch.arange(len(candidates)), -torch.inf)
    highest = torch.maximum(top, logits.detach().amax(1))
    weights, scale = (logits - highest[:, None]).exp(), (top - highest).exp()
    return highest, total * scale + weights.sum(1), mean * scale[:, None] + weights @ labels


def seconds(mean: Mean, given: tuple[Tensor, ...], labels: Tensor, own: Tensor) -> list[float]:
    """CPU seconds of a forward and backward pass, and of a pass without gradients."""
    queries, candidates = (x.clone().requires_grad_() for x in given)
    began = time.process_time()
    mean(queries, candidates, labels, own).square().sum().backward()
    trained = time.process_time()
    with torch.no_grad():
        mean(queries, candidates, labels, own)
    return [trained - began, time.process_time() - trained]


def main() -> int:
    """Parse the options and measure; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000, 13_000])
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, torch {torch.__version__}, medians of {given.repeats}")
    print(f"{'candidates':>10} {'pass':>10} {'plain s':>9} {'ours s':>9} {'plain / ours':>13}")
    all_met = True
    for n in given.rows:
        torch.manual_seed(0)
        points = torch.randn(BATCH, WIDTH), torch.randn(n, WIDTH)
        labels = torch.nn.functional.one_hot(torch.randint(0, 2, (n,)), 2).float()
        own = torch.arange(BATCH)
        times: dict[str, list[list[float]]] = {"plain": [], "ours": []}
        with computing(1):
            for repeat in range(given.repeats + 1):
                for name, mean in (("plain", plain), ("ours", ours)):
                    taken = seconds(mean, points, labels, own)
                    if repeat:  # the first one warms up
                        times[name].append(taken)
        for i, what in enumerate(("training", "prediction")):
            theirs, own_s = (statistics.median(t[i] for t in times[k]) for k in ("plain", "ours"))
            ratio = theirs / own_s
            print(f"{n:10,} {what:>10} {theirs:9.3f} {own_s:9.3f} {ratio:13.2f}", flush=True)
            if what == "training":
                all_met &= verdict(f"training, {n:,} candidates", ratio, TARGET, at_least=True)
    return 0 if all_met else 1


if __name__ == "__main__":
    raise SystemExit(main())
