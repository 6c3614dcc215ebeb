"""A trial with a fidelity uses its checkpoints and never depends on them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bag_cases import Ended, Store
from repo import HELPERS
from small_tables import TINY
from small_tables import table as small_table
from tabsweep.benchmark import cell
from tabsweep.benchmark.running.run_trial import run_trial
from tabsweep.datasets.protocols import Fold
from tabsweep.datasets.table import Table
from tabsweep.models.registry import MODELS, small_fits
from tabsweep.sweeps.trial import DONE, Result, Trial

STEPPED = ("gradient-boosting", "lightgbm", "catboost", "ft-transformer", "npt")
ROWS = np.arange(100)
FOLD = Fold(0, train=ROWS[:60], val=ROWS[60:80], test=ROWS[80:])


def data(task: str = "binary") -> tuple[Table, dict[int, Fold]]:
    frame, y = small_table(task, len(ROWS))
    classes: tuple[str, ...] = ()
    if task != "regression":
        labels, y = np.unique(y, return_inverse=True)
        classes, y = tuple(labels.tolist()), y.astype(np.int64)
    return Table("small", frame, y, task, classes, "0" * 64), {0: FOLD}


def one_piece(name: str) -> bool:
    """Whether the default configuration cannot continue (native categories of CatBoost, say)."""
    return {} in small_fits(name).get("one_piece", ())


def trial(name: str = "xgboost", stop: int = 9, **config: Any) -> Trial:
    return Trial(
        dataset="small",
        fold=0,
        model=name,
        config={**TINY.get(name, {}), MODELS[name].resource: 12, **config},
        seed=1,
        identity={"target": MODELS[name].target, "threads": 1},
        fidelity={"length": 12, "stop": stop, "every": 3},
    )


class Unreachable(Store):
    def get(self, key: str) -> tuple[int, bytes] | None:
        super().get(key)
        raise ConnectionError("no route to the store")

    def put(self, key: str, step: int, state: bytes) -> None:
        self.calls.append(("put", key, step))
        raise OSError(28, "No space left on device")


def same(a: Result, b: Result) -> bool:
    """Equal in everything that a table may show but time and memory."""
    assert a.status == b.status == DONE
    return (
        (a.val, a.test) == (b.val, b.test)
        and a.info["n_iter"] == b.info["n_iter"]
        and all(a.predictions[p].tobytes() == b.predictions[p].tobytes() for p in ("val", "test"))
    )


@pytest.fixture
def every_boundary(monkeypatch):
    monkeypatch.setattr(cell, "SAVE_EVERY_S", 0.0)


# -- going on -------------------------------------------------------------------------------------


# That every model continues on every task is tested where fits are resumed (models/test_resumable);
# here some models on tasks that take turns.
@pytest.mark.parametrize(
    ("name", "task"),
    [(name, MODELS[name].tasks[n % len(MODELS[name].tasks)]) for n, name in enumerate(STEPPED)],
)
def test_a_preempted_trial_goes_on_and_equals_the_undisturbed_one(name, task, every_boundary):
    config = small_fits(name).get("draws_nothing", {}) if one_piece(name) else {}
    wanted, payload = trial(name, **config), data(task)
    undisturbed = run_trial(wanted, payload, Store())
    store = Store(most=1)
    with pytest.raises(Ended):
        run_trial(wanted, payload, store)
    assert store.put_at == [3]  # it was preempted with a checkpoint behind it
    survivor = Store()
    survivor.kept = store.kept
    result = run_trial(wanted, payload, survivor)
    assert same(result, undisturbed)
    assert (result.info["steps"], result.info["resumed_from"]) == (9, 3)
    assert undisturbed.info["resumed_from"] == 0 and "checkpoints" not in result.info
    assert survivor.put_at == [6, 9]


@pytest.mark.parametrize("name", STEPPED)
def test_a_higher_rung_goes_on_from_the_lower_one(name):
    store, payload = Store(), data()
    low, high = trial(name, 3), trial(name, 12)
    assert low.chain == high.chain and low.id != high.id
    run_trial(low, payload, store)
    result = run_trial(high, payload, store)
    assert same(result, run_trial(high, payload)) and store.put_at == [3, 12]
    assert result.info["resumed_from"] == (0 if one_piece(name) else 3)
    again = run_trial(high, payload, store)
    assert same(again, result) and again.info["resumed_from"] == 12 and store.put_at == [3, 12]
    lower = run_trial(low, payload, store)  # the store is beyond it
    assert lower.info["resumed_from"] == 0


def test_two_configurations_never_share_a_state():
    store, payload = Store(), data()
    a, b = trial(max_depth=2), trial(max_depth=5)
    run_trial(a, payload, store)
    result = run_trial(b, payload, store)
    assert result.info["resumed_from"] == 0 and same(result, run_trial(b, payload))
    assert set(store.kept) == {a.chain, b.chain} and a.chain != b.chain
    assert replace(a, seed=2).chain not in store.kept


def test_a_fit_that_is_quick_writes_at_its_last_step_alone(monkeypatch):
    store, clock = Store(), iter([0.0, 1.0, 21.0, 22.0, 23.0, 24.0, 25.0])
    run_trial(trial(), data(), store)
    assert store.put_at == [9] and cell.SAVE_EVERY_S == 20.0
    slow = SimpleNamespace(**{**vars(cell.time), "monotonic": lambda: next(clock)})
    monkeypatch.setattr(cell, "time", slow)
    store = Store()
    run_trial(trial(stop=12), data(), store)  # boundaries at 1, 21, 23 and 24 s
    assert store.put_at == [6, 12]


# -- what a model is told -------------------------------------------------------------------------


class Told:
    """A model that notes its device and the rows that its fit was given."""

    def __init__(self, device: str = "nowhere", transductive: bool = False) -> None:
        self.device = device
        told.append(device)

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None, X_test: Any = None) -> Told:
        told.append(None if X_test is None else list(X_test.index) + [len(X_test.columns)])
        self.step_s_ = 0.25
        return self

    def predict(self, X: Any) -> np.ndarray:
        return np.zeros(len(X))


told: list[Any] = []


def cell_of(name: str, config: dict[str, Any], **more: Any) -> Any:
    """What a trial of a class of this module comes to."""
    how = {"task": "regression", "seed": 0, "threads": 1, "fold": FOLD, **more}
    table, _ = data("regression")
    return cell.run_cell(target=f"{__name__}:{name}", config=config, table=table, **how)


@pytest.mark.parametrize(("sees", "given"), [(True, [*range(20), 5]), (False, None)])
def test_a_transductive_model_is_given_the_features_of_the_test_rows_and_no_other_is(sees, given):
    told.clear()
    found = cell_of("Told", {"transductive": sees}, device="cuda")
    assert told == ["cuda", given]
    assert found.costs["step_s"] == 0.25


class Noted(Told):
    """A model from elsewhere whose `warnings_` is what its author likes."""

    noted: Any = None

    def fit(self, X: Any, y: Any) -> Noted:  # type: ignore[override]
        self.warnings_ = self.noted
        return self


def test_warnings_are_kept_where_they_are_counts_and_do_no_harm_where_they_are_not(monkeypatch):
    for noted, kept in (
        (["it did not converge"], None),
        ("it did not converge", None),
        ({"first": "it did not converge"}, None),
        ({"UserWarning": np.int64(2), "other": "text"}, {"UserWarning": 2}),
    ):
        monkeypatch.setattr(Noted, "noted", noted)
        found = cell_of("Noted", {})
        assert found.info.get("warnings") == kept


# -- faults ---------------------------------------------------------------------------------------


@pytest.mark.fault(5)
def test_a_store_out_of_reach_costs_a_note_and_nothing_else(every_boundary):
    store = Unreachable()
    result = run_trial(trial(), data(), store)
    assert store.put_at == [3, 6, 9] and ("get", trial().chain) in store.calls  # all of them failed
    assert same(result, run_trial(trial(), data()))
    assert result.info["resumed_from"] == 0
    note = result.info["checkpoints"]
    assert "no checkpoint could be read: ConnectionError: no route to the store" in note
    assert note.count("no checkpoint could be written: OSError") == 1


@pytest.mark.parametrize("fault", ["damaged", "torn", "foreign", "other step"])
def test_a_state_of_no_use_is_trained_over_and_noted(fault):
    store, payload, wanted = Store(), data(), trial()
    run_trial(trial(stop=3), payload, store)
    step, state = store.kept[wanted.chain]
    run_trial(trial("lightgbm", 3), payload, store)
    other = store.kept[trial("lightgbm", 3).chain]
    store.kept[wanted.chain] = {
        "damaged": (step, state[:90] + bytes([state[90] ^ 1]) + state[91:]),
        "torn": (step, state[:-9]),
        "foreign": other,
        "other step": (6, state),
    }[fault]
    assert store.kept[wanted.chain] != (step, state)  # the fault is there
    result = run_trial(wanted, payload, store)
    assert same(result, run_trial(wanted, payload)) and result.info["resumed_from"] == 0
    assert "the checkpoint is of no use: BadState: " in result.info["checkpoints"]
    assert store.kept[wanted.chain][0] == 9  # replaced by a sound one
    assert "checkpoints" not in run_trial(wanted, payload, store).info


def test_an_error_of_the_model_itself_is_not_taken_for_a_bad_checkpoint():
    result = run_trial(trial(learning_rate=-1.0), data(), Store())
    assert (result.status, result.cause) == ("failed", "invalid_config")
    with pytest.raises(ValueError, match="stop must be from 1 to n_estimators = 12, got 13"):
        run_trial(trial(stop=13), data(), Store())


# -- GPU memory ----------------------------------------------------------------------------------


def test_gpu_memory_is_counted_where_a_model_used_a_gpu(monkeypatch):
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        reset_peak_memory_stats=lambda: resets.append(1),
        max_memory_allocated=lambda: 300 * 2**20,
    )
    resets: list[int] = []
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    result = run_trial(trial(), data())
    assert result.costs["peak_vram_mb"] == 300.0 and resets == [1]
    cuda.is_initialized = lambda: False
    assert "peak_vram_mb" not in run_trial(trial(), data()).costs


def test_a_model_without_torch_does_not_import_it():
    code = f"""
import sys
sys.path[:0] = {[str(Path(__file__).parent), *HELPERS]}
from test_cell_steps import data, run_trial, trial
result = run_trial(trial("gradient-boosting"), data())
assert result.status == "done" and "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------------- times


def test_the_time_of_a_prediction_and_a_limit_of_the_fit_are_told_and_change_nothing_else():
    whole = replace(trial("lightgbm"), fidelity=None)
    usual = run_trial(whole, data(), store := Store())
    assert store.calls == [] and "steps" not in usual.info, "it asks for no checkpoint"
    assert "out_of_time" not in usual.info and "prediction_times" not in usual.info
    limited = replace(whole, identity={**whole.identity, "time_limit_s": 3600.0})
    assert limited.id != whole.id
    found = run_trial(limited, data())
    assert found.info["out_of_time"] is False and same(usual, found)
    cut = replace(whole, identity={**whole.identity, "time_limit_s": 1e-9})
    short = run_trial(cut, data())
    assert short.info["out_of_time"] is True and short.info["n_iter"] == 1
