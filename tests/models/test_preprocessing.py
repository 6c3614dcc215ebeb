"""Preprocessing: statistics of the training rows alone, and columns of every kind."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import OneHotEncoder, RobustScaler, StandardScaler
from tabsweep.models.policy import Policy
from tabsweep.models.preprocessing import MAX_LEVELS, Preprocessor, as_frame

POLICIES = [
    Policy(numeric, categorical, missing)
    for numeric in ("none", "standard", "quantile", "squash")
    for categorical in ("native", "ordinal", "one-hot")
    for missing in ("native", "impute")
]


def table(n: int = 60, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.normal(5, 3, n),
            "gaps": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
            "constant": 7.25,
            "empty": np.nan,
            "flag": rng.random(n) < 0.5,
            "count": rng.integers(0, 9, n),
            "colour": pd.Categorical(rng.choice(["red", "green", "blue"], n)),
            "text": rng.choice(["x", "y"], n).astype(object),
        }
    )
    frame.loc[::9, "colour"] = None
    return frame


@pytest.mark.parametrize("policy", POLICIES, ids=Policy.describe)
def test_output_is_finite_numbers_and_the_same_each_time(policy):
    frame = table()
    out = Preprocessor(policy, seed=3).fit_transform(frame)
    again = Preprocessor(policy, seed=3).fit_transform(frame)
    assert out.dtype == np.float64 and out.shape == (60, Preprocessor(policy).fit(frame).n_out_)
    assert out.tobytes() == again.tobytes()
    assert not np.isinf(out).any()
    if policy.missing == "impute":
        assert not np.isnan(out).any()


def test_unseen_levels_are_zeros_minus_one_missing_or_the_next_code():
    train = pd.DataFrame({"c": pd.Categorical(["a", "b", "c"])})
    new = pd.DataFrame({"c": ["b", "new", None]})

    def codes(categorical, missing="impute"):
        return Preprocessor(Policy("none", categorical, missing)).fit(train).transform(new)

    np.testing.assert_array_equal(codes("one-hot"), [[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(codes("ordinal"), [[1], [3], [3]])
    np.testing.assert_array_equal(codes("native"), [[1], [-1], [-1]])
    np.testing.assert_array_equal(codes("native", "native"), [[1], [np.nan], [np.nan]])


def test_codes_follow_the_values_and_not_their_order_of_appearance():
    a = pd.DataFrame({"c": ["b", "a", "c"]})
    b = pd.DataFrame({"c": pd.Categorical(["b", "a", "c"], categories=["c", "unused", "b", "a"])})
    policy = Policy(categorical="ordinal")
    np.testing.assert_array_equal(
        Preprocessor(policy).fit_transform(a), Preprocessor(policy).fit(b).transform(a)
    )


def test_levels_of_mixed_types_have_an_order():
    frame = pd.DataFrame({"c": pd.Series([3, "a", 1, "b"], dtype=object)})
    out = Preprocessor(Policy(categorical="ordinal")).fit_transform(frame)
    assert sorted(out[:, 0]) == [0, 1, 2, 3]


def test_a_column_of_very_many_levels_keeps_the_most_frequent():
    levels = [f"v{i:04d}" for i in range(400)] + ["v0399"] * 5
    frame = pd.DataFrame({"c": pd.Categorical(levels)})
    fitted = Preprocessor(Policy()).fit(frame)
    assert fitted.n_out_ == MAX_LEVELS
    assert fitted.transform(frame)[-1].sum() == 1.0


def test_squashed_numbers_keep_their_order_and_none_is_far():
    x = np.append(np.arange(101.0), [1e4, 1e9, -1e100])
    few = np.append(np.zeros(101), [8.0, -8.0, 4.0])  # its quartiles are equal
    frame = pd.DataFrame({"x": x, "few": few})
    out = Preprocessor(Policy("squash")).fit_transform(frame)
    known = RobustScaler().fit_transform(frame[["x"]])[:, 0]
    np.testing.assert_allclose(out[:, 0], known / np.sqrt(1 + (known / 5) ** 2), atol=0.02)
    assert (np.diff(out[np.argsort(x), 0]) >= 0).all() and (np.abs(out) <= 5).all()
    np.testing.assert_allclose(out[-3:, 1], [1 / np.sqrt(1.04), -1 / np.sqrt(1.04), 0.5], rtol=0.01)


def test_standard_and_one_hot_agree_with_scikit_learn():
    frame = table()[["a", "count", "text"]]
    out = Preprocessor(Policy("standard", "one-hot", "impute")).fit_transform(frame)
    numeric = StandardScaler().fit_transform(frame[["a", "count"]].astype(float))
    hot = OneHotEncoder(sparse_output=False).fit_transform(frame[["text"]])
    np.testing.assert_allclose(out, np.hstack([numeric, hot]), atol=1e-12)


def test_constant_columns_become_zero_when_scaled_even_where_means_round():
    frame = pd.DataFrame({"a": [0.1] * 11, "b": [1e308] * 11, "c": 1e308 * np.linspace(-1, 1, 11)})
    out = Preprocessor(Policy("standard")).fit_transform(frame)
    np.testing.assert_array_equal(out[:, :2], 0.0)
    np.testing.assert_allclose(out[:, 2].std(), 1.0)


def test_numbers_far_from_zero_keep_their_digits_in_float32_and_others_their_bytes():
    seconds = 1.7e9 + 60.0 * np.arange(500)  # of one working day
    seconds[7], other = 0.0, np.linspace(-3.0, 9.0, 500)
    gaps = np.where(other < 0, np.nan, other)
    frame = pd.DataFrame({"seconds": seconds, "other": other, "gaps": gaps})
    made = Preprocessor(Policy("shift", "native", "native")).fit(frame)
    far, *near = made.transform(frame).T
    assert len(np.unique(seconds.astype(np.float32))) < 250
    assert len(np.unique(far.astype(np.float32))) == 500
    assert np.array_equal(np.diff(far[8:]), np.full(491, 60.0))
    assert [x.tobytes() for x in near] == [other.tobytes(), gaps.tobytes()]
    huge = pd.DataFrame({"huge": [-1e308, -1e308, 1e308, 1e308, 0.0], "one": 5.0, "none": np.nan})
    assert np.isfinite(Preprocessor(Policy("shift")).fit_transform(huge)).all()


def test_columns_are_found_by_name():
    frame = table()
    fitted = Preprocessor(Policy()).fit(frame)
    np.testing.assert_array_equal(
        fitted.transform(frame), fitted.transform(frame[frame.columns[::-1]])
    )


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"a": []}), "at least one row"),
        (pd.DataFrame(index=range(3)), "one feature"),
        (np.zeros(3), "2 dimensions"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' appears twice"),
        (pd.DataFrame({"a": [1.0, np.inf]}), "column 'a' holds an infinite value"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_with_its_reason(frame, message):
    with pytest.raises(ValueError, match=message):
        Preprocessor(Policy()).fit(as_frame(frame))


def test_other_columns_or_text_for_numbers_are_refused_at_prediction():
    fitted = Preprocessor(Policy()).fit(pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0]}))
    with pytest.raises(ValueError, match=r"missing: \['b'\], unknown: \['c'\]"):
        fitted.transform(pd.DataFrame({"a": [1.0], "c": [1.0]}))
    with pytest.raises(ValueError, match="column 'b' was numeric in training"):
        fitted.transform(pd.DataFrame({"a": [1.0], "b": ["many"]}))


def test_an_unknown_policy_is_refused():
    with pytest.raises(ValueError, match="unknown categorical policy 'onehot'; known: native"):
        Policy(categorical="onehot")


@pytest.mark.parametrize("policy", POLICIES, ids=Policy.describe)
def test_a_row_alone_becomes_the_numbers_that_it_has_among_others(policy):
    made = Preprocessor(policy, seed=3).fit(table())
    new = table(seed=1)
    new["colour"] = new["colour"].cat.add_categories("grey")
    new.loc[3, "colour"], new.loc[4, "text"], new.loc[5, "text"] = "grey", None, "z"
    whole = made.transform(pd.concat([new] * 3, ignore_index=True))[: len(new)]
    assert not np.isinf(whole).any()  # new levels and gaps are answered
    for row in range(10):
        alone = made.transform(new.iloc[[row]])
        assert alone.tobytes() == whole[row : row + 1].tobytes()


@pytest.mark.parametrize("n", [10, 5000])
def test_quantiles_are_mapped_as_scikit_learn_maps_them(n):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.integers(0, 4, n).astype(float)})
    made = Preprocessor(Policy("quantile", missing="native")).fit(frame)
    wide = np.concatenate([frame.to_numpy(), 3 * frame.to_numpy(), [[np.nan, 1.0]]])
    asked = pd.DataFrame(wide, columns=["a", "b"])
    np.testing.assert_array_equal(made.transform(asked), made._quantile.transform(wide))
