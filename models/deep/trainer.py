"""Training loop of all networks, step by step, so that a fit can stop and resume.

A model brings a `Task`: its network, the loss of step s, the validation loss. Everything random in
step s depends on the fit's seed and s alone; so weights, optimiser and best weights are the whole
state, and a fit that resumes from a state equals the uninterrupted one.
"""

from __future__ import annotations

import ctypes
import math
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from ...common import fit_progress
from .matrix_products import by_onednn
from .optimisers import Average, Lookahead, as_arrays

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
_keeping = 0
PRECISIONS = ("auto", "fp32", "bf16")


class Task(Protocol):
    """What a model gives to its training: network, optimiser and losses."""

    @property
    def module(self) -> nn.Module:
        """The network."""

    def optimiser(self) -> torch.optim.Optimizer:
        """The optimiser of the network's weights, made once."""

    def loss(self, step: int) -> Tensor:
        """The training loss of step `step` + 1; draws from (seed, step) alone."""

    def val_loss(self) -> float | None:
        """The validation loss of the network as it is (evaluation mode), None without such rows."""


class Pretrained(Task, Protocol):
    """A task whose first steps are pre-training."""

    def pretraining(self) -> torch.optim.Optimizer:
        """The optimiser of those steps; `optimiser` is called after the last of them."""


@dataclass(frozen=True)
class Recipe:
    """How a network is trained.

    rate: the learning rate after s steps. eval_every: steps between two validation losses, the last
    step is always validated. patience: validation losses without a lower one that end the fit, 0
    for never; the weights with the lowest are kept either way. clip_value, clip_norm: limits of
    gradients, element by element or of all at once. lookahead: (alpha, k). average: share of the
    exponential average, whose weights are then validated and kept. precision: `bf16` runs the
    network under autocast, `auto` does so on a GPU that has it. compile: by torch.compile, on a GPU
    alone (on a CPU the blocks are written by hand; to compile them took minutes and gave other
    numbers). pretrain: the number of first steps that are pre-training (`Pretrained`). They
    have their own optimiser and no validation loss; patience begins after them.
    """

    steps: int
    rate: Callable[[int], float]
    eval_every: int = 1
    patience: int = 0
    clip_value: float | None = None
    clip_norm: float | None = None
    lookahead: tuple[float, int] | None = None
    average: float | None = None
    precision: str = "auto"
    compile: bool = False
    pretrain: int = 0


@contextmanager
def computing(threads: int, *, keep: bool = True) -> Iterator[None]:
    """torch with so many threads, and without denormal numbers, which cost a hundred times more.

    keep: memory that a step frees stays with the process until the block ends. Without this, a
    sixth of the time of NPT's steps on a CPU goes to the system, which clears the memory for the
    next step. A prediction of few rows is shorter than the clean-up: give False there.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    try:
        with _memory_kept() if keep else nullcontext():
            yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)


@cache
def _glibc() -> Any:
    """The C library of this process, None where it is another one."""
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None


@contextmanager
def _memory_kept() -> Iterator[None]:
    """glibc keeps freed memory until the outermost of these ends (mallopt(3)); elsewhere nothing
    happens."""
    global _keeping
    libc = _glibc()
    if libc is None:
        yield
        return
    libc.mallopt(M_MMAP_THRESHOLD, 2**30)
    libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
    _keeping += 1
    try:
        yield
    finally:
        _keeping -= 1
        if not _keeping:
            libc.mallopt(M_MMAP_THRESHOLD, 2**25)
            libc.mallopt(M_TRIM_THRESHOLD, 2**26)
            libc.malloc_trim(0)


def torch_device(name: str) -> torch.device:
    """The device; RuntimeError where this machine has no such GPU."""
    if name == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(f"device {name!r}: torch sees no GPU on this machine; use device='cpu'")
    return torch.device(name)


def resolved_precision(precision: str, device: torch.device) -> str:
    """`fp32` or `bf16`: what a network computes in; `auto` means bf16 on a GPU that has it."""
    if precision == "auto":
        return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "fp32"
    return precision


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """The context in which a network computes."""
    on = resolved_precision(precision, device) == "bf16"
    return torch.autocast(device.type, dtype=torch.bfloat16) if on else nullcontext()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch's own CPU generator from a seed, and afterwards as it was: for initial weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def seed_of(*parts: int) -> int:
    """One number from some, for torch's generators."""
    return int(np.random.SeedSequence(parts).generate_state(1)[0])


class Training:
    """A network in training: `step` completed steps, `curve` of (step, validation loss)."""

    def __init__(self, task: Task, recipe: Recipe, *, seed: int, device: str = "cpu") -> None:
        self.task, self.recipe, self.seed = task, recipe, seed
        self.device = torch_device(device)
        self.step = 0
        self.curve: list[tuple[int, float]] = []
        self.best_step, self.best_loss = 0, math.inf
        self.best: dict[str, Tensor] | None = None
        self.stopped = False
        self.step_s = 0.0  # seconds of a training step, on average over those run here
        self.out_of_time: Callable[[], bool] = lambda: False  # asked after every step
        if recipe.compile and self.device.type == "cuda":
            task.module.compile()
        self.optimiser = (
            cast(Pretrained, task).pretraining() if recipe.pretrain else task.optimiser()
        )
        params = list(task.module.parameters())
        self.params = params
        self.lookahead = Lookahead(params, *recipe.lookahead) if recipe.lookahead else None
        self.average = Average(params, recipe.average) if recipe.average else None

    # -- running -------------------------------------------------------------------------------

    def run(self, until: int) -> None:
        """Trains to `until` steps of the schedule, or to where patience or the time ends it."""
        with by_onednn(self.task.module, self.device):
            self._run(until)

    def _run(self, until: int) -> None:
        recipe, ran, seconds = self.recipe, 0, 0.0
        while self.step < until and not self.stopped:
            began = time.perf_counter()
            loss = self._one_step()
            self._wait()
            seconds += time.perf_counter() - began
            ran += 1
            fit_progress.reached(self.step, recipe.steps, "step")
            at_end = self.step % recipe.eval_every == 0 or self.step == recipe.steps
            if at_end and self.step > recipe.pretrain:
                self.evaluate()
                if math.isnan(float(loss)):  # NaN weights cannot recover
                    self.stopped = True
            if not self.stopped and self.out_of_time():
                if not at_end and self.step > recipe.pretrain:
                    self.evaluate()  # these weights may be the best so far
                self.stopped = True
        self.step_s = seconds / ran if ran else 0.0

    def _wait(self) -> None:
        if self.device.type == "cuda" and self.step % self.recipe.eval_every == 0:
            torch.cuda.synchronize()

    def _one_step(self) -> Tensor:
        recipe, s = self.recipe, self.step
        for group in self.optimiser.param_groups:
            group["lr"] = recipe.rate(s) * group.get("scale", 1.0)
        self.task.module.train()
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed_of(self.seed, s))
        with autocast(recipe.precision, self.device):
            loss = self.task.loss(s)
        loss.backward()
        if recipe.clip_value is not None:
            nn.utils.clip_grad_value_(self.params, recipe.clip_value)
        if recipe.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.params, recipe.clip_norm)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.step = s + 1
        if self.step == recipe.pretrain:
            self.optimiser = self.task.optimiser()
        for copy in (self.lookahead, self.average):
            if copy is not None:
                copy.after(self.step)
        return loss.detach()

    def evaluate(self) -> None:
        """Takes the validation loss of the network as it is; the best weights so far are kept."""
        with self.final_weights():
            loss = self.task.val_loss()
            if loss is None:
                return
            self.curve.append((self.step, loss))
            if loss < self.best_loss:
                self.best_step, self.best_loss = self.step, loss
                self.best = {
                    n: t.detach().clone() for n, t in self.task.module.state_dict().items()
                }
        since = sum(1 for step, _ in self.curve if step > self.best_step)
        if self.recipe.patience and since >= self.recipe.patience:
            self.stopped = True
        if math.isnan(loss):  # NaN weights cannot recover
            self.stopped = True

    @contextmanager
    def final_weights(self) -> Iterator[nn.Module]:
        """The network in evaluation mode, with its averaged weights where there are such."""
        module = self.task.module
        module.eval()
        if self.average is not None:
            self.average.swap()
        try:
            with torch.no_grad(), autocast(self.recipe.precision, self.device):
                yield module
        finally:
            if self.average is not None:
                self.average.swap()

    def outcome(self) -> dict[str, np.ndarray]:
        """The weights to keep: those of the lowest validation loss, else the last ones."""
        if self.best is not None:
            return as_arrays(self.best)
        self.best_step = self.step
        with self.final_weights() as module:
            return as_arrays(module.state_dict())

    # -- saving and resuming ----------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that a later step depends on, as numbers and arrays."""
        entries = {}
        for i, p in enumerate(self.params):
            entry = self.optimiser.state.get(p, {})
            entries[str(i)] = {k: _array(v) for k, v in entry.items()}
        slow = [w.slow for w in (self.lookahead, self.average) if w is not None and w.slow]
        return {
            "step": self.step,
            "weights": as_arrays(self.task.module.state_dict()),
            "optimiser": entries,
            "slow": [[_array(t) for t in tensors] for tensors in slow],
            "best": None if self.best is None else as_arrays(self.best),
            "best_step": self.best_step,
            "best_score": self.best_loss,  # the key of states since the first version
            "curve": [list(point) for point in self.curve],
            "stopped": self.stopped,
        }

    def go_on_from(self, state: dict[str, Any]) -> None:
        """Resumes from what `state` returned, also elsewhere; ValueError for other data."""
        try:
            self._take_over(state)
        except (KeyError, TypeError, AttributeError, RuntimeError) as error:
            text = str(error).partition("\n")[0]
            raise ValueError(f"{type(error).__name__}: {text}") from None

    def _take_over(self, state: dict[str, Any]) -> None:
        self.step = state["step"]
        if 0 < self.recipe.pretrain <= self.step:
            self.optimiser = self.task.optimiser()
        self.task.module.load_state_dict(self._tensors(state["weights"]))
        self._restore_optimiser(state["optimiser"])
        copies: list[Lookahead | Average] = []
        if self.lookahead is not None and self.step >= self.lookahead.k:
            copies.append(self.lookahead)
        if self.average is not None:
            copies.append(self.average)
        for copy, tensors in zip(copies, state["slow"], strict=True):
            copy.slow = [self._tensor(t) for t in tensors]
            if [t.shape for t in copy.slow] != [p.shape for p in self.params]:
                raise ValueError("slow weights have other shapes than the network's")
        self.best = None if state["best"] is None else self._tensors(state["best"])
        if self.best is not None:
            shapes = {n: t.shape for n, t in self.task.module.state_dict().items()}
            if {n: t.shape for n, t in self.best.items()} != shapes:
                raise ValueError("its best weights are not the network's")
        self.best_step, self.best_loss = state["best_step"], state["best_score"]
        self.curve = [(int(s), float(v)) for s, v in state["curve"]]
        self.stopped = state["stopped"]

    def _restore_optimiser(self, entries: dict[str, dict[str, Any]]) -> None:
        """The optimiser's state from the entries of the parameters 0, 1, ...

        torch decides where each number goes: a fused optimiser counts its steps on the device of
        the parameter, another one may not.
        """
        states = {}
        for i, p in enumerate(self.params):
            entry = entries[str(i)]
            if any(np.shape(v) not in ((), p.shape) for v in entry.values()):
                raise ValueError(f"a moment of parameter {i} has another shape than {p.shape}")
            states[id(p)] = {
                k: v if isinstance(v, int) else torch.from_numpy(np.array(v))
                for k, v in entry.items()
            }
        ordered = [p for group in self.optimiser.param_groups for p in group["params"]]
        known = {i: states[id(p)] for i, p in enumerate(ordered) if states[id(p)]}
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": known, "param_groups": groups})

    def _tensors(self, arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
        return {n: self._tensor(a) for n, a in arrays.items()}

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.array(array)).to(self.device)


def _array(value: Any) -> Any:
    return value.detach().cpu().numpy().copy() if isinstance(value, Tensor) else value
