"""The summary of a night: the verdict first, everything escaped."""

from __future__ import annotations

from pathlib import Path

from page_cases import HOSTILE
from tabsweep.benchmark.nightly import ab_test
from tabsweep.benchmark.nightly.checkout import Checkout
from tabsweep.benchmark.nightly.context import NightContext
from tabsweep.benchmark.nightly.step_result import (
    NO_DATA,
    NOT_RUN,
    OK,
    REGRESSION,
    Night,
    StepResult,
)
from tabsweep.benchmark.nightly.summary import write_summary

HEAD, BASE = "77aa001" + 33 * "0", "d0eb531" + 33 * "0"
BASELINE = {"commit": BASE, "accepted": "2026-11-13", "reason": "trees with other ties"}
COMMAND = "bench nightly --against d0eb531 --model knn"
WORSE = {
    **{"kind": "model", "model": "knn", "verdict": "worse", "change": 0.031, "lower": 0.019},
    **{"upper": 0.043, "n_seeds": 6, "datasets": ["iris"]},
    "command": COMMAND,
}
CELL = {"kind": "cell", "model": "knn", "dataset": "iris", "old": 0.21, "new": 0.2165}
HARMLESS = {"kind": "model", "model": "mlp", "verdict": "harmless", "change": -0.002}
RED = [
    StepResult("screen", OK, "2 models changed"),
    StepResult("ab-test", REGRESSION, "knn is worse by 3.1 %", [WORSE, CELL, HARMLESS], 30, 29),
    StepResult("another", NO_DATA, "not unpacked", reason="the disk is full"),
    StepResult("third", NOT_RUN, "not run", reason="not asked for"),
]
GREEN = [StepResult("screen", OK, "no model changed", seconds=3.0, cpu_s=2.0)]


def night(steps: list[StepResult]) -> Night:
    return Night(HEAD, BASE, "2026-11-22T02:17:04Z", {"cpu": "AMD EPYC", "cores": 2}, steps)


def written(folder: Path, steps: list[StepResult]) -> str:
    """The summary of a night."""
    place = folder / "2026-11-22-77aa001"
    place.mkdir(parents=True)
    places = (place, folder / "store", folder / "baseline.json")
    context = NightContext(Checkout(folder, HEAD), *places, baseline=BASELINE)
    return write_summary(night(steps), context).read_text(encoding="utf-8")


# ---------------------------------------------------------------------- what it says


def test_the_verdict_stands_first_and_what_changed_has_old_new_interval_and_command(tmp_path):
    text = written(tmp_path, RED)
    assert text.startswith("## Red: 1 step found a regression, 1 step could not judge")
    parts = "* ab-test: knn is worse", "### What broke", "What could not be", "### Steps", BASE[:7]
    order = [text.rindex(words) for words in parts]
    assert order == sorted(order) and "accepted 2026-11-13" in text

    (row,) = [line for line in text.splitlines() if line.startswith("| knn | worse")]
    for said in ("+3.1 %", "+1.9 % to +4.3 %", f"`{COMMAND}`"):
        assert said in row
    (cell,) = [line for line in text.splitlines() if line.startswith("| knn | iris |")]
    assert "| 0.21 | 0.2165 |" in cell
    assert any(line.startswith("| mlp |") and "harmless" in line for line in text.splitlines())
    assert "not run: third: not asked" in text
    text = written(tmp_path / "silent", GREEN)
    assert text.startswith("## Nothing broke.") and "What broke" not in text


def test_hostile_names_and_messages_do_nothing(tmp_path):
    rows = [
        {"model": name, "dataset": name, "verdict": "worse", "note": name, "command": name}
        for name in HOSTILE
    ]
    text = written(
        tmp_path, [StepResult("ab-test", REGRESSION, HOSTILE[1], rows, reason=HOSTILE[0])]
    )
    assert "<script" not in text and "<img" not in text
    assert [line.count(" | ") for line in text.splitlines() if line.startswith("| ")][0] == 4


def test_the_command_to_repeat_fits_what_the_night_fitted(tmp_path):
    context = NightContext(Checkout(tmp_path, HEAD), *3 * [tmp_path], suite="mine.toml")
    repeated = ab_test.command(context, HEAD, "knn")
    assert repeated == f"{COMMAND.replace('d0eb531', HEAD[:10])} --suite mine.toml"
