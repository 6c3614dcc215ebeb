"""The section on evaluation seeds: verdicts against the best model, and the report's table."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from paper_runs import scored
from tabsweep.benchmark.papers.catalog import FOLDER
from tabsweep.benchmark.papers.published_values import load
from tabsweep.reports import report
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.sections import seeds
from tabsweep.reports.statistics.wilcoxon import rank_sum, smallest_rank_sum_p

PAPER = FOLDER / "rtdl"


def test_a_deterministic_model_is_compared_and_equal_ones_are_no_worse():
    constant = np.full(15, 0.462)
    assert rank_sum(constant, constant) == 1.0
    assert rank_sum(constant + 1e-13, constant) == 1.0, "rounding is no difference"
    assert rank_sum(constant + 0.1, constant) == pytest.approx(1 / math.comb(30, 15))
    found = seeds.verdicts({"a": constant, "b": constant, "c": constant + 0.1}, "min")
    assert [found[m].top for m in "abc"] == [True, True, False]
    assert found["a"].p is None and found["b"].p == 1.0
    assert found["a"].std == 0.0


@pytest.mark.parametrize(("n", "reaches"), [(3, False), (4, False), (5, True), (15, True)])
def test_too_few_runs_give_no_verdict_and_no_tie(n, reaches):
    assert (smallest_rank_sum_p(n, n) <= seeds.ALPHA) == reaches
    far = {"good": 0.9 + 0.001 * np.arange(n), "bad": 0.1 + 0.001 * np.arange(n)}
    found = seeds.verdicts(far, "max")
    assert found["good"].top is True
    assert found["bad"].top is (False if reaches else None)
    assert found["bad"].p == pytest.approx(smallest_rank_sum_p(n, n))


def test_the_direction_decides_who_is_best():
    scores = {"a": np.arange(15.0), "b": np.arange(15.0) + 100}
    assert seeds.verdicts(scores, "min")["a"].p is None
    assert seeds.verdicts(scores, "max")["b"].p is None
    assert seeds.verdicts({}, "max") == {}


def test_deviations_are_of_the_population_and_cut_off_as_the_published_ones():
    repo = load(PAPER, "repo_means")
    repo = repo[(repo["ensemble_size"] == "1") & (repo["configuration"] == "tuned")]
    exact = {(r.dataset, r.method): r.spread for r in repo.itertuples()}
    printed = load(PAPER, "table2")
    same = [
        float(seeds.truncated(exact[r.dataset, r.method])) == r.spread
        for r in printed.itertuples()
        if (r.dataset, r.method) in exact
    ]
    # the stored figures have four digits: near an edge they say the next one
    assert len(same) > 100 and np.mean(same) > 0.9
    found = seeds.verdicts({"a": np.array([1.0, 3.0])}, "min")["a"]
    assert (found.mean, found.std) == (2.0, 1.0)


# ---------------------------------------------------------------------- the report's part


TASKS = {"california-housing": "regression", "adult": "binary"}
METRICS = {"regression": "rmse", "binary": "accuracy"}
ERRORS = {"catboost": 0.43, "mlp": 0.50, "lightgbm": 0.4301}


def evidence(n: int, *, ensembles: bool = False, tasks: str = "rb") -> Evidence:
    """Three models on California Housing (r) and Adult (b), n seeds each; mlp is far behind."""
    rng = np.random.default_rng(0)
    values = {
        (dataset, model): (error if task == "regression" else 1.3 - error)
        + rng.normal(0, 1e-3, size=n)
        for dataset, task in TASKS.items()
        for model, error in ERRORS.items()
        if task[0] in tasks
    }
    made = scored(values, TASKS, METRICS, protocol=dict.fromkeys(TASKS, "rtdl: one"))
    if not ensembles:
        return made
    joined = [
        {
            **{"dataset": dataset, "task": TASKS[dataset], "fold": 0, "model": model, "index": i},
            **{"seeds": "", f"test_{METRICS[TASKS[dataset]]}": of_five.mean()},
        }
        for (dataset, model), scores in values.items()
        for i, of_five in enumerate(scores.reshape(-1, 5))
    ]
    return Evidence(made.trials, made.planned, made.facts, pd.DataFrame(joined))


def test_the_report_has_a_file_of_seeds_only_where_there_are_several(tmp_path):
    names = {path.name for path in report.write(evidence(3), tmp_path / "a")}
    assert {"seeds.md", "seeds.tex", "seeds.csv"} <= names
    single = evidence(3)
    trials = single.trials[single.trials["stage"] == "tune"]
    names = {p.name for p in report.write(Evidence.of(trials, facts=single.facts), tmp_path / "b")}
    assert "seeds.md" not in names


def test_fifteen_seeds_and_three_ensembles_stand_beside_each_other(tmp_path):
    made = evidence(15, ensembles=True)
    found = seeds.frame(made).set_index(["dataset", "kind", "model"])
    assert found.loc[("adult", seeds.SINGLE, "mlp"), "top"] is False
    assert found.loc[("adult", seeds.SINGLE, "lightgbm"), "n"] == 15
    assert found.loc[("adult", seeds.ENSEMBLE, "mlp"), "top"] is None
    assert found.loc[("california-housing", seeds.ENSEMBLE, "mlp"), "n"] == 3
    report.write(made, tmp_path)
    text = (tmp_path / "seeds.md").read_text()
    assert "3 ensembles" in text and "15 seeds" not in text
    assert seeds.TOO_FEW in text
    assert "**" in text


def test_three_seeds_are_said_to_be_too_few():
    (table,) = seeds.section(evidence(3, tasks="r")).tables
    assert any(n.startswith(seeds.TOO_FEW) and "3 seeds" in n for n in table.notes)
    shown = {row[0].text: (row[1].bold, row[4].text) for row in table.panels[0].rows}
    assert shown["mlp"] == (False, seeds.TOO_FEW)
    assert [bold for bold, p in shown.values() if p == "best"] == [True]


def test_a_model_with_one_run_is_named_and_the_smallest_p_is_of_both_numbers_of_runs():
    made = evidence(5, tasks="r")
    rest = (made.trials["model"] == "mlp") & (
        made.trials["index"] > 0
    )  # the one that is far behind
    few = (made.trials["model"] == "catboost") & (made.trials["index"] > 1)
    short = Evidence.of(made.trials[~(rest | few)], facts=made.facts)
    (table,) = seeds.section(short).tables
    assert any("with one run: mlp on california-housing" in note for note in table.notes)
    (note,) = [note for note in table.notes if note.startswith(seeds.TOO_FEW)]
    assert "2 seeds beside 5 of the best model" in note and f"{1 / 21:.2g}" in note


def test_a_study_without_all_of_its_seeds_is_left_out():
    made = evidence(5)
    last = (made.trials["model"] == "mlp") & (made.trials["index"] == 4)
    short = Evidence.of(made.trials[~last], made.planned, made.facts)
    assert "mlp" not in set(seeds.frame(short)["model"])
