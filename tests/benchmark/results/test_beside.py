"""`bench report --beside`: published results are ranked with a run's own on the same rows alone."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from array_folders import write_parts
from calls import bench
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import each
from matrices import evidence
from small_sweeps import FAST, answer, write_suite
from tabsweep.benchmark.results import beside
from tabsweep.benchmark.results.entrants import (
    FOLDER,
    RESULTS,
    entrant_names,
    read_card,
    results_file,
)
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.common.files import file_sha256

RTDL_CALIFORNIA = (13209, 3303, 4128)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on an archive with the numbers of rows of RTDL's, and on two datasets split here."""
    place = tmp_path_factory.mktemp("beside")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TABSWEEP_DATA", str(place / "store"))
        patch.chdir(place)
        folder = write_parts(
            place / "california_housing", task="regression", sizes=RTDL_CALIFORNIA, n_num=8
        )
        for path in folder.glob("C_*.npy"):  # it has no categories
            path.unlink()
        info = (
            (folder / "info.json").read_text().replace('"n_cat_features": 2', '"n_cat_features": 0')
        )
        (folder / "info.json").write_text(info)
        added = answer("data", "add", folder)
        assert [one["name"] for one in added["added"]] == ["rtdl-california-housing"]
        more = {"official": "rtdl", "metric": {"regression": "rmse"}}
        datasets = ["california-housing", "wine", "breast-cancer-wdbc"]
        write_suite("mine.json", "mine", datasets, ["constant", "linear"], top=more)
        swept = answer("sweep", "--suite", "./mine.json", *FAST)
        assert swept["done"] == swept["planned"] == 6
        yield place / "runs" / "mine-quick"


def published(metric: str, dataset: str) -> pd.Series:
    """The means over the seeds of RTDL's single runs by the names of our tables, by pandas alone:
    a tuned one has its method's name, a default one `-default` behind it."""
    rows = pd.read_csv(gzip.open(FOLDER / "rtdl" / "results.csv.gz"))
    rows = rows[(rows["kind"] == "single") & (rows["part"] == "test")]
    rows = rows[(rows["metric"] == metric) & (rows["dataset"] == dataset)]
    behind = rows["variant"].map({"tuned": " [rtdl]", "default": "-default [rtdl]"})
    return rows["value"].groupby(rows["method"] + behind).mean()


def test_ranks_with_published_models_are_those_that_pandas_computes(run, tmp_path):
    out = tmp_path / "report"
    assert bench("report", run, "--beside", "rtdl,tabm", "--out", out, "--no-html").code == 0
    scores = pd.read_csv(out / "scores.csv")
    mine = (scores["dataset"] == "california-housing") & (scores["metric"] == "rmse")
    scores = scores[mine].set_index("model")["mean"]
    theirs = published("rmse", "california_housing")
    assert scores[theirs.index].to_dict() == pytest.approx(theirs.to_dict(), rel=1e-12)
    ranks = pd.read_csv(out / "leaderboard.csv")
    alone = ranks[
        (ranks["scope"] == "regression") & (ranks["datasets"] == ranks["datasets"].iloc[0])
    ]
    found = alone.set_index("model")["mean_rank"].dropna()
    assert {"constant", "linear", "catboost [rtdl]", "ft_transformer [rtdl]"} <= set(found.index)
    own = scores[["constant", "linear"]]
    assert found.to_dict() == pd.concat([own, theirs]).rank().to_dict()
    apart = pd.read_csv(out / "beside.csv", keep_default_na=False)
    assert set(apart["dataset"]) == {"california-housing"} and set(apart["source"]) == {"", "tabm"}
    assert "TabM's results" in (out / "about.md").read_text()
    assert "the authors' split is not known" in (out / "beside.md").read_text()


def test_an_entrant_of_ones_own_is_a_folder_of_the_same_form(run, tmp_path):
    score = "regression,0,rmse,0.5"
    mine = lab(tmp_path, RTDL_CALIFORNIA, dataset="california-housing", score=score)
    found = bench("report", run, "--beside", mine, "--out", tmp_path / "out", "--no-html")
    assert found.code == 0, found.err
    assert "theirs [lab]" in (tmp_path / "out" / "scores.csv").read_text()
    card = (mine / "entrant.toml").read_text()
    (mine / "entrant.toml").write_text(f"means_of = 15\n{card}")
    found = bench("report", run, "--beside", mine, "--out", tmp_path / "out", "--no-html")
    assert found.code == 0, found.err
    about = (tmp_path / "out" / "scores.md").read_text()
    assert "is a mean of 15 runs" in about and "fewer than other models" not in about
    (mine / "results.csv.gz").write_bytes(b"other")
    assert "sha256" in bench("report", run, "--beside", mine).err


def test_a_site_ranks_published_models_with_those_of_its_runs_on_the_same_rows_alone(run):
    sweep = ("sweep", "--suite", "./mine.json", "--model", "knn", *FAST, "--name", "later")
    answer(*sweep, "--dataset", "california-housing")
    made = bench("publish", run, run.with_name("later"), "--out", "site", "--beside", "rtdl,tabm")
    assert made.code == 0, made.err
    theirs = published("rmse", "california_housing")
    cells = pd.read_csv("site/board/scores.csv").query("dataset == 'california-housing'")
    scores = cells[cells["headline"]].set_index("model")["mean"]
    assert {"constant", "linear", "knn"} == set(scores.index) - set(theirs.index)
    assert scores[theirs.index].to_numpy() == pytest.approx(theirs.to_numpy())
    ranks = pd.read_csv("site/board/leaderboard.csv").query("scope == 'regression'")
    found = ranks[ranks["datasets"] == ranks["datasets"].iloc[0]].set_index("model")["mean_rank"]
    assert found.dropna().to_dict() == scores.rank().to_dict()
    assert set(pd.read_csv("site/board/beside.csv")["source"].dropna()) == {"tabm"}
    first = Path("site/index.html").read_text("utf-8")
    assert "catboost [rtdl]" in first and "±±" not in first
    assert "tabm-mini" in Path("site/board/beside.md").read_text("utf-8")
    for name in ("mine-quick", "later"):
        assert "[rtdl]" in Path(f"site/runs/{name}/scores.csv").read_text("utf-8")
    wrong = bench("publish", run, "--out", "none", "--beside", "rtld")
    assert wrong.code == 2 and "did you mean 'rtdl'" in wrong.err and not Path("none").exists()


def test_two_datasets_of_the_same_rows_each_have_the_published_models(tmp_path):
    folder = lab(tmp_path)
    one = beside.RunDataset("d00", "binary", "official", "rtdl-d00", ((6, 2, 2),), folds=(0,))
    ours = {"d00": one, "d01": replace(one, name="d01")}
    found = beside.with_published(evidence([[0.5], [0.5]], ["ours"]), ours, [str(folder)])
    theirs = found.evidence.trials.query("model == 'theirs [lab]'")
    assert theirs["dataset"].tolist() == ["d00", "d01"] and not len(found.apart)


def lab(
    place: Path,
    sizes: Sequence[int] = (6, 2, 2),
    *,
    dataset: str = "d00",
    score: str = "binary,0,accuracy,0.9",
) -> Path:
    """An entrant "lab" with one score on a dataset, and the rows of its split."""
    folder = place / "lab"
    folder.mkdir()
    with gzip.open(folder / "results.csv.gz", "wt") as out:
        out.write(f"method,dataset,task,seed,metric,value\ntheirs,d,{score}\n")
    (folder / "entrant.toml").write_text(
        'title = "Lab"\nreference = "us"\nsource = "here"\nlicence = "MIT"\n'
        f'sha256 = "{file_sha256(folder / "results.csv.gz")}"\n'
        f'[datasets.d]\nours = "{dataset}"\nadded = "rtdl-{dataset}"\nsizes = {[*sizes]}\n'
    )
    return folder


@settings(max_examples=30, deadline=None)
@given(
    protocol=st.sampled_from(["official", "official-permuted", "kfold", "holdout", "rtdl"]),
    added=st.sampled_from(["", "rtdl-d00", "tabr-d00"]),
    sizes=st.lists(st.sampled_from([(6, 2, 2), (6, 2, 3), (5, 3, 2)]), max_size=2),
    known=st.booleans(),
    metric=st.sampled_from(["accuracy", "roc_auc", "log_loss"]),
)
def test_scores_of_other_rows_or_metrics_are_never_ranked(
    tmp_path_factory, protocol, added, sizes, known, metric
):
    folder = lab(tmp_path_factory.mktemp("entrant"), sizes=[6, 2, 2] if known else [])
    ours = beside.RunDataset("d00", "binary", protocol, added, tuple(sizes), folds=(0,))
    mine = evidence([[0.5]], ["ours"], metric=metric)
    found = beside.with_published(mine, {"d00": ours}, [str(folder)])
    same_rows = protocol == "official" and added == "rtdl-d00" and sizes == [(6, 2, 2)] and known
    together = bool(same_rows) and metric == "accuracy"
    assert ("theirs [lab]" in found.evidence.models) == together
    published_apart = found.apart[found.apart["source"] == "lab"]
    assert len(published_apart) == (0 if together else 1)
    assert (published_apart["reason"] != "").all()


@each("name", entrant_names())
def test_every_entrant_of_the_package_is_listed_small_and_can_be_read(name):
    listed = {one["name"]: one for one in answer("beside", "list")}
    assert listed[name]["licence"] and listed[name]["source"] and "rtdl" in listed
    file = results_file(Path(name))
    found = file.evidence()
    assert set(file.card.datasets) <= set(found.planned["dataset"])
    own = any(facts.rows for facts in file.card.datasets.values())  # exported: seeds of all models
    assert (FOLDER / name / RESULTS).stat().st_size < (2_000_000 if own else 300_000)
    assert np.isfinite(found.trials.filter(like="test_").to_numpy()).any()


def test_published_folds_set_apart_are_averaged_and_seeds_counted_within_a_fold(tmp_path):
    folder = lab(tmp_path)
    scores = {(0, 0): 0.5, (0, 1): 0.7, (1, 0): 0.8, (1, 1): 0.8, (1, 2): 0.8}
    with gzip.open(folder / "results.csv.gz", "wt") as out:
        out.write("method,dataset,task,split,seed,metric,value\n")
        for (split, seed), value in scores.items():
            out.write(f"theirs,d,binary,{split},{seed},accuracy,{value}\n")
    card, sha256 = folder / "entrant.toml", file_sha256(folder / "results.csv.gz")
    card.write_text(re.sub('sha256 = ".*"', f'sha256 = "{sha256}"', card.read_text()))
    ours = {"d00": beside.RunDataset("d00", "binary", "kfold", folds=(0,))}
    (row,) = (
        beside.with_published(evidence([[0.5]]), ours, [str(folder)])
        .apart.query("source == 'lab'")
        .itertuples()
    )
    assert row.score == pytest.approx(0.7) and row.n == 2 and np.isnan(row.spread)


# -- runs of our own as published results ----------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """(a finished run, the folder that it was exported to)."""
    place = tmp_path_factory.mktemp("exported")
    fast = ["--suite", "smoke", "--workers", "0", "--tracking-uri", "none", "--runs", place]
    models = ["--model", "linear", "--model", "random-forest"]
    answer("sweep", *fast, "--name", "theirs", *models, "--dataset", "iris", "--dataset", "wine")
    entrant = place / "entrant"
    about = answer(
        "beside", "export", place / "theirs", "--out", entrant, "--title", "Us 🎉", "--mark", "x"
    )
    assert about["datasets"] == ["iris", "wine"] and about["left_out"] == []
    return place, entrant, fast


def scores_of(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "report" / "scores.csv", keep_default_na=False)


def test_an_exported_run_stands_beside_another_with_the_scores_that_it_had(exported):
    place, entrant, fast = exported
    mine = ["--model", "knn", "--model", "linear", "--dataset", "iris", "--beside", entrant]
    answer("sweep", *fast, "--name", "mine", *mine)
    theirs, both = scores_of(place / "theirs"), scores_of(place / "mine")
    called = {"linear": "linear [x]", "random-forest": "random-forest"}  # a mark where both have it
    assert set(both["model"]) == {"knn", "linear", *called.values()}
    keys = ["dataset", "model", "metric"]
    there = theirs[theirs["dataset"] == "iris"]
    there = there.assign(model=there["model"].map(called))
    joined = both.merge(there, on=keys, suffixes=("", "_theirs"))
    assert len(joined) >= 2 and (joined["mean"] == joined["mean_theirs"]).all()
    setup = (place / "mine" / "report" / "paper" / "setup.tex").read_text()
    assert "Not of this run: models of Us" in setup and "configurations a study" in setup
    assert "Random forest" in (place / "mine/report/paper/scores-multiclass.tex").read_text()
    out = place / "chosen"
    report = ["report", place / "mine", "--beside", entrant, "--out", out]
    assert bench(*report, "--only", "knn,random-forest").code == 0
    assert set(pd.read_csv(out / "scores.csv")["model"]) == {"knn", "random-forest"}
    assert "2 chosen models alone" in (out / "leaderboard.md").read_text()
    assert "did you mean 'random-forest'" in bench(*report, "--only", "knn,random-forst").err
    assert bench(*report, "--only", "random-forest").code == 2, "none of the run's own"
    for more in ([], ["--beside", entrant]):
        said = bench("report", place / "mine", *more, "--only", "knn,nope").err
        assert re.search("called 'nope'; they have: .*knn.*linear", said), said
    shutil.rmtree(place / "mine" / "report")
    assert bench("resume", place / "mine").code == 0
    assert scores_of(place / "mine").equals(both), "a run keeps what stands beside it"


def test_results_of_other_folds_or_data_are_set_apart(exported):
    facts = dict(results_file(exported[1]).card.datasets)["iris"]
    same = beside.RunDataset(
        "iris", "multiclass", "kfold", rows=facts.rows, drawn=tuple(facts.drawn), folds=(0,)
    )

    def why(ours):
        return beside.why_not(ours, facts, "multiclass", "accuracy", True)

    assert why(same) == ""
    assert "data" in why(replace(same, rows="0" * 64))
    assert "seed 1" in why(replace(same, drawn=("kfold", "1")))
    assert "folds 7" in why(replace(same, folds=(0, 7)))


def test_an_entrant_grows_by_datasets_and_models_whose_runs_are_gone(exported, tmp_path):
    place, entrant, fast = exported
    shutil.copytree(entrant, mine := tmp_path / "grown")
    export = ["beside", "export", place / "more", "--out", mine, "--title", "Theirs"]
    models = ["--model", "linear", "--model", "knn"]
    answer("sweep", *fast, "--name", "more", *models, "--dataset", "wine", "--dataset", "diabetes")
    about = answer(*export)
    assert about["datasets"] == ["diabetes", "wine"] and about["kept"] == ["iris"]
    for name, keys in (("results", ["split", "method", "seed"]), ("trials", ["split", "method"])):
        before, after = (pd.read_csv(f / f"{name}.csv.gz", dtype=str) for f in (entrant, mine))
        was, now = (frame[frame["dataset"] == "iris"].reset_index(drop=True)
                    for frame in (before, after))  # fmt: skip
        assert len(was) and was.equals(now[was.columns])
        of = {"dataset": "wine", "method": "random-forest"}  # which these runs do not have
        was, now = (f[(f[list(of)] == pd.Series(of)).all(axis=1)].reset_index(drop=True)
                    for f in (before, after))  # fmt: skip
        assert len(was) and was.equals(now[was.columns])
        in_wine = after.loc[after["dataset"] == "wine", "method"]
        assert set(in_wine) == {"linear", "knn", "random-forest"}
        keys = ["dataset", *keys, *(["index"] if name == "trials" else [])]
        assert not after.duplicated(keys).any()
    card, before = read_card(mine), read_card(entrant)
    assert list(card.datasets) == ["diabetes", "iris", "wine"]
    assert card.datasets["iris"] == before.datasets["iris"] and card.datasets["iris"].commit
    assert about["trials"] == sum(facts.trials for facts in card.datasets.values())
    wine, stood = card.datasets["wine"], before.datasets["wine"]
    assert wine.trials == (after["dataset"] == "wine").sum() and wine.failed == 0
    assert stood.commit in wine.commit
    found = answer("beside", "check", mine, "--rows", "3")
    assert len(found) == 3 and all(row["same"] for row in found)
    rows = pd.read_csv(mine / "results.csv.gz", dtype=str)
    one_fold = ["--model", "decision-tree", "--dataset", "wine", "--folds", 1]
    answer("sweep", *fast, "--name", "one-fold", *one_fold)
    answer("beside", "export", place / "one-fold", "--out", mine, "--title", "Theirs")
    with_it, grown = pd.read_csv(mine / "results.csv.gz", dtype=str), read_card(mine)
    others = with_it[with_it["method"] != "decision-tree"].reset_index(drop=True)
    assert len(with_it) == len(others) + 1 and others.equals(rows)
    assert grown.datasets["wine"].folds == card.datasets["wine"].folds
    assert "folds (decision-tree: 1), " in grown.note
    card_file = mine / "entrant.toml"
    card_file.write_text(card_file.read_text().replace("budget quick", "budget standard"))
    assert "name another folder" in bench(*export).err


def test_the_tuning_trials_of_an_exported_run_are_those_of_its_ledger(exported):
    place, entrant, _ = exported
    trials = pd.read_csv(entrant / "trials.csv.gz", keep_default_na=False)
    run = load_results(place / "theirs").query("stage == 'tune'")
    keys = ["dataset", "fold", "model", "index"]
    both = trials.rename(columns={"method": "model", "split": "fold"}).merge(run, on=keys)
    assert len(both) == len(trials) == len(run) > 0
    np.testing.assert_allclose(both["test"].astype(float), both["test_accuracy"], rtol=1e-5)


def test_a_doubted_row_is_fitted_again_and_a_forged_score_is_found(exported, tmp_path):
    _, entrant, _ = exported
    found = answer("beside", "check", entrant, "--rows", "4")
    assert len(found) == 4 and all(row["same"] for row in found)
    with gzip.open(entrant / "results.csv.gz", "rt") as file:
        rows = pd.read_csv(file, keep_default_na=False, dtype=str)
    rows["test_accuracy"] = "0.25"
    for name in ("entrant.toml", "results.csv.gz"):
        (tmp_path / name).write_bytes((entrant / name).read_bytes())
    with gzip.open(tmp_path / "results.csv.gz", "wt") as file:
        rows.to_csv(file, index=False)
    assert bench("beside", "check", tmp_path, "--rows", "2").code == 4


def test_published_results_alone_make_a_report(exported, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert bench("report", "--beside", exported[1], "--out", "alone").code == 0
    assert "random-forest" in (tmp_path / "alone" / "leaderboard.md").read_text()
    assert bench("report", "--beside", "rtdl", "--beside", "tabm").code == 2


def test_the_reference_study_is_ranked_by_datasets_that_are_independent_and_can_be_learned():
    evidence = results_file(Path("uci-small-reference")).evidence()
    left = {"congressional-voting", "statlog-australian-credit", "statlog-heart"}
    assert set(evidence.datasets()) - set(evidence.subset) == {*left, "vertebral-column3"}
    assert all(name in evidence.facts.subset_note for name in left)
    assert evidence.facts.families["mlp-ple"][0] == "feature network"
    assert {"npt", "hopular", "saint-cheatt"} <= set(evidence.facts.of_papers)
    assert "xgboost" not in evidence.facts.of_papers
