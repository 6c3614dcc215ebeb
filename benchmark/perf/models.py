"""Seconds of the networks: a training step, a whole fit, predictions of one row and of a thousand.

    python benchmark/perf/models.py [--models mlp tabm] [--rows 300 1000 4000] [--repeats 3]
    python benchmark/perf/models.py --against CHECKOUT

Tables of 8 numbers and 3 categories, two classes. A step is one of the registered model with its
defaults; the median of `STEPS`, of NPT and Hopular the mean wall time of `FEW`. Where
`rtdl_revisiting_models` or `tabm` is installed and has the network, it is built with the same sizes
and takes steps in turn with ours in one process: the same batches, loss and optimiser. Where
`pytabkit` is installed and has the model, both fit EPOCHS epochs in batches of BATCH with the same
sizes, from a DataFrame to the weights. Fit and predictions are those of the library's estimator
with its quick preset, the predictions on a DataFrame.

Each measurement is a process of its own. With `--against` the same script runs there with the other
checkout's package, in turn with this one, so that both meet the same load: the ratio of the least
times (other over this) is what counts on a busy machine. Steps and epochs are in CPU time, the
others in wall time.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]
ESTIMATORS = {
    "mlp": "MLPClassifier",
    "resnet": "ResNetClassifier",
    "ft-transformer": "FTTransformerClassifier",
    "tabm": "TabMClassifier",
    "modern-nca": "ModernNCAClassifier",
    "tabr": "TabRClassifier",
    "npt": "NPTClassifier",
    "hopular": "HopularClassifier",
}
NUMBERS, LEVELS = 8, (4, 9, 30)
STEPS, FEW, ASKED = 15, 3, 20
EPOCHS, BATCH = 5, 128
FIGURES = {
    "step_ms": "step ms",
    "their_step_ms": "theirs ms",
    "epochs_s": "epochs s",
    "their_epochs_s": "pytabkit s",
    "fit_s": "fit s",
    "row_ms": "1 row ms",
    "thousand_ms": "1,000 ms",
}


# -- in a process of its own ----------------------------------------------------------------------


def table(n: int, seed: int = 0) -> tuple[Any, Any]:
    """n rows and their labels."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((n, NUMBERS)), columns=[*"abcdefgh"])
    for j, size in enumerate(LEVELS):
        frame[f"c{j}"] = pd.Categorical([f"v{code}" for code in rng.integers(0, size, n)])
    noise = rng.standard_normal(n)
    return frame, (frame["a"] + frame["b"] * frame["c"] + noise > 0).to_numpy().astype(int)


def encoded(width: int, network: Callable[[int], Any]) -> Any:
    """A network of numbers alone behind the package's vectors of categories."""
    import torch

    rtdl = importlib.import_module("rtdl_revisiting_models")

    class Encoded(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.categories = rtdl.CategoricalEmbeddings(list(LEVELS), width, bias=False)
            self.network = network(NUMBERS + len(LEVELS) * width)

        def forward(self, numbers: Any, codes: Any) -> Any:
            return self.network(torch.cat([numbers, self.categories(codes).flatten(1)], dim=1))

    return Encoded()


def their_mlp(ours: Any) -> Any:
    """The MLP of rtdl_revisiting_models with the sizes of ours."""
    rtdl = importlib.import_module("rtdl_revisiting_models")
    sizes = {"n_blocks": ours.n_layers, "d_block": ours.width_first, "dropout": ours.dropout}
    return encoded(ours.embedding, lambda n: rtdl.MLP(d_in=n, d_out=1, **sizes))


def their_resnet(ours: Any) -> Any:
    """The ResNet of rtdl_revisiting_models with the sizes of ours."""
    rtdl = importlib.import_module("rtdl_revisiting_models")
    sizes = {
        "n_blocks": ours.n_layers,
        "d_block": ours.width,
        "d_hidden_multiplier": ours.hidden_factor,
        "dropout1": ours.hidden_dropout,
        "dropout2": ours.residual_dropout,
    }
    return encoded(ours.embedding, lambda n: rtdl.ResNet(d_in=n, d_out=1, **sizes))


def their_ft_transformer(ours: Any) -> Any:
    """The FT-Transformer of rtdl_revisiting_models with the sizes of ours."""
    return importlib.import_module("rtdl_revisiting_models").FTTransformer(
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


def their_tabm(ours: Any) -> Any:
    """The TabM of its authors with the sizes of ours."""
    return importlib.import_module("tabm").TabM(
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


THEIRS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "mlp": ("rtdl_revisiting_models", their_mlp),
    "resnet": ("rtdl_revisiting_models", their_resnet),
    "ft-transformer": ("rtdl_revisiting_models", their_ft_transformer),
    "tabm": ("tabm", their_tabm),
}


# Of pytabkit: its class, the name of its number of epochs, and its sizes from ours.
PYTABKIT: dict[str, tuple[str, str, Callable[[Any], dict[str, Any]]]] = {
    "mlp": (
        "MLP_RTDL_D_Classifier",
        "max_epochs",
        lambda ours: {
            "module_n_layers": ours.n_layers,
            "module_d_layers": ours.width_middle,
            "module_d_first_layer": ours.width_first,
            "module_d_last_layer": ours.width_last,
            "module_d_embedding": ours.embedding,
            "module_dropout": ours.dropout,
        },
    ),
    "resnet": (
        "Resnet_RTDL_D_Classifier",
        "max_epochs",
        lambda ours: {
            "module_n_layers": ours.n_layers,
            "module_d": ours.width,
            "module_d_hidden_factor": ours.hidden_factor,
            "module_d_embedding": ours.embedding,
        },
    ),
    "ft-transformer": (
        "FTT_D_Classifier",
        "max_epochs",
        lambda ours: {
            "module_n_layers": ours.n_layers,
            "module_d_token": ours.width,
            "module_n_heads": ours.n_heads,
            "module_d_ffn_factor": ours.ffn_factor,
        },
    ),
    "tabm": (
        "TabM_D_Classifier",
        "n_epochs",
        lambda ours: {"tabm_k": ours.k, "d_block": ours.width, "n_blocks": ours.n_blocks},
    ),
}


class Loop:
    """Their network, trained with our batches, rate and kind of optimiser."""

    def __init__(self, network: Any, ours: Any) -> None:
        self.network, self.recipe, self.step = network, ours.recipe, 0
        self.task: Any = ours.task
        kind = type(ours.optimiser)
        known = inspect.signature(kind).parameters
        settings = {k: v for k, v in ours.optimiser.defaults.items() if k in known}
        groups = getattr(network, "make_parameter_groups", network.parameters)
        self.optimiser = kind(groups(), **settings)

    def run(self) -> None:
        """One step."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.rate(self.step)
        self.network.train()
        rows = self.task.batch(self.step)
        batch = self.task.rows.at(rows)
        out, targets = self.network(batch.numbers, batch.codes).squeeze(-1), self.task.targets[rows]
        if out.dim() > 1:  # members of TabM: the mean of their losses
            members = out.shape[1]
            out, targets = out.flatten(0, 1), targets.repeat_interleave(members)
        if out.dim() > 1:
            from torch.nn.functional import cross_entropy

            loss = cross_entropy(out, targets)
        else:
            loss = self.task.criterion(out, targets)
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.step += 1


def steps(name: str, n: int) -> dict[str, float]:
    """Median CPU milliseconds of a step of our network, and of theirs where there is one."""
    import torch
    from tabsweep.models.deep.trainer import computing
    from tabsweep.models.registry import make_model

    with computing(1):
        frame, y = table(n)
        model = make_model(name, task="binary")
        if model.resource == "steps":  # NPT, Hopular: they count their steps themselves
            model = make_model(name, task="binary", steps=FEW, eval_every=FEW).fit(frame, y)
            return {"step_ms": 1e3 * model.step_s_}
        x, target = model._prepare(frame, y)
        ours = model._training((x, target), None)
        runs: dict[str, Callable[[], Any]] = {"step_ms": lambda: ours.run(ours.step + 1)}
        if name in THEIRS and find_spec(THEIRS[name][0]) is not None:
            torch.manual_seed(0)
            runs["their_step_ms"] = Loop(THEIRS[name][1](model), ours).run
        times: dict[str, list[float]] = {which: [] for which in runs}
        for _ in range(STEPS + 2):
            for which, run in runs.items():
                began = time.process_time()
                run()
                times[which].append(1e3 * (time.process_time() - began))
    return {which: statistics.median(taken[2:]) for which, taken in times.items()}


def epochs(name: str, n: int) -> dict[str, float]:
    """CPU seconds of a fit of EPOCHS epochs, ours and pytabkit's; nothing without a counterpart."""
    if name not in PYTABKIT or find_spec("pytabkit") is None:
        return {}
    from tabsweep.models.registry import make_model

    pytabkit, (frame, y), n_train = importlib.import_module("pytabkit"), table(n), n * 4 // 5
    ours = make_model(name, task="binary", epochs=EPOCHS, batch_size=BATCH)
    kind, length, sizes = PYTABKIT[name]
    settings = {**sizes(ours), length: EPOCHS, "batch_size": BATCH, "val_fraction": 0.2}
    theirs = getattr(pytabkit, kind)(device="cpu", n_threads=1, **settings)
    began = time.process_time()
    ours.fit(frame[:n_train], y[:n_train], X_val=frame[n_train:], y_val=y[n_train:])
    between = time.process_time()
    theirs.fit(frame, y, cat_col_names=[f"c{j}" for j in range(len(LEVELS))])
    ended = time.process_time()
    return {"epochs_s": between - began, "their_epochs_s": ended - between}


def fitted(name: str, n: int) -> dict[str, float]:
    """Seconds of a fit of the library's estimator, and median milliseconds of predictions."""
    import tabsweep

    frame, y = table(n)
    began = time.perf_counter()
    model = getattr(tabsweep, ESTIMATORS[name])().fit(frame, y)
    found = {"fit_s": time.perf_counter() - began}
    asked = table(1000, seed=1)[0]
    for which, rows, times in (("row_ms", asked.iloc[:1], ASKED), ("thousand_ms", asked, 3)):
        taken = []
        for _ in range(times + 1):
            began = time.perf_counter()
            model.predict_proba(rows)
            taken.append(1e3 * (time.perf_counter() - began))
        found[which] = statistics.median(taken[1:])
    return found


# -- side by side ---------------------------------------------------------------------------------


def measured(checkout: Path, name: str, n: int) -> dict[str, float]:
    """The figures of a model with a checkout's package, from a process of its own."""
    own = checkout / ".venv" / "bin" / "python"
    python = str(own) if own.exists() else sys.executable
    words = [python, str(Path(__file__).resolve()), "--inside", name, str(n)]
    told = subprocess.run(words, cwd=checkout, capture_output=True, text=True)
    if told.returncode:
        raise RuntimeError(f"{name}, {n:,} rows in {checkout}: {told.stderr[-2000:]}")
    return json.loads(told.stdout.splitlines()[-1])


def least(runs: list[dict[str, float]]) -> dict[str, float]:
    """The smallest value of each figure: what other programs disturbed least."""
    return {key: min(run[key] for run in runs) for key in runs[0]}


def line(label: str, found: dict[str, float], how: str) -> str:
    """One line of the table."""
    cells = [format(found[key], how) if key in found else "-" for key in FIGURES]
    return f"{label:32}" + "".join(f"{cell:>11}" for cell in cells)


def main() -> int:
    """Parse the options and measure; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(ESTIMATORS), choices=list(ESTIMATORS))
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1000, 4000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    parser.add_argument("--inside", nargs=2, metavar=("MODEL", "ROWS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        name, n = given.inside[0], int(given.inside[1])
        print(json.dumps({**steps(name, n), **epochs(name, n), **fitted(name, n)}))
        return 0
    from tabsweep.benchmark.planning.environment import cpu_model

    sides = {"this": HERE} | ({"other": given.against.resolve()} if given.against else {})
    print(f"{cpu_model()}; load {os.getloadavg()[0]:.1f}; least of {given.repeats} processes")
    print(f"{'':32}" + "".join(f"{title:>11}" for title in FIGURES.values()))
    for name in given.models:
        for n in given.rows:
            runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
            for _ in range(given.repeats):
                for side, checkout in sides.items():
                    runs[side].append(measured(checkout, name, n))
            found = {side: least(taken) for side, taken in runs.items()}
            for side, figures in found.items():
                print(line(f"{name}, {n:,} rows, {side}", figures, ".2f"), flush=True)
            if given.against:
                ratios = {k: v / found["this"][k] for k, v in found["other"].items()}
                print(line("  other / this", ratios, ".2f"), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
