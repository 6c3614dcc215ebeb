"""A worker gives a result only the id of the code that it ran."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from tabsweep.benchmark.planning.code_identity import computes_with, source_print
from tabsweep.benchmark.running import run_trial
from tabsweep.datasets import catalog
from tabsweep.datasets.protocols import make_folds
from tabsweep.sweeps import fingerprint
from tabsweep.sweeps.trial import DONE, FAILED, Result, Trial
from tabsweep.sweeps.workers.pool import guarded

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


def test_a_model_that_was_edited_after_the_sweep_began_fails_and_says_so(target, tmp_path):
    claimed = str(source_print(target)["source"])
    assert run(target, claimed).status == DONE
    (tmp_path / "my_edited_model.py").write_text(MODEL + "\n    def check(self):\n        pass\n")
    run_trial.source_of.cache_clear()  # another worker process
    result = run(target, claimed)
    assert (result.status, result.cause) == (FAILED, "error")
    assert "not the one that the sweep began with" in result.message


def test_warnings_of_a_model_that_are_no_counts_fail_no_trial(target, tmp_path):
    """Only the models of this package promise what their attribute `warnings_` holds."""
    for held, counts in (("['singular']", None), ("{'A': 2, 'B': 'x'}", {"A": 2}), ("3", None)):
        text = f"{MODEL}\n    warnings_ = property(lambda self: {held}, lambda self, value: None)\n"
        (tmp_path / "my_edited_model.py").write_text(text)
        sys.modules.pop("my_edited_model", None)
        importlib.invalidate_caches()
        run_trial.source_of.cache_clear()
        result = run(target, str(source_print(target)["source"]))
        assert result.status == DONE, result.message
        assert result.info.get("warnings") == counts


def test_a_comment_changes_nothing(target, tmp_path):
    claimed = str(source_print(target)["source"])
    (tmp_path / "my_edited_model.py").write_text("# a remark\n" + MODEL)
    assert run(target, claimed).status == DONE


def test_a_model_may_mean_anything_by_warnings_(target, tmp_path):
    for value in ('["slow"]', '{"rows": "few"}', "np.ones(2)", "3"):
        fit = f"        self.warnings_ = {value}\n        return self\n"
        text = f"import numpy as np\n{MODEL}\n    def fit(self, *args, **more):\n"
        text += f"        super().fit(*args, **more)\n{fit}"
        (tmp_path / "my_edited_model.py").write_text(text)
        sys.modules.pop("my_edited_model", None)
        run_trial.source_of.cache_clear()
        result = run(target, str(source_print(target)["source"]))
        assert result.status == DONE and "warnings" not in result.info, (value, result)


def test_machines_agree_on_versions_and_sources_or_say_where_not():
    target = "tabsweep.models.knn:KNN"
    found = computes_with([target], ["numpy"])
    assert set(found) == {"python", "numpy", f"the code of {target}"}
    assert found[f"the code of {target}"] == str(source_print(target)["source"])[:12]
    assert (
        "absent"
        in computes_with(["no_such_module_here:X"], [])["the code of no_such_module_here:X"]
    )
