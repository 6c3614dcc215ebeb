"""A paper's folder outside of the package works like the built-in ones."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from calls import bench, working_in
from tabsweep.benchmark.papers.experiment_result import TINY
from tabsweep.benchmark.papers.paper_file import PaperError, read_paper
from toy_paper import PAPER, write_paper

FAST = ("--workers", 0, "--tracking-uri", "none")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A working directory with the folder `papers/toy` and a run of its table 1."""
    with working_in(tmp_path_factory.mktemp("work")) as folder:
        write_paper(Path("papers/toy"))
        how = ("--workers", 1, "--address", "none", "--tracking-uri", "none")
        found = reproduce("toy-table-1", *how, "--json")
        assert found.code == 0, found.err
        yield folder


def reproduce(*args):
    return bench("reproduce", *args, "--paper", "papers/toy")


def test_its_tables_and_suites_are_listed_and_no_others(work):
    found = {source["name"]: source for source in json.loads(reproduce("--list", "--json").out)}
    assert list(found) == [
        # made by `bench reproduce`, then shown by another command
        "toy-figure-1", "toy-table-1", "toy-table-2", "toy-table-3",
        "toy-figure-2", "toy-table-5",
        "toy-figure-3", "toy-table-4",
    ]  # fmt: skip
    kinds = {name: source["kind"] for name, source in found.items()}
    assert kinds == {name: name.split("-")[1] for name in found}
    assert found["toy-table-1"]["command"] == "bench reproduce toy-table-1 --paper papers/toy"
    assert found["toy-table-2"]["command"] == "bench reproduce toy-table-2 --paper papers/toy"
    assert found["toy-table-1"]["metric"] == "accuracy, %" and found["toy-table-1"]["cells"] == 3
    assert found["toy-table-4"]["why"] == "it says nothing of a model"
    assert found["toy-table-5"]["command"] == "bench models knn"
    assert found["toy-figure-1"]["command"] == "bench reproduce toy-figure-1 --paper papers/toy"
    assert found["toy-figure-1"]["experiment"] == "toy" and "cells" not in found["toy-figure-1"]
    assert found["toy-figure-3"]["why"] == "a drawing" and "command" not in found["toy-figure-3"]
    words = shlex.split(found["toy-figure-2"]["command"])
    assert words[:3] == ["bench", "sweep", "--suite"] and words[4:] == ["--budget", "tiny"]
    planned = bench(*words[1:], "--dry-run", "--tracking-uri", "none")
    assert planned.code == 0 and "8 trials" in planned.out + planned.err, planned.err
    (suite,) = json.loads(bench("suites", "--paper", "papers/toy", "--json").out)
    assert suite["name"] == "toy-small"
    assert bench("suites", "toy-small", "--paper", "papers/toy").code == 0
    assert bench("suites", "toy-small").code == 2


def test_a_table_runs_with_its_own_budget_and_stands_beside_the_run(work):
    found = reproduce("toy-table-1", *FAST, "--no-run", "--json")
    files = json.loads(found.out)["files"]
    assert {Path(file).suffix for file in files} == {".csv", ".md", ".tex"}
    assert all(Path(file).parent == Path("runs/toy-small-tiny/report") for file in files)
    text = Path("runs/toy-small-tiny/report/reproduce-toy-table-1.md").read_text(encoding="utf-8")
    assert "3 of 3 published cells have a value of ours" in text
    assert "Toy, Table 1 beside ours" in text and "neighbours" in text


def test_a_cell_is_explained_beside_the_published_value(work):
    args = ("explain", "toy-table-1", "iris", "neighbours", "--run", "runs/toy-small-tiny")
    found = json.loads(bench(*args, "--paper", "papers/toy", "--json").out)
    assert found["model"] == "knn"
    assert any(step.startswith("published: 96 ± 1") for step in found["steps"])
    assert bench(*args).code == 2


def test_a_table_that_an_experiment_measures_runs_it_once_and_is_shown_with_its_remarks(work):
    for size in ("reduced", "tiny"):
        words = ("toy-table-3", "--budget", size)
        missing = reproduce(*words, "--no-run")
        assert missing.code == 2 and "BENCH-E020" in missing.err
        planned = reproduce(*words, "--dry-run")
        assert planned.code == 0 and not Path(f"runs/toy-{size}").exists(), planned
        for again in (False, True):
            found = reproduce(*words, *["--no-run"] * again)
            assert found.code == 0 and "Printed" in found.out, found.err
            assert "threads: 1" in found.out and TINY not in found.out
            assert ("half of it is done" in found.out) != again
            assert ("numbers mean nothing" in found.err) == (size == "tiny")
        assert Path(f"runs/toy-{size}/toy/facts.json").exists()
    found = reproduce("toy-table-2", "--budget", "tiny", "--no-run")  # all tables, one heading
    assert found.code == 0 and "Printed" in found.out and "Scores of methods" in found.out
    assert found.out.count("# A toy & its table") == 1
    found = reproduce("toy-figure-1", "--budget", "tiny", "--no-run")  # those that it shows
    assert found.code == 0 and "Printed" not in found.out and "Scores of methods" in found.out
    assert "/line.png" in found.out and "facts.json" not in found.out


def test_a_dataset_that_the_table_lacks_is_refused_with_those_that_it_has(work):
    found = reproduce("toy-table-1", *FAST, "--no-run", "--dataset", "digits")
    assert found.code == 2 and "it has: iris, wine" in found.err


def test_a_budget_that_no_experiment_has_is_refused_with_those_that_they_have(work):
    found = reproduce("toy-table-3", "--budget", "reducde")
    assert found.code == 2 and "'reduced'" in found.err and "tiny" in found.err
    assert not Path("runs/toy-reducde").exists()


MINE = """
from sklearn.dummy import DummyClassifier

class Mine(DummyClassifier):
    name = "mine"
    tasks = ("multiclass",)
"""


def rows_of(text: str, name: str) -> list[list[str]]:
    """The rows of a method in all tables of a Markdown page, without their marks."""
    lines = [[c.strip(" *\\") for c in line.split("|")[1:-1]] for line in text.splitlines()]
    return [row for row in lines if name in row[:2]]


def test_a_model_of_ones_own_is_a_row_of_the_table_ranked_among_the_published_values(work):
    Path("mine.py").write_text(MINE, encoding="utf-8")
    words = ("toy-table-1", *FAST, "--name", "own", "--model", "mine.py:Mine")
    planned = reproduce(*words, "--dry-run")
    assert planned.code == 0 and "4 trials" in planned.out and not Path("runs/own").exists()
    found = reproduce(*words, "--model", "naive-bayes")
    assert found.code == 0 and "8 trials, 8 to run" in found.out, found.err
    text = Path("runs/own/report/reproduce-toy-table-1.md").read_text(encoding="utf-8")
    assert "0 of 3 published cells" in text and "not in the paper's table" in text
    iris, wine, placed = rows_of(text, "mine")
    assert iris[:3] == ["iris", "mine", "n/a"] and float(iris[3].split()[0]) < 50
    assert placed[3] == "3.50", "last of four on iris and of three on wine"
    assert [row[1] for row in rows_of(text, "neighbours")] == ["96.0** ± 1.0"]
    again = reproduce("toy-table-1", "--name", "own", "--no-run", "--json")
    page = next(f for f in json.loads(again.out)["files"] if f.endswith(".md"))
    assert "naive-bayes" not in Path(page).read_text("utf-8"), "it was not asked for"


def test_a_model_of_ones_own_stands_beside_the_results_of_others(work):
    Path("mine.py").write_text(MINE, encoding="utf-8")
    lines = [f"{m},iris,{s},accuracy,0.9" for m in ("linear", "neighbours", "net") for s in (0, 1)]
    Path("r.csv").write_text("\n".join(["method,dataset,seed,metric,value", *lines]), "utf-8")
    words = ("toy-table-1", "--from", "r.csv", "--out", "o")
    found = reproduce(*words)
    assert found.code == 0 and "net; --model NAME makes a method a row" in found.out
    more = ("--model", "net", "--model", "mine.py:Mine", "--name", "own", *FAST)
    found = reproduce(*words, *more)
    assert found.code == 0, found.err
    text = Path("o/reproduce-toy-table-1.md").read_text(encoding="utf-8")
    assert [row[3] for row in rows_of(text, "net")[:1]] == ["90.0"]
    assert len(rows_of(text, "mine")) == 2 and "2 of 3 published cells" in text


def test_a_run_that_has_nothing_of_the_table_says_so_by_its_exit_code(work):
    words = ("--dataset", "digits", "--model", "knn", "--name", "none")
    assert bench("sweep", "--suite", "papers/toy/suites/toy-small.toml", *FAST, *words).code == 0
    found = reproduce("toy-table-1", "--name", "none", "--no-run")
    assert found.code == 5 and "nothing that stands beside" in found.err


def test_what_it_does_not_make_is_refused_with_the_way(work):
    for table, word in (
        ("toy-table-5", "bench models knn"),
        ("toy-figure-2", "bench sweep"),
        ("toy-figure-3", "a drawing"),
    ):
        found = reproduce(table)
        assert found.code == 2 and "BENCH-E005" in found.err and word in found.err
    found = reproduce("toy-table-4")
    assert found.code == 0 and "it says nothing of a model" in found.out and "0.5" in found.out
    found = reproduce("npt-table-8")
    assert found.code == 2 and "BENCH-E017" in found.err
    found = bench("experiment", "npt-maps", "--paper", "papers/toy")
    assert found.code == 2 and "BENCH-E022" in found.err


# ---------------------------------------------------------------------- a file with a fault

FAULTS = (  # text in paper.toml, what stands there instead, key that the message names, suggestion
    ("reference =", "refrence =", "refrence", "'reference'"),
    ("metrics.accuracy", "metric.accuracy", "table.toy-table-1.metric", "'metrics'"),
    ('ours = "accuracy"', 'our = "accuracy"', "metrics.accuracy.our", "'ours'"),
    ('ours = "accuracy"', 'ours = "acuracy"', "metrics.accuracy.ours", "'accuracy'"),
    ('published = "table1.csv"', 'published = "tabel1.csv"', "published", "'table1.csv'"),
    ('suite = "toy-small"', 'suite = "toy-smal"', "suite", "'toy-small'"),
    ("unit = 100.0", 'unit = "percent"', "metrics.accuracy.unit", "valid number"),
    ('budget = "tiny"', 'shape = "cels"', "shape", "'cells'"),
    ('budget = "tiny"', 'deviations = "cut"', "toy-table-1.deviations", "replicates"),
    ('budget = "tiny"', 'shape = "average-ranks"', "toy-table-1.function", "is missing"),
    ('budget = "tiny"', 'function = "special"', "toy-table-1.function", "special"),
    ('budget = "tiny"', 'configurations = "toy-table-9"', "configurations", "toy-table-4"),
    ('budget = "tiny"', 'why = "nothing"', "table.toy-table-1", "one of suite"),
    ('"toy"\n\n[table.toy-table-4]', '"to"\n\n[table.toy-table-4]', "toy-table-3.exp", "'toy'"),
    ('run = "study:run"', 'run = "study"', "experiment.toy.run", "study"),
    ('published = "table1.csv"\n', "", "table.toy-table-1.published", "is missing"),
    ('command = "bench models knn"', 'command = "ls -l"', "toy-table-5.command", "bench"),
    ('why = "a drawing"', "", "figure.toy-figure-3", "one of suite"),
    ('why = "a drawing"', 'published = "x.csv"', "toy-figure-3.published", "unknown"),
    ('why = "a drawing"', 'experiment = "ty"', "figure.toy-figure-3.experiment", "'toy'"),
    ('why = "a drawing"', 'suite = "toy-smal"', "figure.toy-figure-3.suite", "'toy-small'"),
    ("figure.toy-figure-3", "figure.toy-table-4", "figure.toy-table-4", "table, too"),
)


def test_a_fault_names_the_file_the_line_the_key_and_what_would_be_right(tmp_path):
    folder = write_paper(tmp_path / "toy")
    read_paper(folder)
    for old, new, key, hint in FAULTS:
        assert PAPER.count(old) == 1, old
        (folder / "paper.toml").write_text(PAPER.replace(old, new), encoding="utf-8")
        with pytest.raises(PaperError) as error:
            read_paper(folder)
        text = str(error.value)
        assert re.match(rf"{re.escape(str(folder))}/paper\.toml:\d+: ", text), text
        assert key in text and hint in text, text


def test_a_folder_without_a_file_or_with_a_table_that_nobody_names_is_refused(tmp_path):
    found = bench("reproduce", "--list", "--paper", tmp_path)
    assert found.code == 2 and "BENCH-E024" in found.err and "paper.toml" in found.err
    folder = write_paper(tmp_path / "toy")
    (folder / "published" / "table9.csv").write_text("paper,table\n", encoding="utf-8")
    found = bench("reproduce", "--list", "--paper", folder)
    assert found.code == 2 and "BENCH-E024" in found.err and "table9" in found.err
    (folder / "paper.toml").write_text("title = ", encoding="utf-8")
    found = bench("experiment", "--paper", folder)
    assert found.code == 2 and "BENCH-E024" in found.err


def test_a_function_that_the_folder_lacks_is_refused(tmp_path):
    folder = write_paper(tmp_path / "toy")
    for run, hint in (("studdy:run", "'studdy'"), ("study:runs", "'runs'")):
        text = PAPER.replace('run = "study:run"', f'run = "{run}"')
        (folder / "paper.toml").write_text(text, encoding="utf-8")
        found = bench("experiment", "toy", "--paper", folder, "--out", tmp_path / "out")
        assert found.code == 2 and "BENCH-E024" in found.err and hint in found.err, found.err
        assert "experiment.toy.run" in found.err and not (tmp_path / "out").exists()
        text = PAPER.replace('budget = "tiny"', f'budget = "tiny"\nfunction = "{run}"')
        (folder / "paper.toml").write_text(text, encoding="utf-8")
        found = bench("reproduce", "toy-table-1", "--paper", folder)
        assert found.code == 2 and "BENCH-E024" in found.err and hint in found.err, found.err
        assert "table.toy-table-1.function" in found.err


def test_a_size_that_an_experiment_lacks_is_refused(tmp_path):
    folder = write_paper(tmp_path / "sized")
    with (folder / "study.py").open("a", encoding="utf-8") as file:
        file.write('\n\nSIZES = {"full": {}}\n')
    found = bench("experiment", "toy", "--paper", folder, "--out", tmp_path / "out")
    assert found.code == 2 and "BENCH-E024" in found.err and "'reduced'" in found.err
    assert not (tmp_path / "out").exists()


SPECIAL = """
from dataclasses import replace

def table_1(paper, table):
    return replace(table, absent={"linear": "lost"})
"""


def test_a_special_table_is_what_a_function_of_the_folder_makes_of_it(work):
    folder = Path("papers/special")
    write_paper(folder)
    (folder / "special.py").write_text(SPECIAL, encoding="utf-8")
    text = PAPER.replace('budget = "tiny"', 'budget = "tiny"\nfunction = "special:table_1"')
    (folder / "paper.toml").write_text(text, encoding="utf-8")
    found = bench("reproduce", "toy-table-1", *FAST, "--no-run", "--json", "--paper", folder)
    files = json.loads(found.out)["files"]
    text = next(Path(file) for file in files if file.endswith(".md")).read_text("utf-8")
    assert "linear, planned absence: lost." in text


def test_a_value_that_cannot_be_read_is_named_with_the_remark_of_its_row(work):
    folder = Path("papers/unread")
    write_paper(folder)
    file = folder / "published" / "table1.csv"
    header, *rows = file.read_text(encoding="utf-8").splitlines()
    row = "toy,1,wine,neighbours,accuracy,max,,,none,1,,smudged"
    lines = [f"{header},remark", *(f"{line}," for line in rows), row]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = bench("reproduce", "toy-table-1", *FAST, "--no-run", "--json", "--paper", folder)
    files = json.loads(found.out)["files"]
    text = next(Path(file) for file in files if file.endswith(".md")).read_text("utf-8")
    assert "wine, neighbours: smudged." in text and "3 of 3 published cells" in text


def test_built_in_papers_are_known_as_such_through_a_link_to_the_package(tmp_path):
    """Their experiments start processes, which can import them under their own names alone."""
    root = Path(__file__).parents[3]
    (tmp_path / "tabsweep").symlink_to(root)
    code = """
import sys
sys.meta_path = [m for m in sys.meta_path if "editable" not in str(m)]
sys.path.insert(0, sys.argv[1])
import tabsweep
from tabsweep.benchmark.papers.catalog import find_experiment
found = find_experiment("npt-maps")
print(tabsweep.__file__, found.paper.is_built_in, found.function("tiny").func.__module__)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    linked = tmp_path / "tabsweep" / "__init__.py"
    module = "tabsweep.benchmark.papers.npt.attention_maps"
    assert done.stdout.split() == [str(linked), "True", module]


def test_the_example_of_the_documentation_is_a_papers_file(tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "reproduction.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    folder = write_paper(tmp_path / "mypaper")
    (folder / "paper.toml").write_text(example, encoding="utf-8")
    (folder / "suites" / "toy-small.toml").rename(folder / "suites" / "mypaper-small.toml")
    table = folder / "published" / "table2.csv"
    (folder / "published" / "table3.csv").write_bytes(table.read_bytes())
    assert list(read_paper(folder).file.experiment) == ["mypaper-cost"]
