"""Implausible cells: planted faults are found, honest results are not."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from report_cases import evidence_of, rows_of, texts
from tabsweep.reports.aggregation.cells import headline_cells, studies
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.facts import Facts
from tabsweep.reports.sections import implausible

MODELS = ["constant", "a", "b", "c", "d"]
DATASETS = {f"r{i}": "regression" for i in range(6)}


def honest(seed=0, n_folds=3):
    """RMSE of about 10 for the constant and 2 for all others, validation like test."""
    rng = np.random.default_rng(seed)
    frame = rows_of(DATASETS, MODELS, n_folds=n_folds)
    size = np.where(frame["model"] == "constant", 10.0, 2.0)
    for part in ("test", "val"):
        frame[f"{part}_rmse"] = size * rng.uniform(0.95, 1.05, len(frame))
    return frame


def found(frame, **facts):
    evidence = evidence_of(frame, **facts)
    table = studies(evidence)
    return implausible.findings(evidence, table, headline_cells(evidence, table))


def cells_of(findings):
    return {(f.check, dataset, model) for f in findings for dataset, model, _ in f.cells}


def at(frame, dataset, model):
    return (frame["dataset"] == dataset) & (frame["model"] == model)


@pytest.mark.parametrize("seed", range(5))
def test_honest_results_give_no_finding(seed):
    assert found(honest(seed), default_first=MODELS[1:]) == []


def test_a_model_that_learned_nothing_is_found_with_its_dataset():
    frame = honest()
    frame.loc[at(frame, "r1", "b"), "test_rmse"] = 9.9
    frame.loc[at(frame, "r2", "c"), "test_rmse"] = 40.0
    findings = found(frame)
    check = "no better than a constant"
    assert cells_of(findings) >= {(check, "r1", "b"), (check, "r2", "c")}
    causes = {f.datasets[0]: f.cause for f in findings if f.check == check}
    assert "before it learned" in causes["r1"] and "diverged" in causes["r2"]


def test_a_model_that_fails_everywhere_is_one_finding():
    frame = honest()
    frame.loc[frame["model"] == "d", "test_rmse"] = 10.1
    (finding,) = (f for f in found(frame) if f.check == "no better than a constant")
    assert finding.models == ["d"] and finding.datasets == list(DATASETS)


def test_a_dataset_on_which_nobody_learned_is_one_finding_and_stands_in_the_verdict(tmp_path):
    frame = honest()
    lost = (frame["dataset"] == "r3") & (frame["model"] != "constant")
    frame.loc[lost, ["test_rmse", "val_rmse"]] = 9.8
    frame["test_rmse"] += np.arange(len(frame)) * 1e-5  # no two alike
    (finding,) = found(frame)
    assert finding.datasets == ["r3"] and sorted(finding.models) == MODELS[1:]
    assert finding.cause.startswith("nobody learned")
    written = texts(evidence_of(frame), tmp_path)
    assert "Nobody learned on r3" in written["leaderboard.md"].decode()
    frame.loc[lost, "test_rmse"] *= 0.8  # it is difficult, and no model failed
    assert found(frame) == []


def test_the_plan_knows_the_constants_score_without_a_constant_model():
    frame = rows_of({"d0": "binary", "r0": "regression"}, MODELS[1:], n_folds=2)
    bad = frame["model"] == "a"
    frame["test_accuracy"] = np.where(bad, 0.805, 0.95) + frame.index * 1e-7
    frame["test_rmse"] = np.where(bad, 1e6, 3.0) + frame.index * 1e-7
    metric = {"binary": "accuracy", "regression": "rmse"}
    constants = {"d0": {"accuracy": 0.8}, "r0": {"rmse": 10.0}}
    first, second = (("no better than a constant", dataset, "a") for dataset in constants)
    assert cells_of(found(frame, metric=metric, constants=constants)) == {first, second}
    assert cells_of(found(frame, metric=metric)) == {second}


@pytest.mark.parametrize(
    ("task", "name", "usual", "bad"),
    [("regression", "rmse", 1.05, 1_000_001.0), ("multiclass", "accuracy", 0.95, 0.02)],
)
def test_where_no_constant_is_known_the_other_models_tell(task, name, usual, bad):
    frame = rows_of({"d0": task}, ["a", "b"], n_folds=1)
    frame[f"test_{name}"] = np.where(frame["model"] == "a", bad, usual)
    cells = cells_of(found(frame, metric={task: name}))
    assert cells == {("no better than a constant", "d0", "a")}


def test_r2_and_roc_auc_need_no_constant_model():
    frame = rows_of({"d0": "binary"}, MODELS[1:], n_folds=2)
    frame["test_roc_auc"] = np.where(frame["model"] == "a", 0.5, 0.9) + frame.index * 1e-7
    assert cells_of(found(frame)) == {("no better than a constant", "d0", "a")}


def test_a_tuned_model_worse_than_its_default_is_found_in_both_forms():
    frame = honest()
    default = frame[at(frame, "r0", "a")].assign(model="a-default")
    default["test_rmse"] /= 1.5
    first = frame[at(frame, "r1", "b")].copy()  # the default, which validation did not choose
    first["selected"], first["test_rmse"], first["val_rmse"] = False, first["test_rmse"] / 2, 3.0
    frame.loc[at(frame, "r1", "b"), "index"] = 1
    findings = found(pd.concat([frame, default, first]), default_first=["b"])
    check = "worse than its default"
    assert cells_of(findings) == {(check, "r0", "a"), (check, "r1", "b")}


def test_validation_far_better_than_test_is_found_only_beside_others_that_are_not():
    frame = honest()
    frame.loc[at(frame, "r4", "c"), "val_rmse"] = 0.5
    check = "validation far better than test"
    assert cells_of(found(frame)) == {(check, "r4", "c")}
    frame.loc[frame["dataset"] == "r4", "val_rmse"] = 0.5  # a harder test part, for all
    assert found(frame) == []


def test_published_models_beside_a_run_are_checked_by_their_validation_scores_too():
    frame = honest()
    theirs = frame["model"] == "c"
    frame.loc[theirs, "stage"], frame.loc[theirs, "selected"] = "eval", False
    assert found(frame) == []
    frame.loc[at(frame, "r4", "c"), "val_rmse"] = 0.5
    assert cells_of(found(frame)) == {("validation far better than test", "r4", "c")}


def test_no_error_in_few_validation_rows_is_no_finding():
    frame = rows_of({"iris": "multiclass"}, MODELS, n_folds=2)
    frame["test_accuracy"] = np.where(frame["model"] == "constant", 0.33, 0.95)
    frame["val_accuracy"] = np.where(frame["model"] == "a", 1.0, 0.95)
    frame["test_accuracy"] -= np.where(frame["model"] == "a", 1 / 60, 0.0)
    check = "validation far better than test"
    assert cells_of(found(frame, rows={"iris": 15000})) == {(check, "iris", "a")}
    assert found(frame, rows={"iris": 150}) == []  # 15 rows in each test part


def test_a_default_configuration_is_compared_fold_by_fold():
    frame = honest()
    default = frame[at(frame, "r0", "a")].assign(model="a-default")
    default["test_rmse"] /= 1.3  # on each of three folds
    check = "worse than its default"
    assert cells_of(found(pd.concat([frame, default]))) == {(check, "r0", "a")}
    default["test_rmse"] *= [1.0, 1.0, 1.5]  # on one it is better
    assert found(pd.concat([frame, default])) == []


def test_identical_scores_are_found_unless_they_are_one_trial_or_printed_digits():
    frame = honest()
    frame.loc[at(frame, "r5", "b"), "test_rmse"] = frame.loc[
        at(frame, "r5", "a"), "test_rmse"
    ].values
    check = "identical scores"
    assert cells_of(found(frame)) == {(check, "r5", "a"), (check, "r5", "b")}
    shared = frame.copy()
    shared.loc[at(frame, "r5", "b"), "id"] = frame.loc[at(frame, "r5", "a"), "id"].values
    assert found(shared) == []
    assert found(frame.assign(test_rmse=frame["test_rmse"].round(3))) == []


def test_the_report_names_them_first_with_the_trials_behind(tmp_path):
    frame = honest()
    frame.loc[at(frame, "r1", "b"), "test_rmse"] = 9.9
    written = texts(evidence_of(frame), tmp_path)
    page = written["look-first.md"].decode()
    assert "no better than a constant" in page and "r1" in page
    rows = pd.read_csv(tmp_path / "look-first.csv")
    row = rows[rows["check"] == "no better than a constant"].iloc[0]
    behind = set(frame.loc[at(frame, "r1", "b"), "id"])
    assert set(str(row["trials"]).split()) == behind and row["value"] == 9.9
    assert "bench explain scores" in page
    foreign = texts(evidence_of(frame, foreign=True), tmp_path)["look-first.md"].decode()
    assert "2 findings" in foreign and "bench explain" not in foreign
    quiet = texts(evidence_of(honest()), tmp_path)["look-first.md"].decode()
    assert "No implausible cell was found" in quiet


@pytest.mark.skipif(
    not (Path(os.environ.get("TABSWEEP_PARITY") or "/nowhere").parent / "entrants").is_dir(),
    reason="needs TALENT's published means (entrants/talent.csv beside TABSWEEP_PARITY)",
)
def test_five_broken_sets_of_talents_published_table_are_found():
    path = Path(os.environ["TABSWEEP_PARITY"]).parent / "entrants" / "talent.csv"
    means = pd.read_csv(path).dropna(subset=["mean"])
    rows = means.rename(columns={"method": "model"}).assign(
        fold=0, index=0, stage="tune", seed=0, status="done", selected=True
    )
    for name in rows["metric"].unique():
        rows[f"test_{name}"] = rows["mean"].where(rows["metric"] == name)
    metrics = {"binary": "accuracy", "multiclass": "accuracy", "regression": "rmse"}
    evidence = Evidence.of(
        rows.drop(columns=["metric", "mean", "std"]), facts=Facts(metric=metrics)
    )
    table = studies(evidence)
    findings = implausible.findings(evidence, table, headline_cells(evidence, table))
    nobody = [f for f in findings if f.cause.startswith("nobody learned")]
    findings = [finding for finding in findings if finding not in nobody]
    assert 5 < len(nobody) < 40
    broken = {dataset for _, dataset, model in cells_of(findings) if model == "ftt"}
    assert broken == {
        "auction_verification",
        "Parkinsons_Telemonitoring",
        "concrete_compressive_strength",
        "gas_turbine_CO_and_NOx_emission",
        "combined_cycle_power_plant",
    }
    assert len(findings) < 60
    (pair,) = (f for f in findings if f.check == "swapped datasets")  # the only new one
    findings.remove(pair)
    assert pair.models == ["LogReg"] and "hill-valley" in pair.datasets  # linearly separable
    everywhere = {f.models[0] for f in findings if len(f.datasets) > 1}
    assert everywhere == {"danets", "switchtab", "tabtransformer"}


def test_a_dataset_on_which_every_model_lost_a_fold_is_passed_by():
    """Its other folds would be findings; without a score there is no cell to name."""
    frame = honest()
    lost = (frame["dataset"] == "r0") & (frame["fold"] == 2)
    frame.loc[lost, ["test_rmse", "val_rmse"]] = np.nan
    frame.loc[lost, "status"], frame.loc[lost, "cause"] = "failed", "oom"
    frame.loc[lost, "selected"] = False
    frame.loc[at(frame, "r0", "c"), "val_rmse"] /= 4  # of no whole cell
    first = frame[at(frame, "r0", "b") & ~lost].copy()
    first["selected"], first["test_rmse"], first["val_rmse"] = False, first["test_rmse"] / 2, 3.0
    frame.loc[at(frame, "r0", "b"), "index"] = 1
    assert found(pd.concat([frame, first]), default_first=["b"]) == []
