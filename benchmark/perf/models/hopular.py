"""Time and memory of a training step of Hopular, against plain code and NPT's step.

python benchmark/perf/models/hopular.py [--threads 2] [--repeats 3] [--only d=10]

Three things are timed in turn: our training step; the same equations written plainly (a loop over
columns, memory projected anew in every block, a table of all pairs of rows in each, the library's
dropout, an optimiser that walks the tensors one by one); and a step of our NPT with as many columns
of the same width, two of its layers for one block. All rows are asked, all are in the memory. Peak
memory is that of a process of its own over what it held before its first step.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import torch
from tabsweep.benchmark.papers.hopular.cost import FOLDER as PAPER
from tabsweep.benchmark.papers.hopular.cost import training_of
from tabsweep.benchmark.papers.published_values import load
from tabsweep.benchmark.perf.measuring import or_dash, peak_mb, peak_printed
from tabsweep.benchmark.perf.models.networks import (
    PlainLamb,
    options_of,
    random_table,
    seconds,
    told_of,
)
from tabsweep.models.deep.cell_masking import generator
from tabsweep.models.deep.cells import Cells
from tabsweep.models.deep.trainer import Training, computing
from tabsweep.models.hopular.masking import noisy
from tabsweep.models.hopular.network import Hopfield, HopularNetwork
from torch import Tensor, nn
from torch.nn import functional as F

# name: rows, numeric columns, sizes of categorical ones, classes (0: regression), e, blocks, nets
CASES: dict[str, tuple[int, int, tuple[int, ...], int, int, int, int]] = {
    "glass L=8": (143, 9, (), 6, 32, 8, 8),
    "boston L=8": (354, 11, (2, 9), 0, 32, 8, 8),
    "wdbc L=8": (398, 30, (), 2, 32, 8, 8),
    "steep glass": (143, 9, (), 6, 32, 8, 16),
    **{f"d=10 n={k}k": (1000 * k, 9, (), 0, 32, 2, 4) for k in (1, 2, 4, 7, 10)},
}
STEEP = 1000.0  # scaling of the cases of this name, the largest in the paper's grid
PLAIN_UP_TO = 4000  # rows; beyond them the tables of all pairs take many gigabytes
LINEAR = 1.5  # how much more memory a further row may take at the largest n than at the smallest


def training(case: str, method: str) -> Training:
    """The method on random numbers of the case's shape, dropout and losses as by default."""
    n, numeric, sizes, classes, width, blocks, nets = CASES[case]
    frame, y = random_table(n, numeric, sizes, classes)
    task = {0: "regression", 2: "binary"}.get(classes, "multiclass")
    shape: dict[str, float] = {"width": width}
    if method == "hopular":
        scaling = STEEP if case.startswith("steep") else 1.0
        shape |= {"n_blocks": blocks, "n_nets": nets, "beta_scaling": scaling}
    else:
        shape |= {"n_layers": 2 * blocks, "n_heads": nets}
    return training_of(method, shape, frame, y, task, "cpu")


# -- the same equations, written plainly ----------------------------------------------------------


class Plain(nn.Module):
    """Hopular with the weights of ours, one operation after the other."""

    def __init__(self, ours: HopularNetwork) -> None:
        super().__init__()
        self.blocks, self.columns, self.width = ours.blocks, ours.columns, ours.width
        e, s = ours.embedding, ours.summary
        starts = [0, *accumulate(e.segments)]
        self.kind, self.index = nn.Parameter(e.kind.data), nn.Parameter(e.index.data)
        self.first, self.norms, self.second = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for j, size in enumerate(e.segments):
            first, second = nn.Linear(size, self.width), nn.Linear(self.width, self.width)
            first.weight.data = e.weight.data[starts[j] : starts[j + 1]].t().clone()
            first.bias.data = e.bias.data[j].clone()
            second.weight.data = e.second.data[j].t().clone()
            second.bias.data = e.second_bias.data[j].clone()
            norm = nn.LayerNorm(self.width, eps=1e-12)
            norm.weight.data, norm.bias.data = e.gain.data[j].clone(), e.shift.data[j].clone()
            self.first.append(first)
            self.norms.append(norm)
            self.second.append(second)
        d = self.columns.n * self.width
        self.norm, self.out = nn.LayerNorm(d, eps=1e-12), nn.Linear(d, sum(self.columns.sizes))
        self.norm.weight.data, self.norm.bias.data = s.gain.data.clone(), s.shift.data.clone()
        self.out.weight.data, self.out.bias.data = s.weight.data.clone(), s.bias.data.clone()

    def embed(self, cells: Cells, flags: Tensor, p: float) -> Tensor:  # (N, d, E)
        """The embedded cells of the rows: (N, d, E)."""
        found = []
        for j, size in enumerate(self.columns.sizes):
            if self.columns.categorical[j]:
                codes = cells.codes[:, self.columns.categories_at.index(j)]
                value = F.one_hot(codes, size).float()
            else:
                value = cells.values[:, [self.columns.numeric_at.index(j)]]
            value = value.masked_fill(cells.hidden[:, [j]], 0.0)
            z = self.first[j](torch.cat([value, flags[:, [j]].float()], dim=1))
            z = z + self.kind[int(self.columns.categorical[j])] + self.index[j]
            found.append(self.second[j](self.norms[j](F.dropout(F.gelu(z), p))))
        return torch.stack(found, dim=1)

    def forward(self, cells: Cells, flags: Tensor, memory: Cells, own: bool, p: float) -> Tensor:
        """The logits and values of every column."""
        x = came_in = self.embed(cells, flags, p)
        rows = self.embed(memory, torch.zeros_like(memory.hidden), p).flatten(1)[None]
        for block in self.blocks:
            y = self._retrieve(block.samples, x.flatten(1)[None], rows, own, p)  # type: ignore[union-attr, arg-type]
            x = self._retrieve(block.features, y.view_as(x), came_in, False, p)  # type: ignore[union-attr, arg-type]
        return self.out(self.norm(F.dropout(F.gelu(x.flatten(1)), 0.1 * p)))

    def _retrieve(self, net: Hopfield, x: Tensor, stored: Tensor, own: bool, p: float) -> Tensor:
        x, stored = net.norm(x), net.norm(stored)
        split = partial(torch.unflatten, dim=-1, sizes=(net.n_nets, -1))
        bias = net.bias.chunk(3)
        q = split(net.query(x) + bias[0]).transpose(1, 2)
        k = split(net.key(stored) + bias[1]).transpose(1, 2)
        v = split(net.value(stored) + bias[2]).transpose(1, 2)
        logits = net.beta * (q @ k.transpose(2, 3))
        if own:
            logits = logits.masked_fill(torch.eye(len(x[0]), dtype=torch.bool), -torch.inf)
        weights = F.dropout(torch.softmax(logits, dim=-1), p)
        return x + net.out((weights @ v).transpose(1, 2).flatten(2))


class PlainAveragedLamb(PlainLamb):
    """LAMB with bias correction outside of its ratio, clipping and the average of the weights."""

    def clip(self) -> None:
        """To a norm of 1 of all together."""
        found = [p.grad for p in self.params if p.grad is not None]
        scale = (1.0 / torch.stack([grad.norm() for grad in found]).norm()).clamp(max=1.0)
        for grad in found:
            grad *= scale

    def direction(self, p: Tensor, m: Tensor, v: Tensor) -> Tensor:
        """With weight decay."""
        return super().direction(p, m, v) + 0.1 * p

    def debias(self) -> float:
        """As in Adam."""
        return (1 - 0.999**self.t) ** 0.5 / (1 - 0.9**self.t)

    def follow(self) -> None:
        """By a share of 0.005 after each update."""
        for p, slow in zip(self.params, self.average, strict=True):
            slow += 0.005 * (p - slow)


def plain_step(plain: Plain, task: Any, lamb: PlainAveragedLamb) -> None:
    """One epoch: cells masked as ours are, losses column by column, features and target alike."""
    columns, cells = plain.columns, task.cells
    shown, flags = noisy(cells, columns, 0.025, 0.175, generator(torch.device("cpu"), lamb.t))
    losses = []
    for j, out in enumerate(
        plain(shown, flags, cells, True, 0.1).split(list(columns.sizes), dim=1)
    ):
        if columns.categorical[j]:
            losses.append(F.cross_entropy(out, cells.codes[:, columns.categories_at.index(j)]))
        else:
            values = cells.values[:, columns.numeric_at.index(j)]
            losses.append((out[:, 0] - values).square().mean())
    (0.5 * torch.stack(losses[:-1]).mean() + 0.5 * losses[-1]).backward()
    lamb.step(1e-3)


def made_plain(ours: Training) -> tuple[Plain, PlainAveragedLamb]:
    """The plain network with the same weights, and its optimiser."""
    plain = Plain(ours.task.module)  # type: ignore[arg-type]
    return plain, PlainAveragedLamb(list(plain.parameters()))


# -- measuring ------------------------------------------------------------------------------------


def difference(ours: Training, plain: Plain) -> float:
    """Largest difference of the two networks' outputs on masked rows, without dropout."""
    task: Any = ours.task
    columns, net = plain.columns, task.module
    shown, flags = noisy(task.cells, columns, 0.025, 0.175, generator(torch.device("cpu"), 0))
    with torch.no_grad():
        theirs = plain(shown, flags, task.cells, True, 0.0).split(list(columns.sizes), dim=1)
        state = net(shown, flags, net.store(task.cells), forbidden=task.rows)
        decoded = net.decode(state)
        found = [
            decoded.of(j).reshape(len(shown), -1)[:, : columns.sizes[j]] for j in range(columns.n)
        ]
    return max(float((a - b).abs().max()) for a, b in zip(theirs, found, strict=True))


def measure(case: str, threads: int, repeats: int) -> float:
    """Prints one line; returns our step's seconds."""
    with computing(threads):
        ours, npt = training(case, "hopular"), training(case, "npt")
        runs: dict[str, Callable[[], Any]] = {
            "ours": lambda: ours.run(ours.step + 1),
            "npt": lambda: npt.run(npt.step + 1),
        }
        differs = float("nan")
        if CASES[case][0] <= PLAIN_UP_TO:
            plain, lamb = made_plain(ours)
            differs = difference(ours, plain)
            runs["plain"] = lambda: plain_step(plain, ours.task, lamb)
        times: dict[str, list[float]] = {name: [] for name in runs}
        for repeat in range(repeats + 1):
            for name, run in runs.items():
                took = seconds(run)
                if repeat:
                    times[name].append(took)
    middle = {name: statistics.median(values) for name, values in times.items()}
    own, rows = middle["ours"], CASES[case][0]
    against = middle["plain"] / own if "plain" in middle else None
    print(
        f"{case:14} {own * 1e3:10.0f} {own / rows * 1e3:10.3f} {or_dash(against):>10} "
        f"{middle['npt'] * 1e3:10.0f} {own / middle['npt']:10.2f} {or_dash(differs, '.0e'):>10}",
        flush=True,
    )
    return own


def inside(case: str, threads: int, which: str) -> None:
    """Two training steps, in a process of their own."""
    with computing(threads):
        made = training(case, "npt" if which == "npt" else "hopular")
        with peak_printed():
            if which == "plain":
                plain, lamb = made_plain(made)
                for _ in range(2):
                    plain_step(plain, made.task, lamb)
            else:
                made.run(2)


def memory(cases: list[str], threads: int) -> bool:
    """Prints a line a case; whether memory grows with n, not with its square."""
    print(f"\n{'peak memory':14} {'ours MB':>10} {'MB/row':>10} {'plain MB':>10} {'NPT MB':>10}")
    points = []
    for case in cases:
        rows = CASES[case][0]
        of = partial(peak_mb, __file__, case, threads)
        ours, npt = of("ours"), of("npt")
        plain = or_dash(of("plain") if rows <= PLAIN_UP_TO else None, ".0f")
        print(f"{case:14} {ours:10.0f} {ours / rows:10.3f} {plain:>10} {npt:10.0f}", flush=True)
        if case.startswith("d=10"):
            points.append((rows, ours))
    if len(points) < 3:
        return True
    slopes = [(z - y) / (b - a) for (a, y), (b, z) in pairwise(points)]
    met = slopes[-1] <= LINEAR * slopes[0]
    print(
        f"\n{'met' if met else 'not met':7} memory is linear in n: a further row takes "
        f"{slopes[0]:.3f} MB at first and {slopes[-1]:.3f} MB at last, limit {LINEAR:g} times"
    )
    return met


def papers_ratios() -> None:
    """What the paper's tables say of the two: all rows asked, smallest models."""

    def ratio(table: str, level: str, above: str, below: str) -> str:
        cells = load(PAPER, table)
        cells = cells[cells["level"] == level].pivot(
            index="dataset", columns="method", values="value"
        )
        found = cells[above] / cells[below]
        return f"{found.min():.1f} to {found.max():.1f}"

    held = ratio("tableA.7", "full-batch/smallest-model", "npt", "hopular")
    took = ratio("tableA.8", "full-batch", "hopular", "npt")
    print("the paper, six medium tables, all rows asked, authors' code on an A100:")
    print(f"  memory of NPT in that of Hopular (A.7): {held}")
    print(f"  step time of Hopular in that of NPT (A.8): {took}")


def main() -> int:
    """Parse the options and measure; returns the exit code."""
    given = options_of(__doc__, of="cases", threads=2, repeats=3)
    if given.inside:
        inside(given.only, given.threads, given.inside)
        return 0
    print(told_of(given.threads))
    print("L=8: 8 blocks of 8 nets; d=10: 2 blocks of 4 nets; e=32; dropout and losses by default")
    print("steep: 8 blocks of 16 nets, scaling 1,000; outputs then depend on the last digit")
    print(f"{'case':14} {'step':>10} {'a row':>10} {'plain /':>10} {'NPT step':>10} {'ours /':>10} "
          f"{'max':>10}")  # fmt: skip
    print(f"{'':14} {'ms':>10} {'ms':>10} {'ours':>10} {'ms':>10} {'NPT':>10} {'differs':>10}")
    cases = [case for case in CASES if case.startswith(given.only)]
    for case in cases:
        measure(case, given.threads, given.repeats)
    met = memory(cases, given.threads)
    papers_ratios()
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
