"""Deletion and attention maps of NPT, at toy sizes."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from tabsweep.benchmark.papers.experiment_result import Setting
from tabsweep.benchmark.papers.npt import attention_maps, fitted_inputs
from tabsweep.benchmark.papers.npt.deletion import MAIN, STRICT, Rule, compare, delete, predictor
from tabsweep.datasets.protocols import make_folds
from tabsweep.datasets.table import Table as Data
from tabsweep.models.deep.cells import Cells, Columns
from tabsweep.models.npt.network import NPTNetwork

TOY = fitted_inputs.TINY
N = 120


@pytest.fixture(scope="module")
def points():
    """(N, 2) features and (N,) targets between 1 and 3."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2))
    return x, 2.0 + np.tanh(x[:, 0])


def kernel(points, sign: float = 1.0, far: bool = False):
    """Predicts the asked row from the others of its table: their mean target, weighed by nearness
    (or by distance), times `sign`."""
    x, y = points

    def predict(tables):
        others, asked = tables[:, :-1], tables[:, -1]
        d = np.square(x[others] - x[asked][:, None]).sum(axis=-1)
        w = np.exp(2.0 * d - 2.0 * d.max(axis=1, keepdims=True) if far else -4.0 * d)
        return sign * (w * y[others]).sum(axis=1) / w.sum(axis=1)

    return predict


def deletion(predict, asked=7, rule=MAIN, ahead=16, n=N):
    return delete(predict, n, asked, rule, np.random.default_rng(1), ahead)


# -- data deletion ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [MAIN, STRICT])
def test_every_row_but_the_asked_one_is_either_kept_or_deleted(points, rule):
    found = deletion(kernel(points), rule=rule)
    assert found.deleted
    assert sorted([7, *found.kept, *found.deleted]) == list(range(N))


def test_every_accepted_change_is_within_the_limit_of_its_time_and_is_that_of_a_replay(points):
    predict = kernel(points)
    found = deletion(predict)
    first = predict(np.append(np.delete(np.arange(N), 7), 7)[None])[0]
    left = list(np.delete(np.arange(N), 7))
    for row, change, limit in zip(found.deleted, found.changes, found.limits, strict=True):
        left.remove(row)
        now = predict(np.array([[*left, 7]]))[0]
        assert change == pytest.approx(abs(now - first) / abs(first), rel=1e-12, abs=1e-15)
        assert change < limit
        assert change < MAIN.total
    growth = np.log(np.array(found.limits) / MAIN.per_step) / math.log(MAIN.growth)
    assert np.allclose(growth, np.rint(growth))
    assert (np.diff(found.limits) >= 0).all()


def test_proposals_that_share_a_forward_pass_change_nothing(points):
    one, many = (deletion(kernel(points), ahead=ahead) for ahead in (1, 16))
    assert one.deleted == many.deleted
    assert one.proposals == many.proposals


@pytest.mark.parametrize("sign", [-1.0, 1000.0])
def test_sign_and_unit_of_the_prediction_change_no_deletion(points, sign):
    assert deletion(kernel(points)).deleted == deletion(kernel(points, sign)).deleted


@pytest.mark.parametrize(("rule", "left"), [(MAIN, 3), (STRICT, 1)])
def test_a_prediction_that_needs_no_other_row_leaves_less_than_the_share(rule, left):
    found = deletion(lambda tables: np.ones(len(tables)), rule=rule, n=200)
    assert len(found.kept) == left
    assert found.proposals == 199 - left


def test_the_limit_grows_after_fifty_rejections_in_a_row():
    def predict(tables):  # any deletion changes 1 by 0.015
        return np.where(tables.shape[1] < N, 1.015, 1.0) * np.ones(len(tables))

    found = deletion(predict)
    growths = math.ceil(math.log(1.5) / math.log(1.1))
    assert found.proposals == 50 * growths + len(found.deleted)
    assert found.limits[0] == pytest.approx(0.01 * 1.1**growths)


def test_a_prediction_of_zero_is_refused():
    with pytest.raises(ValueError, match="relative to a prediction of 0"):
        deletion(lambda tables: np.zeros(len(tables)))


@pytest.mark.parametrize("far", [False, True])
def test_kept_rows_are_nearer_where_near_rows_matter_and_farther_where_far_ones_do(points, far):
    x, _ = points
    jobs = [
        (kernel(points, far=far), N, asked, np.square(x - x[asked]).sum(axis=1))
        for asked in range(12)
    ]
    found = compare(jobs, Rule(retries=10), seed=0)
    assert (np.nanmean(found.kept) > np.nanmean(found.random)) == far
    for other in ("deleted", "random"):
        p = found.p_less(other)
        assert p > 0.95 if far else p < 0.01
    assert ((found.share > 0) & (found.share < 1)).all()


# -- a fitted network and its table ----------------------------------------------------------------


def small_data(seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=60),
            "b": rng.normal(5.0, 3.0, 60),
            "c": pd.Categorical(rng.choice(["x", "y", "z"], 60)),
        }
    )
    frame.loc[::9, "b"] = np.nan
    return Data("small", frame, 10.0 + frame["a"].to_numpy(), "regression", (), "")


@pytest.fixture(scope="module")
def fitted_table():
    data = small_data()
    fold = make_folds(data, "kfold", seed=0)[0]
    setting = Setting("reduced", 0, "cpu", 1, None, lambda text: None)
    return fitted_inputs.fitted(setting, data, fold, TOY), data, fold


def test_the_last_row_of_a_table_is_answered_as_by_the_whole_network():
    columns = Columns((1, 1, 3, 1), (False, False, True, False), (3,))
    torch.manual_seed(0)
    module = NPTNetwork(columns, width=4, n_layers=4, n_heads=2).double().eval()
    cells = Cells(
        torch.randn(12, 3, dtype=torch.float64),
        torch.randint(0, 3, (12, 1)),
        torch.rand(12, 4) < 0.2,
    )
    tables = torch.stack([torch.randperm(12)[:9] for _ in range(3)])
    with torch.no_grad():
        found = fitted_inputs.last_row(module, module.embedding(cells)[tables])
        for rows, state in zip(tables, found, strict=True):
            assert torch.allclose(state, module(cells[rows])[-1], atol=1e-12)


def test_no_label_of_a_test_row_is_shown_and_those_of_others_are(fitted_table):
    model, data, fold = fitted_table
    seen = fitted_inputs.inputs_of(model, data, fold)
    assert (seen.cells.hidden[:, -1].numpy() == (seen.parts == 2)).all()
    other = Data("s", data.frame, data.target.copy(), "regression", (), "")
    other.target[fold.test] += 5.0
    again = fitted_inputs.inputs_of(model, other, fold)
    rows = np.arange(60)[None]
    assert predictor(seen)(rows) == predictor(again)(rows)


def test_distances_count_standardised_values_and_differing_categories(fitted_table):
    model, data, fold = fitted_table
    seen = fitted_inputs.inputs_of(model, data, fold)
    assert seen.features.shape == (60, 2 + 3)
    assert np.isfinite(seen.features).all()
    distance = seen.distances(4)
    assert distance[4] == 0.0
    assert distance[9] == pytest.approx(np.square(seen.features[4] - seen.features[9]).sum())


# -- maps ------------------------------------------------------------------------------------------


def test_the_rows_of_every_map_sum_to_one(fitted_table):
    seen = fitted_inputs.inputs_of(*fitted_table)
    layers = attention_maps.layers_of(seen)
    assert [layer.kind for layer in layers] == ["abd", "aba"]
    assert [tuple(layer.weights.shape) for layer in layers] == [(2, 60, 60), (2, 4, 4)]
    for layer in layers:
        assert torch.allclose(layer.weights.sum(dim=-1), torch.ones(()), atol=1e-5)
        assert (layer.entropy <= math.log(layer.weights.shape[-1]) + 1e-9).all()


def test_entropy_and_reach_of_an_even_and_of_a_sharp_head():
    x = torch.randn(30, 2, dtype=torch.float64)
    distances = torch.cdist(x, x).square()
    both = torch.stack([torch.full((30, 30), 1 / 30, dtype=torch.float64), torch.eye(30).double()])
    assert attention_maps.reach(both, distances).tolist() == pytest.approx([1.0, 0.0])
    even, sharp = attention_maps.entropies(both).mean(dim=-1).tolist()
    assert even == pytest.approx(math.log(30))
    assert sharp == 0.0


def test_rows_are_sorted_by_their_distance_to_the_anchor(fitted_table):
    seen = fitted_inputs.inputs_of(*fitted_table)
    distance = attention_maps.sorted_by_distance(seen, 50).distances(0)
    assert distance[0] == 0.0
    assert (np.diff(distance) >= 0).all()
    assert distance.sum() == pytest.approx(seen.distances(50).sum())
