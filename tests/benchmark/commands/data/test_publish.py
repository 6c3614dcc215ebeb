"""`bench publish`: overlapping runs as one static site, through the real command."""

from __future__ import annotations

import gzip
import io
import json
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from calls import bench, working_in
from small_sweeps import FAST, answer, write_own_models

OTHER_METRIC = """
name = "other"
title = "Another metric"
datasets = ["wine"]
[metric]
multiclass = "log_loss"
[budgets.quick]
models = ["constant"]
folds = 2
trials = 1
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Runs `first` and `second`, which share a model, `third` of other folds, `fourth` of another
    metric."""
    with working_in(tmp_path_factory.mktemp("published")) as folder:
        smoke = ("sweep", "--suite", "smoke", "--trials", 1, *FAST)
        two = ("--dataset", "iris", "--dataset", "wine", "--folds", 2)
        models = ("--model", "linear", "--model", "knn")
        answer(*smoke, *two, *models, "--name", "first")
        answer(*smoke, *two, "--model", "knn", "--model", "constant", "--name", "second")
        answer(*smoke, "--dataset", "iris", "--folds", 3, "--model", "knn", "--name", "third")
        (folder / "other.toml").write_text(OTHER_METRIC)
        answer("sweep", "--suite", "other.toml", "--name", "fourth", *FAST)
        yield folder


def published(*names: str, out: str = "site", more: tuple[object, ...] = ()) -> Path:
    ran = bench("publish", *(f"runs/{name}" for name in names), "--out", out, *more)
    assert ran.code == 0, ran.err
    return Path(out)


def contents(site: Path) -> dict[str, bytes]:
    return {p.relative_to(site).as_posix(): p.read_bytes() for p in site.rglob("*") if p.is_file()}


class Links(HTMLParser):
    """Everything that a page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [v or "" for k, v in attrs if k in ("href", "src", "action", "srcset")]


def links_of(page: Path) -> list[str]:
    reader = Links()
    reader.feed(page.read_text("utf-8"))
    return reader.found


@pytest.fixture(scope="module")
def site(runs: Path) -> Path:
    """The site of the first three runs."""
    return published("first", "second", "third")


def test_the_same_runs_give_the_same_bytes_in_any_order_and_every_link_is_in_the_site(runs, site):
    assert contents(published("third", "first", "second", "first", out="again")) == contents(site)
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
    for name in ("first", "second", "third"):
        assert f'href="runs/{name}/html/index.html"' in first


def test_of_a_cell_the_newest_complete_run_counts_and_other_folds_stand_apart(site):
    cells = pd.read_csv(site / "cells.csv")
    counted = cells[cells["counted"]].set_index(["dataset", "model"])["run"].to_dict()
    assert counted == {
        ("iris", "knn"): "third",
        ("iris (2)", "constant"): "second",
        ("iris (2)", "knn"): "second",
        ("iris (2)", "linear"): "first",
        ("wine", "constant"): "second",
        ("wine", "knn"): "second",
        ("wine", "linear"): "first",
    }
    scores = pd.read_parquet(site / "board" / "scores.parquet")
    scores = scores[scores["headline"].astype(bool)].set_index(["dataset", "model"])["mean"]
    for row in cells[cells["counted"]].itertuples():
        assert scores[row.dataset, row.model] == pytest.approx(row.mean, rel=1e-9)
    folds = pd.read_csv(site / "results.csv")
    means = folds.groupby(["run", "on_board", "model"])["test_accuracy"].mean()
    for row in cells.itertuples():
        assert means[row.run, row.dataset, row.model] == pytest.approx(row.mean, rel=1e-9)
    packed = gzip.decompress((site / "trials.csv.gz").read_bytes())
    trials = pd.read_csv(io.BytesIO(packed))
    assert len(trials) == 8 + 8 + 3 and "message" not in trials


def test_a_run_that_failed_does_not_replace_a_complete_cell(runs):
    model = f"{write_own_models(runs)}:Moody"
    sweep = ("sweep", "--suite", "smoke", *FAST, "--dataset", "wine", "--folds", 2, "--trials", 1)
    answer(*sweep, "--model", model, "--name", "whole")
    (runs / "broken").touch()
    answer(*sweep, "--model", model, "--name", "failed", "--runs", "later", code=1)
    ran = bench("publish", "runs/whole", "later/failed", "--out", "moods")
    assert ran.code == 0, ran.err
    cells = pd.read_csv("moods/cells.csv").set_index("run")
    assert cells["state"].to_dict() == {"whole": "complete", "failed": "failed"}
    assert cells["counted"].to_dict() == {"whole": True, "failed": False}


def test_a_run_of_another_metric_is_on_its_own_page_alone(runs):
    site = published("fourth", "first", out="metrics")
    first = (site / "index.html").read_text("utf-8")
    assert "Run first is on its own page alone for its metric: multiclass by accuracy" in first
    assert 'href="runs/first/html/index.html"' in first
    assert set(pd.read_csv(site / "cells.csv").query("counted")["run"]) == {"fourth"}


def test_an_earlier_site_is_replaced_and_any_other_folder_is_refused(runs, site):
    replaced = runs / "replaced"
    shutil.copytree(site, replaced)
    (replaced / "CNAME").write_text("results.example.org")
    published("third", out="replaced")
    assert [p.name for p in (replaced / "runs").iterdir()] == ["third"]
    listed = json.loads((replaced / "site.json").read_text())["files"]
    assert set(contents(replaced)) == {*listed, "site.json", "CNAME"}
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


def test_what_others_put_beside_the_site_stays(runs):
    site = published("first", out="kept")
    (site / ".git" / "refs" / "heads").mkdir(parents=True)
    (site / "empty").mkdir()
    (site / "link").symlink_to("empty")
    published("third", out="kept")  # fewer files: those of the first go, and the folders they leave
    assert all((site / name).is_dir() for name in (".git/refs/heads", "empty", "link"))
    ours = [p for p in site.rglob("*") if p.is_dir() and not p.is_symlink()]
    empty = {p.relative_to(site).as_posix() for p in ours if not any(p.iterdir())}
    assert empty == {".git/refs/heads", "empty"}


def test_the_cells_of_a_run_of_another_metric_name_their_dataset(runs):
    cells = pd.read_csv(published("first", "fourth", out="named") / "cells.csv")
    assert set(cells.loc[cells["run"] == "fourth", "dataset"]) == {"wine"}
