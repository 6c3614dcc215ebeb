"""Several training sizes of a dataset: in the plan, in a resumed run, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import answer, bench
from refusals import refused
from small_sweeps import FAST
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.costs.history import costs_in
from tabsweep.benchmark.planning.plan_record import plan_in
from tabsweep.sweeps.store.ledger import Ledger

pytestmark = pytest.mark.usefixtures("work")

CALL = ("sweep", "--suite", "smoke", "--dataset", "breast-cancer-wdbc", "--model", "knn")
CALL += ("--trials", 1, *FAST, "--name", "sized")


def test_a_run_has_the_draws_of_every_size_and_keeps_them(unreported):
    assert bench(*CALL, "--sizes", "60,120").code == 0
    plan = plan_in(Ledger(Path("runs/sized")))
    (facts,) = plan.datasets.values()
    assert facts.protocol == "nested-60x3-120x2"
    assert [study.fold for study in plan.studies] == [6001, 6002, 6003, 12001, 12002]
    assert facts.sizes == [[60, 15, 419]] * 3 + [[120, 30, 419]] * 2
    costs = costs_in(Ledger(Path("runs/sized")), lambda model: {})["knn", False]
    assert sum(cost.fits for cost in costs if cost.work.rows == 120) == 2
    n_results = sum(1 for _ in Ledger(Path("runs/sized")).records("result"))
    assert bench("resume", "runs/sized").code == 0
    assert sum(1 for _ in Ledger(Path("runs/sized")).records("result")) == n_results == 5
    said = refused("BENCH-E005", *CALL, "--sizes", "60,150")
    assert "protocol of breast-cancer-wdbc" in said and "60x3-150x2" in said
    scores = bench("explain", "scores", "breast-cancer-wdbc", "knn", "--run", "runs/sized")
    assert scores.code == 0 and "6002" in scores.out
    assert bench("analyse", "runs/sized", "--metric", "mcc").code == 0  # the folds are drawn anew


def test_a_study_by_size_is_exported_doubted_and_stands_beside_another_model():
    datasets = ("--dataset", "breast-cancer-wdbc", "--dataset", "diabetes")
    call = ("sweep", "--suite", "smoke", *datasets, "--sizes", "40,80", "--trials", 1, *FAST)
    models = ("--model", "lightgbm", "--model", "mlp", "--model", "linear")
    assert bench(*call, *models, "--name", "ref").code == 0
    assert bench("beside", "export", "runs/ref", "--out", "ref", "--title", "Ref").code == 0
    found = answer("beside", "check", "ref", "--rows", 6)
    assert len(found) == 6 and all(row["same"] for row in found)
    assert bench(*call, "--model", "knn", "--beside", "ref", "--name", "mine").code == 0
    text = Path("runs/mine/report/by-size.md").read_text()
    assert "knn" in text and "mlp" in text
    assert "best network against the best boosting" in text  # of families that the entrant has


def test_what_does_not_go_with_sizes_is_refused_before_anything_runs(tmp_path):
    for sizes, said in (("300;1000", "such as"), ("1000,300", "ascend"), ("5", "ascend")):
        line = refused("BENCH-E005", *CALL, "--sizes", sizes)
        assert f"--sizes {sizes}" in line and said in line
    Path("rows.csv").write_text("a,g,y\n" + "".join(f"{i},{i % 9},{i}\n" for i in range(90)))
    of_file = ("sweep", "--csv", "rows.csv", "--target", "y", "--group", "g", "--sizes", "20,40")
    assert "does not go with --group" in refused("BENCH-E005", *of_file, *FAST)
    line = refused("BENCH-E007", *CALL, "--sizes", "60,500")
    assert "leave 0 of breast-cancer-wdbc to test" in line and "largest size is 325" in line


def test_a_suite_says_its_sizes_and_takes_a_budget_of_another():
    by_size, usual = suites.load("by-size"), suites.load("uci-small")
    ours, theirs = by_size.budgets["reference"], usual.budgets["reference"]
    assert ours.models == theirs.models and ours.model == theirs.model
    assert (ours.trials, ours.seeds, theirs.trials) == (4, 1, 8)
    text = 'name = "x"\ntitle = "x"\ndatasets = ["iris"]\ndefault_budget = "reference"\n'
    for more, said in (
        ('[budgets.reference]\nlike = "nobody"', "no suite 'nobody' has a budget 'reference'"),
        ('[budgets.reference]\nlike = "smoke"', "no suite 'smoke' has a budget 'reference'"),
        ('sizes = [300]\n[protocol]\niris = "kfold"\n[budgets.reference]\nlike = "uci-small"',
         "protocol: does not go with sizes"),
        ('sizes = [300]\ndraws = [1, 2]\n[budgets.reference]\nlike = "uci-small"', "draws must"),
    ):  # fmt: skip
        Path("mine.toml").write_text(text + more)
        with pytest.raises(suites.SuiteError, match=said):
            suites.load("mine.toml")
