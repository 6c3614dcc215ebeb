"""The checks of `bench doctor --gpu`: models and trials on this machine's GPU.

They compare models on the GPU with the same models on the CPU, run several trials at once, and
verify that a failing trial harms no other trial. Each check returns a state and a line of text.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from ..models.deep.estimator import DeepEstimator
from ..models.hyperparameters import DROPOUT
from ..models.model_spec import ModelSpec
from ..models.registry import MODELS, load_class, make_model, small_fits
from ..sweeps.engine import Engine
from ..sweeps.search.samplers import make_sampler
from ..sweeps.search.space import Space
from ..sweeps.store.ledger import Ledger
from ..sweeps.study import Needs, Study
from ..sweeps.trial import DONE, Limits, Result, Trial
from ..sweeps.workers.actor_pool import ActorPool
from ..sweeps.workers.ray_cluster import start_ray, stop_ray
from .console import OKAY, PROBLEM, WARNING

BOOSTING = ("xgboost", "catboost", "lightgbm")
TIMED = ("npt", "hopular", "ft-transformer", "tabm")
STEPS = 3  # of a fit that is compared
# How far the weights may be from those of a CPU, as a share of their norm.
FAR = {"fp32": 1e-2, "bf16": 0.2}
SAME = 1e-4  # a resumed fit from the whole one: a GPU may add up in another order
# A weight is not compared where one rounding of the inputs moves it further than this: Adam and
# LAMB move a weight without influence on the loss by the sign of its gradient's rounding error.
UNDECIDED, DISTURBED_FITS = 1e-3, 3
N_SHARING = 4  # trials that should fit into the GPU at once
SECONDS = 2.0  # of each of them


def checks() -> Iterator[tuple[str, Callable[[], tuple[str, str]]]]:
    """Pairs (name, check); without a GPU only the check that describes the machine."""
    yield "gpu", identity
    if not torch.cuda.is_available():
        return
    for name in BOOSTING:
        yield name, partial(boosting, MODELS[name])
    for name in networks():
        yield name, partial(network, name)
    yield "sharing", sharing
    for name in TIMED:
        yield f"step of {name}", partial(step_times, name)


def identity() -> tuple[str, str]:
    """The GPU's name and the build of torch."""
    if not torch.cuda.is_available():
        return PROBLEM, (
            f"torch {torch.__version__} sees none: install a build of torch for CUDA on a machine "
            "with a GPU and its driver"
        )
    found = torch.cuda.get_device_properties(0)
    words = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.run(words, capture_output=True, text=True, timeout=20).stdout.split()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        driver = "unknown"
    return OKAY, (
        f"{torch.cuda.device_count()} x {found.name}, {found.total_memory / 2**30:.1f} GB, "
        f"compute capability {found.major}.{found.minor}, driver {driver}, "
        f"torch {torch.__version__}, bf16 {'yes' if torch.cuda.is_bf16_supported() else 'no'}"
    )


# ---------------------------------------------------------------------- fits


def table(task: str, n_rows: int, n_numbers: int = 6) -> tuple[pd.DataFrame, np.ndarray]:
    """A table of numeric columns and one categorical column, and a target that depends on them."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(n_rows, n_numbers))
    frame = pd.DataFrame(numbers, columns=[f"x{i}" for i in range(n_numbers)])
    frame["colour"] = pd.Categorical(rng.choice(["red", "green", "blue"], n_rows))
    signal = numbers[:, 0] + numbers[:, 1] * (frame["colour"] == "red")
    if task == "regression":
        return frame, signal.to_numpy()
    return frame, np.digitize(signal, [0.0] if task == "binary" else [-0.5, 0.5])


def boosting(spec: ModelSpec) -> tuple[str, str]:
    """Whether a library of boosted trees uses the GPU."""
    device, why = spec.on_gpu()
    if device == "cpu":
        return WARNING, f"stays on the CPU: {why}"
    began = time.perf_counter()
    make_model(spec.name, task=spec.tasks[0], device=device).fit(*table(spec.tasks[0], 1000))
    return OKAY, f"fits 1,000 rows on device {device!r} in {time.perf_counter() - began:.1f} s"


def networks() -> list[str]:
    """The networks of the registry."""
    deep = (name for name, spec in MODELS.items() if spec.gpu_mb and spec.resource)
    return [name for name in deep if issubclass(load_class(MODELS[name].target), DeepEstimator)]


def fitted(
    name: str, *, device: str, precision: str, disturbed: int = 0, **more: Any
) -> DeepEstimator:
    """A small fit of a few steps. No dropout: a GPU draws other random numbers.

    disturbed: the seed of a disturbance by one float32 rounding of each number, 0 for none. more:
    arguments of `fit_to`.
    """
    task, rules = MODELS[name].tasks[0], load_class(MODELS[name].target).rules
    dropouts = {place: 0.0 for place, rule in rules.items() if rule is DROPOUT}
    config = {**small_fits(name).get("config", {}), **dropouts}
    model = make_model(name, task=task, device=device, precision=precision, **config)
    frame, y = table(task, 60)
    if disturbed:
        numbers = frame.select_dtypes("number")
        signs = np.random.default_rng(disturbed).choice([-1, 1], numbers.shape)
        frame[numbers.columns] = numbers * (1 + signs * np.finfo(np.float32).eps)
    return model.fit_to(frame, y, stop=STEPS, every=1, **more)


def weights_of(model: DeepEstimator) -> np.ndarray:
    """All weights as one vector."""
    return np.concatenate([np.ravel(w).astype(float) for w in model.model_["weights"].values()])


def on_cpu(name: str) -> tuple[np.ndarray, np.ndarray]:
    """(weights after a fit on the CPU, mask of weights that rounding hardly moves)."""
    weights, *others = (
        weights_of(fitted(name, device="cpu", precision="fp32", disturbed=seed))
        for seed in range(1 + DISTURBED_FITS)
    )
    return weights, np.max([abs(other - weights) for other in others], axis=0) <= UNDECIDED


def network(name: str, device: str = "cuda") -> tuple[str, str]:
    """Compare steps on the GPU with the CPU: float32, bf16, resumed after two steps."""
    states: dict[int, bytes] = {}
    wanted, decided = on_cpu(name)
    whole = weights_of(fitted(name, device=device, precision="fp32", save=states.__setitem__))
    start = (STEPS - 1, states[STEPS - 1])
    resumed = weights_of(fitted(name, device=device, precision="fp32", start=start))
    half = weights_of(fitted(name, device=device, precision="bf16"))
    found = {
        "fp32": apart(whole[decided], wanted[decided]),
        "bf16": apart(half[decided], wanted[decided]),
        "resumed": apart(resumed, whole),
    }
    far = {"resumed": SAME, **FAR}
    wrong = [kind for kind, value in found.items() if not value <= far[kind]]  # NaN is wrong
    text = ", ".join(f"{kind} {value:.1e}" for kind, value in found.items())
    text = f"weights after {STEPS} steps differ by {text}"
    if not decided.all():
        text += f"; {1 - decided.mean():.1%} of them left out, which rounding decides"
    return (PROBLEM if wrong else OKAY), text


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """Distance of two weight vectors, as a share of the second one's norm."""
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


def step_times(name: str) -> tuple[str, str]:
    """Seconds of a training step on the CPU, on the GPU, and compiled, without the first steps."""
    task, config = MODELS[name].tasks[0], small_fits(name).get("config", {})
    frame, y = table(task, 1000, 16)
    found = []
    for device, compiled in (("cpu", False), ("cuda", False), ("cuda", True)):
        model = make_model(name, task=task, device=device, compile=compiled, **config)
        every, states = STEPS, dict[int, bytes]()
        model.fit_to(frame, y, stop=every, every=every, save=states.__setitem__)
        start = (every, states[every])
        model.fit_to(frame, y, stop=4 * every, every=every, start=start)
        found.append(f"{device}{' compiled' if compiled else ''} {1000 * model.step_s_:.1f} ms")
    return OKAY, f"1,000 rows of 17 columns: {', '.join(found)}"


# ---------------------------------------------------------------------- trials on one GPU


def trial_on_gpu(trial: Trial, data: Any) -> Result:
    """A trial that holds memory for a while, asks for too much, or breaks its GPU context: its
    dataset's name says which."""
    if trial.dataset == "greedy":
        torch.empty(2 * torch.cuda.get_device_properties(0).total_memory, device="cuda").fill_(1)
    if trial.dataset == "spoils":
        torch.zeros(3, device="cuda")[torch.tensor([7], device="cuda")].sum().item()
    began = time.time()
    torch.ones(2**20 * int(trial.config["mb"]), dtype=torch.uint8, device="cuda").sum().item()
    time.sleep(SECONDS)
    return Result(DONE, val={"loss": 0.0}, info={"began": began, "ended": time.time()})


def study(name: str, needs: Needs) -> Study:
    """A study of one trial."""
    config = {"mb": needs.gpu_mb / 2}

    def make_trial(_: dict[str, Any], seed: int) -> Trial:
        return Trial(name.partition(" ")[0], 0, "gpu-check", config, seed, {"name": name})

    sampler = make_sampler("random", Space({}), seed=0)
    limits = Limits(timeout_s=300.0, memory_mb=16_000.0)
    return Study(
        name, sampler, 1, make_trial, lambda result: 0.0, data_key="", needs=needs, limits=limits
    )


def sharing() -> tuple[str, str]:
    """Run four trials that share one GPU, one that asks for too much memory, one that breaks its
    worker's GPU context, and four more after them."""
    total = torch.cuda.get_device_properties(0).total_memory / 2**20
    needs = Needs(gpu_mb=total / (N_SHARING + 2))
    names = [f"good {i}" for i in range(N_SHARING)] + ["greedy", "spoils"]
    names += [f"good {i}" for i in range(N_SHARING, 2 * N_SHARING)]
    start_ray(slots=N_SHARING)
    try:
        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger(Path(folder), write=True)
            pool = lambda: ActorPool(trial_on_gpu, lambda key: None)  # noqa: E731
            Engine([study(name, needs) for name in names], ledger=ledger, pool=pool).run()
            records = list(ledger.records("result"))
            ledger.close()
    finally:
        stop_ray()
    good = [r for r in records if r["dataset"] == "good" and r["status"] == DONE]
    times = [(r["info"]["began"], r["info"]["ended"]) for r in good]
    at_once = max((sum(b <= t < e for b, e in times) for t, _ in times), default=0)
    others = {r["dataset"]: (r["cause"], r["attempt"]) for r in records if r["dataset"] != "good"}
    right = (
        len(good) == 2 * N_SHARING
        and at_once >= 2
        and others == {"greedy": ("gpu_oom", 2), "spoils": ("gpu_error", 2)}
    )
    text = f"{len(good)} of {2 * N_SHARING} trials done, {at_once} at once; {others}"
    return (OKAY if right else PROBLEM), text
