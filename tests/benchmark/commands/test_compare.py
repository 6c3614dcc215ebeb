"""`bench compare`: it finds what changed between two runs, and raises no false alarm."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import bench, without_reports, working_in
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.facts import Facts
from tabsweep.reports.regression import run_diff, run_diff_section
from tabsweep.reports.report import render

DATASETS = [f"d{i}" for i in range(8)]
MODELS = ["a", "b"]
FAST = ("--workers", 0, "--tracking-uri", "none")


def run(score=None, *, datasets=DATASETS, models=MODELS, folds=2, cause=None, **facts):
    """Evidence of one chosen trial a fold. `score(dataset, model, fold)` times the usual is its
    RMSE; None fails."""
    rows = []
    for d in datasets:
        for m in models:
            for f in range(folds):
                usual = 1.0 + 0.1 * datasets.index(d) + 0.01 * f + 0.5 * (m == "b")
                value = usual * (1.0 if score is None else score(d, m, f) or math.nan)
                done = not math.isnan(value)
                rows.append(
                    {
                        **{"dataset": d, "task": "regression", "fold": f, "model": m, "index": 0},
                        **{"stage": "tune", "seed": 0, "selected": done, "test_rmse": value},
                        **{"status": "done" if done else "failed", "cpu_s": 1.0},
                        "cause": "" if done else cause or "oom",
                        "id": f"{d}{m}{f}{value:.17g}",
                    }
                )
    return Evidence.of(pd.DataFrame(rows), facts=Facts(metric={"regression": "rmse"}, **facts))


def factor(**of_model: float):
    return lambda d, m, f: of_model.get(m, 1.0)


def compare(base, new, **given):
    found = run_diff.compare_runs(base, new, **given)
    for text in render(run_diff_section.section(found)).values():
        assert "nan" not in text and "None" not in text  # every kind of change can be printed
    return found


# ---------------------------------------------------------------------- what changed


def test_a_run_against_itself_is_identical():
    found = compare(run(), run())
    assert found.identical and found.n_equal == len(found.cells) == 16
    assert found.regressions == ()
    (said,) = run_diff_section.summary(found)
    assert said.startswith("Identical: 16 cells, equal to the last bit on every fold;")


def test_the_last_bit_counts():
    def one_bit(d, m, f):
        return 1.0 + np.finfo(float).eps if (d, m, f) == ("d3", "a", 1) else 1.0

    found = compare(run(), run(one_bit))
    assert not found.identical and found.n_equal == 15 and not found.regressions


def test_changes_are_of_the_error_and_turn_round_with_the_runs():
    there, back = compare(run(), run(factor(a=1.1))), compare(run(factor(a=1.1)), run())
    cells = there.cells.set_index(["dataset", "model"])
    assert cells.loc[("d0", "a"), "change"] == pytest.approx(math.log(1.1))
    assert cells.loc[("d0", "b"), "change"] == 0.0 and cells.loc[("d0", "b"), "equal"]
    assert there.cells["change"].tolist() == pytest.approx((-back.cells["change"]).tolist())
    models = there.models.set_index("model")
    assert models.loc["a", ["n_worse", "n_better", "n_equal"]].tolist() == [8, 0, 0]
    assert models.loc["a", "p_over_datasets"] == 0.5**8


def test_only_the_folds_of_both_runs_are_compared():
    found = compare(run(folds=2), run(folds=5))
    assert (found.cells["n_folds"] == 2).all() and found.n_equal == 16


def test_an_accuracy_of_one_is_an_error_of_nothing_and_no_nan():
    def accuracy(value):
        row = {"dataset": "d", "task": "binary", "fold": 0, "model": "m", "index": 0}
        row |= {"stage": "tune", "seed": 0, "status": "done", "selected": True}
        frame = pd.DataFrame([row | {"test_accuracy": value}])
        return Evidence.of(frame, facts=Facts(metric={"binary": "accuracy"}))

    assert compare(accuracy(1.0), accuracy(1.0)).cells["change"][0] == 0.0
    assert compare(accuracy(1.0), accuracy(0.9)).cells["change"][0] == math.inf
    assert compare(accuracy(0.9), accuracy(1.0)).cells["change"][0] == -math.inf


def test_coverage_that_was_gained_lost_or_left_out_is_told_apart():
    def lacks(dataset):
        return lambda d, m, f: None if (d, m) == (dataset, "a") else 1.0

    found = compare(run(lacks("d0")), run(lacks("d1"), models=["a", "c"]))
    kinds = {(r.dataset, r.model): r.kind for r in found.coverage.itertuples()}
    assert kinds[("d0", "a")] == "gained" and kinds[("d1", "a")] == "lost"
    assert kinds[("d0", "b")] == "left out" and kinds[("d0", "c")] == "new"
    assert "lost: a on d1 was complete and is failed (oom)" in found.regressions


def test_failures_are_counted_by_cause_and_only_new_ones_are_a_regression():
    def breaks(d, m, f):
        return None if d == "d0" and m == "a" else 1.0

    found = compare(run(breaks), run(breaks, cause="timeout"))
    counts = {(r.model, r.cause): (r.a, r.b) for r in found.failures.itertuples()}
    assert counts == {("a", "oom"): (2, 0), ("a", "timeout"): (0, 2)}
    assert not found.regressions and not found.identical
    assert "failing now and not before: 2 oom" in compare(run(), run(breaks)).regressions


def test_one_id_with_two_results_is_said_to_be_not_deterministic():
    new = run()
    new.trials.loc[new.trials.index[0], "test_rmse"] *= 2
    found = compare(run(), new)
    assert found.same_id == (32, 1)
    said = run_diff_section.summary(found)
    assert "Not deterministic: of 32 trials of one id in both runs 1 differ." in said


@pytest.mark.parametrize(
    "facts, says",
    [
        ({"protocol": {"d1": "holdout"}}, "protocol of d1 is 'kfold' in one and 'holdout'"),
        ({"metric": {"regression": "mae"}}, "metric of the task regression is 'rmse' in one"),
    ],
)
def test_runs_with_another_protocol_or_metric_are_refused(facts, says):
    other = run()
    frame = other.trials.assign(test_mae=1.0)
    new = Evidence(frame, other.planned, replace(other.facts, **facts))
    with pytest.raises(ValueError, match=says):
        run_diff.compare_runs(run(protocol={"d1": "kfold"}), new)


# ---------------------------------------------------------------------- regressions


def test_a_model_is_worse_from_the_smallest_effect_on():
    assert not compare(run(), run(factor(a=1.009))).regressions
    assert compare(run(), run(factor(a=1.02))).regressions
    assert not compare(run(), run(factor(a=1.02)), min_effect=0.03).regressions
    assert not compare(run(), run(factor(a=0.9))).regressions


def test_one_model_that_is_worse_on_its_datasets_is_a_regression():
    datasets = [f"d{i}" for i in range(9)]
    worse = run(factor(a=1.3), datasets=datasets)
    found = compare(run(datasets=datasets), worse)
    (said,) = found.regressions
    assert said.startswith("worse: a, mean change of the error +30.0 % over 9 datasets (18 pairs)")
    assert found.models.set_index("model")["verdict"].to_dict() == {"a": "worse", "b": "equal"}
    assert not compare(run(datasets=datasets), worse, min_effect=0.5).regressions
    assert not compare(worse, run(datasets=datasets)).regressions
    one_fold = {"datasets": datasets[:6], "folds": 1}  # Wilcoxon over six: no p below .01
    assert not compare(run(**one_fold), run(factor(a=1.3), **one_fold)).regressions
    one_fold["datasets"] = datasets
    (said,) = compare(run(**one_fold), run(factor(a=1.3), **one_fold)).regressions
    assert "9 datasets (9 pairs), one-sided p = 0.002 after Holm" in said


def seeded(rng, *, folds, seeds, by_fold=0.02, by_seed=0.0):
    """Evidence of two models that were evaluated under several seeds; the logarithm of an error
    varies from fold to fold and from seed to seed."""
    rows = []
    for study in [(d, f, m) for d in DATASETS[:4] for f in range(folds) for m in MODELS]:
        usual = rng.normal(0.0, by_fold)
        rows += [
            {
                **dict(zip(("dataset", "fold", "model"), study, strict=True)),
                **{"task": "regression", "index": s, "stage": "eval", "seed": s, "status": "done"},
                **{"selected": False, "test_rmse": float(np.exp(usual + rng.normal(0.0, by_seed)))},
            }
            for s in range(seeds)
        ]
    return Evidence.of(pd.DataFrame(rows), facts=Facts(metric={"regression": "rmse"}))


@pytest.mark.parametrize("by_seed", [0.0, 0.01])
def test_seeds_of_a_fold_are_no_replicates_beside_other_folds(by_seed):
    rng = np.random.default_rng(0)
    runs = [seeded(rng, folds=3, seeds=5, by_seed=by_seed) for _ in range(12)]
    found = [compare(a, b).models for a, b in zip(runs[::2], runs[1::2], strict=True)]
    assert {n for models in found for n in models["n_pairs"]} == {4 * 3}
    assert not any((models["verdict"] == "worse").any() for models in found)


def test_with_one_fold_a_pair_is_a_seed_unless_seeds_change_nothing():
    rng = np.random.default_rng(0)
    pairs = {
        by_seed: compare(*(seeded(rng, folds=1, seeds=5, by_seed=by_seed) for _ in range(2))).models
        for by_seed in (0.0, 0.01)
    }
    assert set(pairs[0.0]["n_pairs"]) == {4} and set(pairs[0.0]["verdict"]) == {"undecided"}
    assert set(pairs[0.01]["n_pairs"]) == {4 * 5}


def test_one_correction_spans_the_models_with_one_pair_a_dataset_and_those_with_more():
    """With one model of three folds and eleven of one, p = .004 is no regression of the twelve."""
    rng = np.random.default_rng(0)
    models = [f"m{i:02}" for i in range(12)]
    base, new = (
        run(lambda d, m, f: math.exp(rng.normal(0.0, 0.02)), models=models, folds=3)
        for _ in range(2)
    )

    def thinned(evidence, worse=1.0):
        kept = evidence.trials[(evidence.trials["model"] == "m00") | (evidence.trials["fold"] == 0)]
        by = np.where(kept["model"] == "m00", worse, 1.0)
        return Evidence.of(kept.assign(test_rmse=kept["test_rmse"] * by), facts=evidence.facts)

    between = 0
    for worse in np.linspace(1.0, 1.04, 11):
        row = run_diff.compare_runs(thinned(base), thinned(new, worse)).models.iloc[0]
        assert (row["verdict"] == "worse") == (row["p_worse_holm"] < 0.01)
        between += row["p_worse"] < 0.01 <= row["p_worse_holm"]
    assert between


# ---------------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A working directory with two runs that differ in a model and in the number of configurations,
    one with another seed, and one of another dataset."""
    there = ("--dataset", "iris", "--dataset", "diabetes", "--model", "knn")
    with working_in(tmp_path_factory.mktemp("between")) as folder:
        runs = {
            "one": ("--trials", 1, "--model", "constant"),
            "two": ("--trials", 5),
            "other-seed": ("--trials", 1, "--seed", 1),
            "elsewhere": ("--trials", 1, "--model", "linear"),
        }
        with without_reports():
            for name, more in runs.items():
                data = ("--dataset", "wine") if name == "elsewhere" else there
                call = ("sweep", "--suite", "smoke", *data, *more, "--name", name, *FAST)
                assert bench(*call).code == 0
        yield folder


def test_the_command_says_identical_of_a_run_and_itself(work):
    found = bench("compare", "runs/one", "runs/one", "--fail-on-regression")
    assert found.code == 0 and found.out.startswith("Identical: 4 cells")


def test_the_command_says_what_was_made_otherwise_and_writes_what_it_shows(work):
    found = bench("compare", "runs/one", "runs/two", "--out", "changes")
    assert found.code == 0 and "only in one" in found.out
    assert {path.name for path in Path("changes").iterdir()} == {
        f"compare.{kind}" for kind in ("tex", "md", "csv")
    }
    document = json.loads(bench("compare", "runs/one", "runs/two", "--json").out)
    assert document["cells"] == 2 and document["identical"] is False
    assert {row["kind"] for row in document["coverage"]} == {"left out"}


def test_folds_that_are_drawn_by_another_seed_are_no_pairs(work):
    found = bench("compare", "runs/one", "runs/other-seed", "--fail-on-regression")
    assert found.code == 2 and "E005" in found.err and not found.out
    assert "diabetes, iris" in found.err and "--seed" in found.err


@pytest.mark.parametrize("more", [(), ("--fail-on-regression",)])
def test_a_comparison_of_runs_that_share_no_cell_does_not_pass(work, more):
    found = bench("compare", "runs/one", "runs/elsewhere", *more)
    assert found.code == 5 and "no cell has a score in both runs" in found.err
    assert "only in one" in found.out


def test_a_regression_exits_with_4_only_when_asked(work, monkeypatch):
    monkeypatch.setattr(run_diff, "_newly_failed", lambda base, new: new.trials.assign(cause="oom"))
    call = ("compare", "runs/one", "runs/two")
    found = bench(*call, "--fail-on-regression")
    assert found.code == 4 and "REGRESSION, failing now and not before" in found.out
    assert bench(*call).code == 0
