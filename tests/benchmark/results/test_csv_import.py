"""Results of another tool: the report that ours would be, or one clear error."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import bench
from looped import each
from tabsweep.benchmark.results.csv_import import read_results
from tabsweep.datasets.errors import DataError
from tabsweep.reports.aggregation.cells import cells, studies
from tabsweep.reports.evidence import EvidenceError

pytestmark = pytest.mark.usefixtures("work")

HEAD = "method,dataset,split,seed,metric,value"
PART = HEAD.replace("split", "part")
KIND, VARIANT = f"{HEAD},kind", f"{HEAD},variant"
ONE = "a,d,0,0,accuracy,.9"
GOOD = """a,wine,0,0,accuracy,0.9
a,wine,1,0,accuracy,0.8
b,wine,0,0,accuracy,0.7
b,wine,1,0,accuracy,0.6
a,yacht,0,0,rmse,1.5
b,yacht,0,0,rmse,2.5"""
KINDS = """a,d,0,0,accuracy,.80,single
a,d,0,1,accuracy,.82,single
a,d,0,0_1,accuracy,.85,ensemble
a,d,0,2_3,accuracy,.87,ensemble"""
VARIANTS = """a,d,0,0,accuracy,.8,tuned
a,d,0,0,accuracy,.7,default
b,d,0,0,accuracy,.6,default"""


def file(body: str, head: str = HEAD) -> Path:
    path = Path("results.csv")
    path.write_text(f"{head}\n{body}\n", encoding="utf-8")
    return path


def read(body: str, head: str = HEAD, **how):
    return read_results(file(body, head), **how)


def cell(evidence, dataset, model, metric):
    table = cells(evidence, studies(evidence), metric).set_index(["dataset", "model"])
    return table.loc[(dataset, model)]


def means(evidence, metric="accuracy"):
    """{"dataset model": mean over folds}"""
    table = cells(evidence, studies(evidence), metric)
    return dict(zip(table["dataset"] + " " + table["model"], table["mean"].round(9), strict=True))


def notes(evidence) -> str:
    return " ".join(evidence.facts.notes)


def parts(*words: str, **names: str) -> str:
    """Lines with the scores of two methods on these parts of the data, under other names."""
    values = {"train": 0.99, "val": 0.8, "test": 0.7}
    return "\n".join(
        f"{m},d,{names.get(part, part)},{seed},accuracy,{values[part]}"
        for m in "ab"
        for seed in (0, 1)
        for part in words or values
    )


# ---------------------------------------------------------------------- what becomes of it


@each(
    ("body", "head", "wanted"),
    [
        (f"{ONE}\na,d,1,0,accuracy,.7", HEAD.replace("split", "fold"), {"d a": 0.8}),
        ("a,d,test,0,accuracy,.9", HEAD, {"d a": 0.9}),  # a holdout may be called test
        ("a,d,accuracy,.9\nb,d,accuracy,.7", "method,dataset,metric,value",
         {"d a": 0.9, "d b": 0.7}),
        ("a,Adult,0,0,accuracy,.9\nb,adult,0,0,accuracy,.8", HEAD,
         {"Adult a": 0.9, "adult b": 0.8}),
        ("a,d,0,.9,.95\nb,d,0,.8,.85", "method,dataset,seed,accuracy,roc_auc",
         {"d a": 0.9, "d b": 0.8}),
        ("a,d,0,.7,.8,.99", "method,dataset,seed,test_accuracy,val_accuracy,train_rmse",
         {"d a": 0.7}),
        (parts(), PART, {"d a": 0.7, "d b": 0.7}),
        (parts(val="Validation", train="TRAIN"), PART, {"d a": 0.7, "d b": 0.7}),
        *((f"{ONE}\nb,d,0,0,accuracy,0.75".replace(",", by).replace(".", comma),
           HEAD.replace(",", by), {"d a": 0.9, "d b": 0.75})
          for by, comma in ((";", ","), ("\t", "."), ("|", "."))),
        (KINDS, KIND, {"d a": 0.81}),
        (VARIANTS, VARIANT, {"d a": 0.8, "d a-default": 0.7, "d b-default": 0.6}),
    ],
)  # fmt: skip
def test_lines_of_these_shapes_give_the_means(body, head, wanted):
    assert means(read(body, head)) == wanted


def test_scores_are_means_over_splits_and_the_task_follows_from_the_metric():
    evidence = read(GOOD)
    assert evidence.facts.metric == {"binary": "accuracy", "regression": "rmse"}
    found = cell(evidence, "wine", "a", "accuracy")
    assert found["mean"] == pytest.approx(0.85) and found["spread"] == pytest.approx(0.05)
    assert cell(evidence, "yacht", "b", "rmse")["mean"] == 2.5
    body = "\n".join(f"{line},multiclass" for line in GOOD.splitlines() if "wine" in line)
    evidence = read(body, f"{HEAD},task")  # a column says what no metric can
    assert evidence.tasks == ["multiclass"] and not evidence.facts.notes


def test_seeds_of_a_split_are_averaged_first_and_never_count_as_splits():
    rows = [(0, 0, 0.5), (0, 1, 0.7), (1, 0, 0.9)]
    evidence = read("\n".join(f"a,wine,{s},{seed},accuracy,{v}" for s, seed, v in rows))
    found = cell(evidence, "wine", "a", "accuracy")
    assert found["mean"] == pytest.approx((0.6 + 0.9) / 2) and found["n_folds"] == 2


def test_several_metrics_of_a_trial_are_one_trial_on_several_lines_or_one():
    lines = GOOD + "\n" + GOOD.replace("accuracy", "log_loss").replace("rmse", "mae")
    evidence = read(lines)
    assert len(evidence.trials) == 6
    assert evidence.test_metrics("binary") == ["accuracy", "log_loss"]
    assert evidence.facts.metric["regression"] == "rmse"
    evidence = read("a,d,0,.9,.95\nb,d,0,.8,.85", "method,dataset,seed,accuracy,roc_auc")
    assert means(evidence, "roc_auc") == {"d a": 0.95, "d b": 0.85}


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
    assert "numbered in this order: fold-9, fold-10, holdout" in evidence.facts.notes[-1]


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
    for wide in ("accuracy,roc_auc", "val_accuracy,test_accuracy", "test_accuracy,val_accuracy"):
        evidence = read("a,d,.9,.8,\nb,d,,,oom", f"method,dataset,{wide},cause")
        assert set(evidence.trials["status"]) == {"done", "failed"}


def test_a_task_of_which_everything_failed_is_reported_as_failed():
    body = "a,d,accuracy,,oom,binary\nb,d,accuracy,,timeout,binary\n"
    body += "a,e,rmse,2.5,,regression\nb,e,rmse,2.4,,regression"
    evidence = read(body, "method,dataset,metric,value,cause,task")
    evidence.validate()
    table = studies(evidence)
    states = table.groupby("dataset")["state"].agg(set).to_dict()
    assert states == {"d": {"failed"}, "e": {"complete"}} and len(table) == 4


def test_costs_and_configurations_stand_on_one_line_of_a_trial_or_on_all():
    head = f"{HEAD},config,seconds"
    one = 'a,wine,0,0,accuracy,0.9,"{""k"": 3}",2\na,wine,0,0,log_loss,0.3,,\n'
    evidence = read(one + "b,wine,0,0,accuracy,0.8,plain text,\nb,wine,0,0,log_loss,0.4,,", head)
    assert list(evidence.trials["config"]) == ['{"k":3}', '{"config":"plain text"}']
    assert evidence.trials["fit_s"][0] == 2.0 and np.isnan(evidence.trials["fit_s"][1])


def test_scores_on_validation_rows_are_kept_and_what_is_not_read_is_named():
    evidence = read(parts(), PART)
    assert set(evidence.planned["fold"]) == {0}
    assert set(evidence.trials["val_accuracy"]) == {0.8}
    assert "Scores on training rows are not read (4 lines)." in notes(evidence)
    evidence = read("a,d,0,0,accuracy,.9,h,big\na,d,0,1,accuracy,.8,h,small", f"{HEAD},host,size")
    assert "Columns that are not read: host, size." in notes(evidence)


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


def test_compressed_files_are_read_and_damaged_ones_named():
    whole = gzip.compress(f"{HEAD}\n{ONE}\n".encode())
    Path("r.csv.gz").write_bytes(whole)
    assert means(read_results("r.csv.gz")) == {"d a": 0.9}
    for damaged in (whole[:-9], whole[:12] + b"no gzip"):
        Path("r.csv.gz").write_bytes(damaged)
        with pytest.raises(DataError, match=r"r.csv.gz: the gzip file is damaged or cut short"):
            read_results("r.csv.gz")
    Path("r.csv.gz").write_bytes(b"no gzip")  # a file is what its first bytes say
    with pytest.raises((DataError, EvidenceError), match="r.csv.gz: "):
        read_results("r.csv.gz")


@pytest.mark.fault(16)
def test_a_name_in_two_forms_of_its_letters_is_one_name_and_its_double_is_refused():
    composed, parted = "caf\u00e9", "cafe\u0301"
    assert composed != parted
    evidence = read(f"{composed},d,0,0,accuracy,.9\n{parted},d,1,0,accuracy,.7")
    assert means(evidence) == {f"d {composed}": 0.8}
    with pytest.raises(EvidenceError, match=r"line 3: a second value.*\(the first: line 2\)"):
        read(f"{composed},d,0,0,accuracy,.9\n{parted},d,0,0,accuracy,.7")


# ---------------------------------------------------------------------- what is refused

SPOILT = [  # a text in GOOD, what stands there instead, what is said
    ("0.6", "nan", "line 5: value must be a finite number or empty, not 'nan'"),
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
]
WIDE = "method,dataset,seed,accuracy,roc_auc,cause"
REFUSED = [  # lines, header, what is said
    *((GOOD.replace(old, new, 1), HEAD, says) for old, new, says in SPOILT),
    (f"{ONE},regresion", f"{HEAD},task", "unknown task 'regresion'; did you mean 'regression'?"),
    (f"{ONE},binary\na,d,1,0,accuracy,.9,multiclass", f"{HEAD},task",
     "a dataset has one task; 'd' is binary elsewhere"),
    (f"{ONE},regression", f"{HEAD},task", "'accuracy' is no metric of regression"),
    (f"{ONE},out of memory", f"{HEAD},cause", "unknown cause 'out of memory'; known: error, gpu"),
    (f"{ONE},oom", f"{HEAD},cause", "line 2: a failed trial has no value, and this one has '.9'"),
    (f"{ONE},-1", f"{HEAD},seconds", "seconds '-1' is below 0"),
    # two lines of a trial contradict each other
    (f"{ONE},2\na,d,0,0,log_loss,.3,3", f"{HEAD},seconds", "line 3: seconds '3' differs from that"),
    ("a,d,0,0,accuracy,,oom\na,d,0,0,log_loss,.3,", f"{HEAD},cause", "this trial failed on"),
    ("a,wine,0,rmse", "method,dataset,seed,metric", "line 1: no column value"),
    (GOOD, HEAD.replace("method", "methods"), "no column method; did you mean 'methods'"),
    ("a,d,0,0,mae,1\na,e,0,0,rmse,1", HEAD, "no metric in common"),
    # a part of the data is no split
    (parts("train", "val"), PART, "line 2: part 'train': the file has train and val lines only"),
    (parts(), HEAD, "line 2: split 'train' names a part of the data; put"),
    ("a,d,train-0,0,accuracy,1", HEAD, "line 2: split 'train-0' names a part of the data; put"),
    (f"{ONE}\na,d,,0,accuracy,1", HEAD, "line 3: split is empty"),
    (f"{ONE}\nb,d,Mean,0,accuracy,1", HEAD, "line 3: split 'Mean' sums up others, and method 'b'"),
    ("a-x,d,0,0,accuracy,1,\na,e,0,0,accuracy,1,x", f"{HEAD},variant", "the name of another"),
    ("a,d,test,0,accuracy,.9\na,d,val,1,accuracy,.8", PART, "line 3: a validation score of method"),
    ("a,d,tset,0,accuracy,1", PART, "line 2: unknown part 'tset'; known: train, val"),
    ("a,d,0,.9,.9,\nb,d,0,,,", WIDE, "line 3: no value of accuracy, roc_auc; give one, or the"),
    # only a column that is not read tells the lines apart
    (f"{ONE},big\na,d,0,0,accuracy,.8,small", f"{HEAD},size", "such as big"),
    (f"{ONE}\n{ONE}", HEAD, "remove one, or tell them apart by seed"),
    (f"{ONE},bag", KIND, "unknown kind 'bag'; known: single, ensemble"),
    ("a,d,0,0_4,accuracy,.9", HEAD, "line 2: seed must be a whole number, not '0_4', or the line"),
]  # fmt: skip


@each(("body", "head", "says"), REFUSED)
def test_a_fault_is_refused_in_one_line_with_its_place_and_the_law(body, head, says):
    with pytest.raises(EvidenceError) as refused:
        read(body, head)
    assert says in str(refused.value) and "\n" not in str(refused.value)


# ---------------------------------------------------------------------- kinds, variants, seeds


def test_ensembles_are_no_runs_of_their_cell():
    evidence = read(KINDS, KIND)
    assert list(evidence.ensembles["test_accuracy"]) == [0.85, 0.87]
    assert list(evidence.ensembles["seeds"]) == ["0_1", "2_3"]
    alone = read("\n".join(KINDS.splitlines()[2:]), KIND)
    assert means(alone) == {"d a": 0.86} and alone.facts.kind == "ensemble"
    assert alone.ensembles is None
    assert read("\n".join(KINDS.splitlines()[:2]), KIND).ensembles is None


def test_ensembles_stand_beside_the_single_runs_in_the_report():
    other = "b,e,0,0_1,accuracy,.85,ensemble\nb,e,0,2_3,accuracy,.87,ensemble"
    read(f"{KINDS}\n{other}", KIND)
    found = bench("report", "--from", "results.csv", "--no-html")
    assert found.code == 0, found.err
    text = Path("report/seeds.md").read_text()
    assert "86.00" in text and "81.00" in text and "Ensembles: as the file has them." in text
    assert "note: Ensembles without single runs" in found.err
    read(other, KIND)
    assert bench("report", "--from", "results.csv").code == 0
    assert "every run of this evidence is one" in Path("report/seeds.md").read_text()


def test_one_variant_may_stand_in_for_tuned_runs():
    evidence = read(VARIANTS, VARIANT, untuned="default")
    assert means(evidence) == means(read(VARIANTS, VARIANT)) | {"d b": 0.6}
    assert "in place of tuned runs, which are lacking: b on d." in notes(evidence)
    numbered = read(f"{ONE},7", VARIANT)
    assert means(numbered) == {"d a": 0.9} and "Variant of every line: 7." in notes(numbered)


def test_a_cell_with_fewer_seeds_is_marked_in_every_table():
    rng = np.random.default_rng(0)
    body = "\n".join(
        f"{m},d{d},0,{seed},accuracy,{rng.uniform(0.6, 0.9):.3f}"
        for d in range(3)
        for m in "ab"
        for seed in range(4)
        if (m, d, seed) != ("b", 1, 2)
    )
    evidence = read(body)
    assert evidence.fewer_seeds == {("d1", "b"): (3, 4)}
    assert bench("report", "--from", "results.csv").code == 0
    for page in ("dataset-d1", "model-b"):
        assert "3 of 4 seeds" in Path(f"report/html/{page}.html").read_text(), page
    said = "fewer than other models have there: b on d1 (s3, others 4)"
    for name in ("scores", "leaderboard", "tests", "seeds"):
        assert said in Path(f"report/{name}.md").read_text(), name
    (line,) = [x for x in Path("report/scores.md").read_text().splitlines() if x[:4] == "| d1"]
    assert " s3 " in line
    assert r"\textsuperscript{s3}" in Path("report/scores.tex").read_text()
    counted = pd.read_csv("report/scores.csv").query("headline").set_index(["dataset", "model"])
    assert counted["n_seeds"].to_dict() == {
        (f"d{d}", m): 4 - ((d, m) == (1, "b")) for d in range(3) for m in "ab"
    }


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
