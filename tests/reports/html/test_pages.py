"""The HTML pages: contents, escaping, content security policy, contrast, and numbers."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re

import numpy as np
import pytest
from page_cases import HOSTILE, METRIC, MODELS, Tags, drawn, evidence_of, results
from tabsweep.reports import report
from tabsweep.reports.aggregation import anytime
from tabsweep.reports.html import dataset, page, write
from tabsweep.reports.output import looks

# --- the files ------------------------------------------------------------------------------------


def test_the_folder_holds_an_index_and_a_page_a_dataset_and_a_model(pages, evidence):
    of_datasets = {f"dataset-{d}.html" for d in evidence.datasets()}
    of_models = {f"model-{m}.html" for m in evidence.models}
    assert set(pages) == {"index.html"} | of_datasets | of_models
    for place in ("coverage", "leaderboard", "scores", "tests", "costs", "time", "about"):
        assert f'<section id="{place}"' in pages["index.html"]
    first = pages["index.html"]
    order = [first.index(x) for x in ('class="verdict"', "Coverage: ", 'id="leaderboard"')]
    assert order == sorted(order), "the verdict and the counts before any score"


def test_the_same_results_in_any_order_give_the_same_bytes(pages, evidence):
    shuffled = results().sample(frac=1.0, random_state=1)
    again = evidence_of(shuffled, subset=evidence.subset, notes=evidence.facts.notes)
    assert write.pages(again, report.parts_of(again)) == pages


def test_what_failed_stands_before_any_score(pages):
    text = pages["index.html"]
    head = text[: text.index('id="leaderboard"')]
    assert '<strong class="bad">31 of 32 cells complete</strong>' in head and "out of time" in head
    assert '<details class="opens alarm">' in head


def test_a_cell_that_a_model_does_not_support_is_no_alarm():
    frame = results(n=3, n_trials=2)
    frame = frame[frame["model"] != "net"]  # whose second trials failed
    absent = (frame["model"] == "linear") & (frame["dataset"] == "data-2")
    frame.loc[absent, ["status", "cause", "message"]] = "unsupported", "no regression", ""
    one = evidence_of(frame)
    text = write.pages(one, report.parts_of(one))["index.html"]
    assert "8 of 8 cells complete (1 not supported, as planned)" in Tags(text).text
    assert 'class="opens alarm"' not in text and 'class="bad"' not in text.partition('id="data"')[0]


def test_results_without_any_score_give_pages_that_say_why():
    frame = results(n=2).assign(status="failed", selected=False)
    frame[[c for c in frame if c.startswith(("val_", "test_"))]] = math.nan
    one = evidence_of(frame)
    made = write.pages(one, report.parts_of(one))
    assert "needs at least 2 models with scores" in made["index.html"]


def test_file_names_are_harmless_and_different(hostile):
    for kind in ("dataset", "model"):
        names = page.file_names([*HOSTILE, "a", "A", "a b", "a-b"], kind)
        assert len(set(map(str.lower, names.values()))) == len(names)
        for name in names.values():
            assert re.fullmatch(kind + r"-[a-z0-9-]{1,60}\.html", name)
    assert page.file_names(["iris"]) == {"iris": "dataset-iris.html"}


def test_a_report_without_pages_leaves_none_of_an_earlier_one(evidence, tmp_path):
    report.write(evidence, tmp_path)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    (tmp_path / "html" / "notes.txt").write_text("a reader's own")
    report.write(evidence, tmp_path, html=False)
    gone = before - {path for path in tmp_path.rglob("*") if path.is_file()}
    assert gone == {path for path in before if path.parent.name == "html"}
    assert (tmp_path / "html" / "notes.txt").exists()


# --- nothing from outside -------------------------------------------------------------------------

KNOWN = set(
    """html head meta title link style body a nav ul li main h1 h2 h3 p strong b u small sup i span
    section aside details summary form fieldset noscript div table caption thead tbody tr th td dl
    dt dd figure figcaption footer script svg path text circle rect title code""".split()
)


def test_hostile_names_stay_text(hostile):
    for text in hostile.values():
        tags = Tags(text)
        assert {tag for tag, _ in tags.found} <= KNOWN
        assert [tag for tag, _, _ in tags.raw] == ["style", "script", "script"]
        for tag, attributes in tags.found:
            assert not [name for name in attributes if name.startswith("on") or name == "style"], (
                tag
            )
        assert "<!--" not in text and "\u202e" not in text and "\x00" not in text
        json.loads(next(raw for tag, about, raw in tags.raw if about.get("id") == "data"))
    assert "</script><script>alert(1)</script>" in Tags(hostile["index.html"]).text


def test_a_page_asks_for_nothing(pages, hostile):
    for text in (*pages.values(), *hostile.values()):
        for tag, attributes in Tags(text).found:
            for name in ("src", "href", "srcset", "action", "poster", "data"):
                target = attributes.get(name, "")
                assert re.fullmatch(r"(?!//)(#|\.\./|data:,$)?[\w./-]*(#[\w-]+)?", target), tag
            assert not (tag == "link" and attributes["href"] != "data:,")
        assert "url(" not in text and "@import" not in text and "fetch(" not in text


def test_the_policy_allows_this_style_and_this_script_alone(pages):
    for text in pages.values():
        tags = Tags(text)
        policy = next(a["content"] for t, a in tags.found if t == "meta" and "http-equiv" in a)
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert rules["default-src"] == "'none'" and rules["img-src"] == "data:"
        for tag, key in (("style", "style-src"), ("script", "script-src")):
            raw = next(body for t, a, body in tags.raw if t == tag and "type" not in a)
            digest = base64.b64encode(hashlib.sha256(raw.encode()).digest()).decode()
            assert rules[key] == f"'sha256-{digest}'"


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_colour_of_text_and_lines_has_contrast_in_light_and_dark():
    style = (write.HERE / "report.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL)[:2]
    for block, marks in zip(blocks, (looks.LIGHT, looks.DARK), strict=True):
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
        for ground in ("page", "raised", "sunk", "tint", "good-tint", "bad-tint"):
            assert contrast(colours["text"], colours[ground]) >= 7.0, ground
        for ground in ("page", "raised", "sunk"):
            for name in ("soft", "accent", "good", "bad"):
                assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
        for mark in marks:  # lines and dots: 3 is enough (WCAG 2.2, 1.4.11)
            assert contrast(mark, colours["page"]) >= 3.0, mark


# --- the numbers ----------------------------------------------------------------------------------


def test_the_first_order_is_that_of_the_report_s_leaderboard(evidence, parts):
    frame = next(p for p in parts.sections if p.name == "leaderboard").frame
    mine = (frame["scope"] == "all tasks") & (frame["datasets"] == "all")
    frame = frame[mine & (frame["view"] == "complete") & (frame["note"] == "")]
    entries = page.index(page.Source.of(evidence, parts))["standings"]
    assert [e["model"] for e in entries] == frame["model"].tolist()
    for ours, theirs in (("mean", "mean_rank"), ("win", "win_rate"), ("score", "normalised")):
        assert [e[ours] for e in entries] == pytest.approx(frame[theirs].tolist(), abs=1e-9)
    assert [e["elo"] for e in entries] == pytest.approx(frame["elo"].tolist(), abs=1e-5)


def test_a_running_choice_is_the_best_of_the_first_trials_by_validation(evidence):
    steps = anytime.running(evidence)
    tune = evidence.trials
    for row in steps.sample(40, random_state=0).itertuples():
        mine = tune[(tune["dataset"] == row.dataset) & (tune["model"] == row.model)]
        mine = mine[(mine["fold"] == row.fold) & (mine["index"] < row.n)]
        name = METRIC[row.task]
        done = mine[mine["status"] == "done"]
        if done.empty:
            assert math.isnan(row.best) and math.isnan(row.test)
            continue
        values = done[f"val_{name}"]
        at = values.idxmin() if name == "rmse" else values.idxmax()
        assert row.test == done[f"test_{name}"][at]
        assert abs(row.best) == values[at]
        assert row.cpu == pytest.approx(mine["cpu_s"].sum())


def test_results_without_validation_scores_have_no_running_choice(evidence):
    bare = evidence_of(results(n=3).drop(columns=[f"val_{m}" for m in METRIC.values()]))
    assert not len(anytime.running(bare)) and anytime.by_trials(anytime.running(bare)) == {}


def test_tuning_curves_never_get_worse_and_need_every_fold(evidence):
    paths = anytime.by_trials(anytime.running(evidence))
    assert "linear" not in paths["data-2"]  # it failed on every fold
    for of_dataset in paths.values():
        for path in of_dataset.values():
            assert (np.diff(path[:, 1]) <= 0).all() and (np.diff(path[:, 0]) > 0).all()


def test_a_large_page_keeps_the_chosen_and_the_failed():
    one = evidence_of(results(n=1, n_trials=150))
    made = write.pages(one, report.parts_of(one))
    raw = next(
        body for _, a, body in Tags(made["dataset-data-0.html"]).raw if a.get("id") == "data"
    )
    trials = json.loads(raw)["trials"]
    assert len(trials["model"]) == dataset.MAX_TRIALS < len(one.trials)
    assert sum(trials["selected"]) == one.trials["selected"].sum()
    assert trials["status"].count("failed") == (one.trials["status"] == "failed").sum()
    assert f"{len(one.trials):,} trials were recorded" in made["dataset-data-0.html"]


# --- colours and names ----------------------------------------------------------------------------


def test_every_figure_of_every_page_draws_a_model_in_one_colour_and_dash(pages):
    seen: dict[str, set] = {}
    for text in pages.values():
        for one in drawn(text):
            for row in one.get("series") or one["rows"]:
                if row["name"] in MODELS and row["look"]:
                    seen.setdefault(row["name"], set()).add(tuple(row["look"]))
        data = json.loads(next(raw for _, a, raw in Tags(text).raw if a.get("id") == "data"))
        for name, look in zip(data.get("models", ()), data.get("looks", ()), strict=True):
            seen[name].add(tuple(look))
    assert set(seen) == set(MODELS) and {len(found) for found in seen.values()} == {1}


def test_models_of_a_family_share_a_hue_and_differ_in_shade_or_dash():
    of = {f"m-{i}": [name] for i, name in enumerate(sorted([*looks.FAMILIES, "new"] * 5))}
    found = looks.looks(list(of), of)
    of_known = [look for name, look in found.items() if of[name][0] not in ("new", "external")]
    assert len(set(of_known)) == len(of_known)
    for name, (colour, _) in found.items():
        assert colour // looks.SHADES == looks.hue_of(of[name][0])


# Machado, Oliveira and Fernandes (2009): what people without red or green cones see, linear RGB.
BLIND = (
    np.eye(3),
    [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
)
XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])


def lab(linear):  # (n, 3) -> (n, 3), CIELAB
    x, y, z = np.cbrt(np.maximum(linear, 0.0) @ XYZ.T / XYZ.sum(axis=1)).T
    return np.column_stack([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_families_differ_in_colour_for_the_colour_blind_too():
    for colours in (looks.LIGHT, looks.DARK):
        rgb = np.array([[int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)] for text in colours])
        family = np.arange(len(colours)) // looks.SHADES
        for seen in BLIND:
            points = lab(((rgb + 0.055) / 1.055) ** 2.4 @ np.array(seen).T)
            apart = np.linalg.norm(points[:, None] - points[None], axis=2)
            assert apart[family[:, None] != family].min() > 14.0
            assert apart[np.triu(family[:, None] == family, 1)].min() > 14.0  # shades
