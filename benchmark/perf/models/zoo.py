"""Training speed of each feature network beside the same network of a public package.

python benchmark/perf/models/zoo.py [--steps 30] [--threads 1] [--only ft-transformer]

A table of Adult's size (26,048 rows, 6 numbers, 8 categories with Adult's levels), two classes, the
default configuration of every registered model of the family. Where `rtdl_revisiting_models` or
`pytorch-tabnet` (extra `zoo`), or `tabm`, has the network, it is built with the same sizes and
trained in turn with ours in one process: the same batches, loss, optimiser and settings. Times are
medians of CPU seconds; an epoch is as many median steps as it has batches. Peak memory is that of
three steps in a process of its own over what it held before the first. The steps of `grownet` are
those of its first learner; later ones cost more. The masks of pytorch-tabnet choose columns (14
shares a mask), ours choose embedded inputs, as RTDL's code did (70): ours does more.
"""

from __future__ import annotations

import importlib
import inspect
import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import torch
from tabsweep.benchmark.perf.measuring import or_dash, peak_mb, peak_printed
from tabsweep.benchmark.perf.models.networks import options_of, told_of
from tabsweep.models.deep.optimisers import clip_norm, clip_values
from tabsweep.models.deep.trainer import Training, computing, seeded
from tabsweep.models.registry import MODELS, defaults, make_model
from tabsweep.models.tabm import mean_loss
from torch import Tensor, nn

ROWS, NUMBERS = 26_048, 6
LEVELS = (9, 16, 7, 15, 6, 5, 2, 42)  # of Adult's categories, missing values among them
NAMES = [  # those of a library have no steps of ours
    name for name, spec in MODELS.items() if spec.family == "feature network" and spec.resource
]
LIMIT_S = 60.0  # CPU seconds of one model, after which its last step is timed
SLOWER, FASTER = 1.1, {"ft-transformer": 1.2}  # what is asked of ours


# -- ours -----------------------------------------------------------------------------------------


def training(name: str) -> Training:
    """Our network of that name, its optimiser and its batches; no validation rows."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((ROWS, NUMBERS)))
    for j, n in enumerate(LEVELS):
        frame[f"c{j}"] = pd.Categorical([f"v{code}" for code in rng.integers(0, n, ROWS)])
    plain = {"pretrain_epochs": 0} if "pretrain_epochs" in defaults(name) else {}
    model = make_model(name, task="binary", **plain)
    x, y = model._prepare(frame, rng.integers(0, 2, ROWS))
    return model._training((x, y), None)


# -- theirs: (settings of our estimator) -> a network that takes numbers and codes -----------------


class Encoded(nn.Module):
    """A network of numbers alone behind the package's vectors of categories."""

    def __init__(self, width: int, network: Callable[[int], nn.Module]) -> None:
        super().__init__()
        rtdl = importlib.import_module("rtdl_revisiting_models")
        self.categories = rtdl.CategoricalEmbeddings(list(LEVELS), width, bias=False)
        self.network = network(NUMBERS + len(LEVELS) * width)

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """(B, n) numbers and (B, m) codes -> (B, 1) logits."""
        return self.network(torch.cat([numbers, self.categories(codes).flatten(1)], dim=1))


def their_mlp(ours: Any) -> nn.Module:
    """The MLP of rtdl_revisiting_models with the sizes of ours."""
    rtdl = importlib.import_module("rtdl_revisiting_models")
    assert ours.width_first == ours.width_middle == ours.width_last, "the package has one width"
    return Encoded(
        ours.embedding,
        lambda n: rtdl.MLP(
            d_in=n, d_out=1, n_blocks=ours.n_layers, d_block=ours.width_first, dropout=ours.dropout
        ),
    )


def their_resnet(ours: Any) -> nn.Module:
    """The ResNet of rtdl_revisiting_models with the sizes of ours."""
    rtdl = importlib.import_module("rtdl_revisiting_models")
    return Encoded(
        ours.embedding,
        lambda n: rtdl.ResNet(
            d_in=n,
            d_out=1,
            n_blocks=ours.n_layers,
            d_block=ours.width,
            d_hidden_multiplier=ours.hidden_factor,
            dropout1=ours.hidden_dropout,
            dropout2=ours.residual_dropout,
        ),
    )


def their_ft_transformer(ours: Any) -> nn.Module:
    """The FT-Transformer of rtdl_revisiting_models with the sizes of ours."""
    rtdl = importlib.import_module("rtdl_revisiting_models")
    return rtdl.FTTransformer(
        n_cont_features=NUMBERS,
        cat_cardinalities=list(LEVELS),
        d_out=1,
        n_blocks=ours.n_layers,
        d_block=ours.width,
        attention_n_heads=ours.n_heads,
        attention_dropout=ours.attention_dropout,
        ffn_d_hidden_multiplier=ours.ffn_factor,
        ffn_dropout=ours.ffn_dropout,
        residual_dropout=ours.residual_dropout,
    )


class TheirTabNet(nn.Module):
    """The library's network; `extra` is what its loss has beside the logits' one."""

    def __init__(self, ours: Any) -> None:
        super().__init__()
        n = NUMBERS + len(LEVELS)
        self.sparsity, self.extra = ours.sparsity, torch.zeros(())
        self.network = importlib.import_module("pytorch_tabnet.tab_network").TabNet(
            n,
            1,
            n_d=ours.width,
            n_a=ours.width,
            n_steps=ours.n_steps,
            gamma=ours.relaxation,
            cat_idxs=list(range(NUMBERS, n)),
            cat_dims=list(LEVELS),
            cat_emb_dim=[ours.embedding] * len(LEVELS),
            n_independent=ours.n_own,
            n_shared=ours.n_shared,
            virtual_batch_size=ours.virtual_batch,
            momentum=ours.momentum,
            mask_type=ours.mask,
            group_attention_matrix=torch.eye(n),
        )

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """(B, n) numbers and (B, m) codes -> (B, 1) logits; sets `extra`."""
        out, negative_entropy = self.network(torch.cat([numbers, codes.float()], dim=1))
        self.extra = -self.sparsity * negative_entropy
        return out


class TheirTabM(nn.Module):
    """The authors' network; ours is built of its layers, with a dropout and heads of our own."""

    loss = staticmethod(mean_loss)

    def __init__(self, ours: Any) -> None:
        super().__init__()
        self.network = importlib.import_module("tabm").TabM(
            n_num_features=NUMBERS,
            cat_cardinalities=list(LEVELS),
            d_out=ours.n_out,
            n_blocks=ours.n_blocks,
            d_block=ours.width,
            dropout=ours.dropout,
            k=ours.k,
            arch_type=ours.variant,
            start_scaling_init="random-signs",
        )

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """(B, n) numbers and (B, m) codes -> (B, k, C) logits."""
        return self.network(numbers, codes)


THEIRS: dict[str, tuple[str, Callable[[Any], nn.Module]]] = {
    "ft-transformer": ("rtdl_revisiting_models", their_ft_transformer),
    "mlp": ("rtdl_revisiting_models", their_mlp),
    "resnet": ("rtdl_revisiting_models", their_resnet),
    "tabm": ("tabm", TheirTabM),
    "tabnet": ("pytorch_tabnet", TheirTabNet),
}


class Loop:
    """Their network, trained as `Training` trains ours: rows, loss, rate, clipping, optimiser."""

    def __init__(self, name: str, ours: Training) -> None:
        self.recipe, self.step = ours.recipe, 0
        self.task: Any = ours.task
        with seeded(0):
            self.module = THEIRS[name][1](self.task.settings)
        kind = type(ours.optimiser)
        known = inspect.signature(kind).parameters
        settings = {k: v for k, v in ours.optimiser.defaults.items() if k in known}
        own_groups = getattr(self.module, "make_parameter_groups", self.module.parameters)
        self.optimiser = kind(own_groups(), **settings)

    def run(self) -> None:
        """One step."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.rate(self.step)
        self.module.train()
        rows = self.task.batch(self.step)
        batch = self.task.rows.at(rows)
        out = self.module(batch.numbers, batch.codes).squeeze(-1)
        criterion = getattr(self.module, "loss", self.task.criterion)
        loss = criterion(out, self.task.targets[rows])
        (loss + getattr(self.module, "extra", 0.0)).backward()
        if self.recipe.clip_value is not None:
            clip_values(self.module.parameters(), self.recipe.clip_value)
        if self.recipe.clip_norm is not None:
            clip_norm(self.module.parameters(), self.recipe.clip_norm)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.step += 1


def has_counterpart(name: str) -> bool:
    """Whether a package has this network and is installed."""
    return name in THEIRS and find_spec(THEIRS[name][0]) is not None


# -- measuring ------------------------------------------------------------------------------------


def measure(name: str, threads: int, steps: int) -> float | None:
    """Prints one line; returns their time over ours, None where there is none of theirs."""
    with computing(threads):
        ours = training(name)
        runs: dict[str, Callable[[], None]] = {"ours": lambda: ours.run(ours.step + 1)}
        params = {"ours": _size(ours.task.module)}
        if has_counterpart(name):
            loop = Loop(name, ours)
            runs["theirs"] = loop.run
            params["theirs"] = _size(loop.module)
        times: dict[str, list[float]] = {which: [] for which in runs}
        for n in range(steps + 2):
            for which, run in runs.items():
                began = time.process_time()
                run()
                if n >= 2 or steps < 3:
                    times[which].append(time.process_time() - began)
            if sum(times["ours"]) > LIMIT_S:
                break
    own = statistics.median(times["ours"])
    task: Any = ours.task
    ratio = statistics.median(times["theirs"]) / own if "theirs" in times else None
    print(
        f"{name:15} {params['ours']:9,} {or_dash(params.get('theirs'), ',d'):>9} {task.size:6} "
        f"{own * 1e3:9.1f} {own * task.unit:8.1f} "
        f"{or_dash(None if ratio is None else own * ratio * 1e3, '.1f'):>9} "
        f"{or_dash(ratio, '.2f'):>7}",
        flush=True,
    )
    return ratio


def _size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def inside(name: str, threads: int, which: str) -> None:
    """Three training steps, in a process of their own."""
    with computing(threads):
        ours = training(name)
        theirs = Loop(name, ours) if which == "theirs" else None
        with peak_printed():
            for _ in range(3):
                if theirs is None:
                    ours.run(ours.step + 1)
                else:
                    theirs.run()


def main() -> int:
    """Parse the options and measure; returns the exit code."""
    given = options_of(__doc__, of="models", steps=30, threads=1)
    if given.inside:
        inside(given.only, given.threads, given.inside)
        return 0
    print(told_of(given.threads))
    print(f"{ROWS:,} rows, {NUMBERS} numbers, {len(LEVELS)} categories; medians of {given.steps}")
    print(f"{'model':15} {'weights':>9} {'weights':>9} {'rows a':>6} {'ours':>9} {'epoch':>8} "
          f"{'theirs':>9} {'theirs':>7}")  # fmt: skip
    print(f"{'':15} {'ours':>9} {'theirs':>9} {'step':>6} {'ms/step':>9} {'s':>8} "
          f"{'ms/step':>9} {'/ ours':>7}")  # fmt: skip
    names = [name for name in NAMES if name.startswith(given.only)]
    ratios = {name: measure(name, given.threads, given.steps) for name in names}
    print(f"\n{'peak memory':15} {'ours MB':>9} {'theirs MB':>9}")
    for name in names:
        of = partial(peak_mb, __file__, name, given.threads)
        theirs, ours = of("theirs") if has_counterpart(name) else None, of("ours")
        print(f"{name:15} {ours:9.0f} {or_dash(theirs, '.0f'):>9}", flush=True)
    print()
    all_met = True
    for name, ratio in ratios.items():
        if name in THEIRS and ratio is None:
            print(f"skipped {name}: {THEIRS[name][0]} is not installed (extra `zoo`)")
        if ratio is not None:
            wanted = FASTER.get(name, 1 / SLOWER)
            all_met &= ratio >= wanted
            met = "met" if ratio >= wanted else "not met"
            print(f"{met:7} {name}: {ratio:.2f} times as fast as theirs, {wanted:.2f} asked")
    return 0 if all_met else 1


if __name__ == "__main__":
    raise SystemExit(main())
