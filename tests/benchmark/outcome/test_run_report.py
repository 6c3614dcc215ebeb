"""The report of a run: what ends it, and what is left out of it with a word."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import bench, working_in
from matplotlib.figure import Figure
from small_sweeps import FAST


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with working_in(tmp_path_factory.mktemp("work")) as folder:
        rng = np.random.default_rng(0)
        for name in ("a", "b"):
            frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["x", "y"])
            frame.to_csv(f"{name}.csv", index=False)
        csv = ("--csv", "a.csv", "--csv", "b.csv", "--target", "y")
        asked = ("--model", "knn", "--model", "linear", "--trials", 12, "--folds", 2)
        found = bench("sweep", *csv, *FAST, *asked, "--name", "run")
        assert found.code == 0, found
        yield folder / "runs" / "run"


def fails(*args, **how):
    raise ValueError("of a library")


@pytest.mark.parametrize(
    ("owner", "name", "said", "gone"),
    [
        (
            importlib.import_module("optuna.importance"),
            "get_param_importances",
            "Hyperparameter importance",
            None,
        ),
        (Figure, "savefig", "The figure paper/profiles.pdf", "paper/profiles.pdf"),
    ],
)
def test_an_optional_part_that_cannot_be_made_is_named_and_the_rest_is_written(
    run, tmp_path, monkeypatch, owner, name, said, gone
):
    whole = bench("report", run, "--out", tmp_path / "whole", "--json")
    assert whole.code == 0 and "could not be made" not in whole.out
    monkeypatch.setattr(owner, name, fails)
    found = bench("report", run, "--out", tmp_path / "less")
    assert found.code == 0, found
    sentence = f"{said} could not be made (ValueError: of a library)."
    assert f"warning: {sentence}" in found.err
    about, page = (tmp_path / "less" / n for n in ("about.md", "html/index.html"))
    for file in (about, page):
        assert "could not be made" in file.read_text(encoding="utf-8")
    names = [
        {str(path.relative_to(tmp_path / out)) for path in (tmp_path / out).rglob("*.*")}
        for out in ("whole", "less")
    ]
    assert names[1] < names[0] if gone else names[1] == names[0]
    assert gone is None or gone in names[0] - names[1]
    scores = [Path(tmp_path / out / "scores.csv").read_bytes() for out in ("whole", "less")]
    assert scores[0] == scores[1]
