"""Ranks among the models that a dataset has, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tabsweep.reports.aggregation.ranking_rules import in_brackets, rank_figures

NAN = float("nan")
LOSSES = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [2.0, NAN, 1.0], "c": [3.0, 1.0, NAN]})


def test_each_dataset_ranks_its_own_models_and_a_mean_is_over_a_models_own_datasets():
    found = rank_figures(LOSSES, "available")
    assert found["mean_rank"].to_dict() == pytest.approx({"a": 5 / 3, "b": 1.5, "c": 2.0})
    assert found["std"].to_dict() == pytest.approx({"a": 3**-0.5, "b": 0.5**0.5, "c": 2**0.5})
    assert found["n_ranked"].to_dict() == {"a": 3, "b": 2, "c": 2}
    assert found["n_best"].to_dict() == {"a": 1, "b": 1, "c": 1}


def test_ranks_ignore_any_monotone_rescaling_and_a_model_without_scores_has_none():
    pd.testing.assert_frame_equal(
        rank_figures(np.exp(LOSSES), "available"), rank_figures(LOSSES, "available")
    )
    assert "d" not in rank_figures(LOSSES.assign(d=NAN), "available").index
    assert rank_figures(LOSSES.iloc[:0], "available").empty


def test_it_is_printed_as_the_paper_prints_it():
    assert in_brackets(20 / 11, 1.168) == "1.8 (1.2)" and in_brackets(2.0, NAN) == "2.0"
