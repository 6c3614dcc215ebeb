"""Pages of models and of one dataset: scores, figures, what they say of the data and offer."""

from __future__ import annotations

import html
import re
import subprocess

import numpy as np
import pytest
from page_cases import MODELS, Tags, drawn, evidence_of, results
from sklearn import metrics as oracle
from tabsweep.reports import report
from tabsweep.reports.analyses.intervals import texts
from tabsweep.reports.html import model, page, speed, write
from tabsweep.reports.statistics.conformal import judged

FACTS = {
    "title": "Data of the test",
    "n_features": 3,
    "sizes": [200.0, 50.0, 50.0],
    "classes": {"yes": 90, "no": 30},
    "features": [
        {"name": "size", "kind": "numeric", "n_distinct": 4321, "n_missing": 7},
        {"name": "colour", "kind": "categorical", "n_distinct": 3, "n_missing": 0},
        {"name": "weight", "kind": "numeric", "n_distinct": 8, "n_missing": 0},
    ],
    "n_rows_counted": 400,
    "flags": [{"id": "constant-columns", "severity": "warning", "detail": "one value in weight"}],
    "warnings": ["a separator was unusual"],
    "added": "",
    "own": False,
    "passport": True,
    "licence": "CC BY 4.0",
    "citation": "A. Author: Data (2001).",
}
RUN = "runs/a  'b' $(c) <i>"
NOTES = {"about data-1 alone": ["data-1"], "about data-0 alone": ["data-0"]}


def facts():
    return {
        "of_datasets": {"data-0": FACTS},
        "families": {
            "forest": ["classical", "many trees", "Breiman 2001"],
            "net": ["gbdt", "", ""],
        },
        "runs": [RUN],
        "notes": ["about all", *NOTES],
        "notes_of": NOTES,
        "curves": {
            "net": [
                {
                    "dataset": "data-0",
                    "fold": 0,
                    "by": "epochs",
                    "points": [[i, 1.0 / i] for i in range(1, 9)],
                }
            ]
        },
    }


@pytest.fixture(scope="module")
def known():
    return evidence_of(results(n=3, n_trials=6), **facts())


@pytest.fixture(scope="module")
def made(known):
    return write.pages(known, report.parts_of(known))


def test_every_cell_of_a_model_is_on_its_page_and_leads_to_its_trials(made, known):
    for name in MODELS:
        text = made[f"model-{name}.html"]
        for data in known.datasets():
            assert f'href="dataset-{data}.html#of-{name}"' in text
            assert f'<tr id="of-{name}">' in made[f"dataset-{data}.html"]
            assert f'href="dataset-{data}.html#of-{name}"' in made["index.html"]
            assert f"bench explain scores {data} {name} --run &#39;runs/a  " in text


def test_models_that_are_both_best_are_both_in_the_first_place():
    frame = results(MODELS[:3], n=1, n_trials=1)
    scores = {"forest": 0.1 + 0.2, "linear": 0.3, "net": 0.2}
    frame = frame.assign(test_roc_auc=frame["model"].map(scores))
    one = evidence_of(frame)
    source = page.Source.of(one, report.parts_of(one))
    places = {}
    for name in scores:
        (cell,) = model.page(source, name)["cells"]
        places[name] = cell["best"], cell["place"]
    assert places == {
        "forest": (True, "1 of 3"),
        "linear": (True, "1 of 3"),
        "net": (False, "3 of 3"),
    }


def test_a_copied_command_names_the_run_whatever_its_folder_is_called(made):
    found = re.findall(r"<code>(bench explain [^<]*)</code>", made["model-net.html"])
    for command in found:
        shown = ["bash", "-c", f"bench() {{ printf '%s\\0' \"$@\"; }}; {html.unescape(command)}"]
        said = subprocess.run(shown, capture_output=True, text=True, check=True).stdout
        assert said.split("\0")[3:] == ["net", "--run", RUN, ""]
    assert len(found) == 3


def test_a_folder_with_a_character_that_nobody_sees_has_no_command(known):
    one = known.knowing(runs=["runs/a\nb"])
    assert not any(
        "bench explain scores" in t for t in write.pages(one, report.parts_of(one)).values()
    )


def test_the_commands_are_text_before_a_script_makes_buttons(made):
    for name, text in made.items():
        if name.startswith("dataset-"):
            codes = re.findall(r"<code>(bench explain [^<]*)</code>", text)
            assert len(codes) == len(MODELS)
            assert "<button" not in text.partition("<script")[0]


def test_results_of_another_tool_have_no_command(pages):
    assert not any("bench explain scores" in text for text in pages.values())


def test_failures_are_counted_by_model_cause_and_message_with_their_datasets(made):
    rows = Tags(made["index.html"]).text.partition("Failures.")[2].partition("How to read")[0]
    assert re.search(r"linear\s+timeout\s+out of time\s+data-2\s+12", rows), rows[:300]


def test_seconds_are_those_of_the_configurations_that_count(known):
    found = speed.per_1000_rows(known)
    assert found["data-0", "forest"] == pytest.approx((1.0 / 0.2, 0.5 / 0.1))
    assert {name for name, _ in found} == {"data-0"}  # the rows of the others are not known


def test_predictions_that_were_measured_in_a_batch_count_instead():
    one = evidence_of(results(n=3, n_trials=6).assign(predict_1k_s=0.25), **facts())
    found = speed.per_1000_rows(one)
    assert found["data-0", "forest"] == pytest.approx((1.0 / 0.2, 0.25))
    assert np.isnan(found["data-1", "forest"][0]) and found["data-1", "forest"][1] == 0.25


def test_a_dataset_s_page_says_what_the_data_is(made):
    text = Tags(made["dataset-data-0.html"]).text
    for words in ("CC BY 4.0", "A. Author: Data (2001).", "one value in weight"):
        assert words in text
    (classes,) = (f for f in drawn(made["dataset-data-0.html"]) if f["title"] == "Class balance")
    assert [(row["name"], row["value"]) for row in classes["rows"]] == [
        ("yes (90)", 0.75),
        ("no (30)", 0.25),
    ]
    assert "4,321" in text and "a separator was unusual" in text
    assert "bench data passport data-0" in text
    other = Tags(made["dataset-data-1.html"]).text
    assert "Passport" not in other


def test_a_note_about_one_dataset_is_on_no_other_dataset_s_page(made):
    zero, one = made["dataset-data-0.html"], made["dataset-data-1.html"]
    assert "about data-0 alone" in zero and "about data-1 alone" not in zero
    assert "about data-1 alone" in one and "about data-0 alone" not in one
    assert "about all" in zero and "about all" in one


def test_a_learning_curve_is_drawn_where_a_trial_kept_one(made):
    assert "Learning curves of chosen fits" in made["model-net.html"]
    assert "Learning curves" not in made["model-forest.html"]


# ---------------------------------------------------------------------- the page of one dataset


RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, 300)


def titled(text):
    """{title: the numbers} of the page's figures."""
    return {one["title"]: one for one in drawn(text)}


def page_on(dataset, answers, **facts):
    frame = results()
    evidence = evidence_of(frame[frame["dataset"] == dataset], answers=answers, **facts)
    return write.pages(evidence, report.parts_of(evidence))["index.html"]


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
