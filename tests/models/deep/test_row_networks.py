"""Laws that every network keeps, those of single rows first, and laws of SNN and GrowNet.

The registry writes the matrix: a model that counts epochs, as `RowNetwork` does, is tested here the
same day.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from looped import each
from small_tables import TINY, answers, is_network
from tabsweep.datasets.catalog import load_dataset, splits
from tabsweep.models import grownet, registry
from tabsweep.models.deep.layers.alpha_dropout import alpha_dropout
from tabsweep.models.deep.row_network import RowNetwork
from tabsweep.models.hyperparameters import InvalidConfig
from tabsweep.models.registry import MODELS, make_model

NETWORKS = [name for name, spec in MODELS.items() if spec.resource == "epochs"]
every_network = pytest.mark.parametrize("name", NETWORKS)
LEARNS = {"epochs": 120, "patience": 0, "lr": 0.02}
OVERFITS = {
    "ft-transformer": {"epochs": 200, "lr": 0.005},
    "grownet": {"epochs": 8, "epochs_per_stage": 15, "correct_epochs": 15},
    "saint": {"epochs": 150, "lr": 0.005},
}  # where 120 epochs of the small configuration are not what overfits 30 rows


def model(name, task, **config):
    return make_model(name, task=task, **{**TINY[name], **config})


def undropped(name):
    return {key: 0.0 for key in registry.defaults(name) if "dropout" in key}


def rows(n=40, seed=0):
    """Six numbers and two categories that say nothing of each other."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 6)), columns=list("abcdef"))
    frame["p"] = rng.choice(["x", "y", "z"], n)
    frame["q"] = rng.choice(["u", "v"], n)
    return frame


def target(task, n=40, seed=1):
    rng = np.random.default_rng(seed)
    if task == "regression":
        return rng.normal(5.0, 3.0, n)
    return np.arange(n) % (2 if task == "binary" else 3)


# -- every model ----------------------------------------------------------------------------------


# TabR trains with each row hidden from itself, and finds the row when asked for it afterwards: what
# it learned by heart is another test (test_neighbours.py).
@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "tabr"])
def test_a_network_learns_thirty_rows_by_heart(name):
    for task in MODELS[name].tasks:
        frame, y = rows(30), target(task, 30)
        config = {**LEARNS, **undropped(name), **OVERFITS.get(name, {})}
        fitted = model(name, task, **config).fit(frame, y)
        if task == "regression":
            assert np.sqrt(np.mean((fitted.predict(frame) - y) ** 2)) < 0.2 * y.std()
        else:
            assert (fitted.predict(frame) == y).all(), task


def _gaps(frame, share=0.4):
    hidden = np.random.default_rng(4).random(frame.shape) < share
    return frame.astype(object).where(~hidden, None).astype(dict.fromkeys("abcdef", float))


TABLES = {  # beside those of the laws of every model (test_contract.py)
    "numbers alone": rows()[list("abcdef")],
    "gaps everywhere": _gaps(rows()),
    "a category that is never there": rows().assign(p=None, d="always"),
    "a number like another": rows().assign(b=lambda f: f["a"]),
}


@pytest.mark.parametrize("name", filter(is_network, MODELS))
@each("columns", TABLES)
def test_any_columns_are_answered_with_new_levels_and_gaps_too(name, columns):
    tasks, steps = MODELS[name].tasks, {MODELS[name].resource: 2}
    task = tasks[list(TABLES).index(columns) % len(tasks)]
    frame, y = TABLES[columns], target(task)
    fitted = model(name, task, **steps).fit(frame, y, frame[:9], y[:9])
    new = frame.copy()
    for column in new:
        kind = new[column].dtype.kind
        new.loc[::2, column] = np.nan if kind == "f" else "unheard of"
        new.loc[1::4, column] = 1e30 if kind == "f" else None
    for asked in (frame, new, new[:1]):
        found = answers(fitted, asked)
        assert found.shape[0] == len(asked) and np.isfinite(found).all()


@every_network
def test_a_trailing_batch_of_one_row_joins_the_one_before(name):
    for task in MODELS[name].tasks:
        frame, y = rows(17), target(task, 17)
        fitted = model(name, task, epochs=2, batch_size=4).fit(frame, y)
        assert np.isfinite(answers(fitted, frame)).all()
        net = model(name, task, batch_size=4)
        task_of = net._task(net._prepare(frame, y), None)
        for epoch in range(3):
            at = range(epoch * task_of.unit, (epoch + 1) * task_of.unit)
            seen = [task_of.batch(step).tolist() for step in at]
            assert sorted(sum(seen, [])) == [*range(17)]
            if name == "tabnet":  # shares the rows out
                assert [len(b) for b in seen] == [5, 5, 5, 2]
            else:
                assert [len(b) for b in seen] == [4, 4, 4, 5]


@every_network
def test_a_network_that_diverges_ends_and_gives_no_number_for_an_answer(name, monkeypatch):
    monkeypatch.setattr(RowNetwork, "check", lambda self: None)
    frame, y = rows(), target("regression")
    config = {"epochs": 30 if name == "grownet" else 100_000, "patience": 0, "lr": 1e30}
    fitted = model(name, "regression", **config, **undropped(name)).fit(frame, y)
    assert fitted.n_iter_ < 30
    assert not np.isfinite(fitted.predict(frame)).any()


@each("name", NETWORKS)
def test_batch_norms_refuse_batches_of_one_row(name):
    if registry.load_class(MODELS[name].target).batch_norm:
        with pytest.raises(InvalidConfig, match="batch_size"):
            model(name, "regression", batch_size=1)
    else:
        fitted = model(name, "regression", batch_size=1, epochs=2)
        assert np.isfinite(fitted.fit(rows(5), target("regression", 5)).predict(rows(5))).all()


QUICK = [name for name in NETWORKS if "quick" in registry.spaces(name, "binary")]


@pytest.mark.parametrize("name", QUICK)
@each("dataset", ["iris", "diabetes"])
def test_a_quick_preset_is_one_configuration_and_learns(name, dataset):
    data, fold = load_dataset(dataset), splits(dataset)[0]
    params = registry.spaces(name, data.task)["quick"]["params"]
    assert {p["kind"] for p in params.values()} == {"fixed"}
    config = {key: p["value"] for key, p in params.items()}
    net = make_model(name, task=data.task, **config)
    parts = [(data.frame.iloc[r], data.target[r]) for r in (fold.train, fold.val, fold.test)]
    floor = make_model("constant", task=data.task).fit(*parts[0]).score(*parts[2])
    assert net.fit(*parts[0], *parts[1]).score(*parts[2]) > floor + 0.1


# -- SNN ------------------------------------------------------------------------------------------


@each("p", [0.05, 0.3])
def test_alpha_dropout_is_the_definition_with_draws_of_a_seed(p):
    x = torch.randn(400_000, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    before = torch.get_rng_state()
    found = alpha_dropout(x, p, (3, 4))
    assert torch.equal(found, alpha_dropout(x, p, (3, 4)))
    assert torch.equal(before, torch.get_rng_state())
    low = -1.0507009873554804934193349852946 * 1.6732632423543772848170429916717
    a = ((1 - p) * (1 + p * low**2)) ** -0.5
    kept, dropped = a * x - a * low * p, a * low - a * low * p
    gone = (found - dropped).abs() < 1e-12
    torch.testing.assert_close(found[~gone], kept[~gone], rtol=1e-12, atol=1e-12)
    assert abs(float(gone.double().mean()) - p) < 5 * (p * (1 - p) / len(x)) ** 0.5
    assert abs(float(found.mean())) < 0.01 and abs(float(found.std()) - 1) < 0.01
    assert alpha_dropout(x, p, None) is x and alpha_dropout(x, 0.0, (1,)) is x


# -- GrowNet --------------------------------------------------------------------------------------


def growing(task, n=200, **config):
    """A training of GrowNet on a table of one batch of numbers alone, and its estimator."""
    frame, rng = rows(n)[list("abcdef")], np.random.default_rng(5)
    signal = frame["a"] * frame["b"] + frame["c"] + 0.5 * rng.normal(size=n)
    y = (signal > 0).to_numpy() * 1 if task == "binary" else signal.to_numpy()
    settings = {"epochs": 6, "epochs_per_stage": 10, "correct_epochs": 10, "lr": 0.01, "hidden": 8}
    net = make_model("grownet", task=task, **{**settings, **config})
    return net, net._training(net._prepare(frame, y), None)


def loss_of(training):
    """Of the sum of all learners, on all rows."""
    task = training.task
    task.module.train()
    with torch.no_grad():
        return float(task.criterion(task.module(*task.rows), task.targets))


def changed(training, steps):
    """Names of the parameters that these steps move."""
    before = {n: p.detach().clone() for n, p in training.task.module.named_parameters()}
    training.run(training.step + steps)
    after = training.task.module.named_parameters()
    return {n.removeprefix("models.").split(".")[0] for n, p in after if (p != before[n]).any()}


@each("task", ["binary", "regression"])
def test_the_corrective_steps_lower_the_loss_and_learn_the_boost_rate(task):
    net, training = growing(task)
    module, losses = training.task.module, []
    for stage in range(6):
        training.run(training.step + 10)
        assert int(module.grown) == stage + 1
        before, rate = loss_of(training), module.boost_rate.item()
        training.run(training.step + 10)
        losses.append((before, loss_of(training)))
        moved = (losses[-1][0] != losses[-1][1], module.boost_rate.item() != rate)
        assert moved == ((False, False) if stage == 0 else (True, True))
    assert all(after < before for before, after in losses[1:])
    assert losses[-1][1] < 0.5 * losses[0][0]


def test_a_stage_trains_its_learner_alone_and_the_correction_all_there_are():
    _, training = growing("binary", epochs=3, epochs_per_stage=2, correct_epochs=1)
    steps = [changed(training, n) for n in (2, 1, 2, 1, 2, 1)]
    assert steps[:3] == [{"0"}, set(), {"1"}] and steps[4] == {"2"}
    assert steps[3] == {"0", "1", "boost_rate"} and steps[5] == {"0", "1", "2", "boost_rate"}


def test_rate_and_weight_decay_are_halved_every_fifteen_stages_and_corrections_are_slower():
    net, training = growing("binary", epochs=31, epochs_per_stage=1, correct_epochs=1, lr=0.4)
    net.weight_decay = 0.8
    rates = [net.rate(step) for step in range(62)]
    np.testing.assert_allclose(rates[::2], [0.4] * 15 + [0.2] * 15 + [0.1])
    np.testing.assert_allclose(rates[1::2], np.array(rates[::2]) / 3)
    for step, decay in ((0, 0.8), (29, 0.8), (30, 0.4), (60, 0.2)):
        training.task.loss(step)
        assert training.optimiser.param_groups[0]["weight_decay"] == decay


def test_the_newton_step_of_a_row_that_is_far_off_is_finite():
    for far in (-1e4, 1e4):
        step, weight = grownet.newton_step(torch.tensor([far]), torch.tensor([1.0]))
        assert torch.isfinite(step * weight) and torch.isfinite(step.square() * weight)
