"""A training pass of NPT, Hopular, ModernNCA and TabR, beside their authors' code.

    python benchmark/perf/networks.py --sources FOLDER [--models npt tabr] [--rows 300 1000 4000]

FOLDER holds checkouts of `non-parametric-transformers`, `hopular`, `hopfield-layers` and `TALENT`
(ModernNCA by its authors; TabR as they adapted it), which no package index has; they need
`fairscale`, `delu` and `faiss-cpu`. Both networks have our default sizes, with dropout, and get the
same rows of 8 numbers, 3 categories and two classes in one process, in turn: forward, the sum of
squared outputs, backward. NPT and Hopular get all rows at once, the others a batch of 256 and all
other rows as candidates. Milliseconds of CPU time, the median of PASSES; NPT and Hopular are
counted as often as TIME allows. The optimiser is in none of it.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tabsweep.benchmark.perf.models import LEVELS, NUMBERS, table
from tabsweep.benchmark.planning.environment import cpu_model
from tabsweep.models.deep.cells import Cells, Columns
from tabsweep.models.registry import make_model
from torch import Tensor

PASSES, TIME = 15, 60.0
Pass = Callable[[int], Tensor | list[Tensor]]
COLUMNS = Columns((1,) * NUMBERS + LEVELS + (2,), (False,) * NUMBERS + (True,) * 4, (11,))


def cells(n: int) -> Cells:
    """n rows of numbers, categories and the class, none of them hidden."""
    frame, y = table(n)
    numbers = torch.tensor(frame[[*"abcdefgh"]].to_numpy(), dtype=torch.float32)
    levels = [torch.tensor(frame[f"c{j}"].cat.codes.to_numpy()).long() for j in range(len(LEVELS))]
    codes = torch.stack([*levels, torch.tensor(y)], dim=1)
    return Cells(numbers, codes, torch.zeros(n, COLUMNS.n, dtype=torch.bool))


def channels(rows: Cells) -> list[Tensor]:
    """Each column as the authors encode it: its value or one-hot code, then the mask channel."""
    codes = [
        torch.nn.functional.one_hot(rows.codes[:, i], size).float()
        for i, size in enumerate((*LEVELS, 2))
    ]
    columns = [*rows.values[:, :, None].unbind(1), *codes]
    return [torch.cat([column, torch.zeros(len(rows), 1)], dim=1) for column in columns]


def npt(n: int) -> tuple[Pass, Pass]:
    """Ours and theirs."""
    from tabsweep.models.npt.network import NPTNetwork

    rows, model = cells(n), make_model("npt", task="binary")
    sizes = {"width": model.width, "n_layers": model.n_layers, "n_heads": model.n_heads}
    ours = NPTNetwork(COLUMNS, **sizes)
    given = vars(importlib.import_module("npt.configs").build_parser().parse_args([]))
    given |= {
        "model_dim_hidden": model.width,
        "model_stacking_depth": model.n_layers,
        "model_num_heads": model.n_heads,
        "exp_gradient_clipping": 0.0,
    }
    facts = {
        "input_feature_dims": [size + 1 for size in COLUMNS.sizes],
        "cat_features": COLUMNS.categories_at,
        "num_features": COLUMNS.numeric_at,
        "cat_target_cols": [11],
        "num_target_cols": [],
    }
    settings = type("Settings", (dict,), {"__getattr__": dict.get})(given)
    theirs = importlib.import_module("npt.model.npt").NPTModel(settings, facts, torch.device("cpu"))
    encoded = channels(rows)

    def decoded(step: int) -> list[Tensor]:
        out = ours.decode(ours(rows, (0, step)))
        return [out.of(j) for j in range(COLUMNS.n)]

    return decoded, lambda step: theirs(encoded)


def hopular(n: int) -> tuple[Pass, Pass]:
    """Ours and theirs."""
    from tabsweep.models.hopular.network import HopularNetwork

    rows, model = cells(n), make_model("hopular", task="binary")
    sizes = {"width": model.width, "n_blocks": model.n_blocks, "n_nets": model.n_nets}
    ours = HopularNetwork(COLUMNS, **sizes)
    encoded, own = torch.cat(channels(rows), dim=1), torch.arange(n)
    theirs = importlib.import_module("hopular.blocks").Hopular(
        input_sizes=[*COLUMNS.sizes],
        target_discrete=[11],
        target_numeric=[],
        feature_discrete=COLUMNS.categories_at,
        memory=encoded,
        feature_size=model.width,
        hidden_size=model.width // model.n_nets,
        num_heads=model.n_nets,
        num_blocks=model.n_blocks,
    )
    flags = torch.zeros(n, COLUMNS.n, dtype=torch.bool)

    def decoded(step: int) -> list[Tensor]:
        memory = ours.store(rows, (0, step, 0))
        out = ours.decode(ours(rows, flags, memory, (0, step, 1), forbidden=own))
        return [out.of(j) for j in range(COLUMNS.n)]

    hidden = own[:, None] == own
    return decoded, lambda step: theirs(encoded, hidden)


def looked_up(name: str, n: int) -> tuple[Any, Any, Tensor, Tensor]:
    """Our training of a model, its settings, and the rows (numbers and one-hot codes) and targets
    that theirs gets."""
    frame, y = table(n)
    model = make_model(name, task="binary")
    x, target = model._prepare(frame, y)
    ours = model._training((x, target), None)
    rows = ours.task.rows
    one_hot = [
        torch.nn.functional.one_hot(rows.codes[:, j], size).float() for j, size in enumerate(LEVELS)
    ]
    return ours.task, model, torch.cat([rows.numbers, *one_hot], dim=1), torch.tensor(y)


def modern_nca(n: int) -> tuple[Pass, Pass]:
    """Ours and theirs."""
    task, model, x, y = looked_up("modern-nca", n)
    theirs = importlib.import_module("TALENT.model.models.modernNCA").ModernNCA(
        d_in=x.shape[1],
        d_num=NUMBERS,
        d_out=2,
        dim=model.width,
        dropout=model.dropout,
        d_block=model.hidden,
        n_blocks=model.n_blocks,
        num_embeddings={
            "type": "PLREmbeddings",
            "n_frequencies": model.number_frequencies,
            "frequency_scale": model.number_sigma,
            "d_embedding": model.number_width,
            "lite": True,
        },
        temperature=model.temperature,
        sample_rate=model.sample_rate,
    )

    def theirs_at(step: int) -> Tensor:
        at, rest = apart(task, step, len(x))
        return theirs(x[at], y[at], x[rest], y[rest], is_train=True)

    return task.loss, theirs_at


def tabr(n: int) -> tuple[Pass, Pass]:
    """Ours and theirs."""
    task, model, x, y = looked_up("tabr", n)
    theirs = importlib.import_module("TALENT.model.models.tabr").TabR(
        n_num_features=NUMBERS,
        n_cat_features=sum(LEVELS),
        n_classes=2,
        num_embeddings=None,
        d_main=model.width,
        d_multiplier=model.hidden_factor,
        encoder_n_blocks=model.n_encoder,
        predictor_n_blocks=model.n_predictor,
        mixer_normalization="auto",
        context_dropout=model.context_dropout,
        dropout0=model.hidden_dropout,
        dropout1=model.residual_dropout,
        normalization="LayerNorm",
        activation="ReLU",
    )

    def theirs_at(step: int) -> Tensor:
        at, rest = apart(task, step, len(x))
        return theirs(
            x_num=x[at, :NUMBERS],
            x_cat=x[at, NUMBERS:],
            y=y[at],
            candidate_x_num=x[rest, :NUMBERS],
            candidate_x_cat=x[rest, NUMBERS:],
            candidate_y=y[rest],
            context_size=model.context_size,
            is_train=True,
        )

    return task.loss, theirs_at


def apart(task: Any, step: int, n: int) -> tuple[Tensor, Tensor]:
    """The batch of a step, and all other rows."""
    at = task.batch(step)
    there = torch.ones(n, dtype=torch.bool)
    there[at] = False
    return at, there.nonzero()[:, 0]


NETWORKS: dict[str, Callable[[int], tuple[Pass, Pass]]] = {
    "npt": npt,
    "hopular": hopular,
    "modern-nca": modern_nca,
    "tabr": tabr,
}


def passes(both: tuple[Pass, Pass]) -> list[float]:
    """Median CPU milliseconds of a pass of each, taken in turn."""
    times: list[list[float]] = [[], []]
    began = time.monotonic()
    for step in range(PASSES + 1):
        for taken, run in zip(times, both, strict=True):
            start = time.process_time()
            found = run(step)
            parts = found if isinstance(found, list) else [found]
            torch.stack([part[part.isfinite()].square().sum() for part in parts]).sum().backward()
            taken.append(1e3 * (time.process_time() - start))
        if step and time.monotonic() - began > TIME:
            break
    return [statistics.median(taken[1:]) for taken in times]


def main() -> int:
    """Parse the options and measure; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--models", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1000, 4000])
    given = parser.parse_args()
    for name in ("non-parametric-transformers", "hopular", "hopfield-layers", "TALENT"):
        sys.path.insert(0, str(given.sources / name))
    torch.set_num_threads(1)
    print(cpu_model())
    print(f"{'':24}{'ours ms':>11}{'theirs ms':>11}{'theirs / ours':>15}")
    for name in given.models:
        for n in given.rows:
            ours, theirs = passes(NETWORKS[name](n))
            print(
                f"{name + f', {n:,} rows':24}{ours:11.2f}{theirs:11.2f}{theirs / ours:15.2f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
