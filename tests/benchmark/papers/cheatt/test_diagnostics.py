"""Laws of the measures of oversmoothing, and CheAtt's experiments at toy sizes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import special
from tabsweep.benchmark.papers.cheatt import convergence, diagnostics, smoothing, training_time
from tabsweep.benchmark.papers.experiment_result import Setting
from tabsweep.benchmark.papers.paper_file import read_paper
from tabsweep.models.deep.layers.polynomial_attention import Polynomial


@pytest.fixture
def setting(tmp_path, mirror):
    return Setting("reduced", 0, "cpu", 1, tmp_path, lambda text: None)


def stochastic(t=6, seed=0, sharpness=1.0):
    """(2, 3, T, T) matrices whose rows sum to one."""
    logits = np.random.default_rng(seed).normal(size=(2, 3, t, t))
    return special.softmax(sharpness * logits, axis=-1)


# -- the measures ---------------------------------------------------------------------------------


def test_attention_leaves_frequency_0_whole_and_of_a_polynomial_the_sum_of_its_weights():
    a = stochastic()
    np.testing.assert_allclose(diagnostics.dft_response(a)[..., 0], 1.0)
    f = np.fft.fft(np.eye(6), norm="ortho")
    np.testing.assert_allclose((f @ a @ f.conj().T)[..., 1:, 0], 0.0, atol=1e-12)
    made = Polynomial("legendre", 4, 3).double()
    torch.nn.init.normal_(made.alpha)
    h = made.matrix(torch.from_numpy(a)).detach().numpy()
    wanted = np.abs(made.alpha.detach().sum(dim=1).numpy())
    np.testing.assert_allclose(diagnostics.dft_response(h)[..., 0], np.tile(wanted, (2, 1)))


def test_a_cyclic_shift_leaves_every_frequency_whole_and_the_mean_all_but_one_away():
    shift, mean = np.roll(np.eye(8), 1, axis=1), np.full((8, 8), 1 / 8)
    np.testing.assert_allclose(diagnostics.dft_response(shift), 1.0)
    np.testing.assert_allclose(diagnostics.high_pass(shift), 1.0)
    np.testing.assert_allclose(diagnostics.dft_response(mean)[1:], 0.0, atol=1e-12)
    np.testing.assert_allclose(diagnostics.high_pass(mean), 0.0, atol=1e-12)


def test_the_high_pass_gain_knows_no_order_of_the_columns_but_the_frequencies_do():
    a, order = stochastic(), np.array([2, 0, 5, 1, 4, 3])
    moved = a[..., order, :][..., order]
    np.testing.assert_allclose(diagnostics.high_pass(moved), diagnostics.high_pass(a))
    assert np.abs(diagnostics.dft_response(moved) - diagnostics.dft_response(a)).max() > 1e-3


def test_alike_tokens_have_cosine_1_rank_1_and_no_deviation_and_orthogonal_ones_none_of_it():
    alike = np.tile(np.random.default_rng(0).normal(size=(4, 1, 7)), (1, 5, 1))
    scaled = alike * np.arange(1, 6)[:, None]
    for x in (alike, scaled):
        np.testing.assert_allclose(diagnostics.token_cosine(x), 1.0)
        np.testing.assert_allclose(diagnostics.effective_rank(x), 1.0, rtol=1e-6)
    np.testing.assert_allclose(diagnostics.deviation(alike), 0.0, atol=1e-7)
    assert (diagnostics.deviation(scaled) > 0.1).all()
    apart = np.eye(5, 7)
    assert diagnostics.token_cosine(apart) == pytest.approx(0.0)
    assert diagnostics.effective_rank(apart) == pytest.approx(5.0)
    assert diagnostics.deviation(apart) == pytest.approx(np.sqrt(0.8))
    np.testing.assert_allclose(diagnostics.singular_values(apart), 1.0)
    x = np.random.default_rng(1).normal(size=(5, 4))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    pairs = [unit[i] @ unit[j] for i in range(5) for j in range(i)]
    assert diagnostics.token_cosine(x) == pytest.approx(np.mean(pairs))


def test_steps_of_powers_shrink_by_the_second_eigenvalue():
    a = stochastic(8, sharpness=0.3)
    values = np.random.default_rng(2).normal(size=(2, 3, 8, 4))
    steps = diagnostics.steps_of_powers(a, values, 14)
    rate = convergence.second_eigenvalues(a)
    assert (rate > 0.02).all() and (rate < 0.5).all()
    np.testing.assert_allclose((steps[..., 11] / steps[..., 3]) ** (1 / 8), rate, rtol=0.25)
    mean = np.full((8, 8), 1 / 8)  # at rest after one step
    np.testing.assert_allclose(
        diagnostics.steps_of_powers(mean, values, 3)[..., 1:], 0.0, atol=1e-12
    )


# -- the experiments ------------------------------------------------------------------------------


SMALL = {
    **smoothing.PHISHING, "n_layers": 2, "width": 8, "n_heads": 2, "d_head": 4, "epochs": 2,
    "pretrain_epochs": 1, "batch_size": 1024, "patience": 0,
}  # fmt: skip


def test_what_is_looked_at_is_what_the_network_computes(setting):
    data = setting.load(smoothing.DATASET)
    fold = setting.folds(data)[0]
    config = {**SMALL, "attention": "chebyshev", "order": 3}
    model = setting.fit("tabtransformer", data, fold, config)
    x, _ = model._numbers(data.rows(fold.test[:20]))
    batch = model._rows(x)
    seen = smoothing.looked_at(model, data, fold, 20)
    with model._ready() as module:
        tokens = module.encode(module.tokens(batch.numbers, batch.codes))
        block = module.blocks[0]
        mixed = torch.from_numpy(seen.layers[0].operator @ seen.layers[0].values)
        answer = block.attention.out(mixed.transpose(1, 2).flatten(2).float())
        wanted = block.attention(block.norm_in(module.tokens(batch.numbers, batch.codes)))
    np.testing.assert_allclose(seen.states[-1], tokens.numpy(), atol=1e-4)
    np.testing.assert_allclose(answer.numpy(), wanted.numpy(), atol=1e-4)
    np.testing.assert_allclose(seen.layers[0].weights.sum(axis=-1), 1.0)


def test_powers_come_to_rest_and_chebyshevs_polynomials_do_not(setting):
    data = setting.load(smoothing.DATASET)
    fold = setting.folds(data)[0]
    model = setting.fit("tabtransformer", data, fold, SMALL)
    layers = smoothing.looked_at(model, data, fold, 20).layers
    table, _ = convergence.converged(layers, "20 rows", setting.out)
    assert [row["layer"] for row in table.rows] == [1, 2]
    for row in table.rows:
        steps = [row[f"k = {k}"] for k in (1, 2, 3, 5, 7, 10)]
        assert 0 < row["second eigenvalue"] <= row["largest"] < 1
        assert row["k = 7, worst"] >= steps[4] and row["Chebyshev, k = 7"] > steps[4]
        assert steps == sorted(steps, reverse=True) and steps[-1] < 0.1 * steps[0]


def test_seconds_of_steps_become_those_of_epochs_and_stand_beside_the_papers():
    own = read_paper(training_time.FOLDER).file.datasets
    times = pd.DataFrame(
        [
            {
                **{"host": host, "dataset": dataset, "part": "training", "base": 2.0, "more": 2.5},
                **{"data": own.get(dataset, dataset), "steps": -(-rows // 1000)},
            }
            for host in training_time.HOSTS
            for dataset, rows in training_time.training_rows().items()
        ]
    )
    answers = times.assign(part="inference", steps=1, base=4.0, more=5.0)
    every = training_time.tables_of(pd.concat([times, answers]), "a machine", 1000)
    tables = {table.name: table for table in every}

    def row(table, **key):
        return next(r for r in tables[table].rows if key.items() <= r.items())

    epoch = row("cheatt-table-10", host="met", dataset="default")  # 21 steps of 1,000 rows
    assert list(epoch.values())[2:] == pytest.approx([42.0, 52.5, 1.25, 4.33, 5.61, 5.61 / 4.33])
    epoch = row("cheatt-table-10", host="saint", dataset="superconductivity")  # of 14,884 rows
    assert (epoch["ours, s"], epoch["ours +CheAtt, s"]) == pytest.approx((30.0, 37.5))
    asked = row("cheatt-table-11", host="met", dataset="default")
    assert (asked["ours, ms"], asked["published, ms"]) == (4000.0, 2.95)
    assert math.isnan(asked["published +CheAtt, ms"])  # not legible
    total = row("cheatt-table-5", host="met", part="training, s")
    steps = [-(-rows // 1000) for rows in training_time.training_rows().values()]
    assert total["ours"] == pytest.approx(2 * np.mean(steps))
    assert list(total.values())[4:] == pytest.approx([25.0, 2.68, 3.34, 23.56])
    assert "alphabank is bank-additional" in tables["cheatt-table-10"].note


def test_a_step_and_a_representation_are_timed_with_and_without_the_polynomial(setting):
    lines = training_time.measure(setting, "saint", "contraceptive", batch=16, steps=1, repeats=1)
    assert [line["part"] for line in lines] == ["training", "inference"]
    assert all(line[side] > 0 for line in lines for side in ("base", "more"))
    assert [line["steps"] for line in lines] == [65, 1]  # 1,031 rows in steps of 16


def test_a_fifth_of_superconductivity_stands_in_where_the_whole_cannot_be_had(setting):
    said = []
    found = training_time.table_of("superconductivity", replace(setting, say=said.append))
    assert found.n_rows == 4252 and "superconductivity-4k stands in" in said[0]
    assert training_time.table_of("alphabank", setting).name == "bank-additional"
