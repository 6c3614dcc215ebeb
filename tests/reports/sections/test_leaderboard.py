"""The leaderboard: figures, intervals, and the view with missing cells imputed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrices import evidence, headline, matrices
from tabsweep.reports.evidence import EvidenceError
from tabsweep.reports.sections import leaderboard
from tabsweep.reports.statistics import ranking

TOY = np.array(
    """.91 .90 .88 .85 .78 .78 .80 .71 .66 .70 .69 .60
    .95 .93 .93 .90 .81 .84 .79 .80 .73 .75 .70 .74""".split(),
    dtype=float,
).reshape(6, 4)


def rows(scores, fallback=None, **options):
    """{(view, model): row of the frame}"""
    made = evidence(scores, **options)
    section = leaderboard.section(made, headline(made)[1], matrices(made), fallback)
    return {(r["view"], r["model"]): r for r in section.frame.to_dict("records")}, section


def column(found, name, view="complete", models=("m0", "m1", "m2", "m3")):
    return [found[view, m][name] for m in models]


def many(n=25, k=4, seed=0):
    rng = np.random.default_rng(seed)
    return np.round(0.7 + 0.02 * np.arange(k) + 0.03 * rng.normal(size=(n, k)), 3)


# --- figures --------------------------------------------------------------------------------------


def test_example_e_stands_in_the_leaderboard():
    found, _ = rows(TOY)
    assert [f"{v:.2f}" for v in column(found, "elo")] == ["1089.45", "1182.36", "950.84", "777.34"]
    want = {
        "mean_rank": "2.0833 1.6667 2.7500 3.5000",
        "mean_rank_se": "0.3745 0.3073 0.4787 0.3416",
        "win_rate": "0.6389 0.7778 0.4167 0.1667",
        "normalised": "0.7296 0.8685 0.5000 0.1667",
    }
    for name, digits in want.items():
        assert [f"{v:.4f}" for v in column(found, name)] == digits.split(), name
    errors = 1.0 - TOY
    share = (1.0 - errors.min(axis=1, keepdims=True) / errors).mean(axis=0)
    assert column(found, "improvability") == pytest.approx(share.tolist())
    assert column(found, "place") == [2, 1, 3, 4]
    shared, _ = rows(np.array([[0.9, 0.9, 0.5, 0.4]] * 6))
    assert column(shared, "place") == [1, 1, 3, 4]


def test_under_15_datasets_the_intervals_are_those_of_t_and_elo_has_none():
    from scipy.stats import sem, t

    found, section = rows(TOY)
    rank = ranking.ranks(-TOY)
    half = t.isf(0.025, 5) * sem(rank)
    assert column(found, "mean_rank_low") == pytest.approx((rank.mean(axis=0) - half).tolist())
    assert column(found, "mean_rank_high") == pytest.approx((rank.mean(axis=0) + half).tolist())
    assert np.isnan(column(found, "elo_low")).all() and set(column(found, "interval")) == {"t"}
    table = section.tables[0]
    assert "95 %" not in table.header and any("too few" in n for n in table.notes)


def test_from_15_datasets_on_the_intervals_are_percentiles_over_resampled_datasets():
    scores = many()
    found, _ = rows(scores)
    rank = ranking.ranks(-scores)
    picks = np.random.default_rng(leaderboard.SEED).multinomial(25, np.full(25, 1 / 25), size=1000)
    resampled = np.array([np.repeat(rank, p, axis=0).mean(axis=0) for p in picks])
    low, high = np.percentile(resampled, [2.5, 97.5], axis=0)
    assert column(found, "mean_rank_low") == pytest.approx(low.tolist())
    assert column(found, "mean_rank_high") == pytest.approx(high.tolist())
    ratings = np.array([ranking.elo(np.repeat(rank, p, axis=0)) for p in picks])
    low, high = np.percentile(ratings, [2.5, 97.5], axis=0)
    assert column(found, "elo_low") == pytest.approx(low.tolist(), abs=1e-4)
    assert column(found, "elo_high") == pytest.approx(high.tolist(), abs=1e-4)


def test_identical_models_share_every_figure():
    found, _ = rows(np.repeat(np.linspace(0.5, 0.9, 20)[:, None], 4, axis=1))
    assert column(found, "win_rate") == [0.5] * 4 and column(found, "place") == [1] * 4
    assert column(found, "elo") == pytest.approx([1000.0] * 4, abs=1e-6)
    assert column(found, "elo_low") == pytest.approx([1000.0] * 4, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 7).flatmap(
        lambda k: st.lists(
            st.lists(st.integers(0, 5), min_size=k, max_size=k), min_size=2, max_size=9
        )
    )
)
def test_elo_win_rate_and_mean_rank_order_the_models_alike(scores):
    rank = ranking.ranks(np.array(scores, float))
    mean, rating = rank.mean(axis=0), ranking.elo(rank)
    for a in range(len(mean)):
        for b in range(len(mean)):
            if mean[a] < mean[b] - 1e-9:
                assert rating[a] > rating[b]
            elif abs(mean[a] - mean[b]) < 1e-9:
                assert rating[a] == pytest.approx(rating[b], abs=1e-6)


def test_a_league_is_separable_exactly_where_some_models_lost_no_game_to_the_others():
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(300):
        k, n = int(rng.integers(2, 6)), int(rng.integers(1, 4))
        rank = ranking.ranks(rng.integers(0, 6, (n, k)).astype(float))
        reach = (rank[:, :, None] <= rank[:, None, :]).any(axis=0)
        for _ in range(k):
            reach = (reach.astype(int) @ reach.astype(int)) > 0
        wins = (k - rank).sum(axis=0)[None]
        assert bool(ranking.separable(wins, n)[0]) is not bool(reach.all())
        seen.add(bool(reach.all()))
    assert seen == {True, False}


# --- missing cells --------------------------------------------------------------------------------

FULL = np.array([[0.10, 0.12, 0.15], [0.20, 0.22, 0.21], [0.30, 0.31, 0.40], [0.50, 0.40, 0.45]])
HOLE = np.where(np.arange(12).reshape(4, 3) == 9, np.nan, FULL)  # the first model, last dataset
THREE = ("m0", "m1", "m2")
REGRESSION = {"task": "regression", "metric": "rmse"}


@pytest.mark.fault(16)
def test_example_h_a_missing_cell_in_both_views():
    found, section = rows(np.tile(HOLE, (5, 1)), fallback="worst", **REGRESSION)
    assert column(found, "mean_rank", "imputed", THREE) == [1.5, 2.0, 2.5]
    assert column(found, "n_imputed", "imputed", THREE) == [5, 0, 0]
    found, section = rows(HOLE, fallback="m2", **REGRESSION)
    assert column(found, "mean_rank", "imputed", THREE) == [1.375, 2.0, 2.625]
    assert {r["fallback"] for r in found.values()} == {"", "m2"}
    (row,) = [r for p in section.tables[0].panels for r in p.rows if r[0].mark]
    assert (row[0].text, row[0].mark) == ("m0", "¶1")
    assert any(n.startswith("¶n: imputed") and "m2" in n for n in section.tables[0].notes)


@pytest.mark.fault(16)
def test_the_first_view_leaves_the_dataset_out_for_everybody():
    scores = np.vstack([HOLE, np.tile(FULL[:3], (3, 1))])
    found, _ = rows(scores, **REGRESSION)
    complete = np.delete(scores, 3, axis=0)
    want = ranking.ranks(complete).mean(axis=0).tolist()
    assert column(found, "mean_rank", models=THREE) == pytest.approx(want)
    assert {r["n_datasets"] for r in found.values() if r["view"] == "complete"} == {len(complete)}


def test_the_default_fallback_is_the_constant_where_it_runs_and_else_the_worst_place():
    made = evidence(HOLE, ["a", "constant", "c"], **REGRESSION)
    assert leaderboard.fallback_of(made, None) == "constant"
    assert leaderboard.fallback_of(evidence(HOLE, **REGRESSION), None) == "worst"
    with pytest.raises(EvidenceError, match="'worst', not 'm9'; models: m0, m1, m2"):
        leaderboard.fallback_of(evidence(HOLE, **REGRESSION), "m9")


def test_a_fallback_without_a_score_itself_leaves_the_worst_place_and_the_largest_error():
    scores = HOLE.copy()
    scores[3, 1] = np.nan
    found, _ = rows(scores, fallback="m1", **REGRESSION)
    board = leaderboard.imputed(
        evidence(scores, **REGRESSION),
        headline(evidence(scores, **REGRESSION))[1],
        matrices(evidence(scores, **REGRESSION))[0].scope,
        "m1",
    )
    assert np.isinf(board.matrix.losses[3]).tolist() == [True, True, False]
    assert board.errors[3].tolist() == [0.45, 0.45, 0.45]
    assert np.isfinite(column(found, "improvability", "imputed", THREE)).all()


def test_without_a_missing_cell_there_is_one_view():
    found, section = rows(TOY)
    assert {view for view, _ in found} == {"complete"}
    assert not any("¶" in note for note in section.tables[0].notes)


def test_one_dataset_has_places_and_no_spread():
    found, section = rows(TOY[:1])
    assert column(found, "mean_rank") == [1, 2, 3, 4]
    assert np.isnan(column(found, "mean_rank_low") + column(found, "mean_rank_se")).all()
    assert set(column(found, "interval")) == {""}
    assert [row[2].text for row in section.tables[0].panels[0].rows] == [
        "1.00",
        "2.00",
        "3.00",
        "4.00",
    ]
