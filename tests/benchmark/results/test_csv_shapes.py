"""Shapes of CSV files from elsewhere: read as what they are, or refused with a way out."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import bench
from tabsweep.benchmark.results.csv_import import read_results
from tabsweep.datasets.errors import DataError
from tabsweep.reports.aggregation.cells import cells, studies
from tabsweep.reports.evidence import EvidenceError

pytestmark = pytest.mark.usefixtures("work")

HEAD = "method,dataset,split,seed,metric,value"
ONE = "a,d,0,0,accuracy,.9"


def read(body: str, head: str = HEAD, **how):
    Path("results.csv").write_text(f"{head}\n{body}\n", encoding="utf-8")
    return read_results("results.csv", **how)


def means(evidence, metric="accuracy"):
    """{(dataset, model): mean over folds}"""
    table = cells(evidence, studies(evidence), metric)
    keys = zip(table["dataset"], table["model"], strict=True)
    return dict(zip(keys, table["mean"].round(9), strict=True))


def notes(evidence) -> str:
    return " ".join(evidence.meta["notes"])


def refused(*args, **choice) -> str:
    with pytest.raises(EvidenceError) as error:
        read(*args, **choice)
    assert "\n" not in str(error.value)
    return str(error.value)


# ---------------------------------------------------------------------- parts of the data

PARTS = [("train", 0.99), ("val", 0.8), ("test", 0.7)]


def parts(words=PARTS, **names) -> str:
    return "\n".join(
        f"{m},d,{names.get(part, part)},{seed},accuracy,{value}"
        for m in "ab"
        for seed in (0, 1)
        for part, value in words
    )


PART = HEAD.replace("split", "part")


@pytest.mark.parametrize("names", [{}, {"val": "Validation", "train": "TRAIN"}])
def test_train_val_and_test_are_parts_and_no_folds(names):
    evidence = read(parts(**names), PART)
    assert means(evidence) == {("d", "a"): 0.7, ("d", "b"): 0.7}
    assert set(evidence.planned["fold"]) == {0}
    assert set(evidence.trials["val_accuracy"]) == {0.8}
    assert "Scores on training rows are not read (4 lines)." in notes(evidence)


@pytest.mark.parametrize(
    "body, head, says",
    [
        (parts(PARTS[:2]), PART, "line 2: part 'train': the file has train and val lines only"),
        (parts(), HEAD, "line 2: split 'train' names a part of the data; put"),
        (f"{ONE}\na,d,train,0,accuracy,1", HEAD, "line 3: split 'train' names a part of the data"),
        ("a,d,train-0,0,accuracy,1", HEAD, "line 2: split 'train-0' names a part of the data; put"),
        ("a,d,train0,0,accuracy,1", HEAD, "line 2: split 'train0' names a part of the data; put"),
        (f"{ONE}\na,d,,0,accuracy,1", HEAD, "line 3: split is empty"),
    ],
)
def test_a_split_that_is_a_part_of_the_data_is_refused(body, head, says):
    assert says in refused(body, head)


def test_a_holdout_may_be_called_test():
    assert means(read("a,d,test,0,accuracy,.9")) == {("d", "a"): 0.9}


def test_a_task_of_which_everything_failed_is_reported_as_failed():
    body = "a,d,,oom,binary\nb,d,,timeout,binary\na,e,2.5,,regression\nb,e,2.4,,regression"
    evidence = read(
        body.replace(",,oom", ",accuracy,,oom")
        .replace(",,time", ",accuracy,,time")
        .replace("e,2", "e,rmse,2"),
        "method,dataset,metric,value,cause,task",
    )
    evidence.validate()
    table = studies(evidence).set_index(["dataset", "model"])
    assert table["state"].to_dict() == {
        **{("d", m): "failed" for m in "ab"},
        **{("e", m): "complete" for m in "ab"},
    }


def test_a_validation_score_needs_its_test_score_and_a_part_a_known_word():
    head = HEAD.replace("split", "part")
    found = refused("a,d,test,0,accuracy,.9\na,d,val,1,accuracy,.8", head)
    assert (
        "line 3: a validation score of method 'a'" in found
        and "leave out those of part val" in found
    )
    assert "line 2: unknown part 'tset'; known: train, val" in refused(
        "a,d,tset,0,accuracy,1", head
    )


# ---------------------------------------------------------------------- long and wide


def test_fold_is_a_name_of_split_and_split_and_seed_may_be_left_out():
    evidence = read("a,d,0,0,accuracy,.9\na,d,1,0,accuracy,.7", HEAD.replace("split", "fold"))
    assert means(evidence) == {("d", "a"): 0.8} and set(evidence.trials["fold"]) == {0, 1}
    evidence = read("a,d,accuracy,.9\nb,d,accuracy,.7", "method,dataset,metric,value")
    assert means(evidence) == {("d", "a"): 0.9, ("d", "b"): 0.7}


def test_a_column_for_each_metric_is_read_as_a_line_for_each():
    evidence = read("a,d,0,.9,.95\nb,d,0,.8,.85", "method,dataset,seed,accuracy,roc_auc")
    assert means(evidence) == {("d", "a"): 0.9, ("d", "b"): 0.8}
    assert means(evidence, "roc_auc") == {("d", "a"): 0.95, ("d", "b"): 0.85}
    evidence = read("a,d,0,.7,.8,.99", "method,dataset,seed,test_accuracy,val_accuracy,train_rmse")
    assert means(evidence) == {("d", "a"): 0.7} and list(evidence.trials["val_accuracy"]) == [0.8]


def test_a_failure_in_a_wide_file_has_a_cause_and_an_empty_line_is_refused():
    head = "method,dataset,seed,accuracy,roc_auc,cause"
    evidence = read("a,d,0,.9,.9,\nb,d,0,,,oom", head)
    assert set(evidence.trials["status"]) == {"done", "failed"}
    for head_ in ("val_accuracy,test_accuracy", "test_accuracy,val_accuracy"):
        evidence = read("a,d,.9,.8,\nb,d,,,oom", f"method,dataset,{head_},cause")
        assert set(evidence.trials["status"]) == {"done", "failed"}
    found = refused("a,d,0,.9,.9,\nb,d,0,,,", head)
    assert "line 3: no value of accuracy, roc_auc; give one, or the cause" in found
    assert "line 3: method 'b' has no roc_auc here" in refused("a,d,0,.9,.9,\nb,d,0,.8,,", head)


def test_semicolons_with_decimal_commas_tabs_and_compressed_files():
    for separator, comma in ((";", ","), ("\t", "."), ("|", ".")):
        body = "a,d,0,0,accuracy,0.9\nb,d,0,0,accuracy,0.75".replace(",", separator).replace(
            ".", comma
        )
        found = means(read(body, HEAD.replace(",", separator)))
        assert found == {("d", "a"): 0.9, ("d", "b"): 0.75}
    Path("r.csv.gz").write_bytes(gzip.compress(f"{HEAD}\n{ONE}\n".encode()))
    assert means(read_results("r.csv.gz")) == {("d", "a"): 0.9}
    whole = Path("r.csv.gz").read_bytes()
    for damaged in (whole[:-9], whole[:12] + b"no gzip"):
        Path("r.csv.gz").write_bytes(damaged)
        with pytest.raises(DataError, match=r"r.csv.gz: the gzip file is damaged or cut short"):
            read_results("r.csv.gz")
    Path("r.csv.gz").write_bytes(b"no gzip")  # a file is what its first bytes say
    with pytest.raises((DataError, EvidenceError), match="r.csv.gz: "):
        read_results("r.csv.gz")


# ---------------------------------------------------------------------- which lines, which names

SIZES = "a,d,0,0,accuracy,.9,big\na,d,0,0,accuracy,.8,small"


def test_lines_that_only_an_unread_column_tells_apart_are_refused_with_the_selection():
    found = refused(SIZES, f"{HEAD},size")
    assert "line 3: a second value of 'accuracy' for method 'a'" in found
    assert "(the first: line 2)" in found and "such as big" in found
    assert "remove one, or tell them apart by seed" in refused(f"{ONE}\n{ONE}")


def test_columns_that_are_not_read_are_named():
    evidence = read("a,d,0,0,accuracy,.9,h,big\na,d,0,1,accuracy,.8,h,small", f"{HEAD},host,size")
    assert "Columns that are not read: host, size." in notes(evidence)


def test_names_that_differ_in_case_are_two():
    body = "a,Adult,0,0,accuracy,.9\nb,adult,0,0,accuracy,.8"
    assert set(means(read(body))) == {("Adult", "a"), ("adult", "b")}


@pytest.mark.fault(16)
def test_a_name_in_two_forms_of_its_letters_is_one_name_and_its_double_is_refused():
    composed, parted = "caf\u00e9", "cafe\u0301"
    assert composed != parted
    evidence = read(f"{composed},d,0,0,accuracy,.9\n{parted},d,1,0,accuracy,.7")
    assert means(evidence) == {("d", composed): 0.8}
    double = refused(f"{composed},d,0,0,accuracy,.9\n{parted},d,0,0,accuracy,.7")
    assert "line 3: a second value" in double and "(the first: line 2)" in double


# ---------------------------------------------------------------------- kinds and variants

KINDS = """a,d,0,0,accuracy,.80,single
a,d,0,1,accuracy,.82,single
a,d,0,0_1,accuracy,.85,ensemble
a,d,0,2_3,accuracy,.87,ensemble"""


def test_ensembles_are_no_runs_of_their_cell():
    evidence = read(KINDS, f"{HEAD},kind")
    assert means(evidence) == {("d", "a"): 0.81}
    assert list(evidence.ensembles["test_accuracy"]) == [0.85, 0.87]
    assert list(evidence.ensembles["seeds"]) == ["0_1", "2_3"]
    only = {
        kind: "\n".join(x for x in KINDS.splitlines() if kind in x)
        for kind in ("single", "ensemble")
    }
    alone = read(only["ensemble"], f"{HEAD},kind")
    assert means(alone) == {("d", "a"): 0.86} and alone.meta["kind"] == "ensemble"
    assert alone.ensembles is None
    assert read(only["single"], f"{HEAD},kind").ensembles is None


def test_ensembles_stand_beside_the_single_runs_in_the_report():
    other = (
        KINDS.replace("a,d", "b,e")
        .replace("single", "ensemble")
        .replace(",0,accuracy", ",9,accuracy")
    )
    read(f"{KINDS}\n{other}", f"{HEAD},kind")
    found = bench("report", "--from", "results.csv", "--no-html")
    assert found.code == 0, found.err
    text = Path("report/seeds.md").read_text()
    assert "86.00" in text and "81.00" in text and "Ensembles: as the file has them." in text
    assert "note: Ensembles without single runs" in found.err
    ensembles = [line for line in f"{KINDS}\n{other}".splitlines() if "ensemble" in line]
    read("\n".join(ensembles), f"{HEAD},kind")
    assert bench("report", "--from", "results.csv").code == 0
    assert "every run of this evidence is one" in Path("report/seeds.md").read_text()


def test_an_unknown_kind_is_refused():
    assert "unknown kind 'bag'; known: single, ensemble" in refused(f"{ONE},bag", f"{HEAD},kind")
    found = refused("a,d,0,0_4,accuracy,.9")
    assert "line 2: seed must be a whole number, not '0_4', or the line of an ensemble" in found


VARIANTS = """a,d,0,0,accuracy,.8,tuned
a,d,0,0,accuracy,.7,default
b,d,0,0,accuracy,.6,default"""


def test_variants_are_rows_of_their_own_and_one_may_stand_in_for_tuned_runs():
    found = means(read(VARIANTS, f"{HEAD},variant"))
    assert found == {("d", "a"): 0.8, ("d", "a-default"): 0.7, ("d", "b-default"): 0.6}
    evidence = read(VARIANTS, f"{HEAD},variant", untuned="default")
    assert means(evidence) == found | {("d", "b"): 0.6}
    assert "in place of tuned runs, which are lacking: b on d." in notes(evidence)
    found = refused(VARIANTS, f"{HEAD},variant", untuned="defualt")
    assert "did you mean 'default'?" in found
    numbered = read(f"{ONE},7", f"{HEAD},variant")
    assert means(numbered) == {("d", "a"): 0.9} and "Variant of every line: 7." in notes(numbered)


# ---------------------------------------------------------------------- seeds


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
    for name in ("scores", "leaderboard", "tests", "folds", "seeds"):
        assert "fewer than other models have there: b on d1 (s3, others 4)" in (
            Path(f"report/{name}.md").read_text()
        ), name
    (line,) = [x for x in Path("report/scores.md").read_text().splitlines() if x[:4] == "| d1"]
    assert " s3 " in line
    assert r"\textsuperscript{s3}" in Path("report/scores.tex").read_text()
    counted = pd.read_csv("report/scores.csv").query("headline").set_index(["dataset", "model"])
    assert counted["n_seeds"].to_dict() == {
        (f"d{d}", m): 4 - ((d, m) == (1, "b")) for d in range(3) for m in "ab"
    }
