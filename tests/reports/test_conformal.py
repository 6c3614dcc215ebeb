"""Split-conformal intervals: coverage by simulation; CRPS beside scoringrules."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scoringrules
from matrices import evidence
from scipy import stats
from sklearn.metrics import mean_pinball_loss
from tabsweep.reports.analyses import intervals
from tabsweep.reports.output.tables import to_markdown
from tabsweep.reports.statistics.conformal import crps, interval, judged


def test_the_intervals_cover_what_they_say_whatever_the_errors_are_and_however_few_rows():
    rng = np.random.default_rng(0)
    errors = {
        "normal": rng.standard_normal,
        "heavy tails": lambda size: rng.standard_t(2, size=size),
        "skewed and biased": lambda size: rng.exponential(size=size) + 3,
    }
    for name, draw in errors.items():
        for n, level in ((40, 0.5), (40, 0.9), (400, 0.8), (400, 0.95)):
            covered = []
            for _ in range(300):
                below, above = interval(draw(n), level)
                new = draw(200)
                covered.append(np.mean((new >= below) & (new <= above)))
            # exactly: the ranks between the two, of n + 1
            tail = math.floor(round((n + 1) * (1 - level) / 2, 9))
            exact = 1 - 2 * tail / (n + 1)
            assert abs(np.mean(covered) - exact) < 0.01, (name, n, level)
            assert level - 0.01 < np.mean(covered) < level + max(0.02, 2 / (n + 1)), (
                name,
                n,
                level,
            )


def test_an_interval_of_too_few_residuals_is_infinite():
    assert interval(np.zeros(18), 0.9) == (-math.inf, math.inf)
    assert interval(np.zeros(19), 0.9) == (0.0, 0.0)
    few = judged(np.ones(2), np.ones(2), np.zeros(3))
    assert math.isnan(few["coverage"]) and few["crps"] == 0.0


def test_a_report_of_too_few_rows_for_intervals_says_so():
    parts = {"val": np.arange(10.0), "test": np.arange(5.0)}
    facts = {"dataset": "d00", "task": "regression", "fold": 0, "model": "m0", "seed": 0}
    runs = evidence([[1.0]], task="regression", metric="rmse")
    text = to_markdown(intervals.section(runs, [(facts, parts, parts)]))
    assert "n/a: too few validation rows" in text and "nan" not in text


def test_crps_is_that_of_scoringrules():
    rng = np.random.default_rng(1)
    residuals, errors = rng.normal(2, 3, 70), rng.normal(0, 5, 40)
    oracle = scoringrules.crps_ensemble(errors, np.tile(residuals, (40, 1)), estimator="nrg")
    assert crps(errors, residuals) == pytest.approx(oracle.mean(), rel=1e-12)
    many = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    z = np.array([-2.0, 0.0, 0.7])
    normal = scoringrules.crps_normal(z, 0.0, 1.0)
    assert crps(z, many) == pytest.approx(normal.mean(), abs=1e-3)


def test_what_is_judged_is_that_of_the_ends_of_each_row():
    rng = np.random.default_rng(2)
    y, value, residuals = rng.normal(size=50), rng.normal(size=50), rng.normal(size=99)
    below, above = interval(residuals, 0.9)
    found = judged(y, value, residuals)
    ends = (
        mean_pinball_loss(y, value + below, alpha=0.05),
        mean_pinball_loss(y, value + above, alpha=0.95),
    )
    assert found["pinball"] == pytest.approx(np.mean(ends)) and found["width"] == above - below
    assert found["coverage"] == np.mean((y >= value + below) & (y <= value + above))
