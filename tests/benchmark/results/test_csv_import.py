"""Results of another tool: the report that ours would be, or one clear error."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import bench
from tabsweep.benchmark.results.csv_import import read_results
from tabsweep.reports.aggregation.cells import cells, studies
from tabsweep.reports.evidence import EvidenceError

pytestmark = pytest.mark.usefixtures("work")

HEAD = "method,dataset,split,seed,metric,value"
GOOD = """a,wine,0,0,accuracy,0.9
a,wine,1,0,accuracy,0.8
b,wine,0,0,accuracy,0.7
b,wine,1,0,accuracy,0.6
a,yacht,0,0,rmse,1.5
b,yacht,0,0,rmse,2.5"""


def file(body: str, head: str = HEAD) -> Path:
    path = Path("results.csv")
    path.write_text(f"{head}\n{body}\n", encoding="utf-8")
    return path


def read(body: str, head: str = HEAD):
    return read_results(file(body, head))


def cell(evidence, dataset, model, metric):
    table = cells(evidence, studies(evidence), metric).set_index(["dataset", "model"])
    return table.loc[(dataset, model)]


# ---------------------------------------------------------------------- what becomes of it


def test_scores_are_means_over_splits_and_the_task_follows_from_the_metric():
    evidence = read(GOOD)
    assert evidence.meta["metric"] == {"binary": "accuracy", "regression": "rmse"}
    found = cell(evidence, "wine", "a", "accuracy")
    assert found["mean"] == pytest.approx(0.85) and found["spread"] == pytest.approx(0.05)
    assert cell(evidence, "yacht", "b", "rmse")["mean"] == 2.5
    assert (
        "wine and yacht" in evidence.meta["notes"][1]
        or "wine, yacht" in (evidence.meta["notes"][1])
    )


def test_a_column_says_the_task_that_no_metric_can():
    body = "\n".join(f"{line},multiclass" for line in GOOD.splitlines() if "wine" in line)
    evidence = read(body, f"{HEAD},task")
    assert evidence.tasks == ["multiclass"] and len(evidence.meta["notes"]) == 1


def test_seeds_of_a_split_are_averaged_first_and_never_count_as_splits():
    rows = [(0, 0, 0.5), (0, 1, 0.7), (1, 0, 0.9)]
    evidence = read("\n".join(f"a,wine,{s},{seed},accuracy,{v}" for s, seed, v in rows))
    found = cell(evidence, "wine", "a", "accuracy")
    assert found["mean"] == pytest.approx((0.6 + 0.9) / 2) and found["n_folds"] == 2


def test_several_metrics_of_a_trial_are_one_trial():
    lines = GOOD + "\n" + GOOD.replace("accuracy", "log_loss").replace("rmse", "mae")
    evidence = read(lines)
    assert len(evidence.trials) == 6
    assert evidence.test_metrics("binary") == ["accuracy", "log_loss"]
    assert evidence.meta["metric"]["regression"] == "rmse"


def test_the_order_of_lines_and_columns_changes_nothing():
    frame = pd.read_csv(file(GOOD), dtype=str)
    evidence = read_results("results.csv")
    shuffled = frame.sample(frac=1.0, random_state=1)[list(frame.columns[::-1])]
    shuffled.to_csv("results.csv", index=False)
    again = read_results("results.csv")
    pd.testing.assert_frame_equal(evidence.trials, again.trials[evidence.trials.columns])
    pd.testing.assert_frame_equal(evidence.planned, again.planned)


def test_splits_with_names_are_numbered_in_natural_order_and_the_report_says_so():
    splits = ("fold-10", "fold-9", "holdout")
    evidence = read("\n".join(f"a,wine,{s},0,accuracy,0.{i + 1}" for i, s in enumerate(splits)))
    assert list(evidence.trials["test_accuracy"]) == [0.2, 0.1, 0.3]
    assert "numbered in this order: fold-9, fold-10, holdout" in evidence.meta["notes"][-1]


def test_a_method_that_lacks_a_split_is_partial_and_one_that_lacks_a_dataset_is_not_planned():
    evidence = read(GOOD.replace("b,wine,1,0,accuracy,0.6\n", "").replace("b,yacht", "c,yacht"))
    assert cell(evidence, "wine", "b", "accuracy")["state"] == "partial"
    assert set(evidence.planned[evidence.planned["dataset"] == "yacht"]["model"]) == {"a", "c"}


def test_a_failure_has_a_cause_and_no_value_and_is_no_score():
    body = "\n".join(f"{line}," for line in GOOD.splitlines()).replace("0.6,", ",oom")
    evidence = read(body, f"{HEAD},cause")
    lost = evidence.trials[evidence.trials["status"] == "failed"]
    assert list(lost["cause"]) == ["oom"] and lost["test_accuracy"].isna().all()
    assert cell(evidence, "wine", "b", "accuracy")["state"] == "partial"


def test_costs_and_configurations_stand_on_one_line_of_a_trial_or_on_all():
    head = f"{HEAD},config,seconds"
    one = 'a,wine,0,0,accuracy,0.9,"{""k"": 3}",2\na,wine,0,0,log_loss,0.3,,\n'
    evidence = read(one + "b,wine,0,0,accuracy,0.8,plain text,\nb,wine,0,0,log_loss,0.4,,", head)
    assert list(evidence.trials["config"]) == ['{"k":3}', '{"config":"plain text"}']
    assert evidence.trials["fit_s"][0] == 2.0 and np.isnan(evidence.trials["fit_s"][1])


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("0.6", "nan", "line 5: value must be a finite number or empty, not 'nan'"),
        ("0.6", "inf", "line 5: value must be a finite number or empty, not 'inf'"),
        ("0.6", "-", "line 5: value must be a finite number"),
        ("0.6", "1e160", "line 5: value '1e160' is larger than 1e+100"),
        ("0.6", "", "line 5: value is empty; give a number, or the cause"),
        ("0.6", "60", "line 5: 'accuracy' '60' is not between 0 and 1; divide percent by 100"),
        ("0.6", "-0.1", "line 5: 'accuracy' '-0.1' is not between 0 and 1"),
        ("1.5", "-1.5", "line 6: 'rmse' '-1.5' is below 0"),
        ("rmse", "RMSE", "line 6: unknown metric 'RMSE'; did you mean 'rmse'?"),
        ("accuracy", "acuracy", "unknown metric 'acuracy'; did you mean 'accuracy'?"),
        ("b,wine,1", "b,wine,0", "line 5: a second value of 'accuracy' for method 'b'"),
        ("b,wine,1,0,", "b,wine,1,x,", "line 5: seed must be a whole number, not 'x'"),
        ("b,wine,1,0,", ",wine,1,0,", "line 5: method is empty"),
        ("b,wine,1,0,accuracy", "b,wine,1,0,rmse", "'rmse' is no metric of binary"),
        ("b,wine,1,0,accuracy", "b,wine,1,0,roc_auc", "line 5: method 'b' has no accuracy here"),
        ("b,wine,0,0", "a,wine,0,00", "line 4: a second value of 'accuracy' for method 'a'"),
    ],
)
def test_a_fault_is_refused_with_its_line_and_the_law(old, new, says):
    with pytest.raises(EvidenceError) as refused:
        read(GOOD.replace(old, new, 1) if old != "accuracy" else GOOD.replace(old, new))
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "extra, cells_, says",
    [
        ("task", ["regresion"], "unknown task 'regresion'; did you mean 'regression'?"),
        ("task", ["binary", "multiclass"], "a dataset has one task; 'wine' is binary elsewhere"),
        ("task", ["regression"], "'accuracy' is no metric of regression"),
        ("cause", ["out of memory"], "unknown cause 'out of memory'; known: error, gpu"),
        ("cause", ["oom"], "line 2: a failed trial has no value, and this one has '0.9'"),
        ("seconds", ["fast"], "seconds must be a finite number or empty, not 'fast'"),
        ("seconds", ["-1"], "seconds '-1' is below 0"),
    ],
)
def test_a_fault_in_a_column_that_may_be_left_out_is_refused_too(extra, cells_, says):
    lines = [line for line in GOOD.splitlines() if "wine" in line]
    cells_ = [*cells_, *([cells_[-1]] * len(lines))]
    body = "\n".join(f"{line},{c}" for line, c in zip(lines, cells_, strict=False))
    with pytest.raises(EvidenceError) as refused:
        read(body, f"{HEAD},{extra}")
    assert says in str(refused.value)


def test_two_lines_of_a_trial_do_not_contradict_each_other():
    with pytest.raises(EvidenceError, match="line 3: seconds '3' differs from that on another"):
        read("a,d,0,0,accuracy,.9,2\na,d,0,0,log_loss,.3,3", f"{HEAD},seconds")
    with pytest.raises(EvidenceError, match="line 3: this trial failed on another line"):
        read("a,d,0,0,accuracy,,oom\na,d,0,0,log_loss,.3,", f"{HEAD},cause")


def test_missing_columns_are_named_with_what_may_have_been_meant():
    with pytest.raises(EvidenceError, match=r"line 1: no column value.*needed: method, dataset"):
        read("a,wine,0,rmse", "method,dataset,seed,metric")
    with pytest.raises(EvidenceError, match="no column method; did you mean 'methods'"):
        read(GOOD, HEAD.replace("method", "methods"))


def test_a_metric_of_ensembles_alone_is_not_the_one_of_the_tables():
    head = "method,dataset,task,split,seed,metric,value,kind"
    runs = "".join(f"{m},d,binary,0,{s},accuracy,0.{s + 5},single\n" for m in "ab" for s in (0, 1))
    both = "".join(
        f"{m},d,binary,0,0-1,{name},0.9,ensemble\n"
        for m in "ab"
        for name in ("roc_auc", "accuracy")
    )
    evidence = read((runs + both).rstrip(), head)
    assert evidence.headline("binary") == "accuracy"
    assert cell(evidence, "d", "a", "accuracy")["mean"] == pytest.approx(0.55)


def test_datasets_of_one_task_need_one_metric_in_common():
    with pytest.raises(EvidenceError, match="no metric in common.*'d' has mae; 'e' has rmse"):
        read("a,d,0,0,mae,1\na,e,0,0,rmse,1")


# ---------------------------------------------------------------------- the command


def test_the_command_builds_the_whole_report_beside_the_file():
    rng = np.random.default_rng(0)
    body = [
        f"{m},d{d},{s},0,accuracy,{rng.uniform(0.6, 0.9):.4f}"
        for d in range(8)
        for m in "abc"
        for s in range(3)
    ]
    file("\n".join(body))
    found = bench("report", "--from", "results.csv", "--no-html", "--json")
    assert found.code == 0, found.err
    files = {Path(path).name for path in json.loads(found.out)["files"]}
    assert {"scores.tex", "leaderboard.md", "tests.csv", "coverage.md", "about.md"} <= files
    about = Path("report/about.md").read_text()
    assert "Results of another tool, from results.csv" in about
    assert "| 0.0 |" not in Path("report/costs.md").read_text(), "costs that nobody recorded"
    pairs = pd.read_csv("report/tests.csv").query("test == 'wilcoxon'")
    assert len(pairs) == 3 and (pairs["n_datasets"] == 8).all()
    before = {p.name: p.read_bytes() for p in Path("report").iterdir() if p.is_file()}
    bench("report", "--from", "results.csv", "--no-html", "--out", "again")
    assert before == {p.name: p.read_bytes() for p in Path("again").iterdir() if p.is_file()}


@pytest.mark.parametrize(
    "args, says",
    [
        (("--from", "none.csv"), "error BENCH-E007: none.csv: there is no such file"),
        (("--from", "results.csv"), "error BENCH-E008: results.csv: line 2: unknown metric 'auc'"),
        (("run", "--from", "results.csv"), "--from"),
        ((), "--from"),
        (("--from", "good.csv", "--fallback", "c"), "BENCH-E008: the fallback must be a model of"),
        (("--from", "good.csv", "--reference", "c"), "BENCH-E008: the reference must be a model"),
        (("--from", "good.csv", "--fallback", "wurst"), "(did you mean 'worst'?)"),
    ],
)
def test_a_wrong_call_is_refused_and_writes_nothing(args, says):
    file(GOOD).rename("good.csv")
    file("a,d,0,0,auc,0.5")
    found = bench("report", *args)
    assert found.code == 2 and says in found.err and found.out == ""
    assert sorted(path.name for path in Path().iterdir()) == ["good.csv", "results.csv"]
