"""The section on the folds of one dataset: Nadeau and Bengio's test with Holm's correction."""

from __future__ import annotations

import numpy as np
import pytest
from matrices import evidence, headline
from tabsweep.reports.sections import folds
from tabsweep.reports.statistics import tests as stats

D = np.array([0.012, 0.004, 0.009, -0.002, 0.015, 0.007, 0.003, 0.011, 0.006, 0.001])


def folds_section(scores, **facts):
    made = evidence(scores, **facts)
    table, head = headline(made)
    return folds.section(made, table, head)


def test_example_d_stands_in_the_folds_of_one_dataset():
    base = np.linspace(0.5, 0.6, 10)
    scores = np.array([[base, base + D]])  # (1 dataset, 2 models, 10 folds)
    section = folds_section(scores, test_over_train={"d00": 1 / 9})
    (row,) = section.frame.to_dict("records")
    assert (row["reference"], row["model"], row["n_folds"]) == ("m1", "m0", 10)
    assert [f"{row[k]:.6f}" for k in ("t", "p", "p_holm")] == ["2.723281", "0.023481", "0.023481"]
    assert f"{row['mean_gain']:.4f}" == "0.0066"
    cells = [c.text for c in section.tables[0].panels[0].rows[0]]
    assert cells == ["d00", "10", ".023", "best"]


def test_holm_corrects_over_the_models_of_the_dataset():
    rng = np.random.default_rng(0)
    scores = 0.7 + 0.01 * rng.normal(size=(1, 4, 10)) + 0.01 * np.arange(4)[None, :, None]
    frame = folds_section(scores, test_over_train={"d00": 1 / 9}).frame
    assert set(frame["n_pairs"]) == {3} and len(frame) == 3
    assert frame["p_holm"].tolist() == pytest.approx(stats.holm(frame["p"].tolist()))


@pytest.mark.fault(17)
@pytest.mark.parametrize(
    "shape, facts, reason",
    [
        ((1, 1, 10), {"test_over_train": {"d00": 1 / 9}}, "at least 2 models"),
        ((1, 2, 2), {"test_over_train": {"d00": 1 / 9}}, "at least 3 folds, has 2"),
        ((1, 2, 10), {}, "not known"),
        ((1, 2, 10), {"protocol": {"d00": "official: stored"}}, "test parts overlap"),
    ],
)
def test_folds_that_test_nothing_say_why(shape, facts, reason):
    section = folds_section(np.random.default_rng(0).uniform(0.5, 0.9, shape), **facts)
    (note,) = section.frame["note"]
    assert note.startswith("n/a: ") and reason in note
    assert not section.tables and section.endings == ("md", "csv")
    assert reason in section.remarks[0] and section.remarks[0].startswith("No test within ")


def test_differences_in_the_last_bits_are_none():
    base = np.array([0.31, 0.29, 0.35, 0.33, 0.30, 0.28, 0.36, 0.34, 0.32, 0.37])
    bits = np.where(np.arange(10) % 2, 2, 1) * np.spacing(base)
    for same in (base, base + bits):
        frame = folds_section(np.array([[base, same]]), test_over_train={"d00": 1 / 9}).frame
        assert frame["p"].tolist() == [1.0] and frame["mean_gain"].tolist() == [0.0]
    other = base + D  # a difference on nine folds, the last bit on one
    other[3] = np.nextafter(base[3], 1.0)
    frame = folds_section(np.array([[base, other]]), test_over_train={"d00": 1 / 9}).frame
    wanted = stats.nadeau_bengio(np.where(np.arange(10) == 3, 0.0, D), 1 / 9)
    assert frame["p"].tolist() == pytest.approx([wanted.p])


def test_a_difference_without_spread_has_no_p_value_and_is_none_of_the_pairs():
    rng = np.random.default_rng(0)
    base = np.array([14, 13, 15]) / 15
    models = np.array([base, base - 1 / 15, base - 0.1 * rng.uniform(size=3)])  # the second: a row
    section = folds_section(models[None], test_over_train={"d00": 1 / 2})
    same, other = section.frame.sort_values("model").to_dict("records")
    assert (same["model"], other["model"]) == ("m1", "m2") and same["mean_gain"] > 0
    assert np.isnan(same["p_holm"]) and "the same difference" in same["note"]
    assert other["p_holm"] == other["p"] and other["n_pairs"] == 1
    (table,) = section.tables
    (cells,) = table.panels[0].rows
    assert [cell.text for cell in cells[2:4]] == ["best", "n/a"]
    assert not cells[3].bold and any(note.startswith("n/a: the same") for note in table.notes)
