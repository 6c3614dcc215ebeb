"""A run for other tools: Optuna's own readers and diagrams open it, tables have every trial."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path

import pandas as pd
from calls import bench
from small_sweeps import answer, sweeps
from tabsweep.benchmark.results.evidence_builder import load_results

URL = "sqlite:///studies.db"


def test_optunas_own_readers_and_diagrams_open_an_exported_study(work):
    import matplotlib
    import optuna
    from optuna.visualization import matplotlib as diagrams

    matplotlib.use("agg")
    sweeps("--model", "knn", "--model", "xgboost", "--folds", 1, "--trials", 3, "--name", "two")
    names = answer("export", "runs/two", "--optuna", URL)["studies"]
    assert names == ["two/iris/0/knn", "two/iris/0/xgboost"]
    assert answer("export", "runs/two", "--optuna", URL)["studies"] == names, "written anew"
    rows = load_results("runs/two").set_index(["model", "index"])
    for name in names:
        study = optuna.load_study(study_name=name, storage=URL)
        mine = rows.loc[name.rpartition("/")[2]]
        assert [trial.value for trial in study.trials] == mine["val_accuracy"].tolist()
        assert study.direction == optuna.study.StudyDirection.MAXIMIZE
        for trial, (_, row) in zip(study.trials, mine.iterrows(), strict=True):
            assert trial.user_attrs["id"] == row["id"]
            assert trial.user_attrs["test_accuracy"] == row["test_accuracy"]
            took = (trial.datetime_complete - trial.datetime_start).total_seconds()
            assert math.isclose(took, row["fit_s"], abs_tol=1e-3)
        best = study.best_trial
        assert best.params == json.loads(mine["config"][best.number])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            for draw in (
                diagrams.plot_optimization_history,
                diagrams.plot_slice,
                diagrams.plot_parallel_coordinate,
                diagrams.plot_intermediate_values,
            ):
                assert draw(study) is not None
    curve = optuna.load_study(study_name=names[1], storage=URL).trials[0].intermediate_values
    assert len(curve) > 1 and all(map(math.isfinite, curve.values()))


def test_tables_have_every_trial_and_a_storage_of_others_is_left_alone(copy_run):
    import optuna

    copy_run("knn")
    files = answer("export", "runs/knn", "--csv", "out", "--parquet", "out")["files"]
    assert sorted(Path(file).name for file in files) == [
        "curves.csv",
        "curves.parquet",
        "trials.csv",
        "trials.parquet",
    ]
    expected = load_results("runs/knn")
    pd.testing.assert_frame_equal(pd.read_parquet("out/trials.parquet"), expected)
    assert pd.read_csv("out/trials.csv")["id"].tolist() == expected["id"].tolist()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    optuna.create_study(study_name="knn/iris/0/knn", storage=URL)
    refused = bench("export", "runs/knn", "--optuna", URL)
    assert refused.code == 2 and "BENCH-E005" in refused.err and "another storage" in refused.err
    assert bench("export", "runs/knn", "--optuna", "nope://x").code == 2
    assert bench("export", "runs/knn").code == 2
