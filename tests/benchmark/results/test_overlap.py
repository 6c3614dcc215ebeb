"""Reports of several runs that hold the same studies."""

from __future__ import annotations

import pytest
from calls import bench, working_in
from tabsweep.benchmark.results.evidence_builder import evidence_of
from tabsweep.reports.evidence import EvidenceError


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Runs on iris: knn alone, knn with linear, knn with three configurations, knn otherwise."""
    runs = {
        "alone": ("--trials", 1, "--model", "knn"),
        "both": ("--trials", 1, "--model", "knn", "--model", "linear"),
        "longer": ("--trials", 3, "--model", "knn"),
        "grid": ("--trials", 2, "--model", "knn", "--sampler", "tpe", "--space", "default"),
    }
    with working_in(tmp_path_factory.mktemp("overlap")) as folder:
        for name, more in runs.items():
            call = ("sweep", "--suite", "smoke", "--dataset", "iris", "--folds", 1, "--workers", 0,
                    "--tracking-uri", "none", "--name", name, *more)  # fmt: skip
            assert bench(*call).code == 0
        yield folder


def test_the_run_with_the_most_trials_of_a_study_gives_it(work):
    for runs in (["runs/alone", "runs/longer"], ["runs/longer", "runs/alone"]):
        assert len(evidence_of(runs).trials) == 3


def test_two_searches_under_one_name_are_refused_by_name(work):
    ledger = set(evidence_of(["runs/longer"]).trials["id"])
    assert ledger
    with pytest.raises(EvidenceError, match="iris/0/knn"):
        evidence_of(["runs/longer", "runs/grid"])
