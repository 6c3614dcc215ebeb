"""Expected costs: the shipped table, what is looked up in it, history that corrects it."""

from __future__ import annotations

import math

import pytest
from calls import answer, bench
from tabsweep.benchmark.planning.costs.estimate import TrialCosts, by_study, estimate, set_limits
from tabsweep.benchmark.planning.costs.measured import Cost, Lookup, Work, shipped
from tabsweep.benchmark.planning.options import Options
from tabsweep.benchmark.planning.own_tables import csv_suite
from tabsweep.benchmark.planning.plan import Plan
from tabsweep.benchmark.planning.suite import load
from tabsweep.benchmark.running.progress import Pace, Progress
from tabsweep.benchmark.running.request import Request
from tabsweep.benchmark.running.sweep import prepare
from tabsweep.datasets.reading.columns import Reading
from tabsweep.models.registry_entries import MODELS
from tabsweep.sweeps.events import Beat
from tabsweep.sweeps.scheduling.estimates import Estimates
from tabsweep.sweeps.trial import DONE, Result, Trial, failure


def test_the_shipped_table_has_measured_costs_of_known_models():
    table = shipped()
    assert set(table.costs) <= set(MODELS) and len(table.costs) > 40
    assert table.machine["cpu"]
    for model, costs in table.costs.items():
        assert costs, model
        for cost in costs:
            assert cost.seconds > 0 and cost.fits >= 1 and cost.work.rows > 0


def test_the_nearest_cost_is_repeated_and_grows_with_rows_and_epochs():
    measured = Cost(Work({"epochs": 50}, 200, 8, 2), fits=20, seconds=2.0)
    more = [Work({"epochs": 50}, 200, 8, 2), Work({"epochs": 50}, 2000, 8, 2),
            Work({"epochs": 500}, 200, 8, 2)]  # fmt: skip
    (same, rows, epochs), sds = zip(*map(Lookup([measured]), more), strict=True)
    assert same == pytest.approx(2.0, rel=0.1) and rows > 4 and epochs > 4
    assert sds[0] < sds[1]  # far from what was measured, less is known


@pytest.mark.parametrize("classes, word, share", [(1, "default", 1.0), (2, "default", 0.25),
    (1, "sqrt", 0.25), (1, "log2", 0.25)])  # fmt: skip
def test_a_forest_costs_by_the_features_that_its_splits_look_at(classes, word, share):
    works = [Work({"max_features": how}, 200, 16, classes) for how in (word, share, 1.0)]
    assert works[0].logs() == works[1].logs()
    told, _ = Lookup([Cost(works[2], fits=1, seconds=2.0)])(works[0])
    assert told == pytest.approx(2.0 * share**0.8)


def test_a_measured_fit_is_told_within_a_factor_of_two_by_the_others_mostly():
    """Each cost of the shipped table, looked up in the table without it."""
    wrong = n = 0
    for costs in shipped().costs.values():
        for cost in costs if len(costs) > 3 else ():
            told, _ = Lookup([c for c in costs if c is not cost])(cost.work)
            n += 1
            wrong += not 0.5 < told / cost.seconds < 2
    assert n > 500 and wrong / n < 0.2


def limited(name: str, **changes: float) -> Plan:
    """The plan of the smoke suite's first fold of wine, for one model."""
    suite = load("smoke")
    changed = suite.budgets["quick"].model_copy(update=changes)
    asked = Request(
        suite=suite.model_copy(update={"budgets": {"quick": changed}}),
        options=Options(budget="quick", models=(name,), datasets=("wine",), folds=1),
    )
    return prepare(asked, None)


def test_a_newcomers_dry_run_says_time_and_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = bench("sweep", "--suite", "smoke", "--dry-run", "--workers", "2")
    assert found.code == 0 and "on 2 CPUs" in found.out and "GB of memory" in found.out
    assert "guessed" not in found.out and not (tmp_path / "runs").exists()


def test_a_model_of_ones_own_is_said_to_be_guessed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_ridge.py").write_text(
        "from sklearn.linear_model import Ridge\nclass Mine(Ridge):\n    pass\n"
    )
    call = ("sweep", "--suite", "smoke", "--dataset", "diabetes", "--dry-run", "--workers", "2")
    found = bench(*call, "--model", "own_ridge.py:Mine", "--model", "knn")
    (line,) = [line for line in found.out.splitlines() if line.startswith("guessed")]
    assert "Mine" in line and "knn" not in line


def test_a_torch_module_is_guessed_as_networks_are(tmp_path, monkeypatch):
    """Whose fits take ten times as long as those of trees on tables this small, and longer."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets.py").write_text(
        "import torch\n"
        "from sklearn.linear_model import Ridge\n"
        "class Mine(Ridge):\n    pass\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self, n_numeric, cardinalities, n_out):\n"
        "        super().__init__()\n"
        "        self.line = torch.nn.Linear(n_numeric, n_out)\n"
        "    def forward(self, x_num, x_cat):\n"
        "        return self.line(x_num)\n"
    )
    call = ("sweep", "--suite", "smoke", "--dataset", "diabetes", "--dry-run", "--trials", "20")
    mine, net = (answer(*call, "--model", f"nets.py:{n}")["cpu_hours"] for n in ("Mine", "Net"))
    assert net > 3 * mine > 0


def test_the_first_eta_is_the_estimate_and_trials_correct_it():
    pace = Pace({"a": 1.0, "b": 10.0}, workers=2)
    assert pace.left_s(100.0) == 50.0
    for _ in range(100):  # three times as slow as was expected
        pace.observe("b", 30.0)
    assert pace.left_s(100.0) == pytest.approx(150.0, rel=0.05)


@pytest.mark.parametrize("asked", [None, 7.0, 300.0])
def test_the_time_limit_of_ones_own_file_follows_the_estimate_and_trials_correct_it(
    asked, tmp_path
):
    path = tmp_path / "houses.csv"
    rows = (f"{i},{i % 7},{i * 0.5 + 0.25}" for i in range(60_000))
    path.write_text("\n".join(["a,b,price", *rows]))
    suite, tables = csv_suite([path], ["price"], Reading())
    options = Options(budget="quick", models=("knn", "tabr"), folds=1, timeout_s=asked)
    plan = prepare(Request(suite=suite, options=options, tables=tables), None)
    studies = {study.model: study for study in plan.build()}
    usual = plan.limits.timeout_s
    set_limits(plan, studies.values())
    limits = {model: study.limits.timeout_s for model, study in studies.items()}
    if asked is not None:
        assert set(limits.values()) == {asked}
        return
    expected = TrialCosts(plan)(next(s for s in plan.studies if s.model == "tabr"))
    assert limits["tabr"] == math.ceil(10 * expected.seconds) > usual == limits["knn"]
    estimates, study = Estimates(), studies["knn"]
    trial = Trial("houses", 0, "knn", {}, 0, {})
    estimates.observe(trial, failure("timeout", "", costs={"cpu_s": 1e6}), study)
    assert estimates.limits(study, trial) == study.limits
    estimates.observe(trial, Result(status=DONE, costs={"cpu_s": 1000.0}), study)
    assert estimates.limits(study, trial).timeout_s == 10_000.0


def test_a_cluster_without_a_number_of_workers_has_an_eta_once_it_has_answered(capsys):
    pace = Pace({"a": 1.0}, workers=None)
    progress = Progress(quiet=False, color=False)
    progress.begin(100, "run", pace=pace, work=100.0)
    assert "about" not in capsys.readouterr().err
    assert pace.left_s(100.0) == 100.0
    progress.listen(Beat([{}] * 4, 0))
    progress.end()
    assert pace.left_s(100.0) == 25.0


def test_the_evaluation_seed_that_the_search_has_used_costs_nothing_again():
    plans = [limited("mlp", trials=1, seeds=n, model={}) for n in (1, 5)]
    one, five = (estimate(plan, own=None, others=(), workers=1, start_s=12.0) for plan in plans)
    assert (one.cells, five.cells) == (1, 6)
    assert five.models["mlp"] == pytest.approx(5 * one.models["mlp"], rel=0.01)


def test_a_limit_of_seconds_bounds_the_search_and_not_the_seeds_after_it():
    (mean,) = by_study(limited("random-forest", trials=20_000, seeds=15, model={})).values()
    short = limited("random-forest", trials=20_000, study_s=0.01, seeds=15, model={})
    found = estimate(short, own=None, others=(), workers=1, start_s=12.0)
    assert found.cells == 16  # one trial of the search, then the seeds
    assert 3600 * found.cpu_hours == pytest.approx(15 * mean, rel=0.7)
    (spread,) = by_study(short).values()
    assert short.studies[0].shape.n_slots * spread == pytest.approx(16 * mean)
    long = limited("knn", trials=20_000, study_s=2.0, model={})
    found = estimate(long, own=None, others=(), workers=1, start_s=12.0)
    assert found.cells < 100 and 3600 * found.cpu_hours < 6
    assert found.disk_mb < 3
