"""Trial ids: new where the outcome of a trial may change, and the same otherwise.

A copy of the package, and of models from elsewhere, is edited file by file; a process that imports
the copy plans a real study again after each edit and prints the ids of its trials.
"""

from __future__ import annotations

import ast
import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tabsweep.sweeps import fingerprint as prints

ROOT = Path(prints.__file__).resolve().parents[1]
FOLDERS = ("benchmark", "common", "datasets", "models", "reports", "sweeps")
# The modules that the closure of every registered model holds.
RUNNING = ["benchmark.cell", "models.sample_weights"]  # what every trial runs through
SHARED = [*RUNNING, "common.tasks", "models.base", "models.hyperparameters", "models.policy"]
SHARED += ["models.preprocessing", "models.target_transform"]

PLANNER = '''
import json, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
out = sys.stdout
sys.stdout = sys.stderr
import tabsweep
assert Path(tabsweep.__file__).is_relative_to(sys.argv[1]), tabsweep.__file__
from tabsweep.benchmark.planning.code_identity import CELL
from tabsweep.benchmark.planning.fold_facts import Data, choose_folds
from tabsweep.benchmark.planning.plan import Options, Plan
from tabsweep.benchmark.planning.suite import parse
from tabsweep.datasets.catalog import load_dataset
from tabsweep.datasets.infer import Reading, table_from_file
from tabsweep.sweeps.fingerprint import closure, fingerprint

def ids(model="knn", csv=None, folds_seed=0, config=None):
    """The ids of a study's first trials; `plan` alone makes them."""
    table = table_from_file(Path(csv), Reading("y", task="binary")) if csv else load_dataset("wine")
    folds = choose_folds(table, "kfold", seed=folds_seed, folds=1)
    data = {table.name: Data(table, "kfold", folds)}
    budget = {"models": [model], "folds": 1, "trials": 3, "sampler": "random"}
    suite = parse({"name": "s", "title": "t", "datasets": ["wine"], "budgets": {"quick": budget}},
                  "a test")
    (study,) = Plan(suite, Options(budget="quick"), data, {}).build()
    if config is not None:
        return [study.make_trial(config, 0).id]
    found = []
    while (slot := study.next_slot()) is not None:
        found.append(study.open(slot).id)
    return found

def modules(target):
    return sorted(closure([target.partition(":")[0], CELL])[0])

def libraries(model):
    return fingerprint(model, CELL)["libraries"]

def path(folder):
    sys.path.insert(0, folder)

for line in sys.stdin:
    name, given = json.loads(line)
    try:
        answer = globals()[name](**given)
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), file=out, flush=True)
'''

OWN = """
from sklearn.neighbors import KNeighborsClassifier
from .helper import K

class Mine(KNeighborsClassifier):
    name = "mine"
    libraries = ("scikit-learn",)
    def __init__(self, *, n_neighbors=K):
        super().__init__(n_neighbors=n_neighbors)
"""


class Copy:
    """The edited copy and the process that plans on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in FOLDERS:
            shutil.copytree(
                ROOT / name,
                folder / "tabsweep" / name,
                ignore=lambda where, names: [
                    n
                    for n in names
                    if not (n.endswith((".py", ".toml", ".csv")) or (Path(where) / n).is_dir())
                    or n == "__pycache__"
                ],
            )
        shutil.copy(ROOT / "__init__.py", folder / "tabsweep" / "__init__.py")
        package = folder / "elsewhere"
        package.mkdir()
        (package / "__init__.py").write_text('"""Models from elsewhere."""\n')
        (package / "mine.py").write_text(OWN)
        (package / "helper.py").write_text("from . import deep\nK = deep.K\n")
        (package / "deep.py").write_text("K = 4\n")
        (package / "unrelated.py").write_text("X = 1\n")
        (folder / "lone.py").write_text(OWN.replace(".helper", "lone_helper"))
        (folder / "lone_helper.py").write_text("K = 3\n")
        made = "import tabsweep\nfrom tabsweep import make_model\n"
        (folder / "wraps.py").write_text(made + OWN.replace("from .helper import K", "K = 2"))
        (folder / "planner.py").write_text(PLANNER)
        self._process = subprocess.Popen(
            [sys.executable, str(folder / "planner.py"), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, name: str, **given: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, given]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert not isinstance(answer, dict) or "error" not in answer, answer
        return answer

    def ids(self, model: str = "knn", **given: Any) -> list[str]:
        return self.ask("ids", model=model, **given)

    def with_edit(self, file: str, old: str, new: str, model: str = "knn") -> list[str]:
        """The ids with a text of a file replaced; the file is put back."""
        path = self.folder / file
        before = path.read_text()
        assert old in before, f"{file} does not hold {old!r}"
        path.write_text(before.replace(old, new, 1))
        try:
            return self.ids(model)
        finally:
            path.write_text(before)

    def with_line(self, file: str, line: str, model: str = "knn") -> list[str]:
        """The ids with a line added at the end of a file."""
        before = (self.folder / file).read_text()
        return self.with_edit(file, before, f"{before}\n{line}\n", model)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    made = Copy(tmp_path_factory.mktemp("copy"))
    yield made
    made.close()


# ---------------------------------------------------------------------- what changes an id


@pytest.mark.fault(20)
def test_an_edit_of_what_a_trial_computes_changes_every_id(copy):
    before = copy.ids()
    for name in ("models/knn", "models/preprocessing", "models/base", "benchmark/cell"):
        assert not set(before) & set(copy.with_line(f"tabsweep/{name}.py", "NEW = 1")), name
    assert copy.ids() == before  # the edits taken back, the ids are the old ones


def test_a_model_from_elsewhere_depends_on_its_siblings(copy):
    package = ["elsewhere/mine.py", "elsewhere/helper.py", "elsewhere/deep.py"]
    package += ["elsewhere/__init__.py", "tabsweep/benchmark/cell.py"]
    for model, files in (
        ("elsewhere.mine:Mine", package),
        ("lone:Mine", ["lone.py", "lone_helper.py"]),
    ):
        before = copy.ids(model)
        for file in files:
            assert not set(before) & set(copy.with_line(file, "NEW = 1", model)), file
        assert before == copy.ids(model)


def test_a_model_from_elsewhere_depends_on_the_registered_models_that_it_makes(copy):
    before = copy.ids("wraps:Mine")
    for file in ("tabsweep/models/registry.py", "tabsweep/models/svm.py"):
        assert not set(before) & set(copy.with_line(file, "NEW = 1", "wraps:Mine"))


def test_the_configuration_is_part_of_the_id(copy):
    usual = {"n_neighbors": 5, "weights": "uniform", "p": 2}
    (before,) = copy.ids(config=usual)
    assert copy.ids(config=dict(reversed(usual.items()))) == [before]
    for name, value in (("n_neighbors", 6), ("weights", "distance"), ("p", 1)):
        assert copy.ids(config={**usual, name: value}) != [before]


def test_a_data_byte_and_a_split_are_part_of_the_id(copy, tmp_path):
    path = tmp_path / "data.csv"
    rows = [f"{i},{i * 7 % 13},{i % 2}" for i in range(60)]
    path.write_text("\n".join(["a,b,y", *rows]) + "\n")
    before = copy.ids(csv=str(path))
    assert copy.ids(csv=str(path)) == before
    assert not set(before) & set(copy.ids(csv=str(path), folds_seed=1))
    path.write_text(path.read_text().replace("5,9,1", "5,8,1"))
    assert not set(before) & set(copy.ids(csv=str(path)))


@pytest.mark.fault(20)
def test_a_library_version_is_part_of_the_id(copy, tmp_path):
    """Another version's metadata stands first on the path, as after an upgrade."""
    before = copy.ids()
    info = tmp_path / "scikit_learn-99.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: scikit-learn\nVersion: 99.0\n")
    assert copy.ask("libraries", model="tabsweep.models.knn:KNN")["scikit-learn"] != "99.0"
    copy.ask("path", folder=str(tmp_path))
    try:
        assert copy.ask("libraries", model="tabsweep.models.knn:KNN")["scikit-learn"] == "99.0"
        assert not set(before) & set(copy.ids())
    finally:
        shutil.rmtree(info)
    assert copy.ids() == before


# ---------------------------------------------------------------------- what does not


@pytest.mark.fault(20)
def test_comments_docstrings_and_layout_change_no_id(copy):
    before = copy.ids()
    assert copy.with_line("tabsweep/models/knn.py", "# a comment") == before
    for file, old in (
        ("tabsweep/models/knn.py", "k-nearest neighbours of scikit-learn."),
        ("tabsweep/models/knn.py", "k-nearest neighbours on standardised"),
        ("tabsweep/benchmark/cell.py", "The body of a trial"),
    ):
        assert copy.with_edit(file, old, "Words.") == before
    file = "tabsweep/models/knn.py"
    assert copy.with_edit(file, "weights=self.weights,", "weights=(self.weights),\n") == before


UNRELATED = (
    "tabsweep/__init__.py",
    "tabsweep/models/svm.py",
    "tabsweep/models/registry.py",
    "tabsweep/datasets/table.py",  # the table's contents are in the id themselves
    "tabsweep/datasets/protocols.py",  # and so are the rows of the split
    "tabsweep/benchmark/planning/plan.py",
    "tabsweep/benchmark/running/run_trial.py",
    "tabsweep/reports/metrics.py",
    "tabsweep/sweeps/engine.py",
    "elsewhere/unrelated.py",
    "lone_helper.py",
)


def test_an_unrelated_file_changes_no_id(copy):
    models = ["knn", "elsewhere.mine:Mine"]
    before = [copy.ids(model) for model in models]
    for file in UNRELATED:
        assert [copy.with_line(file, "NEW = 1", model) for model in models] == before, file


# ---------------------------------------------------------------------- what is in a closure


def test_the_closure_of_a_model_is_its_own_few_files(copy):
    """An import that draws half the package in would run every trial again after any edit."""
    package = "tabsweep."
    found = copy.ask("modules", target="tabsweep.models.knn:KNN")
    assert found == sorted(package + name for name in [*SHARED, "models.knn"])
    found = copy.ask("modules", target="elsewhere.mine:Mine")
    own = ["elsewhere", "elsewhere.deep", "elsewhere.helper", "elsewhere.mine"]
    assert found == sorted([*own, *(package + name for name in RUNNING)])


def test_every_registered_model_brings_the_shared_code_and_no_other_room():
    from tabsweep.models.registry import MODELS

    cell = "tabsweep.benchmark.cell"
    for spec in MODELS.values():
        found, foreign = prints.closure([spec.target.partition(":")[0], cell])
        assert {f"tabsweep.{name}" for name in SHARED} <= set(found)
        outside = [name for name in found if not name.startswith("tabsweep.models.")]
        common = ["tasks"]
        if "tabsweep.models.deep.trainer" in found:  # says how far a fit has come
            common += ["fit_progress"]
        if "tabsweep.models.deep.matrix_products" in found:  # asks which processor this is
            common += ["portable", "processor"]
        assert sorted(outside) == sorted([cell, *(f"tabsweep.common.{c}" for c in common)]), (
            spec.name
        )
        assert not foreign & {"ray", "optuna", "hyperopt", "mlflow", "tabsweep"}
        assert {"numpy", "pandas"} <= foreign


ALL = """
import json, sys
from tabsweep.sweeps.fingerprint import fingerprint
targets = json.loads(sys.argv[1])
found = {target: fingerprint(target, "tabsweep.benchmark.cell")["source"] for target in targets}
print(json.dumps([found, sorted(name for name in sys.modules if ".models" in name)]))
"""


def test_a_fingerprint_does_not_depend_on_what_the_process_has_imported():
    from tabsweep.models.registry import MODELS

    targets = sorted({spec.target for spec in MODELS.values()})
    for target in targets:
        importlib.import_module(target.partition(":")[0])
    here = {t: prints.fingerprint(t, "tabsweep.benchmark.cell")["source"] for t in targets}
    done = subprocess.run(
        [sys.executable, "-c", ALL, json.dumps(targets)], capture_output=True, text=True, check=True
    )
    fresh, imported = json.loads(done.stdout)
    assert fresh == here and not [name for name in imported if name.startswith("tabsweep.models")]


# ---------------------------------------------------------------------- reading a source


def names_in(text: str, **given: Any) -> set[str]:
    given = {"module": "pkg.sub.mod", "is_package": False, **given}
    return set(prints.imported_names(ast.parse(text), **given))


def test_every_way_of_importing_counts():
    assert names_in("import a.b, c as d") == {"a.b", "c"}
    assert names_in("from a.b import c, d") == {"a.b", "a.b.c", "a.b.d"}
    assert names_in("from . import x") == {"pkg.sub", "pkg.sub.x"}
    assert names_in("from ..other import x") == {"pkg.other", "pkg.other.x"}
    assert names_in("from . import x", is_package=True) == {"pkg.sub.mod", "pkg.sub.mod.x"}
    late = "def f():\n    try:\n        import a\n    except ImportError:\n        import b\n"
    assert names_in(late) == {"a", "b"}


def test_a_star_of_the_package_counts_all_that_it_imports_on_first_use():
    star = names_in("from tabsweep import *")
    assert "tabsweep.benchmark.library.sweeping" in star
    assert star - {"tabsweep.*"} >= names_in("import tabsweep") > set()
    assert "tabsweep.models.library.classes" in names_in("from tabsweep import KNNClassifier")
    for name in ("sweep", "KNNClassifier"):
        assert names_in(f"from tabsweep import {name}") - star == {f"tabsweep.{name}"}


TYPE_CHECKS = ["TYPE_CHECKING", "typing.TYPE_CHECKING"]


def test_imports_for_type_checkers_alone_do_not_count():
    for test in TYPE_CHECKS:
        text = f"if {test}:\n    import a\n    if True:\n        import b\n"
        text += "else:\n    import c\nimport d"
        assert names_in(text) == {"c", "d"}
        assert names_in(f"if not {test}:\n    import a") == {"a"}


def test_a_module_without_a_source_is_refused():
    for module in ("no.such.module", "math"):
        with pytest.raises(ValueError, match=module):
            prints.fingerprint(f"{module}:Model")


def test_a_library_that_is_not_there_is_recorded_as_absent():
    assert prints.versions(["no-such-distribution"]) == {"no-such-distribution": "absent"}
    assert prints.versions(["sklearn"]) == prints.versions(["scikit-learn"])


def test_an_environment_inside_the_checkout_is_not_the_packages_own_code(tmp_path):
    inside = importlib.import_module("tabsweep.sweeps.fingerprint")._inside
    for folder in ("site-packages", "dist-packages"):
        theirs = tmp_path / ".venv" / "lib" / "python3" / folder / "numpy" / "random.py"
        assert not inside(theirs, tmp_path, lone=False)
    assert inside(tmp_path / "models" / "knn.py", tmp_path, lone=False)
    installed = tmp_path / "site-packages" / "tabsweep"
    assert inside(installed / "models" / "knn.py", installed, lone=False)
