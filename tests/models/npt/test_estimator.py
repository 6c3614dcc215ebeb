"""Fitted NPT models: which rows see which, what is kept, what is refused.

tests/models/test_contract.py and test_resumable.py hold the contract of every model, NPT included.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from small_tables import TINY, answers, table
from tabsweep.models.base import BadState
from tabsweep.models.npt.estimator import NPT
from tabsweep.models.npt.task import TRAIN, NPTTask
from tabsweep.models.persistence import fit_state
from tabsweep.models.registry import make_model

FEW = {**TINY["npt"], "steps": 6, "eval_every": 2}


def npt(task="regression", **given) -> NPT:
    return make_model("npt", task=task, **{**FEW, **given})


def fitted(task="regression", n=60, **given) -> NPT:
    return npt(task, **given).fit(*table(task, n))


# -- who sees whom --------------------------------------------------------------------------------


def test_training_rows_are_seen_with_their_labels_only_where_targets_are_not_all_masked():
    for p_target, differs in ((1.0, False), (0.5, True)):
        model = fitted(p_target=p_target)
        asked, _ = table("regression", 20, seed=3)
        before = model.predict(asked)
        model.model_["y"] = model.model_["y"] + 1.0
        model._contexts.clear()
        assert np.array_equal(model.predict(asked), before) != differs
        model.model_["x"] = model.model_["x"] * 1.5
        model._contexts.clear()
        assert not np.array_equal(model.predict(asked), before)


def test_an_inductive_fit_does_not_look_at_test_rows_and_a_transductive_one_does():
    frame, y = table("regression")
    test, _ = table("regression", 20, seed=3)
    other = test.assign(a=test["a"] * 2)
    for transductive in (False, True):
        fits = [
            npt(transductive=transductive).fit(frame, y, X_test=x).predict(test)
            for x in (test, other)
        ]
        assert np.array_equal(*fits) != transductive
    seen = npt(transductive=True).fit(frame, y, X_test=frame.assign(a=frame["a"] * 9 + 5))
    both = np.concatenate([frame["a"], frame["a"] * 9 + 5])
    assert seen.preprocessor_._centre[0] == pytest.approx(both.mean())
    assert seen._target_mean == pytest.approx(y.mean())  # targets: of training rows alone


def test_in_a_transductive_fit_rows_to_predict_see_each_other():
    frame, y = table("regression")
    test, _ = table("regression", 20, seed=3)
    model = npt(transductive=True).fit(frame, y, X_test=test)
    changed = test.assign(a=test["a"].where(np.arange(20) != 5, 3.0))
    assert (model.predict(changed) != model.predict(test))[np.arange(20) != 5].all()


@pytest.mark.parametrize("transductive", [False, True])
def test_a_validation_row_never_sees_its_own_label(transductive):
    frame, y = table("regression")
    val, y_val = table("regression", 20, seed=5)
    test, _ = table("regression", 20, seed=3)
    model = npt(p_target=0.5, val_in_context=True, transductive=transductive, eval_every=6)
    model.fit(frame, y, val, y_val, X_test=test)
    pieces = {"all": val, "some": val.iloc[:7], "turned": val.iloc[::-1]}
    with_test = pd.concat([val.iloc[:3], test], ignore_index=True)
    before = {k: model.predict(x) for k, x in pieces.items()}
    mixed, tested = model.predict(with_test), model.predict(test)
    assert np.abs(mixed[3:] - tested).max() <= 1e-5
    model.model_["y_val"] = model.model_["y_val"] + 1.0
    model.__dict__.pop("_contexts", None)
    for k, x in pieces.items():
        assert np.array_equal(model.predict(x), before[k]), k
    assert np.array_equal(model.predict(with_test)[:3], mixed[:3])
    assert not np.array_equal(model.predict(test), tested)  # and others do see it


def test_hidden_labels_reach_no_step_of_a_transductive_fit(monkeypatch):
    drawn = []
    draw = NPTTask.draw

    def watched(self, step):
        drawn.append((draw(self, step), self))
        return drawn[-1][0]

    monkeypatch.setattr(NPTTask, "draw", watched)
    frame, y = table("binary")
    val, y_val = table("binary", 20, seed=5)
    test, _ = table("binary", 15, seed=3)
    for p_target in (1.0, 0.4):
        drawn.clear()
        npt("binary", transductive=True, p_target=p_target).fit(frame, y, val, y_val, test)
        (shown, truth, features, targets), task = drawn[0]
        target = task.is_target
        train = task.parts == TRAIN
        assert [int((task.parts == k).sum()) for k in (0, 1, 2)] == [60, 20, 15]
        assert shown.hidden[~train][:, target].all()  # no label of validation or test rows
        assert not targets[~train].any() and not targets[:, ~target].any()
        assert not features[:, target].any() and features[~train].any()
        assert not (features & truth.hidden).any()  # a gap is no candidate
        assert (shown.hidden | ~truth.hidden).all()  # and stays hidden
        open_labels = int((~shown.hidden[train][:, target]).sum())
        assert open_labels == 0 if p_target == 1.0 else 10 < open_labels < 60
        assert (len(targets[train].nonzero()) == 60) == (p_target == 1.0)


# -- fitting --------------------------------------------------------------------------------------

RESUMED = {
    "validation": {},
    "batches": {"batch_size": 25, "balanced": True, "p_target": 0.5},
    "early stopping": {"patience": 1, "lr": 0.3, "eval_every": 1},
    "transductive": {"transductive": True},
}


@pytest.mark.parametrize("case", RESUMED)
def test_a_fit_with_validation_rows_resumes_to_the_same_bytes(case):
    frame, y = table("binary")
    given = (frame, y, *table("binary", 20, seed=5), table("binary", 9, seed=3)[0])
    config = {"steps": 16, **RESUMED[case]}

    def fit(**how):
        model, kept = npt("binary", **config), {}
        model.fit_to(*given, stop=16, save=kept.__setitem__, **how)
        return model, kept

    whole, saved = fit(every=4)  # Lookahead's first synchronisation is at 6
    plain = npt("binary", **config).fit(*given)
    assert answers(plain, frame).tobytes() == answers(whole, frame).tobytes()
    assert plain.curve_.tobytes() == whole.curve_.tobytes()
    assert (plain.best_iteration_, plain.n_iter_) == (whole.best_iteration_, whole.n_iter_)
    if case == "early stopping":
        assert whole.n_iter_ < 16 and whole.best_iteration_ < whole.n_iter_
    for step, state in saved.items():
        again, rest = fit(every=4, start=(step, state))
        assert answers(again, frame).tobytes() == answers(whole, frame).tobytes()
        assert rest == {s: b for s, b in saved.items() if s > step}
        assert again.best_iteration_ == whole.best_iteration_


def test_a_state_of_another_network_is_refused():
    frame, y = table("regression")
    kept = {}
    npt().fit_to(frame, y, stop=4, every=2, save=kept.__setitem__)
    for config in ({"width": 4}, {"n_layers": 4}, {"lookahead": True, "aba": False}):
        with pytest.raises(BadState, match="network"):
            npt(**config).fit_to(frame, y, stop=4, every=2, start=(2, kept[2]))
    facts = {"model": "NPT", "step": 2, "features": 5, "outputs": 1}
    for evil in (None, [], {"weights": {}}, {"step": 10**9}):
        state = fit_state.seal(fit_state.dump(evil), facts)
        with pytest.raises(BadState):
            npt().fit_to(frame, y, stop=4, every=2, start=(2, state))


def test_the_curve_holds_the_loss_of_every_evaluation():
    frame, y = table("regression")
    val = table("regression", 20, seed=5)
    model = npt().fit(frame, y, *val)
    assert model.curve_[:, 0].tolist() == [2, 4, 6]
    squares = (model.predict(val[0]) - val[1]) ** 2 / model._target_scale**2
    assert model.curve_[:, 1].min() == pytest.approx(squares.mean(), rel=1e-4)


def test_bf16_on_a_cpu_runs_and_is_close():
    frame, y = table("regression")
    exact, rough = (
        npt(precision=p, steps=10, eval_every=10).fit(frame, y, frame, y) for p in ("fp32", "bf16")
    )  # few steps: a rounding of the first ones grows without bound in the later ones
    off = np.abs(exact.predict(frame) - rough.predict(frame)).max()
    assert 0 < off < 0.1 * y.std()
    assert rough.model_["weights"]["embedding.weight"].dtype == np.float32


@pytest.mark.parametrize("config", [{"dropout": 0.0, "dropout_weights": 0.0}, {"p_feature": 0.0},
                                    {"aba": False}, {"lookahead": False},
                                    {"tradeoff_schedule": "constant"},
                                    {"schedule": "cosine-cyclic", "schedule_share": 0.2},
                                    {"max_width": 24}])  # fmt: skip
def test_every_switch_makes_another_model_that_answers(config):
    frame, y = table("regression")
    usual, found = (fitted(steps=14, **c).predict(frame) for c in ({}, config))
    assert np.isfinite(found).all() and not np.array_equal(usual, found)


def test_an_unseen_category_is_a_hidden_cell():
    frame, y = table("regression")
    model = npt().fit(frame, y)
    rows = frame.iloc[:3].assign(colour=["violet"] * 3)
    missing = frame.iloc[:3].assign(colour=pd.Categorical([None] * 3))
    assert np.array_equal(model.predict(rows), model.predict(missing))
