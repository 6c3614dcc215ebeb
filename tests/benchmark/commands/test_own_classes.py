"""Classes of the user as scikit-learn's users write them: what they are for, and what they take."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import answer, bench
from small_sweeps import SMALL, sweeps
from tabsweep.benchmark.results.evidence_builder import load_results

pytestmark = pytest.mark.usefixtures("work", "unreported")

CLASSES = """
import lightgbm
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LogisticRegression, Ridge

class Says(ClassifierMixin, BaseEstimator):
    def __init__(self, alpha=1.0):
        self.alpha = alpha
    def fit(self, X, y):
        self.classes_, n = np.unique(y, return_counts=True)
        self.p_ = n / n.sum()
        return self
    def predict(self, X):
        return self.classes_[np.full(len(X), self.p_.argmax())]
    def predict_proba(self, X):
        return np.tile(self.p_, (len(X), 1))

class Binary(Says):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

class Needs(Says):
    '''Cannot be made without an argument: its bases say what it is.'''
    def __init__(self, needed):
        self.needed = needed

class Any(Says):
    tasks = ("binary", "multiclass", "regression")

class Line(Ridge):
    numbers_only = True
    spaces = {"default": {"params": {"alpha": {"kind": "log-uniform", "low": 0.1, "high": 10.0}}}}

class Logistic(LogisticRegression):
    numbers_only = True
    def fit(self, X, y, X_val=None, y_val=None):
        assert all(type(x) is np.ndarray for x in (X, X_val) if x is not None)
        return super().fit(X, y)

class Arrays(LogisticRegression):
    pass

class Forward(lightgbm.LGBMClassifier):
    @staticmethod
    def spaces():
        return {"default": {"params": {
            "n_estimators": {"kind": "fixed", "value": 5},
            "path_smooth": {"kind": "uniform", "low": 0.0, "high": 1.0}}}}

class Further(Forward):
    def __init__(self, num_leaves=7, **more):
        super().__init__(num_leaves=num_leaves, **more)

class Bare:
    '''No base, no classes_: class codes alone.'''
    def fit(self, X, y):
        n = np.bincount(y)
        self.kinds_, self.p_ = X.dtypes, n / n.sum()
    def predict(self, X):
        return np.full(len(X), self.p_.argmax())
    def predict_proba(self, X):
        return np.tile(self.p_, (len(X), 1))

class Threads(Says):
    needs_threads = "two"

class Ruled(Says):
    rules = computes_in = None

class Seeded(Says):
    def __init__(self, alpha=1.0, random_state=0):
        self.alpha, self.random_state = alpha, random_state
    spaces = {"default": {"params": {"random_state": {"kind": "int", "low": 0, "high": 9}}}}
"""


@pytest.fixture
def file(work: Path) -> str:
    name = f"classes_{abs(hash(work))}.py"
    Path(name).write_text(CLASSES)
    return name


def test_scikit_learns_tags_say_on_which_tasks_a_class_runs(file: str) -> None:
    tasks = {
        name: answer("models", f"{file}:{name}")["tasks"]
        for name in ("Says", "Binary", "Needs", "Any", "Line", "Forward")
    }
    classification = ["binary", "multiclass"]
    assert tasks == {
        "Says": classification,
        "Binary": ["binary"],
        "Needs": classification,
        "Any": [*classification, "regression"],
        "Line": ["regression"],
        "Forward": classification,
    }
    call = ("--suite", "smoke", "--dataset", "diabetes", "--model", f"{file}:Says")
    alone = bench("sweep", *call, "--tracking-uri", "none", "--name", "alone")
    assert "no regression form" in alone.err and not len(load_results("runs/alone"))


def test_a_class_that_takes_arrays_alone_says_so_and_takes_part(file: str) -> None:
    """Dates and texts, gaps and categories reach it as numbers."""
    for name in ("Line", "Logistic"):
        checked = bench("models", "check", f"{file}:{name}")
        assert checked.code == 0, checked.out
    broken = bench("models", "check", f"{file}:Arrays")
    assert broken.code == 1 and "numbers_only = True" in broken.out
    assert "numbers_only" not in bench("models", "check", f"{file}:Says").out
    Path("t.csv").write_text(
        "a,colour,price\n"
        + "".join(f"{'' if i % 7 == 0 else i},{'rgb'[i % 3]},{i * i % 50}.5\n" for i in range(60))
    )
    call = ("--csv", "t.csv", "--target", "price", "--model", f"{file}:Line", "--folds", 2)
    found = bench(
        "sweep", *call, "--trials", 2, "--workers", 0, "--name", "t", "--tracking-uri", "none"
    )
    assert found.code == 0 and load_results("runs/t")["status"].eq("done").all(), found.err


def test_a_class_without_classes_and_bases_answers_for_the_sorted_labels(file: str) -> None:
    checked = answer("models", "check", f"{file}:Bare", code=1)
    broken = {(row["task"], row["broken"]) for row in checked["checks"] if row["broken"]}
    assert all(task == "regression" or "constant answer" in why for task, why in broken)
    said = bench("models", "check", f"{file}:Bare").out
    assert "fit sets no classes_" in said and "tasks = ('binary', 'multiclass')" in said
    sweeps("--model", f"{file}:Bare", "--model", f"{file}:Says", "--name", "bare")
    found = load_results("runs/bare")
    scored = found.groupby("model")["val_accuracy"].mean()
    assert found["status"].eq("done").all() and scored.nunique() == 1


def test_what_a_class_declares_is_checked_and_what_means_something_else_is_not_read(
    file: str,
) -> None:
    wrong = bench("models", f"{file}:Threads")
    assert wrong.code == 2 and "`needs_threads` must be a whole number" in wrong.err
    sweeps("--model", f"{file}:Ruled", "--name", "ruled")
    assert load_results("runs/ruled")["status"].eq("done").all()


def test_what_a_constructor_takes_by_name_is_not_given_what_a_trial_has(file: str) -> None:
    """LightGBM has a parameter `task`, too, and would refuse to fit."""
    for name in ("Forward", "Further"):
        sweeps("--model", f"{file}:{name}", "--folds", 1, "--trials", 3, "--name", name)
        configs = [*load_results(f"runs/{name}").sort_values("index")["config"]]
        assert configs[0] == '{"n_estimators":5}' and all("path_smooth" in c for c in configs[1:])
    seeded = bench(*SMALL, "--model", f"{file}:Seeded", "--name", "s")
    assert seeded.code == 2 and "'random_state', which each trial sets" in seeded.err


def test_a_file_without_a_class_and_a_name_that_is_taken_are_said(file: str) -> None:
    found = bench(*SMALL, "--model", file)
    assert found.code == 2 and f"{file}:Says, {file}:Binary" in found.err
    misspelt = bench(*SMALL, "--model", f"{file[0]}{file}:Says")
    assert misspelt.code == 2 and repr(file) in misspelt.err
    Path("statistics.py").write_text(CLASSES)
    taken = bench(*SMALL, "--model", "statistics.py:Says")
    assert taken.code == 2 and "rename it" in taken.err
    Path("sklearn").mkdir()
    Path("sklearn", "mine.py").write_text(CLASSES)
    hidden = bench(*SMALL, "--model", "sklearn/mine.py:Says")
    assert hidden.code == 2 and "rename it" in hidden.err
    unknown = bench("nightly", "--suite", "nosuch")
    assert unknown.code == 2 and "'nosuch'" in unknown.err and not Path("nights").exists()
