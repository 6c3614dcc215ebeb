"""Torch modules of the user: what they are told, how they are trained, and which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import answer, bench
from repo import blocks
from small_sweeps import SMALL
from tabsweep.benchmark.results.evidence_builder import load_results

pytestmark = pytest.mark.usefixtures("work")

ODD = """
from typing import Annotated
import torch
from torch import nn

class Line(nn.Module):
    def __init__(self, n_numeric, cardinalities, n_out, extra=0):
        super().__init__()
        self.line = nn.LazyLinear(n_out + extra)
    def forward(self, x_num, x_cat):
        return self.line(torch.cat([x_num, x_cat], dim=1))

class Hinted(Line):
    tasks = ("regression",)
    def __init__(self, n_numeric, cardinalities, n_out, lr=0.01, flag: bool = True,
                 width: Annotated[int, 8, 64, "log"] = 8, other: Annotated[str, "words"] = ""):
        super().__init__(n_numeric, cardinalities, n_out)

class Flat(Line):
    tasks = ("regression",)
    def forward(self, x_num, x_cat):
        return super().forward(x_num, x_cat).squeeze(-1)

class NoForward(nn.Module):
    pass

class OneArgument(Line):
    def forward(self, x):
        return self.line(x)

class Shape(Line):
    def __init__(self, n_numeric, cardinalities, n_out):
        super().__init__(n_numeric, cardinalities, n_out, extra=3)

class Needs(Line):
    def __init__(self, n_numeric, cardinalities, n_outputs):
        super().__init__(n_numeric, cardinalities, n_outputs)

class Taken(Line):
    def __init__(self, n_numeric, cardinalities, n_out, resource=3):
        super().__init__(n_numeric, cardinalities, n_out)

class Raises(Line):
    def forward(self, x_num, x_cat):
        return self.line(x_cat)

class Empty(nn.Module):
    def forward(self, x_num, x_cat):
        return x_num[:, :3]
"""


@pytest.fixture
def net(work: Path) -> str:
    """The module of the how-to and some others, in a file of a name of its own."""
    file = f"net_{abs(hash(work))}.py"
    Path(file).write_text(blocks("docs/how-to/own-model.md", "python")[1] + ODD)
    return file


def test_the_module_of_the_how_to_keeps_the_contract_of_every_model(net: str) -> None:
    """Gaps, new categories, no numbers, no categories, dropout that a resumed fit draws again."""
    for name in ("Net", "Flat"):
        checked = bench("models", "check", f"{net}:{name}")
        assert checked.code == 0, checked.out


def test_its_space_is_that_of_its_type_hints(net: str) -> None:
    found = answer("models", f"{net}:Net")
    assert set(found["spaces"]["binary"]["default"]["params"]) == {
        *("lr", "weight_decay", "width", "dropout")
    }
    hinted = answer("models", f"{net}:Hinted")
    assert hinted["tasks"] == ["regression"] and hinted["defaults"]["lr"] == 0.01
    params = hinted["spaces"]["regression"]["default"]["params"]
    assert params["flag"] == {"kind": "choice", "values": [False, True]}
    assert params["width"] == {"kind": "int", "low": 8, "high": 64, "log": True}
    assert set(params) == {"lr", "weight_decay", "flag", "width"}


def test_a_sweep_trains_it_by_the_studys_metric_and_saves_it(net: str, unreported) -> None:
    module = f"{net}:Net"
    more = ("--model", module, "--trials", 2, "--folds", 1, "--name", "n")
    assert bench(*SMALL, *more, "--metric", "balanced_accuracy").code == 0
    rows = load_results("runs/n")
    mine = rows[rows["model"] == module.replace(".py", "")]
    assert mine["status"].eq("done").all() and len(mine)
    assert mine["config"].str.contains('"stop_on":"balanced_accuracy"').all()
    dataset = mine["dataset"].iloc[0]
    saved = bench("fit", "runs/n", "--dataset", dataset, "--model", module, "--out", "n.tabsweep")
    assert saved.code == 0, saved.err
    explained = bench("explain", "features", dataset, module, "--run", "runs/n")
    assert explained.code == 0, explained.err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("NoForward", "forward(self, x_num, x_cat); it has none"),
        ("OneArgument", "it has forward(self, x)"),
        ("Needs", "'n_outputs' (did you mean 'n_out'?)"),
        ("Taken", "'resource', which every estimator has"),
        ("Shape", "forward gave (2, 6) for 2 rows where (rows, n_out) = (2, 3)"),
        ("Raises", "RuntimeError: mat1"),
        ("Empty", "no parameters to train"),
    ],
)
def test_a_module_that_cannot_serve_is_refused_in_one_line(net: str, name: str, said: str) -> None:
    found = bench(*SMALL, "--model", f"{net}:{name}", "--name", "refused")
    assert found.code == 2 and said in found.err, found.err
    assert sum(name in line for line in found.err.splitlines()) == 1
