"""What a step of each network asks of a GPU: operations, copies and waits, counted on a CPU.

    python benchmark/perf/launches.py [--rows 300] [NAME ...]

Each operation that is not a view is at least one launch of a kernel, some 5 us of the processor's
time on a GPU however small the table is. A copy is a call that would move a tensor to the GPU or
back, a wait one that needs a number from the GPU before Python can go on. Counted are two fits of
the registered model's small size, of STEPS and of twice STEPS steps: the difference is what STEPS
steps need, the rest of the shorter fit what each fit needs once. Dropout is left out, as a GPU
draws its own; of Hopular's copies, 29 compare devices and move nothing.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any
from unittest.mock import patch

import torch
from tabsweep.benchmark.gpu_check import networks, table
from tabsweep.models.registry import MODELS, load_class, make_model, small_fits
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

STEPS = 3  # epochs of one batch, or a network's own steps
WAITS = {"item", "tolist", "__bool__", "__float__", "__int__", "nonzero"}
COPIES = {"to", "cpu", "cuda", "numpy"}


class _Operations(TorchDispatchMode):
    """Counts operations that compute something."""

    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()
        self.counts = counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not func.is_view and "detach" not in str(func):
            self.counts["operations"] += 1
        return func(*args, **(kwargs or {}))


class _Calls(TorchFunctionMode):
    """Counts calls that move a tensor or wait for one."""

    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()
        self.counts = counts

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name in WAITS:
            self.counts["waits"] += 1
        places = [a for a in (*args[1:], *kwargs.values()) if isinstance(a, torch.device | str)]
        if name in COPIES and (name != "to" or places):
            self.counts["copies"] += 1
            self.counts["bytes"] += args[0].nbytes
        return func(*args, **kwargs)


def _all_kept(like: torch.Tensor, p: float, seed: object) -> torch.Tensor:
    return torch.ones_like(like)


def counted(name: str, rows: int, steps: int) -> Counter[str]:
    """The counts of a fit of so many steps."""
    task, config = MODELS[name].tasks[0], small_fits(name).get("config", {})
    if hasattr(load_class(MODELS[name].target), "batch_size"):
        config = {**config, "batch_size": rows}
    counts: Counter[str] = Counter()
    model = make_model(name, task=task, **config)
    undropped = patch("tabsweep.models.deep.layers.dropout.kept", _all_kept)
    with undropped, _Calls(counts), _Operations(counts):
        model.fit_to(*table(task, rows), stop=steps, every=2 * STEPS)
    return counts


def main() -> None:
    """Prints a line a network."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rows", type=int, default=300)
    given = parser.parse_args()
    print(f"{given.rows} rows, 6 numbers and 1 category: counts of a step, and of a fit once")
    print(f"{'':24}{'operations':>10}{'copies':>8}{'waits':>8}{'once: copies':>15}{'kB':>8}")
    for name in given.names or networks():
        short, long = (counted(name, given.rows, n) for n in (STEPS, 2 * STEPS))
        step = {kind: (long[kind] - short[kind]) / STEPS for kind in long}
        once = {kind: short[kind] - STEPS * step[kind] for kind in long}
        print(
            f"{name:24}{step['operations']:10.0f}{step.get('copies', 0):8.0f}"
            f"{step.get('waits', 0):8.0f}{once.get('copies', 0):15.0f}"
            f"{once.get('bytes', 0) / 1000:8.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
