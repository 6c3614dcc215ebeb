"""The training loop: stops, reports, best weights, and resuming to the same bytes.

A task of a few numbers: a linear layer that learns from batches drawn by (seed, step). Then the
laws that hold for every registered network.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from looped import each
from small_tables import NAMES, is_network, small_task
from tabsweep.models.deep.layers import attention
from tabsweep.models.deep.layers.attention import attend
from tabsweep.models.deep.optimisers import Lamb
from tabsweep.models.deep.schedules import rate
from tabsweep.models.deep.trainer import (
    Recipe,
    Training,
    autocast,
    computing,
    seed_of,
    seeded,
    torch_device,
)
from tabsweep.models.persistence import fit_state
from tabsweep.models.registry import MODELS, small_fits
from torch import nn

STEPS = 20


class Line:
    """y = x w, learnt by LAMB from batches of 8; `scores` replaces the validation loss."""

    def __init__(self, seed=0, scores=None, nan_at=None, val=True):
        g = torch.Generator().manual_seed(1)
        self.x = torch.randn((64, 5), generator=g)
        self.y = self.x @ torch.arange(1.0, 6.0)
        with seeded(seed):
            self._module = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1))
        self.seed, self.scores, self.nan_at, self.val = seed, scores, nan_at, val
        self.asked = 0

    @property
    def module(self):
        return self._module

    def optimiser(self):
        return Lamb(self._module.parameters())

    def loss(self, step):
        assert self._module.training
        rows = torch.randint(
            64, (8,), generator=torch.Generator().manual_seed(seed_of(self.seed, step))
        )
        loss = (self._module(self.x[rows])[:, 0] - self.y[rows]).square().mean()
        return loss * math.nan if step == self.nan_at else loss

    def val_loss(self):
        assert not self._module.training and not torch.is_grad_enabled()
        self.asked += 1
        if not self.val:
            return None
        if self.scores is not None:
            return self.scores[self.asked - 1]
        return float((self._module(self.x)[:, 0] - self.y).square().mean())


def schedule(s):
    return rate("cosine", s, STEPS, 0.05)


RECIPES = {
    "plain": {},
    "lookahead": {"lookahead": (0.5, 6)},
    "average": {"average": 0.2},
    "both": {"lookahead": (0.5, 4), "average": 0.2, "clip_value": 0.5, "clip_norm": 1.0},
    "no validation": {"lookahead": (0.5, 6), "val": False},
    "bf16": {"precision": "bf16", "lookahead": (0.5, 6)},
    "patience": {"patience": 2, "scores": [5.0, 3.0, 4.0, 4.0, 2.0, 1.0, 0.5, 0.4, 0.3, 0.2]},
}


def training(name="plain", task=None, **more) -> Training:
    given = {**RECIPES[name], **more}
    own = {k: given.pop(k) for k in ("val", "scores", "nan_at") if k in given}
    given = {"steps": STEPS, "rate": schedule, "eval_every": 2, "precision": "fp32", **given}
    return Training(task or Line(**own), Recipe(**given), seed=0)


def carried(state):
    """A state through the bytes of an archive, as a resumed fit gets it."""
    facts = {"model": "Line"}
    members = fit_state.unseal(fit_state.seal(fit_state.dump(state), facts), facts)
    return fit_state.load(members, threads=1)


def bytes_of(run: Training) -> bytes:
    return b"".join(a.tobytes() for a in run.outcome().values())


# -- going on elsewhere ---------------------------------------------------------------------------


@each("name", RECIPES)
def test_a_run_that_goes_on_from_any_step_equals_the_uninterrupted_one(name):
    whole = training(name)
    whole.run(STEPS)
    for at in (1, 4, 5, 6, 7, 11, 12, 13, STEPS):
        first = training(name)
        first.run(at)
        state = carried(first.state())
        second = training(name)
        second.task.asked = first.task.asked
        second.go_on_from(state)
        second.run(STEPS)
        assert bytes_of(second) == bytes_of(whole), at
        assert second.curve == whole.curve and second.step == whole.step
        assert (second.best_step, second.best_loss) == (whole.best_step, whole.best_loss)
        assert second.stopped == whole.stopped
        last = [second.state(), whole.state()]
        assert [fit_state.dump(s) for s in last][0] == fit_state.dump(last[1])


def test_a_state_is_a_copy():
    run = training("both")
    run.run(6)
    state = run.state()
    before = fit_state.dump(state)
    run.run(9)
    assert fit_state.dump(state) == before


# -- stopping -------------------------------------------------------------------------------------


def test_patience_ends_a_run_and_the_best_weights_are_kept():
    run = training("patience")
    run.run(STEPS)
    assert run.step == 8 and run.stopped and (run.best_step, run.best_loss) == (4, 3.0)
    best = training("patience")
    best.run(4)
    assert bytes_of(run) == b"".join(
        t.numpy().tobytes() for t in best.task.module.state_dict().values()
    )
    endless = training("patience", patience=0)
    endless.run(STEPS)
    assert endless.step == STEPS and endless.best_step == STEPS


def test_the_curve_has_every_evaluation_and_the_last_step():
    run = training()
    run.run(STEPS)
    assert [step for step, _ in run.curve] == list(range(2, STEPS + 1, 2))
    odd = training(eval_every=7)
    odd.run(STEPS)
    assert [step for step, _ in odd.curve] == [7, 14, 20]  # the last step is always scored


@each("val", [True, False])
def test_a_loss_that_is_no_number_ends_the_run(val):
    run = training(nan_at=4, val=val)
    run.run(STEPS)
    assert run.step == 6 and run.stopped
    last = run.outcome()
    assert run.best_step == (4 if val else 6)  # the weights of a real score, where there is one
    assert all(np.isfinite(a).all() for a in last.values()) == val
    at_once = training(nan_at=0)
    at_once.run(STEPS)
    assert at_once.step == 2 and all(np.isnan(a).all() for a in at_once.outcome().values())


def test_scores_are_taken_and_kept_with_the_averaged_weights():
    run = training("average", average=1e-9)  # so small a share leaves the start weights
    start = [p.detach().clone() for p in run.params]
    run.run(4)
    for kept, p, fast in zip(run.outcome().values(), start, run.params, strict=True):
        np.testing.assert_allclose(kept, p, atol=1e-6)
        assert float((fast - p).detach().abs().max()) > 1e-3
    assert run.curve[0][1] == pytest.approx(run.curve[1][1], rel=1e-4)


def test_the_rate_of_each_step_is_the_schedules():
    seen = []

    class Watching(Line):
        def optimiser(self):
            made = super().optimiser()
            made.param_groups[0]["scale"] = 0.5
            made.register_step_pre_hook(lambda o, *_: seen.append(o.param_groups[0]["lr"]))
            return made

    training(task=Watching()).run(STEPS)
    assert seen == [0.5 * schedule(s) for s in range(STEPS)]


# -- what is refused ------------------------------------------------------------------------------


def forged(change):
    run = training("both")
    run.run(6)
    state = carried(run.state())
    change(state)
    return state


@each(
    "change",
    [
        lambda s: s.pop("weights"),
        lambda s: s["weights"].pop("0.bias"),
        lambda s: s["weights"].update({"0.bias": np.zeros(9, dtype=np.float32)}),
        lambda s: s["weights"].update({"0.bias": "text"}),
        lambda s: s["optimiser"].pop("0"),
        lambda s: s["optimiser"]["0"].update(exp_avg=np.zeros(3, dtype=np.float32)),
        lambda s: s["slow"].pop(),
        lambda s: s["slow"][0].pop(),
        lambda s: s["slow"][0].__setitem__(0, np.zeros(2, dtype=np.float32)),
        lambda s: s.update(best={"0.bias": 3}),
        lambda s: s.update(curve=[["a", "b"]]),
        lambda s: s.update(step="six"),
        lambda s: s.update(optimiser=None),
    ],
)
def test_a_state_that_does_not_fit_the_network_is_a_value_error(change):
    with pytest.raises(ValueError):
        training("both").go_on_from(forged(change))


def test_a_gpu_that_is_not_there_is_named():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(RuntimeError, match="'cuda'.*device='cpu'"):
        torch_device("cuda")


# -- surroundings ---------------------------------------------------------------------------------


def test_threads_generators_and_formats_are_put_back():
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    with computing(threads + 1), seeded(3):
        assert torch.get_num_threads() == threads + 1
        first = torch.rand(2)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), state)
    with seeded(3):
        assert torch.equal(torch.rand(2), first)
    x = torch.ones(2, 2)
    cpu = torch.device("cpu")
    kinds = {}
    for precision in ("auto", "fp32", "bf16"):
        with autocast(precision, cpu):
            kinds[precision] = (x @ x).dtype
    assert kinds == {"auto": torch.float32, "fp32": torch.float32, "bf16": torch.bfloat16}


def test_seeds_of_other_parts_are_others():
    seeds = {seed_of(a, b, c) for a in range(10) for b in range(10) for c in (1, 2)}
    assert len(seeds) == 200 and seed_of(3, 4) == seed_of(3, 4)


# ---------------------------------------------------------------------- every registered network


NETWORKS = [(name, MODELS[name].tasks[-1]) for name in NAMES if is_network(name)]


@each(("name", "task"), NETWORKS)
def test_a_step_depends_on_the_seed_and_its_number_and_leaves_torchs_draws_alone(name, task):
    made = small_task(name, task, **small_fits(name)["random"])
    made.optimiser()  # as a training asks for it first
    before = torch.get_rng_state()
    first = float(made.loss(0).detach())
    assert float(made.loss(0).detach()) == first
    assert torch.equal(before, torch.get_rng_state())
    assert float(made.loss(1).detach()) != first


@each(("name", "task"), NETWORKS)
def test_every_number_of_a_restored_state_is_where_its_parameter_is(name, task):
    """A stub device stands for the GPU: it computes nothing, but tensors have a place."""

    def training(name, task, device):
        made = small_task(name, task)
        made.module.to(device)
        return Training(made, made.settings._recipe(), seed=0, device=device)

    run = training(name, task, "cpu")
    run.run(run.recipe.pretrain + 1)
    stub = training(name, task, "meta")
    stub.go_on_from(run.state())
    restored = dict(stub.optimiser.state)
    assert len(restored) == len(run.optimiser.state) > 0
    for p, entry in restored.items():
        for key, value in entry.items():
            if isinstance(value, torch.Tensor):
                wanted = torch.float32 if key == "step" else p.dtype
                assert (value.device, value.dtype) == (p.device, wanted), key
    for copy in filter(None, (stub.lookahead, stub.average)):
        assert all(t.device == stub.device for t in copy.slow or [])
    assert all(t.device == stub.device for t in (stub.best or {}).values())


@pytest.mark.parametrize("width", [3, 8, 264])
def test_the_fused_kernel_answers_heads_of_any_width_alike(width):
    q, k, v = torch.randn(3, 2, 2, 7, width, dtype=torch.float64).unbind()
    wanted = attend(q, k, v, scale=0.3)
    found = attention._fused(q, k, v, p=0.0, scale=0.3)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
