"""`bench publish`: overlapping runs as one static site, through the real command."""

from __future__ import annotations

import gzip
import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from calls import bench, contents, without_reports, working_in
from page_cases import Tags
from small_sweeps import FAST, answer, write_own_models


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Runs `first` and `second`, which share a model, and `third` of other folds."""
    with working_in(tmp_path_factory.mktemp("published")) as folder:
        smoke = ("sweep", "--suite", "smoke", "--trials", 1, *FAST)
        two = ("--dataset", "iris", "--dataset", "wine", "--folds", 2)
        models = ("--model", "linear", "--model", "knn")
        with without_reports():
            answer(*smoke, *two, *models, "--name", "first")
            answer(*smoke, *two, "--model", "knn", "--model", "constant", "--name", "second")
            answer(*smoke, "--dataset", "iris", "--folds", 3, "--model", "knn", "--name", "third")
        yield folder


def published(*names: str, out: str = "site", more: tuple[object, ...] = ()) -> Path:
    ran = bench("publish", *(f"runs/{name}" for name in names), "--out", out, *more)
    assert ran.code == 0, ran.err
    return Path(out)


def links_of(page: Path) -> list[str]:
    """Everything that a page refers to."""
    tags = Tags(page.read_text("utf-8")).found
    names = ("href", "src", "action", "srcset")
    return [attrs[name] or "" for _, attrs in tags for name in names if name in attrs]


@pytest.fixture(scope="module")
def site(runs: Path) -> Path:
    """The site of the first two runs."""
    return published("first", "second")


def test_the_same_runs_give_the_same_bytes_in_any_order_and_every_link_is_in_the_site(runs, site):
    assert contents(published("second", "first", "second", out="again")) == contents(site)
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 8
    for page in pages:
        for link in links_of(page):
            if not link.startswith(("#", "data:")):
                assert "://" not in link and not link.startswith("/"), (page, link)
                file, _, place = link.partition("#")
                assert (page.parent / file).is_file(), (page, link)
                if place:
                    assert f'id="{place}"' in (page.parent / file).read_text("utf-8"), (page, link)
        assert "default-src &#39;none&#39;" in page.read_text("utf-8")
    for name, data in contents(site).items():
        assert str(runs).encode() not in (gzip.decompress(data) if name.endswith("gz") else data)
    first = (site / "index.html").read_text("utf-8")
    for name in ("first", "second"):
        assert f'href="runs/{name}/html/index.html"' in first


def test_of_a_cell_the_newest_run_counts_and_every_trial_can_be_had(site):
    scores = pd.read_csv(site / "board" / "scores.csv")
    scores = scores[scores["headline"].astype(bool)].set_index(["dataset", "model"])["mean"]
    trials = pd.read_csv(io.BytesIO(gzip.decompress((site / "trials.csv.gz").read_bytes())))
    assert len(trials) == 8 + 8 and "message" not in trials
    means = trials[trials["selected"]].groupby(["run", "dataset", "model"])["test_accuracy"].mean()
    assert len(scores) == 2 * 3
    for (dataset, model), mean in scores.items():
        run = "first" if model == "linear" else "second"
        assert mean == pytest.approx(means[run, dataset, model], rel=1e-9)


def test_a_run_that_failed_does_not_replace_a_complete_cell(runs):
    model = f"{write_own_models(runs)}:Moody"
    sweep = ("sweep", "--suite", "smoke", *FAST, "--dataset", "wine", "--folds", 2, "--trials", 1)
    answer(*sweep, "--model", model, "--name", "whole")
    (runs / "broken").touch()
    answer(*sweep, "--model", model, "--name", "failed", "--runs", "later", code=1)
    ran = bench("publish", "runs/whole", "later/failed", "--out", "moods")
    assert ran.code == 0, ran.err
    assert pd.read_csv("moods/board/scores.csv")["state"].unique().tolist() == ["complete"]


def test_an_earlier_site_is_replaced_and_what_others_put_beside_it_stays(runs, site):
    replaced = runs / "replaced"
    shutil.copytree(site, replaced)
    (replaced / "CNAME").write_text("results.example.org")
    (replaced / ".git" / "refs" / "heads").mkdir(parents=True)
    published("third", out="replaced")
    assert [p.name for p in (replaced / "runs").iterdir()] == ["third"]
    others = {"CNAME": b"results.example.org"}
    assert contents(replaced) == contents(published("third", out="fresh")) | others
    assert (replaced / ".git" / "refs" / "heads").is_dir()


def test_runs_without_a_common_table_have_boards_of_their_own(runs):
    assert bench("publish", "runs/first", "runs/third", "--out", "unlike").code == 0
    page = Path("unlike/index.html").read_text("utf-8")
    for board in ("board", "board-2"):
        assert Path("unlike", board, "html/index.html").is_file() and f"{board}/html" in page


def test_a_folder_that_is_no_site_is_refused(runs):
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("years of work")
    ran = bench("publish", "runs/first", "--out", "mine")
    assert ran.code == 2 and "BENCH-E005" in ran.err and "site.json" in ran.err
    assert [p.name for p in Path("mine").iterdir()] == ["thesis.txt"]
    assert bench("publish", "runs/none", "--out", "new").code == 2 and not Path("new").exists()
    assert not list(Path().glob(".*-*"))


def test_runs_of_one_name_have_folders_of_their_own(runs):
    (runs / "other").mkdir(exist_ok=True)
    shutil.copytree(runs / "runs" / "third", runs / "other" / "third")
    for name in ("a b", "a-b"):
        shutil.copytree(runs / "runs" / "third", runs / "other" / name)
    same = ("other/third", "other/a b", "other/a-b")
    ran = bench("publish", "runs/third", *same, "--out", "twins", "--title", "Us & <them>")
    assert ran.code == 0, ran.err
    reports = {path.parents[1].name for path in Path("twins/runs").glob("*/html/index.html")}
    assert reports == {"third", "third-2", "a-b", "a-b-2"}
    assert "<h1>Us &amp; &lt;them&gt;</h1>" in (runs / "twins" / "index.html").read_text("utf-8")
