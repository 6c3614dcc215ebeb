"""Deep kernel learning on NPT's lookup task: the exact process, its training, and its row."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch
from calls import bench
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from tabsweep.benchmark.papers.npt import lookup_task
from tabsweep.models.deep.trainer import computing

gpytorch = pytest.importorskip("gpytorch", reason="needs GPyTorch, of the extra dkl")
from tabsweep.benchmark.papers.npt import deep_kernel  # noqa: E402

VARIANTS = {v.name: v for v in lookup_task.VARIANTS}


@pytest.fixture(autouse=True)
def one_thread():
    with computing(1):
        yield


def tables(name: str, part: int, n_tables: int) -> lookup_task.Doubled:
    g = torch.Generator().manual_seed(part)
    source = lookup_task.Fresh(8, 7)
    return lookup_task.doubled(*source.draw(n_tables, part, g), VARIANTS[name], g)


def learned(name: str) -> deep_kernel.DeepKernel:
    return deep_kernel.learn_kernel(
        lookup_task.Fresh(8, 7),
        VARIANTS[name],
        deep_kernel.TINY,
        seed=0,
        device="cpu",
        new_tables=lambda n: tables(name, lookup_task.VAL, n),
    )


@pytest.mark.parametrize("noise", deep_kernel.NOISES)
def test_with_an_identity_network_it_is_the_gaussian_process_of_scikit_learn(noise):
    found = tables("random-features", lookup_task.TEST, 3)
    model = deep_kernel.DeepKernel(torch.nn.Identity(), found.features[0, :8]).eval()
    model.kernel.base_kernel.lengthscale = 2.5
    model.noise.fill_(noise)
    ours = model.predict(found).numpy()
    x, y = found.features.double().numpy(), found.shown.double().numpy()
    for table in range(3):
        process = GaussianProcessRegressor(RBF(2.5, "fixed"), alpha=noise)
        theirs = process.fit(x[table, :8], y[table]).predict(x[table, 8:])
        assert np.allclose(ours[table], theirs, atol=1e-5), noise


def test_the_training_loss_equals_the_bound_of_an_exact_process_on_its_own_points():
    """With the rows as inducing points and the posterior in them, the bound is the evidence."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(12, 2, generator=g, dtype=torch.float64)
    y = x.sum(dim=1).sin()
    model = deep_kernel.DeepKernel(torch.nn.Identity(), x).double()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=12)
    optimizer = torch.optim.LBFGS(
        model.variational_parameters(), max_iter=300, line_search_fn="strong_wolfe"
    )

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = -objective(model(x), y)
        value.backward()
        return value

    model.train()
    optimizer.step(loss)
    prior = model.forward(x)
    evidence = likelihood(prior).log_prob(y) / 12
    assert -float(loss().detach()) == pytest.approx(float(evidence), abs=1e-3)


def test_it_matches_rows_but_cannot_subtract_one():
    error = {}
    for name in ("original", "add-one"):
        new = tables(name, lookup_task.TEST, 20)
        error[name] = lookup_task.rmse(learned(name).predict(new), new.truth)
    assert error["original"] < 0.05 and error["add-one"] == pytest.approx(1.0, abs=0.05)


def test_noisy_features_make_it_choose_a_noise_and_guess():
    new = tables("random-features", lookup_task.TEST, 20)
    model = learned("random-features")
    assert float(model.noise) > deep_kernel.NOISES[0]
    assert lookup_task.rmse(model.predict(new), new.truth) > 0.8


def test_the_same_seed_learns_the_same_kernel():
    new = tables("original", lookup_task.TEST, 5)
    assert torch.equal(learned("original").predict(new), learned("original").predict(new))


def test_its_row_of_table_3_is_filled_and_without_the_extra_names_it(tmp_path, monkeypatch):
    def rows(folder: str) -> tuple[list[dict], str]:
        options = ("--size", "tiny", "--out", tmp_path / folder, "--json")
        found = bench("experiment", "npt-lookup", *options)
        assert found.code == 0, found.err
        facts = (tmp_path / folder / "npt-lookup" / "facts.json").read_text(encoding="utf-8")
        said = json.loads(found.out)["tables"]["npt-lookup"]
        return [row for row in said if row["method"] == "deep kernel learning"], facts

    with_it, facts = rows("with")
    assert [row["as printed"] for row in with_it] == [0.0, 5.94, 6.31, 6.36]
    assert all(row["RMSE"] is not None for row in with_it) and "tabsweep[dkl]" not in facts
    monkeypatch.setitem(sys.modules, "gpytorch", None)
    without, facts = rows("without")
    assert [row["RMSE"] for row in without] == [None] * 4 and facts.count("tabsweep[dkl]") == 1
