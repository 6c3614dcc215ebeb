"""The HTML pages: contents, escaping, numbers, and behaviour in a browser."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import math
import re
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tabsweep.reports import report
from tabsweep.reports.aggregation import anytime
from tabsweep.reports.aggregation.cells import headline_cells, studies
from tabsweep.reports.aggregation.ranking_matrix import RankingMatrix, scopes
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.html import board, charts, dataset, page, write
from tabsweep.reports.output import files
from tabsweep.reports.sections import coverage_and_costs

HOSTILE = [
    '=HYPERLINK("http://evil.example","x")',
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "' onmouseover='alert(3)",
    "<!-- {{ 7 * 7 }} {% raw %}",
    "javascript:alert(4)",
    "left\u202eright\x00\u2028",
    "n" * 300,
    "../../x",
    "</style><style>*{display:none}",
    "&lt;b&gt; & \\u003c",
    "日本語 ñandú 😀",
    "#without=all&sort=elo,%",
]
METRIC = {"binary": "roc_auc", "multiclass": "accuracy", "regression": "rmse"}
TASKS = tuple(METRIC)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-headless-shell")
MODELS = ["forest", "linear", "net", "svm"]


def results(models=MODELS, n=8, n_trials=4, n_folds=2, seed=0):
    """Trials with validation scores, costs, ties, one failed trial, one model that failed twice."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        task = TASKS[i % 3]
        for fold in range(n_folds):
            for j, model in enumerate(models):
                val = rng.uniform(0.5, 0.9, n_trials)
                best = int(np.argmin(val) if task == "regression" else np.argmax(val))
                gone = j == 1 and i == 2
                for index in range(n_trials):
                    failed = gone or (j == 2 and index == 1)
                    rows.append(
                        {
                            "dataset": f"data-{i}",
                            "task": task,
                            "fold": fold,
                            "model": model,
                            "index": index,
                            "stage": "tune",
                            "seed": 1,
                            "status": "failed" if failed else "done",
                            "cause": "timeout" if failed else "",
                            "message": "out of time" if failed else "",
                            "config": json.dumps({"depth": index, "rate": 0.1}),
                            "fit_s": 1.0 + j,
                            "predict_s": 0.5,
                            "cpu_s": 2.0 + j,
                            "id": str(len(rows)),
                            f"val_{METRIC[task]}": None if failed else val[index],
                            # two decimals: some models tie
                            f"test_{METRIC[task]}": None if failed else round(val[index], 1),
                            "selected": index == best and not failed,
                        }
                    )
    frame = pd.DataFrame(rows)
    study = ["dataset", "fold", "model"]
    for _, mine in frame[frame["status"] == "done"].groupby(study):
        if not mine["selected"].any():  # the best had failed: the next is chosen
            name = f"val_{METRIC[mine['task'].iloc[0]]}"
            at = (
                mine[name].idxmin() if mine["task"].iloc[0] == "regression" else mine[name].idxmax()
            )
            frame.loc[at, "selected"] = True
    return frame


def evidence_of(frame, **meta):
    rows = {f"data-{i}": 400 * (i + 1) for i in range(8)}
    facts = {"metric": METRIC, "suite": "test", "budget": "quick", "rows": rows, **meta}
    return Evidence.of(frame, None, facts)


@pytest.fixture(scope="module")
def evidence():
    return evidence_of(results(), subset=[f"data-{i}" for i in range(6)], notes=["quick: a look"])


@pytest.fixture(scope="module")
def parts(evidence):
    return report.sections(evidence)


@pytest.fixture(scope="module")
def pages(evidence, parts):
    return write.pages(evidence, parts)


@pytest.fixture(scope="module")
def hostile():
    """Pages on which every name, message and note is an attack."""
    frame = results(HOSTILE[:8], n=len(HOSTILE), n_trials=2)
    names = dict(zip([f"data-{i}" for i in range(len(HOSTILE))], HOSTILE, strict=True))
    frame["dataset"] = frame["dataset"].map(names)
    frame["message"] = frame["message"].where(frame["message"] == "", HOSTILE[1])
    frame["config"] = json.dumps({HOSTILE[1]: HOSTILE[0], "<!--": "<img src=x onerror=alert(1)>"})
    meta = {"notes": HOSTILE, "suite": HOSTILE[1], "environment": {HOSTILE[1]: HOSTILE[2]}}
    importance = pd.DataFrame(
        [(HOSTILE[0], HOSTILE[1], HOSTILE[1], 1.0, 20)],
        columns=["dataset", "model", "parameter", "importance", "n_trials"],
    )
    one = evidence_of(frame, **meta)
    one = Evidence(one.trials, one.planned, one.meta, None, importance)
    return write.pages(one, report.sections(one), ["figures/cd.svg"])


# --- the files ------------------------------------------------------------------------------------


def test_the_folder_holds_an_index_and_a_page_a_dataset(pages, evidence):
    assert set(pages) == {"index.html", *(f"dataset-{d}.html" for d in evidence.datasets())}
    for place in (
        "coverage",
        "leaderboard",
        "tuning",
        "scores",
        "ranks",
        "tests",
        "costs",
        "about",
    ):
        assert f'<section id="{place}"' in pages["index.html"]
    assert pages["index.html"].index('id="coverage"') < pages["index.html"].index(
        'id="leaderboard"'
    )


def test_a_report_writes_the_folder_unless_told_not_to(evidence, tmp_path, monkeypatch):
    monkeypatch.setattr(report.critical_difference, "critical_differences", lambda matrices: {})
    names = {str(p.relative_to(tmp_path)) for p in report.write(evidence, tmp_path)}
    assert {"html/index.html", "html/dataset-data-0.html"} <= names
    assert not list(tmp_path.rglob("*.part"))
    report.write(evidence, tmp_path / "bare", html=False)
    assert not (tmp_path / "bare" / "html").exists()


def test_the_same_results_in_any_order_give_the_same_bytes(pages, evidence):
    shuffled = results().sample(frac=1.0, random_state=1)
    again = evidence_of(shuffled, subset=evidence.subset, notes=evidence.meta["notes"])
    assert write.pages(again, report.sections(again)) == pages


def test_what_failed_stands_before_any_score(pages):
    text = pages["index.html"]
    head = text[: text.index('id="leaderboard"')]
    assert "31 of 32" in head and "out of time" in head and '<details class="fold" open>' in head


def test_results_without_any_score_give_pages_that_say_why():
    frame = results(n=2).assign(status="failed", selected=False)
    frame[[c for c in frame if c.startswith(("val_", "test_"))]] = math.nan
    one = evidence_of(frame)
    made = write.pages(one, report.sections(one))
    assert "needs at least 2 models with scores" in made["index.html"]


def test_file_names_are_harmless_and_different(hostile):
    names = page.file_names([*HOSTILE, "a", "A", "a b", "a-b"])
    assert len(set(map(str.lower, names.values()))) == len(names)
    for name in names.values():
        assert re.fullmatch(r"dataset-[a-z0-9-]{1,60}\.html", name)
    assert page.file_names(["iris"]) == {"iris": "dataset-iris.html"}


# --- nothing from outside -------------------------------------------------------------------------


class Tags(html.parser.HTMLParser):
    """Every tag with its attributes, and the text of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.found, self.inside, self.raw, self.text = [], "", [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.inside = tag if tag in ("script", "style") else ""
        if self.inside:
            self.raw.append([tag, dict(attrs), ""])

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside:
            self.raw[-1][2] += data
        else:
            self.text += data


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
                assert re.fullmatch(r"(#|\.\./|data:,$|dataset-|index\.html)?[\w./-]*", target), tag
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
    for block in blocks:
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
        for ground in ("page", "raised", "sunk", "tint", "good-tint", "bad-tint"):
            assert contrast(colours["text"], colours[ground]) >= 7.0, ground
        for ground in ("page", "raised", "sunk"):
            for name in ("soft", "accent", "good", "bad"):
                assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
        for i in range(10):
            assert contrast(colours[f"c{i}"], colours["page"]) >= 4.5, i


# --- the numbers ----------------------------------------------------------------------------------


def test_the_first_order_is_that_of_the_report_s_leaderboard(evidence, parts):
    frame = next(p for p in parts if p.name == "leaderboard").frame
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


def test_with_every_trial_the_choice_is_the_plan_s_own(evidence, parts):
    scores = next(p for p in parts if p.name == "scores").frame
    headline = scores[scores["headline"]].reset_index(drop=True)
    steps = anytime.running(evidence)
    assert anytime.budgets(steps) == [1, 2]
    found = anytime.cells_after(steps, headline, 4)
    pd.testing.assert_series_equal(found["mean"], headline["mean"])
    assert anytime.cells_after(steps, headline, 1)["mean"].notna().sum() == 31


def test_results_without_validation_scores_have_no_running_choice(evidence):
    bare = evidence_of(results(n=3).drop(columns=[f"val_{m}" for m in METRIC.values()]))
    assert not len(anytime.running(bare)) and anytime.by_trials(anytime.running(bare)) == {}
    data = Tags(write.pages(bare, report.sections(bare))["index.html"]).raw[1][2]
    assert len(json.loads(data)["budgets"]) == 1


def test_tuning_curves_never_get_worse_and_need_every_fold(evidence):
    paths = anytime.by_trials(anytime.running(evidence))
    assert "linear" not in paths["data-2"]  # it failed on every fold
    for of_dataset in paths.values():
        for path in of_dataset.values():
            assert (np.diff(path[:, 2]) <= 0).all() and (np.diff(path[:, :2], axis=0) > 0).all()


def test_a_large_page_keeps_the_chosen_and_the_failed_and_links_the_rest():
    one = evidence_of(results(n=1, n_trials=150))
    made = write.pages(one, report.sections(one))
    raw = next(
        body for _, a, body in Tags(made["dataset-data-0.html"]).raw if a.get("id") == "data"
    )
    trials = json.loads(raw)["trials"]
    assert len(trials["model"]) == dataset.MAX_TRIALS < len(one.trials)
    assert sum(trials["selected"]) == one.trials["selected"].sum()
    assert trials["status"].count("failed") == (one.trials["status"] == "failed").sum()
    assert 'href="dataset-data-0.csv"' in made["dataset-data-0.html"]
    assert made["dataset-data-0.csv"].count("\n") == len(one.trials) + 1


def test_more_lines_than_colours_still_have_their_names():
    lines = [charts.Line(f"model-{i}", ((1.0, 0.0), (2.0, float(i)))) for i in range(20)]
    svg = charts.lines(lines, title="t", x="x", y="y")
    labels = re.findall(r'<text class="name"[^>]*>([^<]*)</text>', svg)
    assert labels == [line.name for line in lines[: charts.MAX_LABELLED]]
    assert svg.count('class="line c') == charts.MAX_COLOURED < charts.MAX_LABELLED
    heights = sorted(float(y) for y in re.findall(r'<text class="name"[^>]*y="([\d.]+)"', svg))
    assert min(b - a for a, b in zip(heights, heights[1:], strict=False)) > 12
    assert heights[0] > 0


def test_ticks_are_round_and_inside():
    for low, high in ((0.0, 1.0), (-3.2, 17.0), (0.761, 0.7633)):
        ticks = charts.Axis(low, high, 0, 100).ticks()
        assert 3 <= len(ticks) <= 8 and low - 1e-9 <= ticks[0] and ticks[-1] <= high + 1e-9
    assert charts.Axis(1, 48, 0, 100, 2).ticks() == [1, 2, 4, 8, 16, 32]
    assert charts.Axis(5, 5, 0, 100).ticks() == [5] and charts.Axis(5, 5, 0, 100).at(5) == 50


# --- in a browser ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM:
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        yield play.chromium.launch(executable_path=CHROMIUM)


@pytest.fixture(scope="module")
def folder(pages, tmp_path_factory):
    place = tmp_path_factory.mktemp("html")
    files.write_files(pages, place)
    return place


@pytest.fixture
def visit(browser):
    """A function that opens a page and hears every error, dialog and request."""
    heard: list[str] = []
    contexts = []

    def go(path: Path, fragment="", **how):
        context = browser.new_context(**how)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda m: heard.append(f"console: {m.text}"))
        tab.on("pageerror", lambda e: heard.append(f"error: {e}"))
        tab.on("dialog", lambda d: heard.append(f"dialog: {d.message}"))
        tab.on("request", partial(_other_than_files, heard))
        tab.goto(path.as_uri() + fragment)
        return tab

    yield go
    for context in contexts:
        context.close()
    assert heard == []


def _other_than_files(heard, request):
    if not request.url.startswith(("file:", "data:")):
        heard.append(f"request: {request.url}")


def shown(tab):
    """The rows of the leaderboard: {model: {column: exact value}}."""
    return tab.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('#board tbody tr')].map((row) => [
            row.cells[0].textContent,
            Object.fromEntries([...row.cells].slice(1).map((c, i) => [
                document.querySelectorAll('#board thead th')[i + 1].dataset.key, c.dataset.value]))
        ]))"""
    )


def in_python(evidence, *, models=MODELS, keep=lambda d: True, n=None):
    """The standings of a part of the evidence, by model."""
    part = evidence.planned
    wanted = part[part["model"].isin(models) & part["dataset"].map(keep)]
    trials = evidence.trials
    inside = trials["model"].isin(models) & trials["dataset"].map(keep)
    one = Evidence.of(trials[inside], wanted, evidence.meta)
    headline = headline_cells(one, studies(one))
    costs = coverage_and_costs.costs(one).frame.set_index(["dataset", "model"])["cpu_s"]
    if n:
        headline = anytime.cells_after(anytime.running(one), headline, n)
        costs = headline.set_index(["dataset", "model"])["cpu"]
        headline["state"] = headline["state"].where(headline["mean"].notna(), "failed")
    widest = [scope for scope in scopes(one) if not scope.subset][-1]
    matrix = RankingMatrix.of(one, headline, widest)
    cpu = {m: sum(costs[d, m] for d in matrix.datasets) for m in matrix.models}
    return {entry["model"]: entry for entry in board.standings(matrix, cpu)}


@pytest.fixture(scope="module")
def tab(browser, folder):
    """One tab for many fragments: the page follows a change of its address."""
    context = browser.new_context()
    tab = context.new_page()
    tab.goto((folder / "index.html").as_uri())
    yield tab
    context.close()


FILTERS = {
    "": {},
    "#without=svm": {"models": MODELS[:3]},
    "#tasks=binary,regression": {"keep": lambda d: int(d[-1]) % 3 != 1},
    "#size=medium": {"keep": lambda d: int(d[-1]) > 1},
    "#subset=independent&skip=data-0": {
        "keep": lambda d: d in "data-1 data-2 data-3 data-4 data-5"
    },
    "#budget=1&without=linear": {"models": ["forest", "net", "svm"], "n": 1},
    "#budget=2": {"n": 2},
}


@pytest.mark.parametrize("fragment", FILTERS)
def test_the_page_ranks_as_python_does(tab, folder, evidence, fragment):
    tab.goto((folder / "index.html").as_uri() + (fragment or "#sort=mean"))
    found = shown(tab)
    want = in_python(evidence, **FILTERS[fragment])
    assert set(found) == set(want) and len(want) >= 2
    for model, values in found.items():
        for key in ("mean", "se", "median", "win", "elo", "score", "best", "cpu"):
            if key in values:
                close = pytest.approx(want[model][key], rel=1e-9, abs=1e-9)
                assert float(values[key]) == close, (model, key)


def test_the_page_without_scripts_shows_the_same_leaderboard(visit, folder):
    texts = [
        visit(folder / "index.html", java_script_enabled=on).locator("#board tbody").inner_text()
        for on in (True, False)
    ]
    assert texts[0].split() == texts[1].split() and "forest" in texts[0]


def test_filters_and_order_stand_in_the_address_and_come_back(visit, folder):
    tab = visit(folder / "index.html")
    tab.locator("#pick-models").evaluate("(e) => (e.parentElement.open = true)")
    tab.get_by_label("svm", exact=True).uncheck()
    tab.get_by_label("Budget").select_option("2")
    tab.get_by_role("button", name="Elo").focus()
    tab.keyboard.press("Enter")
    head = tab.locator("#board th[data-key=elo]")
    assert head.get_attribute("aria-sort") == "descending"
    ratings = [float(v["elo"]) for v in shown(tab).values()]
    assert ratings == sorted(ratings, reverse=True) and len(ratings) == 3
    address = tab.url
    assert "without=svm" in address and "budget=2" in address and "sort=-elo" in address
    again = visit(folder / "index.html", address[address.index("#") :])
    assert list(shown(again)) == list(shown(tab))
    again.get_by_role("button", name="Reset").click()
    assert len(shown(again)) == 4 and "#" not in again.url


def test_an_empty_choice_says_why_nothing_is_ranked(visit, folder):
    tab = visit(folder / "index.html", "#without=forest,linear,net")
    assert "needs at least 2 models" in tab.locator("#status").inner_text()
    assert shown(tab) == {}


def test_trials_can_be_filtered_and_searched(visit, folder):
    tab = visit(folder / "dataset-data-2.html", "#model=linear&status=failed")
    assert "8 of 32 trials" in tab.locator("#status").inner_text()
    tab.get_by_label("Model", exact=True).select_option("forest")
    tab.get_by_label("Status", exact=True).select_option("")
    tab.get_by_label("Search").fill("depth 3")
    assert "2 of 32 trials" in tab.locator("#status").inner_text()
    assert "search=depth%203" in tab.url


def test_every_control_and_figure_has_a_name(visit, folder):
    for name in ("index.html", "dataset-data-0.html"):
        tab = visit(folder / name)
        nameless = tab.evaluate(
            """() => [...document.querySelectorAll('button, select, input, svg, [role=region], a')]
                .filter((e) => !(e.getAttribute('aria-label') || e.labels?.length
                    || e.textContent.trim()))
                .map((e) => e.outerHTML.slice(0, 80))"""
        )
        assert nameless == []
        assert tab.locator("h1").count() == 1


def test_hostile_names_do_nothing_in_a_browser(visit, hostile, tmp_path):
    files.write_files(hostile, tmp_path)
    for name in (sorted(hostile)[0], "index.html"):
        tab = visit(tmp_path / name)
        tab.wait_for_timeout(50)
        assert tab.locator("img, iframe, object, embed").count() == 0
    links = tab.eval_on_selector_all(
        "#datasets td a, #datasets th a", "(l) => l.map((a) => a.href)"
    )
    assert len(links) == len(HOSTILE)
    assert all(link.startswith(tmp_path.as_uri() + "/dataset-") for link in links)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1280])
def test_the_pages_fit_the_screen_and_are_not_empty(visit, folder, width, scheme):
    import io

    import matplotlib.image

    how = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    for name in ("index.html", "dataset-data-0.html")[: 2 if scheme == "light" else 1]:
        tab = visit(folder / name, **how)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        picture = matplotlib.image.imread(io.BytesIO(tab.screenshot()))
        dark = picture[..., :3].mean() < 0.5
        assert dark == (scheme == "dark") and picture[..., :3].std() > 0.05


def test_printing_opens_what_is_folded(visit, folder):
    tab = visit(folder / "index.html")
    tab.emulate_media(media="print")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.locator("details:not(.pick):not([open])").count() == 0
    assert not tab.locator("nav.top").is_visible()
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.locator("details.notes:not([open])").count() > 0


def test_tables_of_twelve_models_fit_a_printed_page(visit, tmp_path):
    models = [f"some-model-{i}" for i in range(12)]
    one = evidence_of(results(models, n_trials=2))
    files.write_files(write.pages(one, report.sections(one)), tmp_path)
    inside = {"width": 700, "height": 1000}  # of A4 with margins of 12 mm
    for name in ("index.html", "dataset-data-0.html"):
        tab = visit(tmp_path / name, viewport=inside)
        tab.emulate_media(media="print")
        tab.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert tab.evaluate("document.documentElement.scrollWidth") <= inside["width"]


def test_the_critical_difference_stays_on_its_sheet(visit, folder):
    tab = visit(folder / "index.html")
    sheet, *texts = tab.evaluate(
        """() => { const chart = document.querySelector("#drawn svg");
        return [chart, ...chart.querySelectorAll("text")].map((e) => e.getBoundingClientRect()) }"""
    )
    assert len(texts) >= 2 * len(MODELS)
    for text in texts:
        assert text["left"] >= sheet["left"] - 1 and text["right"] <= sheet["right"] + 1


def test_a_report_without_pages_leaves_none_of_an_earlier_one(evidence, tmp_path):
    report.write(evidence, tmp_path)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    (tmp_path / "html" / "notes.txt").write_text("a reader's own")
    report.write(evidence, tmp_path, html=False)
    gone = before - {path for path in tmp_path.rglob("*") if path.is_file()}
    assert gone == {path for path in before if path.parent.name == "html"}
    assert (tmp_path / "html" / "notes.txt").exists()
