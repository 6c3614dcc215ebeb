"""Type checkers and editors see the models' classes, which exist from their first use on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import class_types
from repo import ROOT
from tabsweep.models.library.estimator import COMMON

PROGRAM = """\
import tabsweep
from tabsweep import CatBoostRegressor, FTTransformerClassifier, KNNClassifier, RealMLPRegressor
reveal_type(KNNClassifier(n_neighbors=3).fit([[1.0]], [0]))
reveal_type(tabsweep.CatBoostRegressor(random_state=1))
reveal_type(FTTransformerClassifier)
reveal_type(RealMLPRegressor(preset="paper"))
KNNClassifier(n_neighbours=3)
KNNClassifier(n_neighbors="three")
"""


def test_the_file_of_types_has_every_class_with_its_hyperparameters():
    stored = class_types.FILE.read_text(encoding="utf-8")
    assert class_types.same(stored, class_types.written()), f"run {class_types.ACCEPT}"
    assert class_types.COMMON_TYPES.keys() == COMMON.keys()


def test_a_type_checker_sees_the_classes_of_the_package_and_their_parameters(tmp_path):
    """The root of the package and the module of its estimators, without all that they import."""
    library = tmp_path / "src" / "tabsweep" / "models" / "library"
    library.mkdir(parents=True)
    shutil.copy(ROOT / "__init__.py", library.parents[1])
    for name in ("class_types.pyi", "estimator.py"):
        shutil.copy(ROOT / "models" / "library" / name, library)
    (tmp_path / "src" / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=skip", "-p", "tabsweep", "-m", "program"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
    )
    said = re.findall(r'program\.py:(\d+): note: Revealed .*\.(\w+)"$', done.stdout, re.MULTILINE)
    assert said == [
        ("3", "KNNClassifier"),
        ("4", "CatBoostRegressor"),
        ("5", "FTTransformerClassifier"),  # what a call of the class gives
        ("6", "RealMLPRegressor"),
    ]
    refused = re.findall(r"program\.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    assert refused == [("7", "call-arg"), ("8", "arg-type")]
