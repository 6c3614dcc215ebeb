"""Laws of the measures of oversmoothing, and CheAtt's experiments at toy sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import special
from tabsweep.benchmark.papers.cheatt import (
    convergence,
    diagnostics,
    training_time,
)
from tabsweep.benchmark.papers.cheatt import (
    smoothing as cheatt_smoothing,
)
from tabsweep.benchmark.papers.experiment_result import Setting
from tabsweep.datasets.errors import DatasetUnavailable
from tabsweep.models.deep.layers.polynomial_attention import Polynomial


@pytest.fixture
def setting(tmp_path, mirror):
    return Setting("reduced", 0, "cpu", 1, tmp_path, lambda text: None, mirror)


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


def test_the_cosine_is_the_mean_over_pairs():
    x = np.random.default_rng(1).normal(size=(5, 4))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    pairs = [unit[i] @ unit[j] for i in range(5) for j in range(i)]
    assert diagnostics.token_cosine(x) == pytest.approx(np.mean(pairs))


def test_the_filter_curve_is_what_a_polynomial_makes_of_eigenvalues():
    made = Polynomial("chebyshev", 5, 3).double()
    torch.nn.init.normal_(made.alpha)
    symmetric = stochastic(5, sharpness=0.3)[0]
    symmetric = (symmetric + symmetric.transpose(0, 2, 1)) / 2
    values = np.linalg.eigvalsh(symmetric)  # (H, T)
    h = made.matrix(torch.from_numpy(symmetric)[None])[0].detach().numpy()
    for head in range(3):
        found = np.sort(diagnostics.filter_curve(made, values[head])[head])
        np.testing.assert_allclose(np.linalg.eigvalsh(h[head]), found, atol=1e-12)


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


SMALL = replace(
    cheatt_smoothing.EXTENTS["reduced"],
    config={
        **cheatt_smoothing.PHISHING, "n_layers": 2, "width": 8, "n_heads": 2, "d_head": 4,
        "epochs": 2, "pretrain_epochs": 1, "batch_size": 1024, "patience": 0,
    },
    rows=20,
)  # fmt: skip


def test_the_smoothing_study_looks_at_every_layer_of_every_attention_twice_the_same(setting):
    outcome = cheatt_smoothing.run(setting, SMALL)
    (table,) = outcome.tables
    assert [row[:2] for row in table.rows] == [
        [name, layer] for name in cheatt_smoothing.METHODS for layer in range(3)
    ]
    for row in table.rows:
        assert -1 <= row[2] <= 1 and 0 <= row[3] <= 1 and 1 <= row[4] <= 8
        assert (row[5] is None) == (row[1] == 0)
    base = [row for row in table.rows if row[0] == "base" and row[1]]
    assert [row[5] for row in base] == pytest.approx([1.0, 1.0])  # rows of A sum to one
    images = [path.read_bytes() for path in outcome.figures]
    again = cheatt_smoothing.run(setting, SMALL)
    assert again.tables[0].rows == table.rows
    assert [path.read_bytes() for path in again.figures] == images
    assert [len(image) > 1000 for image in images] == [True, True]


def test_what_is_looked_at_is_what_the_network_computes(setting):
    from tabsweep.datasets.catalog import card, load_dataset
    from tabsweep.datasets.protocols import make_folds

    data = load_dataset("telco-churn", mirror=setting.mirror)
    fold = make_folds(data, card("telco-churn").protocol, seed=0)[0]
    config = {**SMALL.config, "attention": "chebyshev", "order": 3}
    model = cheatt_smoothing.fit(data, fold, setting, config, 0)
    x, _ = model._numbers(data.rows(fold.test[:20]))
    batch = model._rows(x)
    seen = cheatt_smoothing.looked_at(model, data, fold, 20)
    with model._ready() as module:
        tokens = module.encode(module.tokens(batch.numbers, batch.codes))
        block = module.blocks[0]
        mixed = torch.from_numpy(seen.layers[0].operator @ seen.layers[0].values)
        answer = block.attention.out(mixed.transpose(1, 2).flatten(2).float())
        wanted = block.attention(block.norm_in(module.tokens(batch.numbers, batch.codes)))
    np.testing.assert_allclose(seen.states[-1], tokens.numpy(), atol=1e-4)
    np.testing.assert_allclose(answer.numpy(), wanted.numpy(), atol=1e-4)
    np.testing.assert_allclose(seen.layers[0].weights.sum(axis=-1), 1.0)


def test_the_convergence_study_has_a_row_a_layer_and_powers_come_to_rest(setting):
    outcome = convergence.run(setting, SMALL)
    (table,) = outcome.tables
    assert [row[0] for row in table.rows] == [1, 2]
    for _, mean, largest, *steps, worst, chebyshev in table.rows:
        assert 0 < mean <= largest < 1 and worst >= steps[4] and chebyshev > steps[4]
        assert steps == sorted(steps, reverse=True) and steps[-1] < 0.1 * steps[0]
    assert outcome.figures[0].stat().st_size > 1000


def test_the_cost_study_takes_the_papers_networks_and_stands_beside_its_seconds(setting):
    asked = []

    def one(host, dataset, extent, setting):
        asked.append((host, dataset))
        seconds = {"base": 2.0, "auto": 2.5, "recurrence": 3.0, "explicit": 2.5}
        parts = {"training": seconds, "inference": {way: 2 * s for way, s in seconds.items()}}
        return training_time.Timed(training_time.our_name(dataset), 1000, parts)

    result = training_time.run(setting, training_time.EXTENTS["reduced"], one)
    tables = {table.name: table for table in result.tables}
    assert asked == [(h, d) for h in training_time.HOSTS for d in training_time.EVERY]

    means = {tuple(row[:2]): row[3:] for row in tables["cheatt-time-means"].rows}
    assert means["met", "training"][:3] == pytest.approx([1.25, 1.25, 1.25])
    assert means["tabtransformer", "training"][3] == pytest.approx(1.2032, abs=2e-3)
    assert means["saint", "training"][4] == pytest.approx(5.27 / 4.34)

    ways = tables["cheatt-time"].rows
    row = next(r for r in ways if r[:3] == ["met", "default", "training"])
    assert row[3:] == pytest.approx([2000.0, 1.25, 1.5, 1.25, 5.61 / 4.33])

    epochs = {tuple(row[:2]): row[2:] for row in tables["cheatt-table-10"].rows}
    assert epochs["met", "default"] == pytest.approx(  # 21 steps of 1,000 rows
        [42.0, 52.5, 1.25, 4.33, 5.61, 5.61 / 4.33]
    )
    assert epochs["saint", "superconductivity"][:2] == pytest.approx([30.0, 37.5])  # of 14,884
    answers = {tuple(row[:2]): row[2:] for row in tables["cheatt-table-11"].rows}
    assert answers["met", "default"] == [4000.0, 5000.0, 1.25, 2.95, None, None]
    total = {tuple(row[:2]): row[2:] for row in tables["cheatt-table-5"].rows}
    train = training_time.training_rows()
    steps = [-(-rows // 1000) for rows in train.values()]
    assert sum(train.values()) == 111_426 and 2 * np.mean(steps) == pytest.approx(
        total["met", "training, s"][0]
    )
    assert total["met", "training, s"][2:] == pytest.approx([25.0, 2.68, 3.34, 23.56])
    for name in ("cheatt-table-5", "cheatt-table-10", "cheatt-table-11"):
        columns = tables[name].columns[2:]
        assert all(column.startswith(("our", "published")) for column in columns)
        assert result.facts["machine"] in tables[name].note and "A5000" in tables[name].note
        assert "alphabank is bank-additional" in tables[name].note

    config = training_time.config("met", "clave", training_time.EXTENTS["full"])
    assert config["embedding"] == 128 and config["order"] == 5
    narrow = training_time.config("saint", "phishing", training_time.EXTENTS["reduced"])
    assert narrow["width"] == 12


def test_a_dataset_that_cannot_be_had_is_left_out_of_the_cost_study_and_named_once(setting):
    def one(host, dataset, extent, setting):
        if dataset == "income":
            raise DatasetUnavailable("adult-complete", "no network")
        seconds = dict.fromkeys(training_time.WAYS, 1.0)
        return training_time.Timed(dataset, 128, {"training": seconds, "inference": seconds})

    result = training_time.run(setting, None, one)
    tables = {table.name: table for table in result.tables}
    assert {row[1] for row in tables["cheatt-table-10"].rows} == {*training_time.EVERY} - {"income"}
    assert "Means over 9 of" in tables["cheatt-table-5"].note
    assert result.remarks == ["Left out: dataset 'adult-complete' is not available: no network"]


def test_a_step_and_a_representation_of_every_way_are_timed(setting):
    extent = training_time.Extent(("contraceptive",), 16, 1, 1, True, ("saint",))
    tables = {table.name: table for table in training_time.run(setting, extent).tables}
    each = tables["cheatt-time"]
    assert [row[2] for row in each.rows] == ["training", "pre-training", "inference"]
    assert all(value > 0 for row in each.rows for value in row[3:7])
    ((_, _, epoch, *_),) = tables["cheatt-table-10"].rows
    assert epoch == pytest.approx(1e-3 * each.rows[0][3] * 65)  # 1,031 rows in steps of 16


def test_a_fifth_of_superconductivity_stands_in_where_the_whole_cannot_be_had(setting):
    said = []
    found = training_time.table_of("superconductivity", replace(setting, say=said.append))
    assert found.n_rows == 4252 and "superconductivity-4k stands in" in said[0]
    assert training_time.table_of("alphabank", setting).name == "bank-additional"
