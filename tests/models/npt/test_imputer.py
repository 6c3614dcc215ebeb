"""NPTImputer fills gaps: known cells stay, a hidden cell is never read, several targets at once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from tabsweep.models.npt.imputer import NPTImputer

SMALL = {"steps": 120, "width": 8, "n_layers": 2, "n_heads": 2, "lr": 5e-3, "dropout": 0.0}


@pytest.fixture(scope="module")
def table():
    """120 rows whose columns all follow from the first; a sixth of the cells is missing."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=120)
    word = pd.Series(np.where(a > 0, "hi", "lo"), dtype=object)
    whole = pd.DataFrame({"a": a, "b": 100.0 - 20.0 * a, "word": word, "flag": a > 0.5})
    whole["flag"] = whole["flag"].astype(object)
    hidden = rng.random(whole.shape) < 1 / 6
    return whole, whole.mask(hidden), hidden


def test_gaps_are_filled_far_better_than_by_a_constant_and_known_cells_stay(table):
    whole, given, hidden = table
    filled = NPTImputer(**SMALL).fit_transform(given)
    assert not filled.isna().any().any() and list(filled) == list(whole)
    pd.testing.assert_frame_equal(filled.where(~hidden), given.where(~hidden))
    for at, name in enumerate(whole):
        ours, truth = filled[name][hidden[:, at]], whole[name][hidden[:, at]]
        if name in ("a", "b"):
            assert np.square(ours - truth).mean() < 0.5 * whole[name].var(), name
        else:
            assert (ours == truth).mean() > 0.8 and set(ours) <= set(whole[name]), name


def test_the_value_of_a_hidden_cell_is_never_read_and_rows_do_not_see_each_other(table):
    _, given, _ = table
    one, other = (NPTImputer(**SMALL | {"steps": 5}).fit(given) for _ in range(2))
    pd.testing.assert_frame_equal(one.transform(given), other.transform(given))
    rows = given.head(20)
    pd.testing.assert_frame_equal(one.transform(rows), one.transform(given).head(20))
    targets = clone(one).set_params(targets=["b", "word"]).fit(given)
    moved = rows.assign(b=7.0, word=rows["word"].iloc[::-1].to_numpy())
    pd.testing.assert_frame_equal(targets.predict(rows), targets.predict(moved))
    shares = targets.predict_proba(rows)
    assert list(shares) == ["word"] and np.allclose(shares["word"].sum(axis=1), 1.0)
    assert targets.categories_["word"].tolist() == ["hi", "lo"]


def test_several_targets_are_predicted_for_new_rows(table):
    whole, given, _ = table
    model = NPTImputer(**SMALL, targets=["b", "word"]).fit(given.head(90))
    new = whole.tail(30).assign(b=np.nan, word=None)
    found = model.predict(new)
    assert list(found) == ["b", "word"]
    assert np.square(found["b"] - whole["b"].tail(30)).mean() < 0.5 * whole["b"].var()
    assert (found["word"] == whole["word"].tail(30)).mean() > 0.8


def test_an_array_stays_one_and_what_cannot_be_learned_is_refused():
    X = np.random.default_rng(1).normal(size=(30, 3))
    X[::4, 1] = np.nan
    filled = NPTImputer(**SMALL | {"steps": 3}).fit_transform(X)
    assert filled.dtype == float and np.isfinite(filled).all()
    assert (filled[~np.isnan(X)] == X[~np.isnan(X)]).all()
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [np.nan, np.nan]})
    with pytest.raises(ValueError, match="'b' has no value"):
        NPTImputer().fit(frame)
    with pytest.raises(ValueError, match="no column 'c'"):
        NPTImputer(targets=["c"]).fit(frame[["a"]])
    fitted = NPTImputer(**SMALL | {"steps": 1}).fit(frame[["a"]])
    with pytest.raises(ValueError, match="must be those of fit: a"):
        fitted.transform(frame)
    with pytest.raises(ValueError, match="there are none"):
        fitted.predict(frame[["a"]])
