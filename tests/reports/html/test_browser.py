"""The HTML pages in a browser: filters, figures, printing, and hostile names."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from page_cases import HOSTILE, MODELS, evidence_of, results
from report_cases import evidence_of as of_cases
from report_cases import rows_of
from tabsweep.reports import report
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.html import page, write
from tabsweep.reports.output import files

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-headless-shell")


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


def in_python(evidence, *, models=MODELS, keep=lambda d: True):
    """The standings of a part of the evidence, by model."""
    part = evidence.planned
    wanted = part[part["model"].isin(models) & part["dataset"].map(keep)]
    trials = evidence.trials
    inside = trials["model"].isin(models) & trials["dataset"].map(keep)
    one = Evidence.of(trials[inside], wanted, evidence.facts)
    source = page.Source.of(one, report.parts_of(one))
    costs = source.costs.set_index(["dataset", "model"])["cpu_s"]
    ranked = source.widest.datasets
    entries = page.index(source)["standings"]
    return {e["model"]: e | {"cpu": sum(costs[d, e["model"]] for d in ranked)} for e in entries}


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
}


@pytest.mark.parametrize("fragment", FILTERS)
def test_the_page_ranks_as_python_does(tab, folder, evidence, fragment):
    tab.goto((folder / "index.html").as_uri() + (fragment or "#sort=mean"))
    found = shown(tab)
    want = in_python(evidence, **FILTERS[fragment])
    assert set(found) == set(want) and len(want) >= 2
    for model, values in found.items():
        for key in ("mean", "se", "win", "elo", "score", "best", "cpu"):
            if key in values:
                close = pytest.approx(want[model][key], rel=1e-9, abs=1e-9)
                assert float(values[key]) == close, (model, key)


def test_the_page_without_scripts_shows_the_same_leaderboard(visit, folder):
    texts = [
        visit(folder / "index.html", java_script_enabled=on).locator("#board tbody").inner_text()
        for on in (True, False)
    ]
    assert texts[0].split() == texts[1].split() and "forest" in texts[0]


def test_names_are_whole_in_every_figure(visit, tmp_path):
    long = dict(zip(MODELS, ["hist-gradient-boosting-of-many-bins", *MODELS[1:]], strict=True))
    frame = results()
    one = evidence_of(frame.assign(model=frame["model"].map(long)))
    files.write_files(write.pages(one, report.parts_of(one)), tmp_path)
    for width in (400, 1280):
        tab = visit(tmp_path / "index.html", viewport={"width": width, "height": 900})
        texts = tab.evaluate(
            """() => [...document.querySelectorAll("#leaderboard svg text:not([transform])")]
                .map((t) => [t.firstChild.data, t.getBBox(), t.ownerSVGElement.viewBox])
                .map(([text, box, view]) =>
                    [text, box.x >= 0 && box.x + box.width <= view.baseVal.width])"""
        )
        assert sum(long[MODELS[0]] in text for text, _ in texts) >= 3
        assert not [text for text, inside in texts if "…" in text or not inside], width


@pytest.mark.parametrize("width", [400, 1280])
def test_the_line_of_ranks_of_many_models_takes_most_of_its_figure(visit, tmp_path, width):
    """Names stand beside one another, inside of the figure."""
    models = [f"model-{'with-a-name-' * (i % 5 == 0)}{i:02}" for i in range(38)]
    spread = np.random.default_rng(0)
    score = {m: 0.9 - 0.02 * abs(i - 19) * (i > 19) for i, m in enumerate(models)}
    tables = {f"d-{i}": "binary" for i in range(12)}
    frame = rows_of(tables, models, score=lambda _, j: score[models[j]] + spread.normal(0.0, 0.02))
    found = of_cases(frame)
    report.write(found, tmp_path, report.parts_of(found))
    tab = visit(tmp_path / "html/index.html", viewport={"width": width, "height": 800})
    figure = tab.locator("figure", has=tab.get_by_text("Critical difference", exact=True))
    line, whole = figure.locator("path.base").first, figure.locator("svg").bounding_box()
    assert line.bounding_box()["width"] > 0.5 * whole["width"]
    names = [one.bounding_box() for one in figure.locator("text.name").all()]
    assert len(names) == len(models)
    for i, a in enumerate(names):
        assert whole["x"] - 1 <= a["x"] and a["x"] + a["width"] <= whole["x"] + whole["width"] + 1
        for b in names[:i]:
            apart = abs(a["y"] - b["y"]) > 8
            assert apart or a["x"] + a["width"] < b["x"] or b["x"] + b["width"] < a["x"]


def test_filters_and_order_stand_in_the_address_and_come_back(visit, folder):
    tab = visit(folder / "index.html")
    tab.locator("#pick-models").evaluate("(e) => (e.parentElement.open = true)")
    tab.get_by_label("svm", exact=True).uncheck()
    tab.get_by_label("Size").select_option("medium")
    tab.get_by_role("button", name="Elo").focus()
    tab.keyboard.press("Enter")
    head = tab.locator("#board th[data-key=elo]")
    assert head.get_attribute("aria-sort") == "descending"
    ratings = [float(v["elo"]) for v in shown(tab).values()]
    assert ratings == sorted(ratings, reverse=True) and len(ratings) == 3
    address = tab.url
    assert "without=svm" in address and "size=medium" in address and "sort=-elo" in address
    again = visit(folder / "index.html", address[address.index("#") :])
    assert list(shown(again)) == list(shown(tab))
    again.get_by_role("button", name="Reset").click()
    assert len(shown(again)) == 4 and "#" not in again.url


@pytest.mark.parametrize("width", [400, 1280])
def test_an_address_with_a_section_opens_there(visit, folder, width):
    at = {"viewport": {"width": width, "height": 800}, "reduced_motion": "reduce"}
    tab = visit(folder / "index.html", "#costs", **at)
    top = "document.getElementById('costs').getBoundingClientRect().top"
    tab.wait_for_function(f"Math.abs({top}) < 200")
    assert tab.evaluate("location.hash") == "#costs"


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


def test_a_command_is_copied_from_a_page_on_a_disk(visit, tmp_path):
    one = evidence_of(results(n=2), runs=["runs/mine"])
    files.write_files(write.pages(one, report.parts_of(one)), tmp_path)
    tab = visit(tmp_path / "dataset-data-0.html")
    tab.locator("#of-forest details summary").click()
    tab.locator("#of-forest").get_by_role("button", name="Copy").click()
    tab.wait_for_function("document.querySelector('#of-forest .copy').textContent != 'Copy'")
    said = tab.locator("#of-forest .copy").inner_text()
    assert said in ("Copied", "Selected: press Ctrl+C")
    if said != "Copied":
        selected = tab.evaluate("getSelection().toString()")
        assert selected == "bench explain scores data-0 forest --run runs/mine"


def test_the_link_beside_a_score_filters_the_trials(visit, folder):
    tab = visit(folder / "dataset-data-0.html")
    tab.locator("#of-net a.trials").click()
    assert "8 of 32 trials" in tab.locator("#status").inner_text()
    assert tab.evaluate("document.activeElement.id") == "trials"


def test_every_control_and_figure_has_a_name(visit, folder):
    for name in ("index.html", "dataset-data-0.html", "model-net.html"):
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
    for name in ("index.html", "dataset-data-0.html", "model-net.html")[
        : 3 if scheme == "light" else 1
    ]:
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
