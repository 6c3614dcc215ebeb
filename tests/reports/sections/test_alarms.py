"""The alarm on tables of others: planted faults are named, clean tables hardly give a finding.

A fault is a function that changes a clean table, with the (dataset, method) that must be named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import bench
from tabsweep.benchmark.results.csv_import import read_results
from tabsweep.benchmark.results.entrants import entrant_names
from tabsweep.reports.aggregation.cells import headline_cells, studies
from tabsweep.reports.sections import implausible

METHODS = {"dummy": 1.0, "linear": 0.62, "knn": 0.52, "forest": 0.42, "boost": 0.38, "net": 0.4}
BINARY = {"b1": 0.8, "b2": 0.35, "b3": 0.55, "b4": 0.25, "b5": 0.6}  # of a constant's error
REGRESSION = {"r1": 3.0, "r2": 800.0, "r3": 0.9, "r4": 7e4, "r5": 12.0}  # spread of the target
FOLDS, SEEDS = 3, 3
TEST = ["test_accuracy", "test_roc_auc", "test_log_loss", "test_rmse", "test_r2", "test_mae"]
VAL = [name.replace("test", "val") for name in TEST]


def clean(seed: int = 0) -> pd.DataFrame:
    """A table of one's own, see `_clean`."""
    return _clean(seed).copy()


@cache
def _clean(seed: int) -> pd.DataFrame:
    """A row for each method, dataset, split and seed: scores on test and validation rows, seconds.
    The metrics of a row are of one set of predictions; `dummy` is a constant."""
    rng = np.random.default_rng(seed)
    rows = []
    for dataset, size in {**BINARY, **REGRESSION}.items():
        for split in range(FOLDS):
            hard, spread = rng.uniform(0.93, 1.07), rng.uniform(0.95, 1.05)
            for method, error in METHODS.items():
                runs = SEEDS if method in ("boost", "net") else 1
                taste = np.random.default_rng([len(method), ord(dataset[1]), ord(dataset[0])])
                own = error * taste.uniform(0.9, 1.1) if method != "dummy" else 1.0
                for run in range(runs):
                    row = {"method": method, "dataset": dataset, "split": split, "seed": run}
                    for part in ("test", "val"):
                        share = own * hard * rng.uniform(0.97, 1.03) if method != "dummy" else 1.0
                        row |= scores_of(dataset, part, share, size, spread, rng)
                    seconds = len(method) * (1 + 3 * error) * rng.uniform(0.8, 1.2)
                    rows.append({**row, "seconds": round(seconds * (1 + ord(dataset[1]) % 3), 4)})
    return pd.DataFrame(rows)


def scores_of(
    dataset: str, part: str, share: float, size: float, spread: float, rng: np.random.Generator
) -> dict[str, float]:
    """All metrics at a share of a constant's error."""
    if dataset in BINARY:
        wrong = 0.4 * min(1.0, share * (0.4 + size))
        area = 0.5 + 0.5 * (1 - wrong / 0.4) ** 0.8 if share < 1 else 0.5
        loss = 1.7 * wrong + rng.uniform(0, 0.02) if share < 1 else 0.673
        found = {"accuracy": 1 - wrong, "roc_auc": area, "log_loss": loss}
    else:
        rmse = size * spread * min(1.0, share)
        found = {"rmse": rmse, "r2": 1 - (rmse / (size * spread)) ** 2, "mae": 0.75 * rmse}
    return {f"{part}_{name}": float(f"{value:.5g}") for name, value in found.items()}


@dataclass(frozen=True)
class Fault:
    """plant: changes a table in place. at: every (dataset, method) that a finding must name.
    cause: words of a cause that fits."""

    name: str
    plant: Callable[[pd.DataFrame], None]
    at: frozenset[tuple[str, str]]
    cause: str


def at(frame: pd.DataFrame, dataset: str, method: str, split: int | None = None) -> pd.Series:
    """The rows of a cell, or of one split of it."""
    found = (frame["dataset"] == dataset) & (frame["method"] == method)
    return found if split is None else found & (frame["split"] == split)


FAULTS: list[Fault] = []


def fault(cause: str, *cells: tuple[str, str]) -> Callable[[Callable[[pd.DataFrame], None]], None]:
    """Adds the function to FAULTS under its name; see `Fault`."""

    def add(plant: Callable[[pd.DataFrame], None]) -> None:
        FAULTS.append(Fault(plant.__name__, plant, frozenset(cells), cause))

    return add


# --- of the issue ---------------------------------------------------------------------------------


@fault("trained on test rows", ("b1", "knn"))
def auc_of_a_leak(t: pd.DataFrame) -> None:
    t.loc[at(t, "b1", "knn"), "test_roc_auc"] = [0.9991, 0.9989, 0.9994]


@fault("trained on test rows", ("b1", "forest"), ("b3", "forest"), ("r1", "forest"))
def scored_on_training_rows(t: pd.DataFrame) -> None:
    for dataset in ("b1", "b3"):
        t.loc[at(t, dataset, "forest"), TEST[:3]] = [0.9993, 0.99995, 0.004]
    t.loc[at(t, "r1", "forest"), TEST[3:5]] /= [12.0, 1.0]
    t.loc[at(t, "r1", "forest"), "test_mae"] /= 12.0
    t.loc[at(t, "r1", "forest"), "test_r2"] = 0.9988


@fault("target in logarithms", ("r4", "linear"))
def rmse_of_logarithms(t: pd.DataFrame) -> None:
    t.loc[at(t, "r4", "linear"), "test_rmse"] = [0.1712, 0.1694, 0.1733]


@fault("validation rows are test rows", *((dataset, "net") for dataset in (*BINARY, *REGRESSION)))
def validation_scores_are_the_test_scores(t: pd.DataFrame) -> None:
    mine = t["method"] == "net"
    t.loc[mine, VAL] = t.loc[mine, TEST].to_numpy()


@fault("trained on validation rows", ("b3", "boost"))
def trained_on_validation_rows(t: pd.DataFrame) -> None:
    mine = at(t, "b3", "boost")
    t.loc[mine, ["val_accuracy", "val_roc_auc"]] = 0.995
    for name in ("test_accuracy", "test_roc_auc"):
        t.loc[mine, name] = 0.67 + 0.001 * np.arange(9)


@fault("another dataset", ("r2", "boost"))
def a_fold_of_another_dataset(t: pd.DataFrame) -> None:
    there = t.loc[at(t, "r3", "boost", 1), TEST].to_numpy()
    t.loc[at(t, "r2", "boost", 1), TEST] = there


@fault("another dataset", ("b4", "forest"))
def a_fold_of_another_dataset_in_the_same_unit(t: pd.DataFrame) -> None:
    t.loc[at(t, "b4", "forest", 2), TEST] = t.loc[at(t, "b1", "linear", 2), TEST].to_numpy()


@fault("a constant", ("b4", "knn"))
def a_constant_on_one_fold(t: pd.DataFrame) -> None:
    t.loc[at(t, "b4", "knn", 2), TEST[:3]] = [0.6, 0.5, 0.673]


@fault("a constant", ("r3", "forest"))
def a_constant_on_one_fold_of_a_regression(t: pd.DataFrame) -> None:
    there = t.loc[at(t, "r3", "dummy", 0), TEST].to_numpy()
    t.loc[at(t, "r3", "forest", 0), TEST] = there


@fault("written as 0", ("b2", "linear"), ("r1", "linear"))
def missing_results_as_zero(t: pd.DataFrame) -> None:
    for dataset in ("b2", "r1"):
        t.loc[at(t, dataset, "linear"), TEST] = t.loc[at(t, dataset, "linear"), TEST] * 0.0


@fault("written as 0", ("r5", "net"))
def a_missing_fold_as_zero(t: pd.DataFrame) -> None:
    t.loc[at(t, "r5", "net", 1), "test_rmse"] = 0.0


@fault("one in the place of the other", ("b1", "boost"), ("b4", "boost"))
def two_datasets_swapped(t: pd.DataFrame) -> None:
    one, other = at(t, "b1", "boost"), at(t, "b4", "boost")
    first, second = t.loc[one, TEST].to_numpy(), t.loc[other, TEST].to_numpy()
    t.loc[one, TEST], t.loc[other, TEST] = second, first


@fault("another unit", ("r1", "knn"), ("r2", "knn"))
def two_regressions_swapped(t: pd.DataFrame) -> None:
    one, other = at(t, "r1", "knn"), at(t, "r2", "knn")
    first, second = t.loc[one, TEST].to_numpy(), t.loc[other, TEST].to_numpy()
    t.loc[one, TEST], t.loc[other, TEST] = second, first


@fault("another formula", ("b3", "net"))
def a_log_loss_that_the_accuracy_forbids(t: pd.DataFrame) -> None:
    t.loc[at(t, "b3", "net"), "test_log_loss"] = 14.0 + 0.1 * np.arange(9)


@fault("one run written several times", ("b2", "net"))
def seeds_that_are_one_run(t: pd.DataFrame) -> None:
    for split in range(FOLDS):
        mine = at(t, "b2", "net", split)
        t.loc[mine, [*TEST, *VAL]] = t.loc[mine, [*TEST, *VAL]].iloc[[0] * SEEDS].to_numpy()


@fault("milliseconds", ("r2", "forest"))
def milliseconds_for_seconds(t: pd.DataFrame) -> None:
    t.loc[at(t, "r2", "forest"), "seconds"] *= 1000


@fault("milliseconds", *((dataset, "net") for dataset in (*BINARY, *REGRESSION)))
def milliseconds_everywhere(t: pd.DataFrame) -> None:
    t.loc[t["method"] == "net", "seconds"] *= 1000


# --- of the same kinds ----------------------------------------------------------------------------


@fault("probabilities of the other class", ("b4", "linear"))
def classes_swapped(t: pd.DataFrame) -> None:
    mine = at(t, "b4", "linear")
    t.loc[mine, "test_roc_auc"] = 1 - t.loc[mine, "test_roc_auc"]


@fault("diverged", ("r1", "linear"))
def diverged(t: pd.DataFrame) -> None:
    t.loc[at(t, "r1", "linear"), ["test_rmse", "test_mae"]] *= 1e6
    t.loc[at(t, "r1", "linear"), "test_r2"] = -1e11


@fault("before it learned", ("r5", "net"))
def learned_nothing(t: pd.DataFrame) -> None:
    t.loc[at(t, "r5", "net"), TEST[3:]] = [12.05, -0.01, 9.0]


@fault("not this dataset but this model", *((dataset, "net") for dataset in REGRESSION))
def learned_nothing_anywhere(t: pd.DataFrame) -> None:
    for dataset in REGRESSION:
        there = t.loc[at(t, dataset, "dummy"), TEST[3:]].mean()
        t.loc[at(t, dataset, "net"), TEST[3:]] = 1.01 * there.to_numpy()


@fault("two names of one model", ("b2", "forest"), ("b2", "boost"))
def one_model_under_two_names(t: pd.DataFrame) -> None:
    for split in range(FOLDS):
        one = t.loc[at(t, "b2", "forest", split), TEST].to_numpy() + 1.2345e-8
        t.loc[at(t, "b2", "forest", split), TEST] = one
        t.loc[at(t, "b2", "boost", split), TEST] = one[[0] * SEEDS]


@fault("the mean over folds", ("r3", "boost"))
def the_mean_in_each_fold(t: pd.DataFrame) -> None:
    mine = at(t, "r3", "boost")
    t.loc[mine, TEST] = t.loc[mine, TEST].mean().to_numpy()


@fault("names of two", ("b1", "knn"), ("b3", "knn"))
def one_dataset_under_two_names(t: pd.DataFrame) -> None:
    t.loc[at(t, "b3", "knn"), TEST] = t.loc[at(t, "b1", "knn"), TEST].to_numpy()


@fault("another metric", ("r4", "knn"))
def mse_for_rmse(t: pd.DataFrame) -> None:
    t.loc[at(t, "r4", "knn"), "test_rmse"] **= 2


@fault("another unit", ("r2", "linear"))
def rmse_in_another_unit(t: pd.DataFrame) -> None:
    t.loc[at(t, "r2", "linear"), "test_rmse"] *= 1000


@fault("computed by another formula", ("r5", "forest"))
def mae_and_rmse_exchanged(t: pd.DataFrame) -> None:
    mine = at(t, "r5", "forest")
    t.loc[mine, ["test_rmse", "test_mae"]] = t.loc[mine, ["test_mae", "test_rmse"]].to_numpy()


@fault("computed by another formula", ("b4", "forest"))
def error_rate_for_accuracy(t: pd.DataFrame) -> None:
    mine = at(t, "b4", "forest")
    t.loc[mine, "test_accuracy"] = 1 - t.loc[mine, "test_accuracy"]


# --- the alarm ------------------------------------------------------------------------------------


MOST = 0.01  # findings a cell of a clean table


def alarmed(results: str | Path, out: Path) -> tuple[pd.DataFrame, str]:
    """The findings of `bench report --from`, and the page on them."""
    ran = bench("report", "--from", results, "--out", out, "--no-html")
    assert ran.code == 0, ran
    return pd.read_csv(out / "look-first.csv"), (out / "look-first.md").read_text(encoding="utf-8")


def test_planted_faults_are_named_with_their_cells_and_a_cause_that_fits(tmp_path: Path) -> None:
    silent = []
    for fault in FAULTS:
        table = clean()
        fault.plant(table)
        table.to_csv(tmp_path / "results.csv", index=False)
        evidence = read_results(tmp_path / "results.csv")
        studied = studies(evidence)
        found = implausible.findings(evidence, studied, headline_cells(evidence, studied))
        named = {(dataset, model) for f in found for dataset, model, _ in f.cells}
        if not (fault.at <= named and any(fault.cause in f.cause for f in found)):
            silent.append(fault.name)
    assert len(FAULTS) >= 28 and not silent


def test_a_clean_table_gives_no_finding_and_says_what_was_not_checked(tmp_path: Path) -> None:
    clean().to_csv(tmp_path / "results.csv", index=False)
    found, page = alarmed(tmp_path / "results.csv", tmp_path / "out")
    assert not len(found) and "No implausible cell was found." in page
    said = page.partition(" Not checked: ")[2]
    assert "worse than its default (no default configuration" in said
    assert (
        "validation far better" not in said.partition(").")[0]
        and "times out of proportion: the" in page
    )
    assert "- Checks:" in page and "worse than its default: error" not in page
    scores = [c for c in clean() if c.startswith("test_") or c in ("method", "dataset", "split")]
    one = clean()[clean()["seed"] == 0][scores]
    one[one["split"] == 0].to_csv(tmp_path / "results.csv", index=False)
    page = alarmed(tmp_path / "results.csv", tmp_path / "out")[1]
    for check in ("validation far better than test", "one fold unlike", "seeds", "times out of"):
        assert check in page.partition(" Not checked: ")[2]


@pytest.mark.parametrize("name", entrant_names())
def test_published_tables_give_at_most_one_finding_in_a_hundred_cells(name, tmp_path) -> None:
    found, _ = alarmed(name, tmp_path)
    scores = pd.read_csv(tmp_path / "scores.csv")
    assert found["finding"].nunique() <= MOST * scores["headline"].sum()


def test_a_constant_of_an_entrant_is_not_accused(tmp_path: Path) -> None:
    for seed in range(5):
        table = clean(seed)
        table["method"] = table["method"].replace("dummy", "constant [others]")
        table.to_csv(tmp_path / "results.csv", index=False)
        evidence = read_results(tmp_path / "results.csv")
        studied = studies(evidence)
        assert not implausible.findings(evidence, studied, headline_cells(evidence, studied))
