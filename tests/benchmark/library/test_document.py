"""The examples of docs/library.md, run one after another, and those in the classes' docstrings."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import tabsweep

PAGE = Path(__file__).resolve().parents[3] / "docs" / "library.md"


def test_the_examples_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # a sweep writes its run there
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) == 6
    scope: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/library.md", "exec"), scope)
    told = capsys.readouterr()
    score = float(told.out.split("\n")[0])
    assert score > 0.85 and "FTTransformerClassifier: fitted in" in told.err
    assert len(list(tmp_path.glob("runs/*/report/html/index.html"))) == 1


def test_the_table_of_parameters_has_all_that_every_estimator_has():
    from tabsweep.models.library.estimator import COMMON

    text = PAGE.read_text(encoding="utf-8").partition("## Models against each other")[0]
    told = re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE)
    assert set(COMMON) == set(told)


def test_the_example_in_a_docstring_is_true():
    for cls in (tabsweep.KNNClassifier, tabsweep.LinearRegressor):
        example = doctest.DocTestParser().get_doctest(cls.__doc__, {}, cls.__name__, None, 0)
        assert len(example.examples) == 5
        assert not doctest.DocTestRunner().run(example).failed
