"""A worker gives a result only the id of the code that it ran."""

from __future__ import annotations

import os
import random
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from tabsweep.benchmark.planning.code_identity import computes_with, source_print
from tabsweep.benchmark.running import run_trial
from tabsweep.datasets import catalog
from tabsweep.datasets.protocols import make_folds
from tabsweep.sweeps import fingerprint
from tabsweep.sweeps.trial import DONE, Result, Trial
from tabsweep.sweeps.workers.pool import TrialRefused, guarded, process_state_kept

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


def test_a_comment_changes_nothing(target, tmp_path):
    claimed = str(source_print(target)["source"])
    (tmp_path / "my_edited_model.py").write_text("# a remark\n" + MODEL)
    assert run(target, claimed).status == DONE


def test_machines_agree_on_versions_and_sources_or_say_where_not():
    target = "tabsweep.models.knn:KNN"
    found = computes_with([target], ["numpy"])
    assert set(found) == {"python", "numpy", f"the code of {target}"}
    assert found[f"the code of {target}"] == str(source_print(target)["source"])[:12]
    assert (
        "absent"
        in computes_with(["no_such_module_here:X"], [])["the code of no_such_module_here:X"]
    )


LEAVES_MUCH_BEHIND = """
    def fit(self, *args, **more):
        import os, random, warnings
        import torch
        os.chdir("/")
        os.environ["LEFT_BEHIND"] = "1"
        del os.environ["PRESENT_BEFORE"]
        np.seterr(all="raise")
        warnings.simplefilter("error")
        torch.set_default_dtype(torch.float64)
        torch.use_deterministic_algorithms(True)
        torch.set_num_threads(torch.get_num_threads() + 1)
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        return super().fit(*args, **more)
"""


def process_state() -> dict[str, object]:
    return {
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "errors": np.geterr(),
        "filters": list(warnings.filters),
        "dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
    }


def draws() -> tuple[float, float, float]:
    return random.random(), np.random.rand(), torch.rand(()).item()


def test_what_a_model_changes_in_the_process_ends_with_its_trial(target, tmp_path, monkeypatch):
    monkeypatch.setenv("PRESENT_BEFORE", "1")
    (tmp_path / "my_edited_model.py").write_text(
        f"import numpy as np, random, torch\n{MODEL}{LEAVES_MUCH_BEHIND}"
    )
    source = str(source_print(target)["source"])
    before = process_state()
    found = []
    for _ in range(2):
        result = run(target, source)
        assert result.status == DONE, result.message
        assert process_state() == before
        found.append(draws())
    seeded = random.Random(0).random(), np.random.RandomState(0).rand()
    assert all(a != b for a, b in zip(*found, strict=True)), "each trial draws anew"
    assert not {*seeded} & {number for each in found for number in each}


def test_the_draws_of_a_trial_do_not_depend_on_the_trials_before_it():
    found = []
    for seed in (1, 2):
        random.seed(7), np.random.seed(7), torch.manual_seed(7)
        with process_state_kept():
            random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)
        found.append(draws())
    assert found[0] == found[1]
