"""The page of a night, its summary and its issues: verdict first, everything escaped, offline."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from page_cases import HOSTILE
from tabsweep.benchmark.nightly import ab_test
from tabsweep.benchmark.nightly.context import NightContext
from tabsweep.benchmark.nightly.findings import command_of
from tabsweep.benchmark.nightly.page import write_page
from tabsweep.benchmark.nightly.step_result import (
    ADVISORY,
    NO_DATA,
    NOT_RUN,
    OK,
    REGRESSION,
    Night,
    StepResult,
)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-headless-shell")
HEAD, BASE = "77aa001" + 33 * "0", "d0eb531" + 33 * "0"
BASELINE = {
    "commit": BASE,
    "accepted": "2026-11-13",
    "reason": "trees with other ties",
    "previous": [{"commit": "c" * 40, "accepted": "2026-10-01", "reason": "the first night"}],
}
COMMAND = "bench nightly --only ab-test --against d0eb531 --model knn"
WORSE = {
    **{"kind": "model", "model": "knn", "verdict": "worse", "change": 0.031, "lower": 0.019},
    **{"upper": 0.043, "n_seeds": 6, "datasets": ["iris"], "since": ["43e7a96 weights by rank"]},
    "command": COMMAND,
}
CELL = {"kind": "cell", "model": "knn", "dataset": "iris", "old": 0.21, "new": 0.2165}
HARMLESS = {"kind": "model", "model": "mlp", "verdict": "harmless", "change": -0.002}
RED = [
    StepResult("screen", OK, "2 models changed"),
    StepResult("ab-test", REGRESSION, "knn is worse by 3.1 %", [WORSE, CELL, HARMLESS], 30, 29),
    StepResult("golden-reports", NO_DATA, "not unpacked", reason="the disk is full"),
    StepResult("nightly-tests", NOT_RUN, "not asked for", reason="runs with --tests"),
]
GREEN = [StepResult("screen", OK, "no model changed", seconds=3.0, cpu_s=2.0)]


def night(steps: list[StepResult], day: int = 22, commit: str = HEAD, base: str = BASE) -> Night:
    host = {"cpu": "AMD EPYC", "cores": 2}
    return Night(commit, base, f"2026-11-{day:02d}T02:17:04Z", host, steps)


def past(day: int, verdict: str, *, base: str = BASE, name: str = "", step: str = "ab-test") -> str:
    """A line of the history, as a night records itself."""
    one = night([StepResult(step, verdict, "")], day, f"{day:07x}" + 33 * "0", base)
    return json.dumps({"night": name or f"2026-11-{day:02d}-{day:07x}", **one.to_data()}) + "\n"


def written(folder: Path, steps: list[StepResult], history: str = "", name: str = "") -> Path:
    """The folder of a night with its page, beside a history."""
    place = folder / (name or "2026-11-22-77aa001")
    place.mkdir(parents=True)
    context = NightContext(
        root=folder,
        commit=HEAD,
        night=place,
        store=folder / "store",
        python=Path("python"),
        date="2026-11-22",
        baseline=BASELINE,
    )
    context.history.write_text(history)
    write_page(night(steps), context)
    return place


def issue_titles(place: Path) -> list[str]:
    return [
        path.read_text(encoding="utf-8").partition("\n")[0]
        for path in sorted((place / "issues").glob("*.md"))
    ]


# ---------------------------------------------------------------------- what it says


def test_the_verdict_stands_before_everything_else(tmp_path):
    place = written(tmp_path, RED)
    text = (place / "summary.md").read_text(encoding="utf-8")
    assert text.startswith("## Red: 1 step found a regression, 1 step could not judge")
    page = (place / "night.html").read_text(encoding="utf-8")
    body = page[page.index("<main") :]
    order = [
        body.index(words) for words in ("Red: 1 step", "knn is worse", "d0eb531", "What broke")
    ]
    assert order == sorted(order)


def test_a_silent_night_says_so_and_opens_no_issue(tmp_path):
    place = written(tmp_path, GREEN)
    assert (place / "summary.md").read_text(encoding="utf-8").startswith("## Nothing broke")
    assert issue_titles(place) == []
    assert "What broke" not in (place / "night.html").read_text(encoding="utf-8")


def test_what_changed_has_old_new_interval_commits_and_the_command(tmp_path):
    text = (written(tmp_path, RED) / "summary.md").read_text(encoding="utf-8")
    (row,) = [line for line in text.splitlines() if line.startswith("| knn | worse")]
    for said in ("+3.1 %", "+1.9 % to +4.3 %", "43e7a96 weights by rank", f"`{COMMAND}`"):
        assert said in row
    assert "| knn | iris | 0.21 | 0.2165 |" in text
    assert "| mlp | harmless |" in text
    assert "not run: nightly-tests: runs with" in text


def test_a_step_is_red_since_the_first_of_its_red_nights(tmp_path):
    history = past(18, OK) + past(19, REGRESSION) + past(20, OK, step="faults") + past(21, NO_DATA)
    text = (written(tmp_path, RED, history) / "summary.md").read_text(encoding="utf-8")
    assert "Red since the night of 2026-11-19 (0000013000); 0000012000 was not" in text


def test_the_strip_shows_each_night_once_and_where_the_baseline_moved(tmp_path):
    lines = past(1, OK, base="c" * 40) + past(2, OK) + past(3, REGRESSION) + past(3, ADVISORY)
    lines += past(4, REGRESSION, name="2026-11-04-x-against-v1") + '{"torn'
    page = (written(tmp_path, GREEN, lines) / "night.html").read_text(encoding="utf-8")
    strip = page[page.index('<ol class="strip"') : page.index("</ol>", page.index('class="strip"'))]
    kinds = [part.partition('"')[0] for part in strip.split('<li class="')[1:]]
    assert kinds == ["ok", "ok moved", "advisory", "ok"]
    assert page.index("trees with other ties") < page.index("the first night")


# ---------------------------------------------------------------------- issues


def test_there_is_one_issue_for_each_thing_that_broke_with_a_title_that_stays(tmp_path):
    twice = [WORSE, {**WORSE, "model": "svm"}, HARMLESS]
    steps = [*RED[:1], StepResult("ab-test", REGRESSION, "two are worse", twice), *RED[2:]]
    place = written(tmp_path, steps)
    assert issue_titles(place) == [
        "nightly: ab-test: knn",
        "nightly: ab-test: svm",
        "nightly: golden-reports",
    ]
    # Of a step without a verdict no issue may be closed.
    assert (place / "issues" / "judged").read_text().split() == ["screen", "ab-test"]


def test_titles_of_issues_are_one_line_that_a_forge_takes_and_each_has_one_file(tmp_path):
    rows = [{"subject": f"test[{'x' * 300}{i}]\n \\d", "verdict": "failed"} for i in range(2)]
    rows.append({"subject": "a\\nb\tc", "verdict": "failed"})
    place = written(tmp_path, [StepResult("faults", REGRESSION, "3 tests failed", rows)])
    titles = issue_titles(place)
    assert [len(title) for title in titles] == [240, len(titles[1])]
    assert titles[1] == "nightly: faults: a\\nb c"
    text = (place / "issues" / "001.md").read_text()
    assert "x0" in text and "x1" in text


def test_issues_of_the_weekly_drift_are_apart_from_those_of_a_night(tmp_path):
    place = written(tmp_path, RED, name="2026-11-22-77aa001-against-v1")
    assert issue_titles(place)[0] == "nightly: ab-test (drift): knn"
    assert "ab-test (drift)" in (place / "issues" / "judged").read_text().splitlines()


def test_a_page_that_is_written_again_leaves_no_issue_of_before(tmp_path):
    place = written(tmp_path, RED)
    shutil.move(place, tmp_path / "kept")
    place = written(tmp_path, GREEN)
    shutil.copytree(tmp_path / "kept" / "issues", place / "issues", dirs_exist_ok=True)
    context = NightContext(
        root=tmp_path,
        commit=HEAD,
        night=place,
        store=tmp_path / "store",
        python=Path("python"),
        date="2026-11-22",
    )
    write_page(night(GREEN), context)
    assert issue_titles(place) == []


# ---------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM:
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        yield play.chromium.launch(executable_path=CHROMIUM)


def visit(browser, path: Path, width: int) -> dict:
    """What a visit hears (messages, errors, requests), and measures."""
    heard: list[str] = []
    context = browser.new_context(viewport={"width": width, "height": 900})
    tab = context.new_page()
    tab.on("console", lambda message: heard.append(f"console: {message.text}"))
    tab.on("pageerror", lambda error: heard.append(f"error: {error}"))
    tab.on("dialog", lambda dialog: heard.append(f"dialog: {dialog.message}"))
    tab.on("request", lambda request: heard.append(request.url))
    tab.goto(path.as_uri())
    tab.wait_for_timeout(50)
    found = {
        "heard": [said for said in heard if said != path.as_uri() and not said.startswith("data:")],
        "width": tab.evaluate("document.documentElement.scrollWidth"),
        "foreign": tab.locator("img, iframe, object, embed, link[rel=stylesheet]").count(),
        "verdict": tab.locator(".verdict strong").inner_text(),
        "top": tab.locator(".verdict").bounding_box()["y"],
    }
    context.close()
    return found


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_asks_for_nothing_fits_the_screen_and_begins_with_the_verdict(
    browser, tmp_path, width
):
    place = written(tmp_path, RED, past(20, OK) + past(21, REGRESSION))
    found = visit(browser, place / "night.html", width)
    assert found["heard"] == [] and found["foreign"] == 0
    assert found["width"] == width
    assert found["verdict"].startswith("Red") and found["top"] < 250


def test_hostile_names_and_messages_do_nothing(browser, tmp_path):
    rows = [
        {"model": name, "dataset": name, "verdict": "worse", "note": name, "command": name}
        for name in HOSTILE
    ]
    steps = [StepResult("ab-test", REGRESSION, HOSTILE[1], rows, reason=HOSTILE[0])]
    place = written(tmp_path, steps)
    found = visit(browser, place / "night.html", 1280)
    assert found["heard"] == [] and found["foreign"] == 0
    text = (place / "summary.md").read_text(encoding="utf-8")
    assert "<script" not in text and "<img" not in text
    for path in (place / "issues").glob("*.md"):
        assert "\n" not in path.read_text(encoding="utf-8").partition("\n")[0]


def test_the_commands_to_repeat_judge_what_the_night_judged(tmp_path):
    folder = tmp_path / "2026-11-22-d0eb531"
    context = NightContext(
        root=tmp_path, commit=HEAD, night=folder, store=tmp_path, python=tmp_path,
        date="2026-11-22", against="v9.9", size="tiny", suite="mine.toml", models=("knn",),
    )  # fmt: skip
    failed = StepResult("faults", REGRESSION, "1 of 9 tests failed", [{"id": "a"}])
    words = command_of(failed, context.words)
    assert words.startswith("bench nightly --only faults ")
    for option in ("--suite mine.toml", "--size tiny", "--model knn", "--against v9.9"):
        assert option in words, option
    usual = replace(context, against=None, size="full", suite="nightly", models=())
    assert command_of(failed, usual.words) == 'bench nightly --only faults --out "$(mktemp -d)"'
    repeated = ab_test.command(context, HEAD, "knn")
    assert repeated == f"{COMMAND.replace('d0eb531', HEAD[:10])} --suite mine.toml --size tiny"
