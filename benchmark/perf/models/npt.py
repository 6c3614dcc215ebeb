"""Time and memory of a training step of NPT, against plain code and its matrix products.

python benchmark/perf/models/npt.py [--threads 1] [--repeats 7] [--only boston]

Three things are timed in turn in one run, each as the second of two runs in a row (as the steps of
a training follow each other) and with one thread as in a trial: our training step and
forward pass; the same equations written plainly (a loop over columns, one table of all pairs a
layer, the library's dropout, an optimiser that walks the tensors one by one); and the matrix
products alone, at the same shapes. Where other work shares the machine's memory the products lose
least, so their share of the step is given for the fastest runs, too. Peak memory is that of a
process of its own over what it held before its first step.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from tabsweep.benchmark.perf.measuring import or_dash, peak_mb, peak_printed
from tabsweep.benchmark.perf.models.networks import (
    PlainLamb,
    options_of,
    random_table,
    seconds,
    told_of,
)
from tabsweep.models.deep.cells import Cells
from tabsweep.models.deep.layers.attention import BLOCK, ROWS
from tabsweep.models.deep.trainer import Training, computing, seeded
from tabsweep.models.npt.estimator import NPT
from tabsweep.models.npt.network import NPTNetwork
from tabsweep.models.npt.task import NPTTask
from torch import Tensor, nn
from torch.nn import functional as F

CASES = {  # name: (rows, numeric columns, sizes of categorical ones, classes (0: regression), e)
    "boston e=32": (506, 11, (2, 9), 0, 32),
    "boston e=64": (506, 11, (2, 9), 0, 64),
    "wdbc e=32": (569, 30, (), 2, 32),
    **{f"d=10 n={n}": (n, 9, (), 0, 32) for n in (500, 1000, 2000, 4000, 8000, 16000)},
}
REPEATED = 2e12  # operations of the steps of one case; a longer one is repeated less often
PLAIN_UP_TO = 4000  # rows; beyond them the tables of all pairs take tens of gigabytes
TARGET = 0.6


# -- the three contestants ------------------------------------------------------------------------


def estimator(case: str) -> tuple[NPT, NPTTask]:
    """An NPT with 8 layers and 8 heads on a random table of the case's shape, dropout 0.1."""
    n, numeric, sizes, classes, width = CASES[case]
    frame, y = random_table(n, numeric, sizes, classes)
    model = NPT(task="binary" if classes else "regression", width=width, steps=10**6)
    with model._others(None, None):
        x, target = model._prepare(frame, y)
        with seeded(0):
            return model, model._task((x, target), None)


class Plain(nn.Module):
    """The same network, read off the paper's equations and nothing else."""

    def __init__(self, ours: NPTNetwork) -> None:
        super().__init__()
        self.ours, self.columns = ours, ours.columns
        starts = np.cumsum([0, *ours.embedding.segments])
        self.into = nn.ModuleList()
        self.out = nn.ModuleList()
        for j, size in enumerate(self.columns.sizes):
            into, out = nn.Linear(size + 1, ours.width), nn.Linear(ours.width, size)
            at, begin = slice(starts[j], starts[j + 1]), ours.decoder.starts[j]
            into.weight.data = ours.embedding.weight.data[at].t().clone()
            into.bias.data = ours.embedding.bias.data[j].clone()
            out.weight.data = ours.decoder.weight.data[begin : begin + size].clone()
            out.bias.data = ours.decoder.bias.data[begin : begin + size].clone()
            self.into.append(into)
            self.out.append(out)

    def inputs(self, cells: Cells) -> list[Tensor]:
        """Every column as the paper has it: one-hot or value, and the mask channel."""
        found = []
        for j, size in enumerate(self.columns.sizes):
            hidden = cells.hidden[:, j]
            if self.columns.categorical[j]:
                codes = cells.codes[:, self.columns.categories_at.index(j)]
                value = F.one_hot(codes, size).float()
            else:
                value = cells.values[:, [self.columns.numeric_at.index(j)]]
            value = value.masked_fill(hidden[:, None], 0.0)
            found.append(torch.cat([value, hidden[:, None].float()], dim=1))
        return found

    def forward(self, inputs: list[Tensor], p: float = 0.0) -> list[Tensor]:
        """The decoded value of every column."""
        embedding = self.ours.embedding
        x = torch.stack([layer(x) for layer, x in zip(self.into, inputs, strict=True)], dim=1)
        x = x + embedding.index
        if embedding.kind is not None:
            x = x + embedding.kind[embedding.kinds]
        x = F.dropout(x, p)
        for kind, block in zip(self.ours.kinds, self.ours.blocks, strict=True):
            flat = x.reshape(1, len(x), -1) if kind == "abd" else x
            x = self._block(block, flat, p).view_as(x)
        x = F.dropout(x, p)
        return [layer(x[:, j]) for j, layer in enumerate(self.out)]

    def _block(self, block: Any, x: Tensor, p: float) -> Tensor:
        q, k, v = block.query(block.norm_in(x)), block.key(x), block.value(x)
        split = partial(torch.unflatten, dim=-1, sizes=(block.n_heads, -1))
        q, k, v = (split(t).transpose(1, 2) for t in (q, k, v))
        weights = F.dropout(torch.softmax(q @ k.transpose(2, 3) * block.scale, dim=-1), p)
        mixed = F.dropout(block.mix((weights @ v).transpose(1, 2).flatten(2)), p)
        r = mixed + block.residual(x)
        hidden = F.dropout(F.gelu(block.widen(block.norm_ff(r))), p)
        return r + F.dropout(block.narrow(hidden), p)


class PlainLookahead(PlainLamb):
    """LAMB and Lookahead."""

    def clip(self) -> None:
        """Each value by itself."""
        for p in self.params:
            if p.grad is not None:
                p.grad.clamp_(-1, 1)

    def follow(self) -> None:
        """Half way, every 6 updates, and the weights go there."""
        if self.t % 6 == 0:
            for p, slow in zip(self.params, self.average, strict=True):
                slow += 0.5 * (p - slow)
                p.copy_(slow)


def plain_step(plain: Plain, task: NPTTask, lamb: PlainLookahead, step: int) -> None:
    """One training step: cells masked as ours are, losses column by column."""
    shown, truth, features, targets = task.draw(step)
    outputs = plain(plain.inputs(shown), 0.1)
    losses = []
    for chosen in (targets, features):
        total, count = torch.zeros(()), chosen.sum().clamp(min=1)
        for j, out in enumerate(outputs):
            at = chosen[:, j]
            if plain.columns.categorical[j]:
                codes = truth.codes[:, plain.columns.categories_at.index(j)]
                total = total + F.cross_entropy(out[at], codes[at], reduction="sum")
            else:
                values = truth.values[:, plain.columns.numeric_at.index(j)]
                total = total + (out[at, 0] - values[at]).square().sum()
        losses.append(total / count)
    (0.5 * losses[0] + 0.5 * losses[1]).backward()
    lamb.step(1e-3)


def products(case: str) -> list[tuple[Callable[[], Any], Callable[[], Any], int]]:
    """(forward product, its two backward products, how many) of all matrix products of a pass."""
    n, numeric, sizes, _, e = CASES[case]
    d, heads, layers = numeric + len(sizes) + 1, 8, 4
    found: list[tuple[Callable[[], Any], Callable[[], Any], int]] = []

    def linear(rows: int, k: int, m: int, count: int) -> None:
        x, w, y = torch.randn(rows, k), torch.randn(m, k), torch.randn(rows, m)
        found.append((lambda: x @ w.t(), lambda: (y @ w, y.t() @ x), count))

    def attention(batch: int, t: int, width: int) -> None:
        q = torch.randn(batch * heads, t, width // heads)
        block = min(t, max(ROWS, BLOCK // (heads * t))) if batch == 1 else t
        weights = torch.randn(batch * heads, block, t)
        times = -(-t // block)

        def forward() -> None:
            for i in range(times):
                part = q[:, i * block : (i + 1) * block]
                torch.bmm(part, q.transpose(1, 2))
                torch.bmm(weights[:, : part.shape[1]], q)

        def backward() -> None:
            for i in range(times):
                part = q[:, i * block : (i + 1) * block]
                some = weights[:, : part.shape[1]]
                torch.bmm(part, q.transpose(1, 2))
                torch.bmm(some, q)
                torch.bmm(some.transpose(1, 2), part)
                torch.bmm(some.transpose(1, 2), part)

        found.append((forward, backward, layers))

    for rows, width in ((n, d * e), (n * d, e)):
        linear(rows, width, width, 5 * layers)
        linear(rows, width, 4 * width, layers)
        linear(rows, 4 * width, width, layers)
    attention(1, n, d * e)
    attention(n, d, e)
    return found


def flops(case: str) -> float:
    """Floating-point operations of the matrix products of a forward pass."""
    n, numeric, sizes, _, e = CASES[case]
    d = numeric + len(sizes) + 1
    h = d * e
    return 4.0 * (26 * n * h**2 + 4 * n**2 * h + n * (26 * d * e**2 + 4 * d**2 * e))


# -- measuring ------------------------------------------------------------------------------------


def measure(case: str, threads: int, repeats: int) -> float:
    """Prints one line; returns the share of the products' rate that the fastest step reaches."""
    torch.manual_seed(0)
    repeats = max(1, min(repeats, int(REPEATED / (3 * flops(case)))))
    with computing(threads):
        model, task = estimator(case)
        training = Training(task, model._recipe(), seed=0)
        net, rows = task.module, CASES[case][0]
        plain = Plain(net) if rows <= PLAIN_UP_TO else None
        parts = products(case)
        cells = task.draw(0)[0]
        difference = 0.0
        if plain is not None:
            params = [*plain.into.parameters(), *plain.out.parameters(), *net.blocks.parameters()]
            params += [net.embedding.index]
            lamb = PlainLookahead(params)
            with torch.no_grad():
                theirs, decoded = plain(plain.inputs(cells)), net.decode(net(cells))
                for j in range(net.columns.n):
                    ours = decoded.of(j)
                    got = theirs[j] if ours.dim() == 2 else theirs[j][:, 0]
                    wide = ours[:, : got.shape[1]] if got.dim() == 2 else ours
                    difference = max(difference, float((got - wide).abs().max()))
        times: dict[str, list[float]] = {}

        def forward() -> None:
            with torch.no_grad():
                net.decode(net(cells))

        def plain_forward(plain: Plain) -> None:
            with torch.no_grad():
                plain(plain.inputs(cells))

        runs: dict[str, Callable[[], Any]] = {
            "step": lambda: training.run(training.step + 1),
            "forward": forward,
            "products forward": lambda: [f() for f, _, n in parts for _ in range(n)],
            "products backward": lambda: [b() for _, b, n in parts for _ in range(n)],
        }
        if plain is not None:
            runs["plain step"] = lambda: plain_step(plain, task, lamb, training.step)
            runs["plain forward"] = partial(plain_forward, plain)
        warm = repeats > 1
        for repeat in range(repeats + warm):
            for name, run in runs.items():
                if warm:
                    run()
                took = seconds(run)
                if repeat >= warm:
                    times.setdefault(name, []).append(took)
    middle = {name: statistics.median(values) for name, values in times.items()}
    all_products = middle["products forward"] + middle["products backward"]
    share, work = all_products / middle["step"], flops(case)
    least = {name: min(values) for name, values in times.items()}
    fastest = (least["products forward"] + least["products backward"]) / least["step"]
    plain_ratio = middle["plain step"] / middle["step"] if plain is not None else None
    plain_forward_ratio = middle["plain forward"] / middle["forward"] if plain is not None else None
    print(
        f"{case:14} {work / 1e9:8.1f} {3 * work / 1e9:8.1f} "
        f"{middle['forward'] * 1e3:9.0f} {middle['step'] * 1e3:9.0f} "
        f"{3 * work / all_products / 1e9:8.0f} {3 * work / middle['step'] / 1e9:8.0f} "
        f"{middle['products forward'] / middle['forward']:8.2f} {share:8.2f} {fastest:8.2f} "
        f"{or_dash(plain_forward_ratio):>8} {or_dash(plain_ratio):>8} {difference:9.0e}",
        flush=True,
    )
    return fastest


def inside(case: str, threads: int, which: str) -> None:
    """What the process of `peak_mb` does: two training steps."""
    with computing(threads):
        model, task = estimator(case)
        with peak_printed():
            if which == "ours":
                Training(task, model._recipe(), seed=0).run(2)
            else:
                plain = Plain(task.module)
                lamb = PlainLookahead([p for p in plain.parameters() if p.requires_grad])
                for step in range(2):
                    plain_step(plain, task, lamb, step)


def main() -> int:
    """Parse the options and measure; returns the exit code."""
    given = options_of(__doc__, of="cases", threads=1, repeats=7)
    if given.inside:
        inside(given.only, given.threads, given.inside)
        return 0
    print(told_of(given.threads))
    print("8 layers, 8 heads, dropout 0.1, feature and target loss, LAMB with Lookahead; medians,")
    print("and the share of the step in its products among the fastest runs")
    print(
        f"{'case':14} {'GFLOP':>8} {'GFLOP':>8} {'forward':>9} {'step':>9} {'GFLOP/s':>8} "
        f"{'GFLOP/s':>8} {'share':>8} {'share':>8} {'fastest':>8} {'plain /':>8} {'plain /':>8} "
        f"{'max':>9}"
    )
    print(
        f"{'':14} {'forward':>8} {'step':>8} {'ms':>9} {'ms':>9} {'products':>8} {'step':>8} "
        f"{'forward':>8} {'step':>8} {'step':>8} {'forward':>8} {'step':>8} {'differs':>9}"
    )
    cases = [case for case in CASES if case.startswith(given.only)]
    shares = [measure(case, given.threads, given.repeats) for case in cases]
    print(f"\n{'peak memory':14} {'ours MB':>9} {'MB/row':>8} {'plain MB':>9}")
    for case in cases:
        rows = CASES[case][0]
        ours = peak_mb(__file__, case, given.threads, "ours")
        plain = peak_mb(__file__, case, given.threads, "plain") if rows <= PLAIN_UP_TO else None
        print(f"{case:14} {ours:9.0f} {ours / rows:8.3f} {or_dash(plain):>9}", flush=True)
    met = "met" if min(shares) >= TARGET else "not met"
    print(
        f"\n{met}   a step reaches {TARGET:.0%} of its products' rate: {min(shares):.2f} at least"
    )
    return 0 if min(shares) >= TARGET else 1


if __name__ == "__main__":
    raise SystemExit(main())
