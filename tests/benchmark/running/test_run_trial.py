"""What a worker computes and what its driver holds: ids of the code that ran, features of files."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest
from tabsweep.benchmark.planning.code_identity import computes_with, source_print
from tabsweep.benchmark.planning.options import Options
from tabsweep.benchmark.planning.own_tables import csv_suite
from tabsweep.benchmark.running import run_trial, sweep
from tabsweep.benchmark.running.request import Request
from tabsweep.datasets import catalog
from tabsweep.datasets.infer import Reading
from tabsweep.datasets.protocols import make_folds
from tabsweep.sweeps import fingerprint
from tabsweep.sweeps.trial import DONE, Result, Trial
from tabsweep.sweeps.workers.pool import TrialRefused, guarded

MODEL = """
from tabsweep.models.knn import KNN

class Mine(KNN):
    name = "mine"
"""


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "my_edited_model.py").write_text(MODEL)
    monkeypatch.syspath_prepend(str(tmp_path))
    fingerprint._spec.cache_clear()  # another test's module of this name lies elsewhere
    run_trial.source_of.cache_clear()
    yield "my_edited_model:Mine"
    sys.modules.pop("my_edited_model", None)
    run_trial.source_of.cache_clear()


def run(target: str, source: str) -> Result:
    table = catalog.load_dataset("iris")
    fold = make_folds(table, "kfold")[0]
    identity = {"target": target, "threads": 1, "source": source}
    return guarded(
        run_trial.run_trial, Trial("iris", 0, "mine", {}, 0, identity), (table, {0: fold})
    )


def test_a_model_that_was_edited_after_the_sweep_began_is_refused_and_not_blamed(target, tmp_path):
    claimed = str(source_print(target)["source"])
    assert run(target, claimed).status == DONE
    (tmp_path / "my_edited_model.py").write_text(MODEL + "\n    def check(self):\n        pass\n")
    run_trial.source_of.cache_clear()  # another worker process
    with pytest.raises(TrialRefused, match="not the one that the sweep began with"):
        run(target, claimed)


def test_machines_agree_on_versions_and_sources_or_say_where_not():
    target = "tabsweep.models.knn:KNN"
    found = computes_with([target], ["numpy"])
    assert set(found) == {"python", "numpy", f"the code of {target}"}
    assert found[f"the code of {target}"] == str(source_print(target)["source"])[:12]
    found = computes_with(["no_such_module_here:X"], [])
    assert "absent" in found["the code of no_such_module_here:X"]


def test_a_driver_holds_no_features_of_a_file_once_workers_have_them(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a,y", *(f"{i}.5,{i % 2}" for i in range(200))]))
    suite, tables = csv_suite([path], ["y"], Reading())
    read = tables["t"].table.frame
    options = Options(models=("constant",), folds=1, runs=tmp_path / "runs", name="a", workers=1)
    outcome = sweep.run(Request(suite, options, tables=tables))
    assert outcome.tally.done and outcome.tally.done == outcome.tally.ran
    for frame in (tables["t"].table.frame, outcome.plan.data["t"].table.frame):
        pd.testing.assert_frame_equal(frame, read)
        assert not frame["a"].to_numpy().flags.writeable  # it is mapped
