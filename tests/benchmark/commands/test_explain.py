"""`bench explain`: the trials behind each number, and the command that makes it again."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import bench, working_in
from small_sweeps import write_own_models, write_suite
from tabsweep.benchmark.papers.catalog import published_tables
from tabsweep.reports import explain as trace
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.facts import Facts

PUBLISHED = published_tables()
FAST = ("--workers", 0, "--tracking-uri", "none")
RUN = ("--run", "runs/smoke-quick")


def explain(*args: object) -> dict:
    found = bench("explain", *args, *(() if "--run" in args else RUN), "--json")
    assert found.code == 0, found.err
    return json.loads(found.out)


def again(command: str) -> Path:
    """Run the command that `explain` printed; the folder of its one run."""
    words = shlex.split(command)
    assert words[0] == "bench" and "--runs" in words
    found = bench(*words[1:], *FAST)
    assert found.code == 0, found.err
    runs = Path(words[words.index("--runs") + 1])
    (run,) = (path for path in runs.iterdir() if path.name != ".tables")
    return run


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A working directory with a run of a built-in suite and one of a suite file."""
    data = ("--dataset", "iris", "--dataset", "wine")
    picks = ("--model", "constant", "--model", "knn", "--model", "linear", "--trials", 2)
    with working_in(tmp_path_factory.mktemp("explain")) as folder:
        assert bench("sweep", "--suite", "smoke", *data, *picks, *FAST).code == 0
        few = {"random-forest": {"fixed": {"n_estimators": 5}}}
        mine = write_suite("mine.json", "mine", ["iris", "diabetes"], ["knn", "random-forest"],
                           trials=2, seeds=5, sampler="random", model=few)  # fmt: skip
        assert bench("sweep", "--suite", mine, "--runs", "others", *FAST).code == 0
        mine.unlink()
        yield folder


def cells(run: str, table: str, *keys: str) -> dict:
    frame = pd.read_csv(Path(run) / "report" / f"{table}.csv")
    return frame.set_index(list(keys))


# ---------------------------------------------------------------------- the number, from its trials


def test_every_score_is_the_number_of_the_table(work):
    scores = cells("runs/smoke-quick", "scores", "dataset", "model").query("headline")
    assert len(scores) == 6
    for (dataset, model), row in scores.query("dataset == 'wine'").iterrows():
        found = explain("scores", dataset, model)
        assert found["value"] == pytest.approx(row["mean"], rel=1e-11)
        counted = [trial["test"] for trial in found["trials"] if trial["counts"]]
        assert np.mean(counted) == pytest.approx(row["mean"], rel=1e-11)
        assert found["run"] == "runs/smoke-quick" and len(found["folds"]) == 2


def test_a_rank_is_the_place_among_the_models_of_the_table(work):
    ranks = cells("runs/smoke-quick", "leaderboard", "scope", "datasets", "model")
    for model in ("constant", "knn", "linear"):
        each = [explain("leaderboard", dataset, model)["value"] for dataset in ("iris", "wine")]
        assert np.mean(each) == ranks.loc[("multiclass", "all", model), "mean_rank"]


# ---------------------------------------------------------------------- the one command


def same(found: dict, new: dict) -> None:
    assert new["value"] == found["value"] and new["value"] is not None
    assert [t["id"] for t in new["trials"]] == [t["id"] for t in found["trials"]]
    assert not any(trial["origin"] for trial in new["trials"])


def test_the_command_makes_a_score_again(work):
    found = explain("scores", "wine", "knn")
    command, _, folder = found["command"].rpartition(" ")
    assert command == (
        "bench sweep --suite smoke --dataset wine --budget quick --model knn --trials 2 --runs"
    )
    assert folder.startswith("recomputed") and not (work / folder).exists()
    same(found, explain("scores", "wine", "knn", "--run", again(found["command"])))
    another = explain("scores", "wine", "knn")["command"].rpartition(" ")[2]
    assert (work / folder).exists() and not (work / another).exists()


def test_the_command_makes_a_rank_again(work):
    found = explain("leaderboard", "iris", "linear")
    run = again(found["command"])
    same(found, explain("leaderboard", "iris", "linear", "--run", run))
    alone = cells(str(run), "leaderboard", "scope", "datasets", "model")
    assert alone.loc[("multiclass", "all", "linear"), "mean_rank"] == found["value"]


def test_a_suite_file_that_is_gone_is_written_for_the_command(work):
    found = explain("scores", "diabetes", "random-forest", "--run", "others/mine-quick")
    assert "--suite others/mine-quick/report/suite.json" in found["command"]
    same(found, explain("scores", "diabetes", "random-forest", "--run", again(found["command"])))


def test_a_table_of_one_s_own_is_named_with_its_target(work):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    frame.assign(y=frame["a"] + 0.1 * frame["b"]).to_csv("own table.csv", index=False)
    call = ("sweep", "--csv", "own table.csv", "--target", "y", "--model", "knn")
    assert bench(*call, "--folds", 2, "--trials", 1, "--runs", "own", *FAST).code == 0
    run = Path("own/csv-own-table-quick")
    found = explain("scores", "own-table", "knn", "--run", run)
    assert "--target y --task regression" in found["command"]
    same(found, explain("scores", "own-table", "knn", "--run", again(found["command"])))

    with working_in(run.parent):  # a run without a folder before its name
        assert explain("scores", "own-table", "knn", "--run", run.name)["value"] == found["value"]
    Path("own table.csv").rename("moved.csv")
    shutil.rmtree("own/.tables")  # the table that was read; with it the report would be whole
    gone = "Without own-table: "
    assert bench("report", run).code == 0  # from results alone; what needs the rows is left out
    assert gone in Path(run, "report/default-and-tuned.md").read_text()
    done = bench("analyse", run, "--metric", "mae")
    assert done.code == 2 and gone in done.err and "put it back" in done.err


def test_a_reproduction_is_explained_beside_the_published_value_and_made_again(work):
    args = ("npt-table-8", "--budget", "reduced", "--dataset", "breast-cancer-wdbc", "--folds", 2)
    args = (*args, "--model", "knn", "--trials", 1, "--runs", "papers")
    assert bench("reproduce", *args, *FAST).code == 0
    cell = ("npt-table-8", "breast-cancer-wdbc", "knn")
    run = "papers/npt-uci-transductive-reduced"
    found = explain(*cell, "--run", run)
    row = cells(run, "reproduce-npt-table-8", "dataset", "method").loc[cell[1:]]
    assert found["value"] == pytest.approx(row["ours"], rel=1e-11)
    text = "\n".join(found["steps"])
    assert "published: 95.26 ± 0.79" in text
    assert f"{row['difference_in_joint_se']:+.2f} of them" in text
    assert found["command"] == (
        "bench sweep --suite npt-uci-transductive --dataset breast-cancer-wdbc --budget reduced "
        f"--model knn --folds 2 --trials 1 --runs {shlex.split(found['command'])[-1]}"
    )
    same(found, explain(*cell, "--run", again(found["command"])))


def test_another_library_version_is_said_before_it_surprises(work, monkeypatch):
    from tabsweep.benchmark.planning import environment

    was = environment.capture()
    libraries = {**was["libraries"], "numpy": "9.9"}
    monkeypatch.setattr(environment, "capture", lambda: {**was, "libraries": libraries})
    (said,) = explain("scores", "wine", "knn")["differences"]
    assert said.startswith("numpy was ") and said.endswith("is 9.9")


# ---------------------------------------------------------------------- cells that are not whole

FACTS = Facts(metric={"binary": "accuracy"})


def evidence(scores: dict[str, list[float | None]], dataset: str = "d") -> Evidence:
    """One chosen trial a fold; None: it failed by lack of memory."""
    rows = [
        {
            **{"dataset": dataset, "task": "binary", "fold": fold, "model": model, "index": 0},
            **{"stage": "tune", "seed": 0, "selected": value is not None, "val_accuracy": value},
            **{"status": "failed" if value is None else "done", "test_accuracy": value},
            "cause": "oom" if value is None else "",
        }
        for model, values in scores.items()
        for fold, value in enumerate(values)
    ]
    return Evidence.of(pd.DataFrame(rows), facts=FACTS)


def test_a_partial_cell_says_so_and_is_in_no_ranking():
    mine = evidence({"a": [0.5, None], "b": [0.7, 0.8], "c": [0.6, 0.9]})
    found = trace.trace(mine, "scores", "d", "a")
    assert (found.value, found.state) == (0.5, "partial")
    assert found.flags[0].startswith("partial (oom): 1 of 2 folds have a score")
    assert found.steps[1] == "fold 1: no score, failed (oom)"
    rank = trace.trace(mine, "leaderboard", "d", "a")
    assert rank.value is None and "too few" in rank.flags[-1]
    assert trace.trace(mine, "leaderboard", "d", "c").value == 1.5
    found = trace.trace(evidence({"a": [None], "b": [0.7]}), "scores", "d", "a")
    assert found.value is None and found.flags[0].startswith("failed (oom): 0 of 1 folds")


def test_a_published_cell_without_ours_is_no_error_and_one_without_a_value_is():
    mine = evidence({"knn": [0.9], "constant": [0.5]}, "breast-cancer-wdbc")
    asked = ("npt-table-8", "breast-cancer-wdbc")
    found = trace.trace(mine, *asked, "knn", published=PUBLISHED)
    assert found.value == 90.0 and "rests on 1 fold" in found.flags[-1]
    with pytest.raises(ValueError, match="has no value of constant on breast-cancer-wdbc; of that"):
        trace.trace(mine, *asked, "constant", published=PUBLISHED)


def test_every_published_table_can_be_explained_or_says_why_not():
    for name, table in PUBLISHED.items():
        dataset = sorted(table.dataset_names())[0]
        mine = evidence({"knn": [0.9, 0.8], "catboost": [0.5, 0.7]}, dataset)
        try:
            found = trace.trace(mine, name, dataset, "catboost", published=PUBLISHED)
            assert found.table == name and found.steps
        except ValueError as error:
            assert table.title in str(error)


@pytest.mark.parametrize(
    "args, id, says",
    [
        (("scors", "iris", "knn"), "E017", "no table 'scors' (did you mean 'scores'?)"),
        (("default-and-tund", "iris", "knn"), "E017", "(did you mean 'default-and-tuned'?)"),
        (("scores", "wine", "kn"), "E017", "no model 'kn' planned on wine (did you mean 'knn'?)"),
        (("scores", "irs", "knn"), "E017", "did you mean 'iris'?"),
        (("scores", "iris", "knn", "--run", "runs"), "E020", "runs here: runs/smoke-quick"),
    ],
)
def test_a_wrong_word_is_refused_with_the_way_out(work, args, id, says):
    found = bench("explain", *args, *(() if "--run" in args else RUN))
    assert found.code == 2 and found.err.startswith(f"error BENCH-{id}: ")
    assert says in found.err and not found.out


@pytest.mark.fault(28)
def test_a_class_of_one_s_own_is_named_and_not_imported(work):
    module = write_own_models(work)
    picks = ("--model", "constant", "--model", f"{module}:Tuned", "--model", f"{module}:Plain")
    few = ("--dataset", "iris", "--folds", 1, "--trials", 1, "--runs", "classes")
    assert bench("sweep", "--suite", "smoke", *few, *picks, *FAST).code == 0
    for name in (module, f"{module}_helper"):
        sys.modules.pop(name, None)
    found = explain("scores", "iris", "tuned", "--run", "classes/smoke-quick")
    assert f"--model {module}:Tuned " in found["command"] and module not in sys.modules
    assert list(again(found["command"]).iterdir())


def test_a_run_that_cannot_be_written_to_is_explained_and_says_what_the_command_lacks(
    work, tmp_path
):
    run = Path(shutil.copytree("others/mine-quick", tmp_path / "mine-quick"))
    shutil.rmtree(run / "report")
    (run / "report").write_text("in the way")
    found = explain("scores", "iris", "knn", "--run", run)
    (lacking,) = [text for text in found["differences"] if "suite.json cannot be written" in text]
    assert "the command needs it" in lacking and found["value"] > 0.5
