"""The page of one dataset: its metric first, and figures from stored predictions."""

from __future__ import annotations

import numpy as np
import pytest
from page_cases import MODELS, drawn, evidence_of, results
from sklearn import metrics as oracle
from tabsweep.reports import report
from tabsweep.reports.analyses.intervals import texts
from tabsweep.reports.html import write
from tabsweep.reports.statistics.conformal import judged

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, 300)


def titled(text):
    """{title: the numbers} of the page's figures."""
    return {one["title"]: one for one in drawn(text)}


def page_on(dataset, answers, **meta):
    frame = results()
    evidence = evidence_of(frame[frame["dataset"] == dataset], answers=answers, **meta)
    return write.pages(evidence, report.sections(evidence))["index.html"]


def test_the_roc_curve_has_the_area_of_the_metric_and_the_confusion_the_rows():
    score = np.round(np.clip(0.3 * Y + RNG.uniform(0, 0.7, len(Y)), 0, 1), 2)  # with ties
    proba = np.column_stack([1 - score, score])
    text = page_on("data-0", dict.fromkeys(MODELS, (Y, proba)))
    figures = titled(text)
    x, y = np.array(figures["ROC"]["series"][0]["points"]).T
    assert np.trapezoid(y, x) == pytest.approx(oracle.roc_auc_score(Y, score), abs=1e-3)
    assert figures["Precision and recall"]["series"][0]["points"][-1][0] == 1.0
    for row in oracle.confusion_matrix(Y, proba.argmax(axis=1)):
        cells = text.split('<td class="num w')
        assert all(any(cell.split(">")[1] == f"{n}</td" for cell in cells[1:]) for n in row)


def test_a_page_on_one_dataset_has_scores_and_no_ranks():
    text = page_on("data-0", {})
    assert 'id="scores"' in text and 'id="leaderboard"' not in text and "Elo" not in text
    assert "Test ROC AUC" in titled(text) and "ROC" not in titled(text)
    assert "mean rank" not in text.partition("</h1>")[2].partition("</p>")[0]


def test_a_column_of_intervals_has_one_number_of_decimals_and_no_powers():
    assert texts([219100.0, 431.0]) == ["219100.0", "431.0"]
    assert texts([0.9, 0.95]) == ["0.9000", "0.9500"]


def test_regression_has_predicted_against_true_values():
    y = RNG.normal(size=1000)
    worth = judged(y, y + 1, RNG.normal(size=100))
    answers = dict.fromkeys(MODELS, (y, y + 1))
    text = page_on("data-2", answers, intervals=dict.fromkeys(MODELS, worth))
    cells = "".join(f'<td class="num">{texts([number])[0]}</td>' for number in worth.values())
    assert text.count(cells) == len(MODELS) - 1 and "CRPS" in text  # one has no score
    figures = titled(text)
    (points,) = [f["points"] for title, f in figures.items() if title.startswith("Predicted")]
    assert len(points) <= 400 and all(b - a == pytest.approx(1, abs=1e-4) for a, b in points)
