"""`bench portfolio learn` and `bench sweep --warm-start`, through the command."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import bench, working_in
from tabsweep.benchmark.planning.plan_record import plan_in
from tabsweep.benchmark.planning.portfolios import portfolio_file
from tabsweep.benchmark.portfolio.regrets import encoded, matrix_of, trials_of
from tabsweep.benchmark.portfolio.selection import greedy
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.sweeps.store.ledger import Ledger

FAST = ("--workers", 0, "--tracking-uri", "none", "--runs", "runs")
GRID = """
name = "grid"
title = "The same configurations on every dataset"
datasets = ["iris", "wine", "breast-cancer-wdbc"]
[budgets.quick]
models = ["knn"]
folds = 2
trials = 40
sampler = "grid"
[budgets.quick.model.knn]
fixed = { p = 2 }
choices = { n_neighbors = [1, 3, 30], weights = ["uniform", "distance"] }
"""
DRAWN = """
name = "drawn"
title = "Random configurations"
datasets = ["iris", "wine"]
[budgets.quick]
models = ["knn", "linear"]
folds = 1
trials = 5
sampler = "random"
"""
MINE = """
version = 1
size = 2
learned_on = { wine = "00" }
[[configuration]]
model = "knn"
config = '{"n_neighbors": 7, "p": 1, "weights": "distance"}'
[[configuration]]
model = "knn"
config = '{"n_neighbors": 7000, "p": 1, "weights": "distance"}'
[[configuration]]
model = "knn"
config = '{"n_neighbors": 9, "p": 2, "weights": "uniform"}'
without = "wine"
"""


def sweep(suite: str, name: str, *more: object, code: int = 0) -> str:
    found = bench("sweep", "--suite", suite, "--name", name, *FAST, *more)
    assert found.code == code, found
    return found.out + found.err


def configs(run: str, dataset: str, model: str = "knn") -> list[dict]:
    """The configurations of a study's first fold, in order."""
    rows = load_results(Path("runs") / run)
    mine = rows[(rows["dataset"] == dataset) & (rows["model"] == model) & (rows["fold"] == 0)]
    return [json.loads(text) for text in mine.sort_values("index")["config"]]


def measured(matrix) -> list[tuple[tuple[str, ...], float]]:
    """((dataset, model, configuration), regret) of what ran."""
    return [
        ((dataset, *matrix.configurations[i]), matrix.regret[i, j])
        for j, dataset in enumerate(matrix.datasets)
        for i in np.flatnonzero(matrix.measured[:, j])
    ]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A working directory with a grid run and a random one."""
    with working_in(tmp_path_factory.mktemp("portfolio")) as folder:
        Path("grid.toml").write_text(GRID)
        Path("drawn.toml").write_text(DRAWN)
        Path("mine.toml").write_text(MINE)
        sweep("./grid.toml", "grid")
        sweep("./drawn.toml", "cold")
        yield folder


# ---------------------------------------------------------------------- learning


def test_the_choice_is_the_greedy_one_of_the_mean_regrets_computed_by_pandas(work):
    found = bench("portfolio", "learn", "runs/grid", "--size", 3, "--out", "p.toml", "--json")
    assert found.code == 0, found.err
    rows = load_results(Path("runs/grid"))
    selects = {"multiclass": "val_accuracy", "binary": "val_roc_auc"}
    rows["loss"] = [-row[selects[row["task"]]] for _, row in rows.iterrows()]
    groups = rows.groupby(["dataset", "fold"])["loss"]
    best, middle = groups.transform("min"), groups.transform("median")
    rows["regret"] = ((rows["loss"] - best) / (middle - best)).clip(0, 1)
    rows.loc[middle == best, "regret"] = (rows["loss"] > best).astype(float)
    wide = rows.pivot_table(index="config", columns="dataset", values="regret", aggfunc="mean")
    kept: list[str] = []
    for entry in json.loads(found.out)["configurations"]:
        scores = {c: wide.loc[[*kept, c]].min().mean() for c in wide.index if c not in kept}
        assert scores[entry["config"]] == pytest.approx(min(scores.values()), abs=1e-12)
        assert entry["regret"] == pytest.approx(min(scores.values()), abs=1e-6)
        assert entry["measured"] == 3 and entry["estimated"] == 0
        kept.append(entry["config"])
    assert len(kept) == 3
    assert portfolio_file.load(Path("p.toml")).learned_on.keys() == {
        "iris", "wine", "breast-cancer-wdbc"
    }  # fmt: skip


def test_two_greedy_picks_are_the_best_pair_that_holds_the_best_single_configuration(work):
    matrix = matrix_of(trials_of([Path("runs/grid")]))
    rows = [pick.row for pick in greedy(matrix, 2)]
    alone = matrix.regret.mean(axis=1)
    assert alone[rows[0]] == alone.min()
    pairs = [p for p in itertools.combinations(range(len(alone)), 2) if rows[0] in p]
    means = [matrix.regret[list(pair)].min(axis=0).mean() for pair in pairs]
    assert matrix.regret[rows].min(axis=0).mean() == pytest.approx(min(means), abs=1e-12)


def test_copied_trials_count_once_and_folds_of_another_seed_are_other_rows(work):
    sweep("./drawn.toml", "copies", "--trials", 7)
    sweep("./drawn.toml", "reseeded", "--seed", 1)
    cold, copies, reseeded = (Path("runs") / name for name in ("cold", "copies", "reseeded"))
    assert (
        matrix_of(trials_of([copies])).regret.tolist()
        == matrix_of(trials_of([copies, cold])).regret.tolist()
    )
    alone: dict[tuple[str, ...], list[float]] = {}
    for run in (cold, reseeded):
        for place, value in measured(matrix_of(trials_of([run]))):
            alone.setdefault(place, []).append(value)
    both = dict(measured(matrix_of(trials_of([cold, reseeded]))))
    assert both.keys() == alone.keys()
    for place, value in both.items():
        assert value == pytest.approx(np.mean(alone[place]), abs=1e-12)


def test_a_portfolio_without_a_dataset_does_not_depend_on_its_results(work, tmp_path):
    words = ("--per-model", "--leave-one-out", "--size", 2, "--out")
    whole, less = tmp_path / "whole.toml", tmp_path / "less.toml"
    assert bench("portfolio", "learn", "runs/grid", *words, whole).code == 0
    suite = GRID.replace('"wine", ', "").replace('"grid"\ntitle', '"less"\ntitle')
    Path("less.toml").write_text(suite)
    sweep("./less.toml", "less")
    assert (
        bench("portfolio", "learn", "runs/less", "--per-model", "--size", 2, "--out", less).code
        == 0
    )
    of = [portfolio_file.load(path).of("knn", "wine") for path in (whole, less)]
    assert of[0] == of[1] and len(of[0]) == 2
    assert portfolio_file.load(whole).seen({"wine": "00", "other": "11"}) == []


def test_learning_twice_gives_the_same_bytes_and_needs_two_datasets(work):
    for name in ("a.toml", "b.toml"):
        assert bench("portfolio", "learn", "runs/cold", "--out", name).code == 0
    first, second = (Path(name).read_text().splitlines()[1:] for name in ("a.toml", "b.toml"))
    assert first == second
    sweep("./drawn.toml", "one", "--dataset", "iris", "--trials", 1)
    found = bench("portfolio", "learn", "runs/one", "--out", "c.toml")
    assert found.code == 2 and "iris alone" in found.err and not Path("c.toml").exists()


def test_regrets_of_configurations_that_did_not_run_are_estimated_and_marked(work):
    shutil.copytree("runs/cold", "runs/long")
    sweep("./drawn.toml", "long", "--trials", 8)
    matrix = matrix_of(trials_of([Path("runs/long")]))
    assert matrix.estimated.any() and not (matrix.estimated & matrix.measured).any()
    assert ((matrix.regret >= 0) & (matrix.regret <= 1)).all()
    unknown = ~matrix.measured & ~matrix.estimated
    assert (matrix.regret[unknown] == 1).all()


def test_a_configuration_becomes_the_same_numbers_whatever_its_kinds_of_values():
    found = encoded([{"a": 1, "b": "x"}, {"a": None, "b": "y"}, {"b": "x", "c": [1, 2]}])
    assert found.shape[0] == 3 and np.isfinite(found).all()
    assert len({tuple(row) for row in found}) == 3


# ---------------------------------------------------------------------- warm start


def test_studies_begin_with_the_portfolio_and_the_sampler_goes_on_as_without(work):
    said = sweep("./drawn.toml", "warm", "--warm-start", "mine.toml")
    assert "knn 1" in said and "none of linear" in said and "7000" in said
    cold, warm = configs("cold", "iris"), configs("warm", "iris")
    assert warm[0] == cold[0] and warm[2:] == cold[2:]  # the default; the same draws
    assert warm[1] == {"n_neighbors": 7, "p": 1, "weights": "distance"}
    assert configs("warm", "wine")[1] == {"n_neighbors": 9, "p": 2, "weights": "uniform"}
    assert configs("warm", "iris", "linear") == configs("cold", "iris", "linear")
    report = Path("runs/warm/report/about.md").read_text()
    assert "Warm start" in report and "mine.toml" in report
    cold_plan, warm_plan = (plan_in(Ledger(Path("runs") / run)) for run in ("cold", "warm"))
    assert "warm_start" not in cold_plan["options"] and "warm start" not in cold_plan["identity"]
    assert warm_plan["identity"]["space"] == cold_plan["identity"]["space"]


def test_a_warm_start_is_resumed_and_extended_without_its_file_and_with_no_other(work):
    sweep("./drawn.toml", "warm2", "--warm-start", "mine.toml", "--trials", 2)
    shutil.copy("mine.toml", "moved.toml")
    Path("other.toml").write_text(MINE.replace("7,", "8,"))
    said = sweep("./drawn.toml", "warm2", "--warm-start", "other.toml", code=2)
    assert "warm start" in said and "--name" in said
    said = sweep("./drawn.toml", "cold", "--warm-start", "mine.toml", code=2)
    assert "warm start was with portfolio none" in said
    sweep("./drawn.toml", "warm2", "--trials", 5)  # by the plan in the ledger
    sweep("./drawn.toml", "warm3", "--warm-start", "moved.toml", "--trials", 5)
    for dataset in ("iris", "wine"):
        assert configs("warm2", dataset) == configs("warm3", dataset)
    again = bench("resume", "runs/warm2", "--workers", 0, "--tracking-uri", "none", "--json")
    assert again.code in (0, 5) and json.loads(again.out)["ran"] == 0


def test_explain_prints_a_command_with_the_portfolio_of_the_run(work):
    sweep("./drawn.toml", "warm5", "--warm-start", "mine.toml", "--dataset", "iris")
    found = json.loads(
        bench("explain", "scores", "iris", "knn", "--run", "runs/warm5", "--json").out
    )
    words = found["command"].split()
    file = Path(words[words.index("--warm-start") + 1])
    assert portfolio_file.load(file).id == portfolio_file.load(Path("mine.toml")).id


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("version = 1\nsize = 1\nlearned_on = {}\nmodels = 3", "models"),
        (
            "version = 2\nsize = 1\nlearned_on = {}\nconfiguration = []",
            "version: must be at most 1, not 2",
        ),
        (MINE.replace('"knn"', '""'), "model: must not be empty"),
        (MINE.replace("'{", "'["), "configuration 1"),
        (MINE.replace('"wine"\n', '"nowhere"\n'), "nowhere"),
        ("\x00", "cannot read"),
    ],
)
def test_a_file_that_is_no_portfolio_is_refused_before_anything_runs(work, text, told):
    Path("bad.toml").write_text(text)
    found = bench("sweep", "--suite", "./drawn.toml", "--warm-start", "bad.toml", *FAST)
    assert found.code == 2 and "BENCH-E001" in found.err and told in found.err


def test_the_reports_portfolio_row_is_what_the_other_datasets_choose(work):
    five = GRID.replace('"breast-cancer-wdbc"]', '"breast-cancer-wdbc", "diabetes", "digits"]')
    Path("five.toml").write_text(five.replace("folds = 2", "folds = 1"))
    sweep("./five.toml", "five")
    assert bench("report", "runs/five", "--portfolio", 1, "--out", "one").code == 0
    scores = pd.read_csv("one/regime-scores.csv").set_index(["dataset", "regime"])["mean"]
    rows = load_results(Path("runs/five"))
    selects = {"multiclass": "accuracy", "binary": "roc_auc", "regression": "rmse"}
    rows["metric"] = rows["task"].map(selects)
    signs = {"accuracy": -1, "roc_auc": -1, "rmse": 1}
    rows["loss"] = [signs[r["metric"]] * r[f"val_{r['metric']}"] for _, r in rows.iterrows()]
    groups = rows.groupby("dataset")["loss"]
    best, middle = groups.transform("min"), groups.transform("median")
    rows["regret"] = ((rows["loss"] - best) / (middle - best)).clip(0, 1)
    rows.loc[middle == best, "regret"] = (rows["loss"] > best).astype(float)
    wide = rows.pivot_table(index="config", columns="dataset", values="regret")
    for dataset in wide:
        others = wide.drop(columns=dataset).mean(axis=1)
        mine = rows[rows["dataset"] == dataset].set_index("config")
        metric = mine["metric"].iloc[0]
        allowed = mine.loc[others[others <= others.min() + 1e-9].index, f"test_{metric}"]
        found = scores[dataset, "leave one dataset out"]
        assert np.isclose(allowed.to_numpy(), found, rtol=1e-9).any()
