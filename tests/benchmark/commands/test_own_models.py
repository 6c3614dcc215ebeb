"""Models and tables of the user in sweeps: found, run, retried, and checked on resume."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import pytest
from calls import bench
from small_sweeps import AGAIN, FAST, SMALL, answer, sweeps
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.results.run_status import status_of

pytestmark = pytest.mark.usefixtures("work")


QUICK = suites.load("uci-small").budgets["quick"].models


def fits() -> int:
    return len(Path("fits.log").read_text().splitlines())


def test_a_failure_runs_again_only_when_asked_or_under_a_larger_limit(own, unreported):
    Path("broken").touch()
    call = ("--model", f"{own}:Moody", "--folds", 1, "--name", "m")
    failed = sweeps(*call, code=1)
    assert failed["failed"] == {"oom": 1}
    assert fits() == 2, "out of memory may be a neighbour's doing: it is tried twice"
    assert sweeps(*call, code=1)["ran"] == 0
    assert answer("resume", "runs/m", *AGAIN, code=1)["ran"] == 0
    assert "bench retry runs/m" in bench("resume", "runs/m", *AGAIN).out
    assert answer("retry", "runs/m", *AGAIN, "--cause", "timeout", code=5) == {"retried": 0}
    for cause in ("omm", "oom,omm", "oom,", ""):
        unknown = bench("retry", "runs/m", "--cause", cause)
        assert unknown.code == 2 and "known: error, gpu_error" in unknown.err
        assert ("did you mean 'oom'?" in unknown.err) == ("omm" in cause)
    assert fits() == 2
    assert answer("retry", "runs/m", *AGAIN, code=1)["ran"] == 1
    assert fits() == 4
    assert sweeps(*call, "--memory-mb", 9000, code=1)["ran"] == 1, "the limit is larger now"
    assert fits() == 6
    Path("broken").unlink()
    healed = answer("retry", "runs/m", *AGAIN, "--cause", "oom", "--memory-mb", 16000)
    assert (healed["ran"], healed["done"], healed["failed"]) == (1, 1, {})
    assert fits() == 7
    found = bench("retry", "runs/m", *AGAIN)
    assert found.code == 5
    results = load_results("runs/m")
    assert list(results["status"]) == ["done"]


@pytest.mark.fault(20)
def test_models_from_a_file_in_the_working_directory_take_part(own):
    picks = ("--model", f"{own}:Plain", "--model", f"{own}:Tuned", "--model", "knn")
    found = bench(*SMALL, *picks, "--folds", 1, "--trials", 3, "--name", "own")
    assert found.code == 0
    assert f"{own}:Plain declares no search space" in found.out
    results = load_results("runs/own")
    configs = results.groupby("model")["config"].apply(list)
    assert configs[f"{own}:Plain"] == ["{}"]
    assert len(set(configs["tuned"])) == 3 and configs["tuned"][0] == '{"weight":1.0}'
    assert f"{own}:Plain" in Path("runs/own/report/scores.csv").read_text()
    shown = bench("models", f"{own}:Tuned")
    assert shown.code == 0 and "uniform [0.5, 2]" in shown.out
    # A sibling module that changes makes other trials, and finished ones are not mixed with them.
    helper = Path(f"{own}_helper.py")
    helper.write_text(helper.read_text() + "\n# a comment changes nothing\n")
    assert sweeps(*picks, "--folds", 1, "--trials", 3, "--name", "own")["ran"] == 0
    helper.write_text(helper.read_text().replace("n / n.sum()", "n / (n.sum() + 0)"))
    refused = bench(*SMALL, *picks, "--folds", 1, "--trials", 3, "--name", "own")
    assert refused.code == 2 and "BENCH-E006: 4 " in refused.err
    again = (*picks, "--folds", 1, "--trials", 3, "--name", "own", "--allow-code-change")
    stale = bench(*SMALL, *again)  # this process has the old modules, and must not run them as new
    assert stale.code == 3 and "BENCH-E021" in stale.err and "start the sweep again" in stale.err
    assert not status_of(Path("runs/own")).failed
    for name in [name for name in sys.modules if name.startswith(own)]:
        del sys.modules[name]
    assert bench(*SMALL, *again).code == 0
    assert status_of(Path("runs/own")).done == 7


def test_every_point_of_a_finite_space_is_tried_and_the_plan_says_where_the_search_ends(
    own, unreported
):
    Path("few.py").write_text(
        f"from {own} import Plain\n"
        "class Few(Plain):\n"
        "    def __init__(self, a=0, b=1): super().__init__(a)\n"
        "    def spaces():\n"
        "        params = {'a': {'kind': 'choice', 'values': [0, 1, 2, 3]},\n"
        "                  'b': {'kind': 'int', 'low': 1, 'high': 2}}\n"
        "        return {'default': {'params': params}}\n"
    )
    for sampler in ("tpe", "random", "hyperopt"):
        call = ("--model", "few.py:Few", "--folds", 2, "--name", sampler, "--sampler", sampler)
        found = bench(*SMALL, *call, "--trials", 30)
        assert found.code == 0 and "few:Few after 8 of 30 trials" in found.out
        configs = load_results(f"runs/{sampler}").groupby("fold")["config"]
        assert [(len(one), one.nunique()) for _, one in configs] == [(8, 8), (8, 8)]
    fits = bench(*SMALL, "--model", "few.py:Few", "--trials", 8, "--name", "new", "--dry-run")
    assert fits.code == 0 and "each point" not in fits.out


def test_a_class_is_named_by_its_file_and_told_what_it_gets(own):
    Path("deep").mkdir()
    name = f"{own}_deep"
    Path("deep", f"{name}.py").write_text(
        "import pandas as pd\n"
        "class Mine:\n"
        "    def fit(self, X, y):\n"
        "        assert isinstance(X, pd.DataFrame) and set(y) == {0, 1, 2}\n"
        "        self.classes_ = pd.Series(y).unique()\n"
        "    def predict(self, X): return [0] * len(X)\n"
        "    def predict_proba(self, X): return [[1 / 3] * 3] * len(X)\n"
    )
    found = bench(*SMALL, "--model", f"deep/{name}.py:Mine", "--folds", 1, "--name", "file")
    assert found.code == 0, found.err
    assert set(load_results("runs/file")["model"]) == {f"deep.{name}:Mine"}
    assert f"{name}:Mine: X is a DataFrame" in found.out
    gone = bench(*SMALL, "--model", "deep/other.py:Mine", "--name", "gone")
    assert gone.code == 2 and "BENCH-E004" in gone.err and not Path("runs/gone").exists()


def test_a_model_for_classification_alone_is_absent_from_regression_by_plan(own):
    args = ("--dataset", "diabetes", "--model", f"{own}:Classes", "--folds", 1, "--trials", 2)
    found = sweeps(*args, "--name", "part")
    assert (found["planned"], found["done"], found["unsupported_studies"]) == (2, 2, 1)
    assert "has no regression form" in Path("runs/part/report/coverage.md").read_text()


FAULTY = """
import numpy as np


class Good:
    tasks = ("binary", "multiclass")

    def __init__(self, weight=1.0, seed=0):
        self.weight, self.seed = weight, seed

    def fit(self, X, y):
        rows = X.assign(red=X.get("colour") == "red").select_dtypes(["number", "bool"])
        self.names_ = rows.columns
        self.classes_ = np.unique(y)
        rows = rows.fillna(0.0).to_numpy(float)
        self.scale_ = rows.std(axis=0) + 1.0
        self.means_ = np.array([rows[y == c].mean(axis=0) for c in self.classes_])
        return self

    def near(self, X):
        rows = X.assign(red=X.get("colour") == "red")[self.names_].fillna(0.0).to_numpy(float)
        far = (((rows[:, None] - self.means_) / self.scale_) ** 2).sum(axis=-1)
        return np.exp(-np.clip(far - far.min(axis=1, keepdims=True), 0, 50))

    def predict_proba(self, X):
        return self.near(X) / self.near(X).sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Unseeded(Good):
    def fit(self, X, y):
        super().fit(X, y)
        self.means_ += np.random.default_rng().normal(0.0, 1e-3, self.means_.shape)


class OfTheBatch(Good):
    def near(self, X):
        return super().near(X) + super().near(X).mean(axis=0)


class NoSum(Good):
    def predict_proba(self, X):
        return self.near(X)


class KnownLevels(Good):
    def fit(self, X, y):
        self.levels_ = set(X.get("colour", [])) if len(X) else set()
        return super().fit(X, y)

    def near(self, X):
        unknown = set(X.get("colour", [])) - self.levels_
        assert "violet" not in unknown, f"unknown level {unknown}"
        return super().near(X)


class Blind(Good):
    def near(self, X):
        return np.tile(np.arange(len(self.classes_), 0, -1.0), (len(X), 1))
"""


def test_the_check_of_a_model_names_the_law_that_it_breaks(work):
    Path("own_faulty.py").write_text(FAULTY)
    found = answer("models", "check", "own_faulty.py:Good")
    assert found["broken"] == 0 and {row["task"] for row in found["checks"]} == {
        "binary",
        "multiclass",
    }
    for name, law in {
        "Unseeded": "the same fit gives",
        "OfTheBatch": "no row of a prediction",
        "NoSum": "have the form",
        "KnownLevels": "levels and gaps",
        "Blind": "beats each constant",
    }.items():
        rows = answer("models", "check", f"own_faulty.py:{name}", code=1)["checks"]
        broken = {row["law"] for row in rows if row["broken"]}
        assert broken and all(law in each for each in broken), (name, rows)
    assert bench("models", "check").code == bench("models", "check", "knn", "svm").code == 2


COLUMNS = ["a<b[0]|c", "größe (cm)", "col or,comma", 'quo"te', "=SUM(A1)", "{json: x}", "y[1]<z>"]


def hostile_csv(path: Path, kind: str, n: int = 90) -> None:
    """Numbers, categories, missing cells and a constant, under names that break parsers."""
    import csv

    draw = random.Random(0)
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        for _ in range(n):
            size = draw.gauss(0, 1)
            color = draw.choice(["rot", "blau", "grün", "<x>", '"', "a,b"])
            amount = draw.gauss(0, 1) if draw.random() > 0.1 else ""
            answer = draw.choice(["ja", "nein", ""])
            value = size + (color == "rot") * 1.5 + draw.gauss(0, 0.3)
            label = "good" if value > 0.2 else "<b>bad</b>"
            row = [size, color, amount, answer, draw.randint(0, 9), 1]
            writer.writerow([*row, label if kind == "classes" else value])


@pytest.mark.parametrize(
    ("kind", "models"), [("classes", QUICK), ("numbers", ("knn", "lightgbm", "catboost"))]
)
def test_quick_models_run_on_a_table_with_hostile_names(kind, models):
    path = Path(f"{kind}.csv")
    hostile_csv(path, kind)
    call = ("sweep", "--csv", path, "--target", COLUMNS[-1], *FAST, "--folds", 1, "--bag", 0)
    call = (*call, "--trials", 1)
    found = bench(*call, *(word for model in models for word in ("--model", model)))
    assert found.code == 0, found.err
    run = f"runs/csv-{kind}-quick"
    results = load_results(run)
    assert sorted(results["model"]) == sorted(models)
    assert set(results["status"]) == {"done"}
    assert set(results["task"]) == {"binary" if kind == "classes" else "regression"}
    for model in models:  # people see every model's score and cost
        assert len(re.findall(rf"\b{model}\b", found.out)) >= 2
    if kind == "classes":
        return
    again = answer("resume", run, *AGAIN)
    assert (again["ran"], again["done"]) == (0, len(results))
    path.write_text(path.read_text(encoding="utf-8") + "1,rot,1,ja,1,1,9\n", encoding="utf-8")
    changed = bench("resume", run, *AGAIN)
    assert changed.code == 2 and "BENCH-E005" in changed.err and "sha256" in changed.err
    path.unlink()
    gone = bench("resume", run, *AGAIN)
    assert gone.code == 2 and "BENCH-E005" in gone.err and "put it back there" in gone.err


CONSTRUCTORS = """
class Needs:
    def __init__(self, weight): ...
    def fit(self, X, y): ...
    def predict(self, X): ...

class Raises(Needs):
    def __init__(self, weight=1.0):
        raise OSError("no licence\\nfound")

class Shrinks(Needs):
    def __init__(self, weight=1.0): ...
    @staticmethod
    def spaces():
        return {"default": {"params": {"shrink": {"kind": "uniform", "low": 0, "high": 1}}}}

class Key(Shrinks):
    @staticmethod
    def spaces():
        return {"default": {"params": {}, "shrink": 3}}

class OfTask(Shrinks):
    @staticmethod
    def spaces(task):
        return {}

class OfList(Shrinks):
    @staticmethod
    def spaces():
        return ["weight"]
"""


def test_a_constructor_that_cannot_be_called_is_refused_before_the_sweep(work):
    Path("built").mkdir()
    Path("built/own_constructors.py").write_text(CONSTRUCTORS)
    said = {
        "Needs": "its constructor needs 'weight'",
        "Raises": "cannot be made: OSError: no licence found",
        "Shrinks": "searches 'shrink', which its constructor does not take; known: weight",
        "OfTask": "without arguments that returns",
        "OfList": "it returned ['weight']",
        "Key": "unknown key 'shrink' in space 'default'",
    }
    for name, text in said.items():
        ran = bench(*SMALL, "--model", f"built/own_constructors.py:{name}", "--name", "x")
        assert ran.code == 2 and text in ran.err and len(ran.err.splitlines()) == 1, ran
    assert "known: " in ran.err and not Path("runs").exists()
    assert "below the working directory" in bench(*SMALL, "--model", "../x.py:Class").err


def test_where_nothing_has_a_score_the_check_of_the_class_comes_next_and_no_fit(work):
    Path("words.py").write_text(
        "from sklearn.linear_model import Ridge\n\n\nclass Plain(Ridge):\n    pass\n"
    )
    draw = random.Random(0)
    rows = [f"{draw.choice('xyz')},{draw.random()}" for _ in range(60)]
    Path("t.csv").write_text("\n".join(["a,y", *rows]))
    call = ("sweep", "--csv", "t.csv", "--target", "y", "--tracking-uri", "none", "--workers", 0)
    nothing = bench(*call, "--model", "words.py:Plain", "--name", "nothing")
    assert nothing.code == 1 and "bench fit" not in nothing.out
    assert nothing.out.endswith("check it on small tables: bench models check words:Plain\n")
    assert "could not be made" not in Path("runs/nothing/report/coverage.md").read_text()
    assert "numbers_only = True" in bench("models", "check", "words:Plain").out
    one = bench(*call, "--model", "words.py:Plain", "--model", "linear", "--name", "one")
    assert "next: bench fit runs/one" in one.out and "check words:Plain" in one.out
