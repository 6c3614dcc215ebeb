"""A suite file that is edited after its run: what is refused, and what leaves the tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import bench
from refusals import refused
from small_sweeps import FAST

pytestmark = pytest.mark.usefixtures("work", "unreported")

SUITE = """
name = "mine"
title = "A suite to edit"
datasets = ["iris"]

[metric]
multiclass = "accuracy"

[protocol]
iris = "kfold"

[budgets.quick]
models = ["knn"]
folds = 1
trials = 2
sampler = "random"
"""


@pytest.mark.fault(25)
def test_an_edit_that_makes_results_incomparable_is_refused_by_name():
    suite = Path("mine.toml")
    suite.write_text(SUITE)
    call = ("sweep", "--suite", suite, *FAST, "--name", "edited")
    assert bench(*call).code == 0
    edits = [
        ('"accuracy"', '"log_loss"', ("metric of", "'log_loss'")),
        ('"kfold"', '"holdout"', ("protocol of iris", "'holdout'")),
        ('"random"', '"tpe"', ("sampler of knn", "'tpe")),
        ("trials = 2", 'trials = 2\nspace = "npt"', ("space of knn",)),
        ("trials = 2", "trials = 2\nstart_with_default = false", ("space of knn",)),
        ('"random"', '"random"\n[budgets.quick.model.knn.fixed]\np = 1', ("space of knn",)),
        ('"mine"', '"yours"', ("suite", "'yours'")),
    ]
    for old, new, named in edits:
        assert SUITE.count(old) == 1
        suite.write_text(SUITE.replace(old, new))
        line = refused("BENCH-E005", *call)
        assert all(words in line for words in (*named, "--name")), (new, line)
    edited = SUITE.replace('"accuracy"', '"log_loss"').replace('"kfold"', '"holdout"')
    suite.write_text(edited.replace('"random"', '"tpe"'))
    line = refused("BENCH-E005", *call, "--seed", 3)  # every difference is named at once
    assert all(words in line for words in ("seed", "metric of", "protocol of", "sampler of"))
    suite.write_text(SUITE)
    assert bench(*call).code == 0


@pytest.mark.fault(25)
def test_an_edit_that_takes_trials_out_of_the_tables_says_which():
    suite = Path("mine.toml")
    whole = SUITE.replace('["knn"]', '["knn", "constant"]').replace("folds = 1", "folds = 2")
    call = ("sweep", "--suite", suite, *FAST, "--name", "edited")
    for old, new, named in [
        (', "constant"', "", ("iris/0/constant", "iris/1/constant")),
        ("folds = 2", "folds = 1", ("iris/1/knn", "iris/1/constant")),
        ("trials = 2", "trials = 1", ("iris/0/knn", "iris/1/knn")),
    ]:
        suite.write_text(whole)
        found = bench(*call)
        assert found.code == 0 and "no longer asks" not in found.err, found
        suite.write_text(whole.replace(old, new))
        for more in (("--dry-run",), ()):
            found = bench(*call, *more)
            assert found.code == 0
            warned = [line for line in found.err.splitlines() if "no longer asks" in line]
            assert len(warned) == 1 and all(study in warned[0] for study in named), found.err
        assert "no longer asks" not in bench(*call).err, "it is said once"
