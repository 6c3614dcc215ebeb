"""Runs of single fits and runs of bags: never in one table without a word."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import bench, working_in
from small_sweeps import FAST, answer
from tabsweep.benchmark.results.evidence_builder import evidence_of, load_results
from tabsweep.benchmark.tracking.mapping import project
from tabsweep.sweeps.store.ledger import Ledger

SMALL = ("sweep", "--suite", "smoke", "--model", "decision-tree", "--trials", 2, *FAST)
BAG = ("--bag", 3)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """single: iris; bag: iris; more: bags of both folds of iris, and one that reuses `bag`; other:
    bags of another number; cv: bags of all trials; far: bags on another dataset."""
    with working_in(tmp_path_factory.mktemp("mixed")) as folder:
        iris = (*SMALL, "--dataset", "iris")
        for name, more in {
            "single": (*iris, "--folds", 1),
            "bag": (*iris, "--folds", 1, *BAG),
            "two": (*iris, "--folds", 2, *BAG),
            "other": (*iris, "--folds", 1, "--bag", 4),
            "cv": (*iris, "--folds", 1, *BAG, "--validation", "cv"),
            "far": (*SMALL, "--dataset", "diabetes", "--folds", 1, *BAG),
        }.items():
            answer(*more, "--name", name)
        yield folder / "runs"


def test_a_report_of_single_fits_and_bags_is_refused_in_one_line(runs, work):
    for one, other, words in (
        ("single", "bag", ("single fits", "bags of 3")),
        ("single", "far", ("single fits", "bags of 3")),  # of no dataset in common
        ("bag", "other", ("bags of 3", "bags of 4")),
    ):
        for pair in ((one, other), (other, one)):
            refused = bench("report", *(runs / name for name in pair), "--out", "both")
            assert refused.code == 2 and len(refused.err.splitlines()) == 1, refused
            assert all(word in refused.err for word in words)
    assert not Path("both").exists()
    assert bench("report", runs / "bag", runs / "far", "--out", "both").code == 0


def test_merge_takes_bags_with_bags_alone_and_verifies_them(runs, work):
    refused = bench("merge", runs / "single", runs / "bag", "--out", "mixed")
    assert refused.code == 2 and "bag was 3, is None" in refused.err
    assert bench("merge", runs / "bag", runs / "cv", "--out", "mixed").code == 2
    merged = answer("merge", runs / "bag", runs / "two", "--out", "merged")
    assert merged["refused"] == {} and merged["conflicts"] == []
    assert len(load_results("merged")) == len(load_results(runs / "two")) == 6
    assert bench("verify", "merged").code == 0


def test_reuse_copies_a_bag_to_a_bag_and_to_nothing_else(runs, work):
    iris = (*SMALL, "--dataset", "iris", "--reuse", runs / "bag")
    again = answer(*iris, "--folds", 2, *BAG, "--name", "again")
    assert (again["reused"], again["ran"]) == (3, 3)  # two trials of the search and their bag
    single = answer(*iris, "--folds", 1, "--name", "single", "--runs", "elsewhere")
    assert (single["reused"], single["ran"]) == (2, 0)  # the trials of the search are the same
    assert list(load_results("elsewhere/single")["stage"]) == ["tune", "tune"]


def test_compare_says_what_each_side_is(runs):
    notes = answer("compare", runs / "single", runs / "bag")["notes"]
    assert [note for note in notes if "single fits" in note and "bags of 3" in note]
    assert not answer("compare", runs / "bag", runs / "two")["notes"]


def test_an_entrant_of_bags_stands_apart_from_single_fits(runs, work):
    for name in ("bag", "single"):
        call = ("beside", "export", runs / name, "--out", name, "--title", "T", "--mark", "mine")
        assert bench(*call).code == 0
    for run, entrant, ranked in (
        ("bag", "bag", True),
        ("single", "bag", False),
        ("bag", "single", False),
        ("single", "single", True),
    ):
        out = f"{run}-{entrant}"
        assert bench("report", runs / run, "--beside", entrant, "--out", out).code == 0
        assert ("[mine]" in Path(out, "leaderboard.csv").read_text()) == ranked
        said = Path(out, "beside.md")
        assert ("other fits" in said.read_text() if said.exists() else False) == (not ranked)


def test_tables_page_status_explain_and_tracking_name_what_a_score_is_of(runs):
    for name, words in (("bag", "then a bag of 3"), ("cv", "every trial a bag of 3")):
        report = runs / name / "report"
        for path in ("scores.md", "leaderboard.md", "html/index.html", "scores.tex"):
            assert "Scores are of bags" in (report / path).read_text(), path
        assert evidence_of([runs / name]).facts.budget.endswith(words)
        assert answer("status", runs / name)["fits"] == "bags of 3"
        shown = bench("explain", "scores", "iris", "decision-tree", "--run", runs / name)
        assert "scores are of bags of 3" in shown.out
    assert answer("status", runs / "single")["fits"] == "single fits"
    assert "bags" not in (runs / "single" / "report" / "scores.md").read_text()
    assert not (runs / "bag" / "report" / "seeds.md").exists()


def test_tracking_shows_a_bag_by_its_own_predictions_and_as_no_seed(runs):
    (study,) = project(Ledger(runs / "bag")).runs
    assert study.tags["fits"] == "bag of 3"
    keys = {point.key for point in study.points}
    assert not [key for key in keys if key.startswith("seed/")]
    results = load_results(runs / "bag")
    (bag,) = results[results["stage"] == "eval"].to_dict("records")
    for name in ("val_accuracy", "test_accuracy"):
        assert [p.value for p in study.points if p.key == name] == [bag[name]]
    (single,) = project(Ledger(runs / "single")).runs
    assert "fits" not in single.tags
