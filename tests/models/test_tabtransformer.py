"""TabTransformer: laws of its network and of its masked pre-training."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from looped import each
from small_tables import TINY
from tabsweep.models.deep.layers.polynomial_attention import alphas
from tabsweep.models.deep.row_network import Batch
from tabsweep.models.hyperparameters import InvalidConfig
from tabsweep.models.registry import make_model, spaces
from tabsweep.models.tabtransformer import Hidden, TabTransformer, TabTransformerCheAtt
from token_cases import network
from torch.nn import functional as F

BOTH = [TabTransformer, TabTransformerCheAtt]
# -- laws of the network --------------------------------------------------------------------------


def small(cls=TabTransformer, n_numeric=3, sizes=(4, 2), n_out=1, **config):
    """A network for a table of such columns, with larger weights than at its start."""
    given = {"width": 16, "n_heads": 3, "d_head": 5, "n_layers": 2, "task": "multiclass"} | config
    torch.manual_seed(0)
    module = network(cls(**given), n_numeric, list(sizes), n_out)
    for p in module.parameters():
        torch.nn.init.normal_(p, std=0.4)
    return module


def some(n=7, n_numeric=3, sizes=(4, 2)):
    generator = torch.Generator().manual_seed(1)
    numbers = torch.randn(n, n_numeric, dtype=torch.float64, generator=generator)
    codes = [torch.randint(0, k, (n,), generator=generator) for k in sizes]
    return numbers, torch.stack(codes, dim=1) if codes else torch.zeros(n, 0, dtype=torch.int64)


def test_a_number_is_linear_in_its_token_and_a_column_tells_its_name():
    module = small(identity_width=4)
    numbers, codes = some()
    zero, one, two = (module.tokens(torch.full_like(numbers, v), codes)[:, :3] for v in (0, 1, 2))
    torch.testing.assert_close(two - one, one - zero)
    assert torch.equal(one[:, :, 12:], module.tokens.columns[:3].expand(7, -1, -1))
    assert not torch.equal(one[:, 0], one[:, 1])


def test_numbers_outside_of_attention_reach_the_answer_alone_and_are_tokens_without_categories():
    numbers, codes = some()
    module = small(numeric_tokens=False)
    assert module.tokens.n == 2 and module.norm is not None
    moved = numbers + torch.tensor([1.0, 0.0, 0.0])
    assert torch.equal(module.tokens(moved, codes), module.tokens(numbers, codes))
    assert (module(moved, codes) != module(numbers, codes)).all()
    assert small(numeric_tokens=False, sizes=()).tokens.n == 3


def test_matrices_decay_and_tokens_norms_biases_and_polynomials_do_not():
    module = small(TabTransformerCheAtt, identity_width=2)
    free = {id(p) for p in module.undecayed()}
    assert {id(p) for p in alphas(module)} <= free
    kept = [name for name, p in module.named_parameters() if id(p) not in free]
    assert all(name.endswith("weight") and "norm" not in name for name in kept)
    assert len(kept) == 4 * 2 + 2 and not any("tokens" in name for name in kept)


def test_column_names_as_wide_as_a_token_are_refused():
    with pytest.raises(InvalidConfig, match="identity_width.*8"):
        TabTransformer(task="binary", width=8, identity_width=8).check()


# -- pre-training ---------------------------------------------------------------------------------


def hidden_cells(n_numeric=3, sizes=(4, 2), share=0.5):
    """Heads of pre-training, tokens after the blocks, rows, and which cells are hidden."""
    torch.manual_seed(3)
    heads = Hidden(n_numeric, sizes, 16).double()
    torch.nn.init.normal_(heads.level_bias), torch.nn.init.normal_(heads.value_bias)
    x = torch.randn(7, n_numeric + len(sizes), 16, dtype=torch.float64)
    return heads, x, Batch(*some(7, n_numeric, sizes)), torch.rand(x.shape[:2]) < share


def test_the_losses_are_those_of_one_head_a_column_on_the_hidden_cells():
    heads, x, batch, at = hidden_cells()
    log_losses, errors = [], []
    for b, j in at.nonzero().tolist():
        if j < 3:
            told = heads.value_weight[j] @ x[b, j] + heads.value_bias[j]
            errors.append((told - batch.numbers[b, j]) ** 2)
        else:
            k = (4, 2)[j - 3] + 1  # one to spare
            weight, bias = heads.level_weight[j - 3, :, :k], heads.level_bias[j - 3, 0, :k]
            logits = x[b, j] @ weight + bias
            log_losses.append(F.cross_entropy(logits.float(), batch.codes[b, j - 3]))
    log_loss, squared = heads.losses(x, batch, at)
    torch.testing.assert_close(log_loss, sum(log_losses) / len(log_losses))
    torch.testing.assert_close(squared.double(), sum(errors) / len(errors), rtol=1e-6, atol=1e-6)


def test_a_hidden_cell_shows_only_its_columns_vector():
    module, (heads, _, batch, at) = small(), hidden_cells()
    shown = heads.hide(module.tokens(*batch), at)
    other = Batch(
        torch.where(at[:, :3], -5.0, batch.numbers), torch.where(at[:, 3:], 1, batch.codes)
    )
    assert torch.equal(shown, heads.hide(module.tokens(*other), at))
    assert torch.equal(shown[at], heads.cells.expand(7, -1, -1)[at])
    assert not torch.equal(module.tokens(*other), module.tokens(*batch))


@each(("n_numeric", "sizes"), [(3, ()), (0, (4, 2)), (1, ()), (0, (3,))])
def test_tables_of_one_kind_and_of_one_column_have_losses(n_numeric, sizes):
    heads, x, batch, at = hidden_cells(n_numeric, sizes)
    x.requires_grad_()
    log_loss, squared = (v.item() for v in heads.losses(x, batch, at))
    assert (log_loss > 0) == bool(sizes) and (squared > 0) == bool(n_numeric)
    none = heads.losses(x, batch, torch.zeros_like(at))
    assert [v.item() for v in none] == [0.0, 0.0]
    sum(none).backward()
    assert torch.isfinite(x.grad).all()


def linked(n=300):
    """Columns that tell each other: b is -a, q is p by another name, s is the sign of a."""
    rng = np.random.default_rng(0)
    a, p = rng.normal(size=n), rng.integers(0, 3, n)
    frame = pd.DataFrame({"a": a, "b": -a, "p": np.array(list("xyz"))[p]})
    frame["q"], frame["s"] = np.array(list("uvw"))[p], np.where(a > 0, "+", "-")
    return frame, rng.normal(size=n)


def pretraining(name="tabtransformer", rows=linked, **config):
    given = {**TINY[name], "epochs": 60, "pretrain_epochs": 59, "pretrain_lr": 0.01, **config}
    model = make_model(name, task="regression", **given)
    return model, model._training(model._prepare(*rows()), None)


def test_the_share_of_hidden_cells_is_the_mask_rate_and_its_draws_are_the_steps(monkeypatch):
    seen = []
    hide = Hidden.hide
    monkeypatch.setattr(Hidden, "hide", lambda self, x, at: (seen.append(at), hide(self, x, at))[1])
    _, training = pretraining(mask_rate=0.2, n_layers=1)
    for step in (0, 1, 0):
        training.task.loss(step)
    assert torch.equal(seen[0], seen[2]) and not torch.equal(seen[0], seen[1])
    training.run(20)
    share = torch.cat([at.flatten() for at in seen]).double().mean()
    assert abs(float(share) - 0.2) < 0.02


@each("weight", [0.0, 0.3, 1.0])
def test_the_loss_weighs_categories_by_ce_weight_and_numbers_by_the_rest(weight):
    parts = {}
    for given in (0.0, 1.0, weight):
        _, training = pretraining(ce_weight=given)
        parts[given] = float(training.task.loss(0).detach())
    assert math.isclose(
        parts[weight], weight * parts[1.0] + (1 - weight) * parts[0.0], rel_tol=1e-5
    )


# -- the registry ---------------------------------------------------------------------------------


def test_the_polynomial_model_is_the_other_with_another_attention():
    base, other = (cls(task="binary").get_params() for cls in BOTH)
    assert base.pop("attention") == "softmax" and other.pop("attention") == "chebyshev"
    assert base == other and base["order"] == 5


def test_the_observed_space_has_the_papers_values():
    for name in ("tabtransformer", "tabtransformer-cheatt"):
        params = spaces(name, "binary")["observed"]["params"]
        counts = {key: len(p["values"]) for key, p in params.items() if p["kind"] == "choice"}
        assert counts == {
            "n_layers": 3, "width": 3, "n_heads": 2, "hidden": 5, "ce_weight": 3, "lr": 3,
            "weight_decay": 3,
        }  # fmt: skip
