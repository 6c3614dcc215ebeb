"""Laws of the training of every registered network: what a step draws, and where a state goes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from laws import hold
from small_tables import NAMES, is_network, small_task
from tabsweep.models.deep.layers import attention
from tabsweep.models.deep.layers.attention import attend
from tabsweep.models.deep.trainer import Training
from tabsweep.models.registry import MODELS, small_fits

NETWORKS = [(name, MODELS[name].tasks[-1]) for name in NAMES if is_network(name)]


def test_a_step_depends_on_the_seed_and_its_number_and_leaves_torchs_draws_alone():
    def law(name, task):
        made = small_task(name, task, **small_fits(name)["random"])
        made.optimiser()  # as a training asks for it first
        before = torch.get_rng_state()
        first = float(made.loss(0).detach())
        assert float(made.loss(0).detach()) == first
        assert torch.equal(before, torch.get_rng_state())
        assert float(made.loss(1).detach()) != first

    hold(law, NETWORKS)


def test_every_number_of_a_restored_state_is_where_its_parameter_is():
    """A stub device stands for the GPU: it computes nothing, but tensors have a place."""

    def training(name, task, device):
        made = small_task(name, task)
        made.module.to(device)
        return Training(made, made.settings._recipe(), seed=0, device=device)

    def law(name, task):
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

    hold(law, NETWORKS)


@pytest.mark.parametrize("width", [3, 8, 264])
def test_the_fused_kernel_answers_heads_of_any_width_alike(width):
    q, k, v = torch.randn(3, 2, 2, 7, width, dtype=torch.float64).unbind()
    wanted = attend(q, k, v, scale=0.3)
    found = attention._fused(q, k, v, p=0.0, scale=0.3)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
