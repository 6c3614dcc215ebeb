"""Bags: what a member is fitted on and predicts, its failure, and its return."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bag_cases import Ended, Store, fits_in, write_counting
from calls import answer
from looped import each
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.model_selection import KFold, StratifiedKFold
from small_sweeps import FAST
from small_tables import ALL, TINY
from small_tables import table as small_table
from tabsweep.benchmark import bag
from tabsweep.benchmark.bag_members import fidelity_of, members_of
from tabsweep.benchmark.column_encoding import encoding_identity, table_of_trial
from tabsweep.benchmark.planning.plan_record import plan_in
from tabsweep.benchmark.running.run_trial import run_trial
from tabsweep.datasets.infer import Reading, table_from_file
from tabsweep.datasets.protocols import Fold, make_folds
from tabsweep.datasets.table import Table
from tabsweep.models.registry import MODELS, small_fits
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.trial import DONE, Trial

N = 90
PROTOCOLS = ("holdout", "grouped", "temporal")
UNLIKE = ["other", "words", "that", "no", "row", "had"]


def data(task: str, protocol: str = "holdout", *, weighted: bool = False) -> tuple[Table, Fold]:
    """A table with all kinds of columns, and its fold: groups or times as the protocol needs."""
    frame, y = small_table(task, N)
    rng = np.random.default_rng(4)
    days = pd.to_datetime("2021-03-01") + pd.to_timedelta(rng.integers(0, 900, N), unit="D")
    words = rng.choice(["red wine", "white wine", "green tea", "black tea", ""], (N, 2))
    colours = frame["colour"].cat.add_categories(["never in training"])
    frame = frame.assign(
        when=pd.Series(days).astype("datetime64[us]"),
        said=pd.Series([" ".join(pair) for pair in words], dtype="str"),
        colour=colours,
    )
    classes: tuple[str, ...] = ()
    if task != "regression":
        labels, y = np.unique(y, return_inverse=True)
        classes, y = tuple(labels.tolist()), y.astype(np.int64)
    table = Table(
        "mixed",
        frame,
        y,
        task,
        classes,
        "0" * 64,
        groups=rng.integers(0, 9, N) if protocol == "grouped" else None,
        times=np.arange(N, dtype=float) // 2 if protocol == "temporal" else None,
        weights=rng.integers(1, 4, N).astype(float) if weighted else None,
    )
    return table, make_folds(table, protocol)[0]


def changed(table: Table, rows: np.ndarray) -> Table:
    """The table with other features, targets and weights in these rows."""
    frame, target, rng = table.frame.copy(), table.target.copy(), np.random.default_rng(9)
    index = frame.index[rows]
    for name in table.numeric:
        frame.loc[index, name] = rng.normal(1e4, 1e3, len(rows))
    frame.loc[index, "colour"] = "never in training"
    frame.loc[index, "when"] = pd.Timestamp("1950-01-01")
    frame.loc[index, "said"] = [UNLIKE[i % len(UNLIKE)] for i in range(len(rows))]
    target[rows] = (target[rows] + 1) % table.n_classes if table.classes else target[rows] * 9 + 7
    weights = None if table.weights is None else table.weights.copy()
    if weights is not None:
        weights[rows] = 50.0
    return replace(table, frame=frame, target=target, weights=weights)


# ---------------------------------------------------------------------- what reaches a fit

seen: list[dict[str, Any]] = []


class Noting:
    """Notes what its fit is given and what it predicts."""

    def __init__(self, seed: int = -1) -> None:
        self.note: dict[str, Any] = {"seed": seed, "asked": []}
        seen.append(self.note)

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None) -> Noting:
        self.note |= {"X": X, "y": y, "X_val": X_val, "y_val": y_val}
        return self

    def predict(self, X: Any) -> np.ndarray:
        self.note["asked"].append(X)
        return X["a"].to_numpy()


def bag_of(table: Table, fold: Fold, target: str, n_members: int = 3, **more: Any) -> Trial:
    spec = more.pop("spec", MODELS["linear"])
    return Trial(
        dataset=table.name,
        fold=fold.index,
        model="m",
        config=more.pop("config", {}),
        seed=7,
        identity={"target": target, "threads": 1, **encoding_identity(spec, table)},
        fidelity=fidelity_of(table, fold, n_members, seed=3),
    )


@each("protocol", PROTOCOLS)
def test_a_member_is_fitted_and_encoded_on_its_training_rows_alone(protocol):
    """And is given its part to stop by, a seed of its own, and its part and the test rows to
    predict."""
    table, fold = data("regression", protocol)
    trial = bag_of(table, fold, f"{__name__}:Noting")
    seen.clear()
    result = run_trial(trial, (table, {0: fold}))
    members = members_of(table, fold, trial.fidelity)
    assert len(seen) == len(members) == 3
    assert [note["seed"] for note in seen] == [7, 8, 9]
    for note, member in zip(seen, members, strict=True):
        encoded = table.encoded(member.train, cyclic=True)[0]
        for name, rows in (("X", member.train), ("X_val", member.val)):
            pd.testing.assert_frame_equal(note[name], encoded.rows(rows))
        assert note["y"].tobytes() == table.target[member.train].tobytes()
        assert note["y_val"].tobytes() == table.target[member.val].tobytes()
        for asked, rows in zip(note["asked"], (member.val, member.test), strict=False):
            pd.testing.assert_frame_equal(asked, encoded.rows(rows))
    out_of_fold = np.sort(np.concatenate([member.val for member in members]))
    a = table.frame["a"].to_numpy()
    np.testing.assert_array_equal(result.predictions["val"], a[out_of_fold])
    np.testing.assert_allclose(result.predictions["test"], a[fold.test], rtol=1e-15)
    assert result.val["rmse"] == np.sqrt(np.mean((a - table.target)[out_of_fold] ** 2))


# A task and a protocol for each model, in turns: that a model keeps the contract on every task is
# tested elsewhere (models/test_contract), and a table's columns are those of all.
TURNS = [
    (name, [task for other, task in ALL if other == name][n % len(MODELS[name].tasks)], n)
    for n, name in enumerate(dict.fromkeys(name for name, _ in ALL))
]


@each(("name", "task", "n"), TURNS)
def test_no_value_of_its_part_or_of_a_test_row_changes_a_member(name, task, n):
    """Of every model, without early stopping, the one thing for which it has its part: where part 0
    and the test rows are other ones, member 0 predicts its training rows as before."""
    spec = MODELS[name]
    table, fold = data(task, PROTOCOLS[n % 3], weighted=spec.sample_weight)
    members = members_of(table, fold, fidelity_of(table, fold, 3, seed=3))
    other = changed(table, np.concatenate([members[0].val, fold.test]))
    config = {**TINY[name], **small_fits(name).get("ignores_validation", {})}
    found, scored = [], []
    for this in (table, other):
        encoded = partial(table_of_trial, this, identity=encoding_identity(spec, this))
        how = {"target": spec.target, "task": task, "config": config, "threads": 1}
        cell = bag.run_bag(members[:1], encoded, seed=1, **how)
        rows = encoded(members[0])[0].rows(members[0].train)
        found.append(cell.predict(rows).tobytes())
        scored.append(cell.predictions["val"].tobytes())
    assert found[0] == found[1]
    assert name == "constant" or scored[0] != scored[1]


# ---------------------------------------------------------------------- by hand

HALVES = {
    "regression": (ExtraTreesRegressor, KFold),
    "binary": (ExtraTreesClassifier, StratifiedKFold),
}


@each("task", HALVES)
def test_two_members_are_the_halves_computed_by_hand(task, work, unreported):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 3)).round(4), columns=list("abc"))
    y = (frame["a"] + rng.normal(size=120)).round(4)
    frame.assign(y=y if task == "regression" else np.where(y > 0, "yes", "no")).to_csv(
        "mine.csv", index=False
    )
    cls, splitter = HALVES[task]
    target = f"{cls.__module__}:{cls.__name__}"
    options = ("--target", "y", "--model", target, "--bag", 2, "--seed", 5)
    answer(
        "sweep", "--csv", "mine.csv", *options, "--folds", 1, "--trials", 1, "--name", task, *FAST
    )
    ledger = Ledger(Path("runs", task))
    (record,) = [r for r in ledger.records("result") if r.get("fidelity")]
    predictions = ledger.predictions.get(record["predictions"])

    table = table_from_file("mine.csv", Reading("y"))
    fold = make_folds(table, plan_in(ledger).datasets["mine"].protocol, seed=5)[0]
    rows = np.sort(np.concatenate([fold.train, fold.val]))
    out, tests = None, []
    halves = splitter(2, shuffle=True, random_state=5).split(rows, table.target[rows])
    for k, (first, second) in enumerate(halves):
        model = cls(random_state=5 + k, n_jobs=1)
        model.fit(table.rows(rows[first]), table.target[rows[first]])
        says = model.predict if task == "regression" else model.predict_proba
        part, test = says(table.rows(rows[second])), says(table.rows(fold.test))
        out = np.zeros((len(rows), *part.shape[1:])) if out is None else out
        out[second] = part
        tests.append(test)
    assert predictions["val"].tobytes() == out.tobytes()
    assert predictions["test"].tobytes() == ((tests[0] + tests[1]) / 2).tobytes()


# ---------------------------------------------------------------------- a member fails, or is kept


@pytest.fixture
def counting(work: Path) -> str:
    """A class in a file of the user that counts its fits."""
    return write_counting(work)


def fitted() -> list[int]:
    """The seeds of all fits so far."""
    return [seed for seed, _ in fits_in(Path("fits.log"))]


@each("validation", ["holdout", "cv"])
def test_a_member_that_fails_is_one_failed_trial_with_its_cause(validation, counting, unreported):
    Path("broken").write_text("2")
    Path("fits.log").write_text("")
    options = ("--model", counting, "--folds", 1, "--trials", 1, "--name", validation)
    options += ("--bag", 4, "--validation", validation, "--runs", f"of-{validation}")  # no reuse
    call = ("sweep", "--suite", "smoke", "--dataset", "iris", *FAST, *options)
    first = [0] if validation == "holdout" else []
    run = Path(f"of-{validation}", validation)
    assert answer(*call, code=1)["failed"] == {"error": 1}
    assert fitted() == [*first, 0, 1, 2]
    (failed,) = [r for r in Ledger(run).records("result") if r["cause"]]
    assert (failed["status"], failed["cause"], failed["fidelity"]["bag"]) == ("failed", "error", 4)
    assert "the fit with seed 2 breaks" in failed["message"]
    Path("broken").unlink()
    healed = answer("retry", run, "--workers", 0, "--tracking-uri", "none")
    assert (healed["ran"], healed["failed"]) == (1, {})
    assert fitted() == [*first, 0, 1, 2, 0, 1, 2, 3]


def test_finished_members_are_kept_and_not_fitted_again(monkeypatch):
    """Whichever of them it was after which the worker went away."""
    monkeypatch.setattr(bag, "UNSAVED_S", -1.0)  # kept after each
    table, fold = data("binary")
    spec = MODELS["random-forest"]
    trial = bag_of(table, fold, spec.target, 4, config=TINY["random-forest"], spec=spec)
    undisturbed = run_trial(trial, (table, {0: fold}), Store())
    assert undisturbed.status == DONE
    assert (undisturbed.info["members"], undisturbed.info["resumed_from"]) == (4, 0)
    for n_kept in (1, 2, 3):
        store = Store(most=n_kept)
        if n_kept < 3:  # the last save is after the third of four
            with pytest.raises(Ended):
                run_trial(trial, (table, {0: fold}), store)
        else:
            run_trial(trial, (table, {0: fold}), store)
        store.most = 99
        result = run_trial(trial, (table, {0: fold}), store)
        assert result.info["resumed_from"] == n_kept
        assert (result.val, result.test) == (undisturbed.val, undisturbed.test)
        for part in ("val", "test"):
            assert result.predictions[part].tobytes() == undisturbed.predictions[part].tobytes()
        assert set(store.kept) == {trial.chain}


def test_a_store_out_of_reach_costs_a_note_and_damaged_members_are_fitted_again(monkeypatch):
    monkeypatch.setattr(bag, "UNSAVED_S", -1.0)
    table, fold = data("binary")
    trial = bag_of(table, fold, MODELS["decision-tree"].target, 3)
    wanted = run_trial(trial, (table, {0: fold}), Store())
    store = Store()
    store.kept[trial.chain] = (2, b"no members at all")
    result = run_trial(trial, (table, {0: fold}), store)
    assert result.predictions["val"].tobytes() == wanted.predictions["val"].tobytes()
    assert result.info["resumed_from"] == 0 and "no use" in result.info["checkpoints"]
