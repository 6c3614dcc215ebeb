"""Evidence: laws on the frames, and the scores of studies and cells that follow from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tabsweep.reports import report
from tabsweep.reports.aggregation.cells import cells, studies
from tabsweep.reports.evidence import Evidence, EvidenceError
from tabsweep.reports.facts import Facts

FACTS = Facts(metric={"binary": "accuracy"})


def trial(**changes):
    row = {"dataset": "d", "task": "binary", "fold": 0, "model": "m", "index": 0, "stage": "tune"}
    row |= {"seed": 0, "status": "done", "selected": True, "test_accuracy": 0.5}
    return row | changes


def frame(*rows):
    return pd.DataFrame(list(rows))


def study_of(*rows, planned=None, facts=FACTS):
    return studies(Evidence.of(frame(*rows), planned, facts)).iloc[0]


@pytest.mark.fault(16)
def test_contradictions_are_refused_with_the_law():
    for rows, law in (
        ([trial(), trial()], "2 tuning trials have the same dataset 'd'"),
        ([trial(), trial(index=1)], "2 selected trials"),
        ([trial(stage="eval"), trial(stage="eval", index=1)], "evaluation trials have the same"),
        ([trial(status="failed")], "must be done, not failed"),
        ([trial(status="lost")], "status must be one of done, failed, unsupported"),
        ([trial(stage="test")], "stage must be one of"),
        ([trial(task="ranking")], "task must be one of"),
        ([trial(), trial(fold=1, task="multiclass")], "one task"),
        ([trial(fold=0.5)], "whole numbers"),
        ([trial(seed="x")], "whole numbers"),
        ([trial(test_accuracy=np.inf)], "not infinite"),
        ([trial(fold=3), trial(fold=3)], "2 tuning trials .* 'd', fold 3, model"),
        ([trial(stage="rung0")], "selected trial .* tune"),
    ):
        with pytest.raises(EvidenceError, match=law):
            Evidence.of(frame(*rows), facts=FACTS)


def test_two_names_that_are_printed_alike_are_refused():
    for one, other in (("a b", "a  b"), ("caf\u00e9", "cafe\u0301")):
        for column, word in (("model", "models"), ("dataset", "datasets")):
            rows = [trial(**{column: one}), trial(**{column: other})]
            with pytest.raises(EvidenceError, match=f"two {word} would be printed alike"):
                report.parts_of(Evidence.of(frame(*rows), facts=FACTS))


def test_a_score_that_no_spread_follows_from_is_none_and_the_others_stay():
    """A trial that diverged takes no table down with it."""
    rows = [trial(fold=f, test_accuracy=s) for f, s in enumerate([0.5, 1e100, -1e101])]
    scores = Evidence.of(frame(*rows), facts=FACTS).trials["test_accuracy"].tolist()
    assert scores[:2] == [0.5, 1e100] and np.isnan(scores[2])


def test_a_missing_column_is_named():
    with pytest.raises(EvidenceError, match="trials lacks the columns fold, seed"):
        Evidence.of(frame(trial()).drop(columns=["fold", "seed"]), facts=FACTS)


def test_wrong_facts_are_refused():
    for metrics, law in (
        ({}, "must name a metric for the task 'binary'"),
        ({"binary": "accuracie"}, "did you mean 'accuracy'"),
        ({"binary": "rmse"}, "no metric of binary"),
        ({"binary": "roc_auc"}, "lack the column 'test_roc_auc'"),
    ):
        with pytest.raises(ValueError, match=law):
            Evidence.of(frame(trial()), facts=Facts(metric=metrics))


def test_a_trial_outside_the_plan_is_refused():
    plan = frame({"dataset": "d", "task": "binary", "fold": 0, "model": "m", "n_trials": 1})
    with pytest.raises(EvidenceError, match="fold 1, model 'm'"):
        Evidence.of(frame(trial(), trial(fold=1)), plan, FACTS)


def test_seeds_may_need_more_than_64_bits():
    assert Evidence.of(frame(trial(seed=2**70)), facts=FACTS).trials["seed"][0] == 2**70


# --- the score of a study -------------------------------------------------------------------------


def test_a_study_scores_as_its_selected_trial():
    row = study_of(trial(selected=False, test_accuracy=0.9), trial(index=1, test_accuracy=0.6))
    assert (row["state"], row["test_accuracy"], row["n_seeds"]) == ("complete", 0.6, 1)


def test_evaluations_replace_the_selected_trial_and_are_averaged():
    evals = [trial(stage="eval", seed=s, index=s, test_accuracy=a) for s, a in ((1, 0.7), (2, 0.9))]
    row = study_of(trial(), *evals)
    assert row["test_accuracy"] == pytest.approx(0.8) and row["n_seeds"] == 2


@pytest.mark.fault(16)
def test_a_failed_evaluation_leaves_no_score():
    lost = trial(stage="eval", seed=2, index=2, status="failed", cause="oom", test_accuracy=None)
    row = study_of(trial(), trial(stage="eval", seed=1), lost)
    assert row["state"] == "failed" and row["cause"] == "oom" and np.isnan(row["test_accuracy"])


@pytest.mark.fault(16)
def test_a_study_with_open_trials_has_no_score_yet():
    plan = frame({"dataset": "d", "task": "binary", "fold": 0, "model": "m", "n_trials": 3})
    row = study_of(trial(), trial(index=1, selected=False), planned=plan)
    assert row["state"] == "open" and np.isnan(row["test_accuracy"])


def test_planned_absence_is_no_failure():
    plan = frame({"dataset": "d", "task": "binary", "fold": 0, "model": "m", "n_trials": 0})
    empty = frame(trial()).iloc[:0]
    row = studies(Evidence.of(empty, plan.assign(reason="too many rows"), FACTS)).iloc[0]
    assert (row["state"], row["cause"]) == ("unsupported", "too many rows")
    no_reason = study_of(trial(status="unsupported", selected=False, cause="too many rows"))
    assert (no_reason["state"], no_reason["cause"]) == ("unsupported", "too many rows")


def cells_of(*rows, **facts):
    evidence = Evidence.of(frame(*rows), facts=replace(FACTS, **facts))
    return cells(evidence, studies(evidence), "accuracy").set_index("model")


def test_a_cell_is_the_mean_over_folds_with_its_standard_error():
    values = [0.5, 0.7, 0.9]
    got = cells_of(*(trial(fold=f, test_accuracy=v) for f, v in enumerate(values))).loc["m"]
    assert got["mean"] == pytest.approx(0.7)
    assert got["spread"] == pytest.approx(0.2 / np.sqrt(3))
    assert (got["n_folds"], got["n_planned"], got["state"]) == (3, 3, "complete")


def test_overlapping_test_parts_give_a_standard_deviation():
    rows = [trial(fold=f, test_accuracy=v) for f, v in enumerate([0.5, 0.7, 0.9])]
    assert cells_of(*rows, protocol={"d": "official masks"}).loc["m", "spread"] == pytest.approx(
        0.2
    )
    assert cells_of(*rows, overlapping=["d"]).loc["m", "spread"] == pytest.approx(0.2)


@pytest.mark.fault(9)
def test_a_fold_on_which_the_metric_has_no_meaning_leaves_for_all():
    rows = [
        trial(model=m, fold=f, test_accuracy=None if f == 1 else v)
        for m, v in (("a", 0.5), ("b", 0.6))
        for f in range(3)
    ]
    got = cells_of(*rows)
    assert (got["state"] == "complete").all() and (got["n_undefined"] == 1).all()
    rows[1]["test_accuracy"] = 0.5  # model a has a score on fold 1, so model b lacks one
    assert cells_of(*rows)["state"].to_dict() == {"a": "complete", "b": "partial"}


def test_without_a_plan_every_model_was_meant_to_run_everywhere():
    got = cells_of(trial(model="a"), trial(model="a", fold=1), trial(model="b"))
    assert got["state"].to_dict() == {"a": "complete", "b": "partial"}
