"""`bench reproduce TABLE --from`: RTDL's tables from its authors' runs; files that do not fit."""

from __future__ import annotations

import csv
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import bench, working_in
from tabsweep.benchmark.papers.catalog import FOLDER, published_tables
from tabsweep.benchmark.results.entrants import CARD, RESULTS
from tabsweep.benchmark.results.entrants import FOLDER as ENTRANTS
from tabsweep.datasets import catalog
from tabsweep.reports.metrics import metrics_of
from tabsweep.reports.output.tables import fixed
from tabsweep.reports.sections.seeds import truncated
from toy_paper import write_paper

VARIABLE = "TABSWEEP_ENTRANTS"  # a folder with the authors' results, one CSV each
# Gorishniy et al. 2021, Table 2: average ranks.
PRINTED = {"ft_transformer": "1.8 (1.2)", "resnet": "3.3 (1.8)"}


def source(name: str) -> str:
    """The results that come with the package, or the file that they were made from."""
    if name == "package":
        return "rtdl"
    path = Path(os.environ.get(VARIABLE, "")) / "rtdl.csv"
    if not os.environ.get(VARIABLE) or not path.is_file():
        pytest.skip(f"{VARIABLE} names no folder with rtdl.csv")
    return str(path)


@pytest.fixture(scope="module", params=["package", "file"])
def rtdl(request, tmp_path_factory):
    """A folder with Table 2 beside the authors' runs."""
    given = source(request.param)
    with working_in(tmp_path_factory.mktemp("work")) as folder:
        found = bench("reproduce", "rtdl-table-2", "--from", given, "--out", "out", "--json")
        assert found.code == 0, found.err
        assert {Path(p).parent.name for p in json.loads(found.out)["files"]} == {"out"}
        yield folder / "out"


def published(table: str) -> list[dict[str, str]]:
    with open(FOLDER / "rtdl" / "published" / f"{table}.csv", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def printed_rows(path: Path) -> dict[tuple[str, str], list[str]]:
    """{(dataset, method): the other cells} of the first table of a Markdown file."""
    lines = path.read_text(encoding="utf-8").split("\n## ")[1].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    return {(row[0], row[1]): row[2:] for row in rows[2:]}


def test_every_mean_and_all_but_one_deviation_are_printed_as_in_the_paper(rtdl):
    frame = pd.read_csv(rtdl / "reproduce-rtdl-table-2.csv")
    ours = {(r.dataset, r.method): r for r in frame.itertuples()}
    shown = printed_rows(rtdl / "reproduce-rtdl-table-2.md")
    rows = published("table2")
    assert len(rows) == 148
    means, deviations, other = 0, 0, []
    for row in rows:
        key = row["dataset"], row["method"]
        decimals = len(row["value"].partition(".")[2])
        both = f"{row['value']} ± {truncated(ours[key].ours_std)}"
        means += fixed(ours[key].ours, decimals) == row["value"]
        assert shown[key][1].removesuffix(" s14") == both
        same = truncated(ours[key].ours_std) == row["spread"]
        deviations += same
        other += [] if same else [key]
    assert (means, deviations, other) == (148, 147, [("aloi", "node")])


def test_no_cell_whose_digits_agree_is_called_outside(rtdl):
    frame = pd.read_csv(rtdl / "reproduce-rtdl-table-2.csv")
    paper = frame[~frame["note"].fillna("").str.contains("authors' repository")]
    assert len(paper) == 148
    assert paper["within_two"].eq(True).sum() == 137 and not paper["within_two"].eq(False).any()
    constant = paper[paper["within_two"].isna()]
    assert set(constant["method"]) == {"xgboost-default"}
    head = (rtdl / "reproduce-rtdl-table-2.md").read_text().partition("\n## ")[0]
    assert "148 of 148 published cells" in head and "of 137 with standard errors" in head


def test_the_average_ranks_of_the_paper_come_out_beside_its_table(rtdl):
    text = (rtdl / "reproduce-rtdl-table-2.md").read_text().partition("average ranks")[2]
    rows = [line.split("|") for line in text.partition("\n- ")[0].splitlines() if "|" in line]
    ours = {row[1].strip(): row[4].strip(" *") for row in rows}
    assert ours["ft-transformer"] == PRINTED["ft_transformer"]
    assert ours["resnet"] == PRINTED["resnet"]
    assert len(ours) == 2 + 9, "the heading, the rule, and the nine networks of the paper"


def test_the_tables_beside_it_have_the_papers_digits_and_mark_the_cell_with_a_lost_seed(rtdl):
    text = (rtdl / "reproduce-rtdl-table-2.md").read_text()
    seeds = text.partition("mean over the evaluation seeds")[2]
    assert "0.859" in seeds and "85.9" not in seeds
    shown = printed_rows(rtdl / "reproduce-rtdl-table-2.md")
    assert [key for key, row in shown.items() if row[1].endswith(" s14")] == [("aloi", "node")]
    assert "node on aloi (s14, others 15)" in text
    assert r"\textsuperscript{s14}" in (rtdl / "reproduce-rtdl-table-2.tex").read_text()


@pytest.fixture()
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def results_of(**kept: str) -> pd.DataFrame:
    """The lines of RTDL's results with these values of columns, a comma between several."""
    frame = pd.read_csv(ENTRANTS / "rtdl" / RESULTS, dtype=str, keep_default_na=False)
    for column, values in kept.items():
        frame = frame[frame[column].isin(values.split(","))]
    return frame


def test_a_named_dataset_stands_alone_and_what_every_row_says_is_a_note(work):
    args = ("reproduce", "rtdl-table-2", "--from", "rtdl", "--out", "one", "--dataset")
    assert bench(*args, "california-housing").code == 0
    frame = pd.read_csv("one/reproduce-rtdl-table-2.csv")
    assert set(frame.loc[frame["ours"].notna(), "dataset"]) == {"california-housing"}
    text = Path("one/reproduce-rtdl-table-2.md").read_text(encoding="utf-8")
    assert {dataset for dataset, _ in printed_rows(Path("one/reproduce-rtdl-table-2.md"))} == {
        "*RMSE ↓*",
        "california-housing",
    }
    first = text.split("\n## ")[1]
    assert "In every row: configs theirs n/a, trials ours 15, folds 1/1." in first
    heads = next(line for line in first.splitlines() if line.startswith("| dataset"))
    assert "trials ours" not in heads and "folds" not in heads
    misspelt = bench(*args, "california-housin")
    assert misspelt.code == 2 and "'california-housing'" in misspelt.err


def test_a_terminal_shows_names_without_the_escapes_of_markdown(work):
    found = bench("reproduce", "rtdl-table-6", "--from", "rtdl")
    assert "ft_transformer" in found.out and "ft\\_transformer" not in found.out
    assert "https://" in found.out and "&#" not in found.out
    assert "ft\\_transformer" in Path("report/reproduce-rtdl-table-6.md").read_text()


def test_ensembles_stand_beside_table_3_and_lost_ones_are_no_lost_datasets(work):
    assert bench("reproduce", "rtdl-table-3", "--from", "rtdl").code == 0
    head = Path("report/reproduce-rtdl-table-3.md").read_text()
    assert "148 of 148 published cells" in head and "3 ensembles of seeds per cell" in head
    results_of(kind="single", dataset="adult").to_csv("results.csv", index=False)
    found = bench("reproduce", "rtdl-table-3", "--from", "results.csv")
    assert found.code == 5 and found.out.splitlines() == [
        "no value of rtdl-table-3 has one of results.csv beside it; "
        "report/reproduce-rtdl-table-3.md says why"
    ]
    text = Path("report/reproduce-rtdl-table-3.md").read_text()
    assert "Datasets without ensembles: adult." in text
    (absent,) = [line for line in text.splitlines() if "Datasets not in this run" in line]
    assert "adult" not in absent and "aloi" in absent
    frame = pd.read_csv("report/reproduce-rtdl-table-3.csv").query("dataset == 'adult'")
    assert frame["note"].str.contains("no ensembles in this run").any()
    results_of(kind="ensemble", dataset="adult").to_csv("results.csv", index=False)
    assert bench("reproduce", "rtdl-table-3", "--from", "results.csv").code == 0
    frame = pd.read_csv("report/reproduce-rtdl-table-3.csv").query("dataset == 'adult'")
    assert frame["ours"].notna().sum() >= 14 and set(frame["n_runs"].dropna()) == {3}
    assert bench("reproduce", "rtdl-table-2", "--from", "results.csv").code == 5
    frame = pd.read_csv("report/reproduce-rtdl-table-2.csv").query("dataset == 'adult'")
    assert frame["ours"].isna().all() and frame["note"].str.contains("ensembles only").any()


HEAD = "method,dataset,seed,metric,value"


def write(*lines: str, head: str = HEAD) -> None:
    Path("results.csv").write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


def measured(table, row) -> str:
    """The metric of a published value. NPT's ranks are of likelihoods, which a regression of ours
    does not have."""
    return table.measures[row.metric].metric


def test_every_table_that_a_suite_stands_behind_takes_results(work):
    tasks = {name: catalog.card(name).task for name in catalog.names()}
    for name, table in published_tables().items():
        rows = table.rows[table.rows["value"].notna()]
        lines = [
            f"{r.method},{r.dataset},{seed},{measured(table, r)},"
            f"{r.value / table.measures[r.metric].unit:.12g},{'ensemble' * ensembles}"
            for r in rows.itertuples()
            if table.shape != "medians"  # those are no scores
            and (r.dataset not in tasks or measured(table, r) in metrics_of(tasks[r.dataset]))
            for seed in range(2)
            for ensembles in {False, table.shape == "ensembles"}
        ]
        write(*(lines or ["npt,iris,0,accuracy,0.9,"]), head=f"{HEAD},kind")
        found = bench("reproduce", name, "--from", "results.csv")
        if name == "npt-table-13":  # its rows are variants of one model, known by configurations
            assert found.code == 2 and "are both the table's 'npt'" in found.err
            continue
        assert found.code == (0 if lines else 5), f"{name}: {found.err}"
        frame = pd.read_csv(f"report/reproduce-{name}.csv")
        if table.shape in ("cells", "ensembles"):
            own = frame[frame["published"].notna()]
            assert len(own) == len(rows), name
            np.testing.assert_allclose(own["ours"], own["published"], err_msg=name)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("rtdl-table-2", "--from", "rtdl", "--budget", "quick"), "it takes no --budget"),
        (("rtdl-table-2", "--from", "rtdl", "--folds", "2"), "it takes no --folds"),
        (("rtdl-table-2", "--from", "rtdl", "--no-run"), "it takes no --no-run"),
        (("npt-table-14", "--from", "rtdl"), "these are: "),
        (("rtdl-table-2", "--from", "rtld"), "no such entrant; did you mean 'rtdl'?"),
        (("rtdl-table-2", "--from", "."), "is a folder without entrant.toml"),
        (("rtdl-table-2", "--from", "none.csv"), "BENCH-E007: none.csv: there is no such file"),
        (("--from", "rtdl"), "--from goes with a table"),
        (("rtdl-table-2", "--out", "x", "--no-run"), "--out goes with --from"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused_with_the_way(work, args, says):
    found = bench("reproduce", *args)
    assert found.code == 2 and says in found.err, found.err
    assert not list(work.iterdir())


# ---------------------------------------------------------------------- entrants


def test_a_damaged_entrant_is_refused_and_a_folder_of_ones_own_works(work):
    shutil.copytree(ENTRANTS / "rtdl", "mine")
    assert bench("reproduce", "rtdl-table-6", "--from", "mine").code == 0
    assert Path("mine/report/reproduce-rtdl-table-6.md").is_file()
    with open(f"mine/{RESULTS}", "ab") as stream:
        stream.write(b"x")
    found = bench("reproduce", "rtdl-table-6", "--from", "mine")
    assert found.code == 2 and "BENCH-E007" in found.err and "sha256" in found.err
    card = Path("mine", CARD)
    card.write_text(card.read_text().replace("licence", "license"), encoding="utf-8")
    found = bench("reproduce", "rtdl-table-6", "--from", "mine")
    assert found.code == 2 and "entrant.toml: license" in found.err or "licence" in found.err


# ---------------------------------------------------------------------- published files


@pytest.mark.parametrize(
    "column", "paper table dataset method metric direction value spread spread_kind".split()
)
def test_a_published_file_without_a_column_names_it(work, column):
    write_paper(Path("toy"))
    path = Path("toy/published/table1.csv")
    frame = pd.read_csv(path, dtype=str, keep_default_na=False).drop(columns=column)
    frame.to_csv(path, index=False)
    write("knn,iris,0,accuracy,0.9")
    found = bench("reproduce", "toy-table-1", "--from", "results.csv", "--paper", "toy")
    assert found.code == 2 and "BENCH-E024" in found.err
    assert f"table1.csv: line 1: no column {column};" in found.err


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("96.0", "96,0", "table1.csv: line 2 has 12 fields, the header has 11"),
        ("97.0,", "97.0", "table1.csv: line 4: spread must be a finite number or empty, not"),
        ("95.0", "95,0", "table1.csv: line 3 has 12 fields, the header has 11"),
        ("96.0", "many", "table1.csv: line 2: value must be a finite number or empty, not 'many'"),
    ],
)
def test_a_published_file_that_cannot_be_read_names_the_line(work, old, new, says):
    write_paper(Path("toy"))
    path = Path("toy/published/table1.csv")
    path.write_text(path.read_text().replace(old, new), encoding="utf-8")
    write("knn,iris,0,accuracy,0.9")
    found = bench("reproduce", "toy-table-1", "--from", "results.csv", "--paper", "toy")
    assert found.code == 2 and "BENCH-E024" in found.err and says in found.err
