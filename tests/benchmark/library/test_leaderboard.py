"""`tabsweep.leaderboard`: its ranks are those of the report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matrices import evidence, headline
from tabsweep.benchmark.library import leaderboard as made
from tabsweep.benchmark.results import evidence_builder
from tabsweep.reports.aggregation.ranking_matrix import ranking_matrices


@pytest.fixture
def board_of(monkeypatch):
    """The leaderboard of a run that has this evidence."""

    def found(those):
        monkeypatch.setattr(evidence_builder, "evidence_of", lambda runs: those)
        monkeypatch.setattr(made, "check_run", lambda run: None)
        return made.leaderboard(Path("run")).set_index("model")

    return found


def test_a_model_with_one_dataset_does_not_cost_the_others_their_datasets(board_of):
    scores = np.tile([0.9, 0.8, np.nan], (10, 1))
    scores[0] = 0.7, 0.75, 0.1
    those = evidence(scores)
    board = board_of(those)
    report = ranking_matrices(those, headline(those)[1])[0]
    assert board["rank"].dropna().to_dict() == pytest.approx({"m0": 1.1, "m1": 1.9})
    assert (board.index[:2].tolist(), board["rank"].dropna().tolist()) == report.order()
    assert board.index.tolist() == ["m0", "m1", "m2"] and report.thin == {"m2": 1}
    assert board["n_datasets"].tolist() == [10, 10, 1] and board["best_on"].tolist() == [9, 1, 0]


def test_near_equal_scores_share_their_rank_and_both_are_best(board_of):
    board = board_of(evidence([[0.1 + 0.2, 0.3, 0.2]]))
    assert board["rank"].to_dict() == {"m0": 1.5, "m1": 1.5, "m2": 3.0}
    assert board["best_on"].to_dict() == {"m0": 1, "m1": 1, "m2": 0}


def test_a_run_without_a_whole_cell_has_no_rank(board_of):
    board = board_of(evidence([[[0.5, np.nan], [0.6, np.nan]]]))
    assert board["rank"].isna().all() and not board["best_on"].any()
