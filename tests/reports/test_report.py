"""The written report: numbers, options, byte stability, and reasons for what is missing."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from report_cases import csv_rows, evidence_of, mixed, readable, rows_of, texts
from scipy import stats
from tabsweep.reports import report


def ranked(written):
    """The rows of the leaderboard's first view."""
    return [r for r in csv_rows(written["leaderboard.csv"]) if r["view"] == "complete"]


# --- right ----------------------------------------------------------------------------------------


def test_the_report_writes_each_part_in_three_forms_and_a_page_about_the_run(tmp_path):
    written = texts(evidence_of(rows_of(mixed(2), ["a", "b"])), tmp_path / "deep" / "report")
    parts = ("scores", "leaderboard", "tests", "folds", "coverage", "costs")
    files = {f"{p}.{e}" for p in parts for e in ("tex", "md", "csv")}
    files.remove("folds.tex")  # too few folds for a test: a sentence, no table
    others = {"about.md", "look-first.md", "look-first.csv"}
    assert {name for name in written if not name.startswith("paper/")} == files | others
    listed = written["about.md"].decode().partition("## Files")[2].strip().splitlines()
    assert all(re.search(r"`: \S", line) for line in listed)


def test_scores_ranks_and_p_values_are_those_of_the_formulas(tmp_path):
    frame = rows_of(mixed(8), ["a", "b", "c"])
    written = texts(evidence_of(frame), tmp_path)
    mean = {
        (d, m): (rows, rows.mean())
        for (d, m), rows in frame.groupby(["dataset", "model"])["test_roc_auc"]
        if d.startswith("binary")
    }
    for row in csv_rows(written["scores.csv"]):
        if row["task"] == "binary":
            values, want = mean[row["dataset"], row["model"]]
            assert float(row["mean"]) == pytest.approx(want)
            assert float(row["spread"]) == pytest.approx(stats.sem(values))
            best = max(mean[row["dataset"], m][1] for m in "abc")
            assert (row["best"] == "true") == (want == best)
    matrix = np.array([[mean[f"binary-{i}", m][1] for m in "abc"] for i in range(8)])
    rank = stats.rankdata(-matrix, axis=1)
    for row in ranked(written):
        if row["scope"] == "binary":
            j = "abc".index(row["model"])
            assert float(row["mean_rank"]) == pytest.approx(rank[:, j].mean())
            assert float(row["mean_rank_se"]) == pytest.approx(stats.sem(rank[:, j]))
            assert float(row["median_rank"]) == np.median(rank[:, j])
    tests = [r for r in csv_rows(written["tests.csv"]) if r["scope"] == "binary"]
    found = {r["test"]: r for r in tests}
    want = stats.friedmanchisquare(*matrix.T)
    assert float(found["friedman-chi2-tie-corrected"]["p"]) == pytest.approx(want.pvalue)
    pairs = [r for r in tests if r["test"] == "wilcoxon"]
    assert len(pairs) == 3
    for row in pairs:
        d = matrix[:, "abc".index(row["model_a"])] - matrix[:, "abc".index(row["model_b"])]
        assert float(row["p"]) == pytest.approx(stats.wilcoxon(d, method="exact").pvalue)
        greater = stats.wilcoxon(d, method="exact", alternative="greater").pvalue
        assert float(row["p_a_better"]) == pytest.approx(greater)
        assert float(row["p_holm"]) >= float(row["p"])


def test_error_units_do_not_matter_to_any_test(tmp_path):
    frame = rows_of({f"r{i}": "regression" for i in range(8)}, ["a", "b", "c"])
    scaled = frame.copy()
    unit = scaled["dataset"].map({f"r{i}": 10.0 ** (i - 4) for i in range(8)})
    scaled["test_rmse"] *= unit
    one, two = texts(evidence_of(frame), tmp_path / "1"), texts(evidence_of(scaled), tmp_path / "2")
    assert one["tests.csv"] == two["tests.csv"]
    for name in ("mean_rank", "median_rank", "n_best", "win_rate"):
        assert [r[name] for r in ranked(one)] == [r[name] for r in ranked(two)], name


def test_the_direction_of_the_metric_decides_who_is_better(tmp_path):
    frame = rows_of(mixed(6), ["a", "b"], score=lambda d, j: 0.7 + 0.1 * j)
    written = texts(evidence_of(frame), tmp_path)
    mean = {(r["scope"], r["model"]): r["mean_rank"] for r in ranked(written)}
    assert mean["binary", "b"] == mean["multiclass", "b"] == mean["regression", "a"] == "1"
    markdown = written["scores.md"].decode()
    assert "**.800**" in markdown and "**80.00**" in markdown and "**0.700**" in markdown


@pytest.mark.fault(16)
def test_a_failed_cell_is_no_score_and_a_dataset_without_it_is_not_ranked(tmp_path):
    frame = rows_of({f"d{i}": "binary" for i in range(6)}, ["a", "b"])
    lost = (frame["dataset"] == "d3") & (frame["model"] == "b") & (frame["fold"] == 1)
    frame.loc[lost, ["status", "cause", "message"]] = ["failed", "oom", "killed at 2 GiB"]
    frame.loc[lost, "selected"] = False
    frame.loc[lost, "test_roc_auc"] = np.nan
    written = texts(evidence_of(frame), tmp_path)
    ranks = ranked(written)
    assert {(r["n_datasets"], r["n_scope"]) for r in ranks} == {("5", "6")}
    scores = written["scores.md"].decode()
    assert re.search(r"\| d3 .*\*\*\.\d{3}\*\* ± \.\d{3} \| +\.\d{3} † \|", scores)
    coverage = {(r["dataset"], r["model"]): r for r in csv_rows(written["coverage.csv"])}
    assert coverage["d3", "b"]["causes"] == "oom 1" and coverage["d3", "b"]["folds_failed"] == "1"
    assert "killed at 2 GiB" in written["coverage.md"].decode()
    assert "**1/2**" in written["coverage.md"].decode()
    assert "bench logs" not in written["coverage.md"].decode()  # of results without a run
    of_run = texts(evidence_of(frame, runs=["runs/a"]), tmp_path)
    assert "bench logs" in of_run["coverage.md"].decode()


@pytest.mark.fault(16)
def test_a_model_with_little_coverage_does_not_cost_the_others_their_datasets(tmp_path):
    frame = rows_of({f"d{i}": "binary" for i in range(10)}, ["a", "b", "picky"])
    frame = frame[(frame["model"] != "picky") | frame["dataset"].isin(["d0", "d1"])]
    plan = rows_of({f"d{i}": "binary" for i in range(10)}, ["a", "b", "picky"])
    plan = plan[["dataset", "task", "fold", "model"]]
    refused = (plan["model"] == "picky") & ~plan["dataset"].isin(["d0", "d1"])
    plan["reason"] = np.where(refused, "more than 2000 rows", "")
    written = texts(evidence_of(frame, plan), tmp_path)
    notes = {r["model"]: r["note"] for r in ranked(written)}
    assert notes == {"a": "", "b": "", "picky": "n/a: complete on 2 of 10 datasets"}
    assert "n/s" in written["scores.md"].decode()
    reasons = {r["reason"] for r in csv_rows(written["coverage.csv"])}
    assert reasons == {"", "more than 2000 rows"}


def test_a_result_that_rows_share_by_its_id_is_paid_once(tmp_path):
    frame = rows_of({"d": "binary"}, ["a"], n_folds=3)
    frame["id"] = ["x", "x", "y"]
    frame["origin"] = ["", "", "other-run"]
    (row,) = csv_rows(texts(evidence_of(frame), tmp_path)["costs.csv"])
    assert (row["trials"], row["cpu_s"], row["copied"]) == ("2", "3", "1")


def test_the_subset_has_its_own_ranks_and_tests(tmp_path):
    frame = rows_of(mixed(8), ["a", "b", "c"])
    subset = [d for d in mixed(8) if not d.endswith("-0")]
    written = texts(evidence_of(frame, subset=subset, subset_note="The rest leak."), tmp_path)
    counts = {
        (r["datasets"], r["n_datasets"]) for r in ranked(written) if r["scope"] == "all tasks"
    }
    assert counts == {("all", "24"), ("subset", "21")}
    assert "The rest leak." in written["tests.md"].decode()


def test_the_second_best_is_underlined_and_italic_where_there_is_no_line(tmp_path):
    frame = rows_of({"d": "binary"}, list("abcd"), score=lambda d, j: (0.9, 0.8, 0.7, 0.8)[j])
    written = texts(evidence_of(frame), tmp_path)
    latex, markdown = written["scores.tex"].decode(), written["scores.md"].decode()
    assert latex.count("\\textbf{.900}") == 1 and latex.count("\\underline{.800}") == 2
    assert markdown.count("**.900**") == 1 and markdown.count("*.800*") == 2
    assert "the second best italic." in markdown and "second best underlined." in latex
    frame = rows_of({"d": "binary"}, list("abc"), score=lambda d, j: (0.9, 0.5, 0.9)[j])
    latex = texts(evidence_of(frame), tmp_path / "two best")["scores.tex"].decode()
    assert latex.count("\\textbf{.900}") == 2 and "\\underline" not in latex


def test_the_options_of_the_report_reach_its_parts(tmp_path):
    evidence = evidence_of(WITH_HOLES, PLAN)
    written = texts(evidence, tmp_path, reference="c", fallback="b")
    tests = csv_rows(written["tests.csv"])
    assert {r["model_a"] for r in tests if r["test"] == "wilcoxon-reference"} <= {"c", ""}
    assert {r["fallback"] for r in csv_rows(written["leaderboard.csv"])} == {"", "b"}
    for wrong in ({"reference": "z"}, {"fallback": "z"}):
        with pytest.raises(ValueError, match="'z'"):
            report.parts_of(evidence, **wrong)


# --- the same to the byte -------------------------------------------------------------------------


def test_the_same_evidence_in_any_order_of_rows_gives_the_same_bytes(tmp_path):
    frame = rows_of(mixed(), ["c", "a", "b"], n_folds=3)
    first = texts(evidence_of(frame), tmp_path / "0")
    for seed in range(3):
        shuffled = frame.sample(frac=1.0, random_state=seed)
        shuffled = shuffled[list(shuffled.columns[::-1])]
        assert texts(evidence_of(shuffled), tmp_path / str(seed + 1)) == first


TIMELESS = ("look-first", "scores", "leaderboard", "tests", "folds", "seeds")


def test_time_and_hardware_touch_neither_scores_nor_ranks_nor_tests(tmp_path):
    frame = rows_of(mixed(), ["a", "b"])
    one = texts(evidence_of(frame, last_record_utc="2026-01-01T00:00:00Z"), tmp_path / "1")
    frame = frame.assign(cpu_s=99.0, fit_s=98.0, peak_ram_mb=5.0, origin="another-run")
    two = texts(
        evidence_of(frame, last_record_utc="2027", environment={"cpu": "x"}), tmp_path / "2"
    )
    for name in (n for n in one if n.split(".")[0] in TIMELESS):
        assert one[name] == two[name]
    assert one["costs.csv"] != two["costs.csv"] and one["about.md"] != two["about.md"]


# --- never without words --------------------------------------------------------------------------


def failed(frame):
    gone = {"status": "failed", "cause": "error", "message": "boom", "selected": False}
    return frame.assign(**gone, test_roc_auc=np.nan)


HOLES = {("d0", "a"), ("d1", "b"), ("d2", "c")}
BINARY = {f"d{i}": "binary" for i in range(7)}
FULL = rows_of(BINARY, ["a", "b", "c"])
PLAN = FULL[["dataset", "task", "fold", "model"]].assign(n_trials=1)
WITH_HOLES = FULL[
    [(d, m) not in HOLES for d, m in zip(FULL["dataset"], FULL["model"], strict=True)]
]
TOO_FEW = "needs at least 6 complete datasets"
REGRESSION = {f"r{i}": "regression" for i in range(7)}
DEGENERATE = {
    "one model": (rows_of(BINARY, ["a"]), "needs at least 2 models with scores, has 1"),
    "two models": (rows_of(BINARY, ["a", "b"]), "needs at least 3 models, has 2"),
    "one dataset": (rows_of({"d": "binary"}, ["a", "b", "c"]), f"{TOO_FEW} to reach p = 0.05"),
    "one of everything": (rows_of({"d": "binary"}, ["a"], n_folds=1), "n/a: needs"),
    "five datasets": (FULL[~FULL["dataset"].isin(["d5", "d6"])], TOO_FEW),
    "all equal": (rows_of(BINARY, ["a", "b", "c"], score=lambda d, j: 0.5), ""),
    "all zero": (rows_of(REGRESSION, ["a", "b"], score=lambda d, j: 0.0), ""),
    "everything failed": (failed(FULL), "n/a: needs"),
    "everything unsupported": (failed(FULL).assign(status="unsupported"), "n/a: needs"),
    "one model failed": (
        pd.concat([FULL, failed(rows_of(BINARY, ["z"]))]),
        "models not ranked: z (0 of 7 datasets)",
    ),
    "holes everywhere": (WITH_HOLES, ""),
    "nothing ran": (FULL.iloc[:0], "n/a: needs"),
    "metric undefined": (FULL.assign(test_roc_auc=np.nan), "n/a: needs"),
    "no costs": (FULL.drop(columns=["cpu_s", "fit_s", "id"]), ""),
    "huge and tiny": (
        rows_of(REGRESSION, ["a", "b", "c"], score=lambda d, j: 10.0 ** (4 * int(d[1]) - 12 + j)),
        "",
    ),
}


@pytest.mark.fault(17)
@pytest.mark.parametrize("case", DEGENERATE)
def test_too_little_to_say_is_said_with_its_reason(case, tmp_path):
    frame, reason = DEGENERATE[case]
    plan = PLAN if case in ("holes everywhere", "nothing ran") else None
    written = texts(evidence_of(frame, plan), tmp_path)
    for name, data in readable(written).items():
        assert not re.search(rb"(?<![a-z])(nan|inf|None|NaT)(?![a-z])", data), name
        assert b"Traceback" not in data, name
    assert reason in (written["tests.md"] + written["leaderboard.md"]).decode()
