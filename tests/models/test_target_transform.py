"""Transforms of the target: mapped back, the same for every model, kept in its file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from tabsweep.models import registry
from tabsweep.models.hyperparameters import InvalidConfig
from tabsweep.models.persistence.model_file import load_model, save_model
from tabsweep.models.target_transform import in_units, quantiles_of, transformed


def salaries(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows whose target is a power of their feature, one in a hundred of them a typing error."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 3, n)
    y = np.round(1000 * np.exp(x + rng.normal(0, 0.1, n)))
    return pd.DataFrame({"a": x}), np.where(rng.random(n) < 0.01, 1e9, y)


@pytest.mark.parametrize("how", ["none", "log", "rank"])
def test_transformed_values_are_mapped_back_in_their_order(how):
    y = np.array([0.0, 3.0, 3.0, 3.0, 8.5, 1e11])
    known = quantiles_of(y)
    there = transformed(how, y, known)
    assert np.isfinite(there).all() and (np.diff(there) >= 0).all()
    assert in_units(how, there, known) == pytest.approx(y)
    if how == "rank":
        assert there[1:4] == pytest.approx(norm.ppf(1 / 3))  # the middle of the ranks 2, 3, 4
        assert in_units(how, np.array([-9.0, 9.0]), known) == pytest.approx([0.0, 1e11])


@pytest.mark.parametrize("name", ["linear", "lightgbm"])
def test_few_far_values_no_longer_decide_the_fit_and_the_file_keeps_the_transform(name, tmp_path):
    X, y = salaries(1000, 0)
    asked, truth = salaries(500, 1)
    usual = truth < 1e9
    off = {}
    for how in ("none", "log", "rank"):
        model = registry.make_model(name, task="regression", target_transform=how).fit(X, y)
        found = model.predict(asked)
        off[how] = np.median(np.abs(found - truth)[usual] / truth[usual])
    assert max(off["rank"], off["log"]) < 0.01 * off["none"]
    save_model(model, tmp_path / "model.tabsweep")
    again = load_model(tmp_path / "model.tabsweep")
    assert again.predict(asked).tobytes() == found.tobytes()


def test_what_cannot_be_transformed_is_refused():
    frame = pd.DataFrame({"a": np.arange(20.0)})
    with pytest.raises(ValueError, match="values of 0 or more, y holds -1"):
        registry.make_model("linear", task="regression", target_transform="log").fit(
            frame, np.arange(20.0) - 1
        )
    with pytest.raises(InvalidConfig, match="regression alone"):
        registry.make_model("linear", task="binary", target_transform="rank").fit(
            frame, np.arange(20) % 2
        )
