"""What makes a changed model dearer: the ratios of its fits in both checkouts, found twice."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tabsweep.benchmark.nightly.checks import cost
from tabsweep.benchmark.nightly.context import NightContext
from tabsweep.benchmark.nightly.step_result import ADVISORY, NOT_RUN, OK, StepResult
from tabsweep.benchmark.nightly.steps import step

DATASETS = ("iris", "wine", "diabetes", "concrete")


def fits(*, factor: float = 1.0, noise: float = 0.03, base_s: float = 0.5, rounds: int = 3) -> list:
    """Rows of both sides: head takes `factor` times as long, with noise and in ticks of 10 ms."""
    chance = random.Random(0)
    rows = []
    for number in range(rounds):
        for dataset in DATASETS:
            for side, scale in (("base", 1.0), ("head", factor)):
                took = base_s * scale * chance.lognormvariate(0.0, noise)
                rows.append(
                    {
                        **{"model": "knn", "dataset": dataset, "fold": 0, "status": "done"},
                        **{"side": side, "round": number, "fit_s": took},
                        **{"cpu_s": round(took, 2), "peak_ram_mb": 200.0},
                    }
                )
    return rows


def dear(rows: list) -> set[str]:
    """The measures by which the model is dearer."""
    return {row["measure"] for row in cost.judge(rows, "knn") if cost.verdict_of(row) != cost.SAME}


def test_thirty_per_cent_more_time_is_seen_and_noise_is_not():
    assert dear(fits(factor=1.3)) == {"CPU time", "time to fit"}
    assert dear(fits(factor=1.3, noise=0.08)) == {"CPU time", "time to fit"}
    assert dear(fits()) == dear(fits(noise=0.3)) == dear(fits(factor=0.7)) == set()


def test_a_machine_that_is_slow_for_some_rounds_makes_no_model_dearer():
    rows = fits(rounds=6)
    for row in rows:
        if row["round"] in (1, 4):
            row["fit_s"], row["cpu_s"] = 3 * row["fit_s"], 1.4 * row["cpu_s"]
    assert dear(rows) == set()
    for row in rows:  # one fit of head alone met something else
        if (row["round"], row["side"]) == (2, "head"):
            row["fit_s"] *= 4
    assert dear(rows) == set()


def test_fits_of_a_few_clock_ticks_are_judged_by_the_wall_clock_alone():
    assert dear(fits(factor=1.3, base_s=0.02)) == {"time to fit"}
    assert {row["measure"] for row in cost.judge(fits(base_s=0.02), "knn")} == {
        "time to fit",
        "peak memory",
    }


def test_one_cell_that_costs_a_half_more_is_named():
    rows = fits(noise=0.0)
    for row in rows:
        if (row["side"], row["dataset"]) == ("head", "wine"):
            row["peak_ram_mb"] *= 1.5
    (found,) = [row for row in cost.judge(rows, "knn") if row["measure"] == "peak memory"]
    assert cost.verdict_of(found) == cost.SLOWER
    assert found["worst_dataset"] == "wine" and found["worst"] == pytest.approx(0.5)


def test_failed_fits_and_cells_of_one_side_are_left_out():
    rows = fits(noise=0.0)
    for row in rows:
        if row["dataset"] == "iris" and row["side"] == "head":
            row["status"] = "failed"
    found = cost.judge(rows, "knn")
    assert {row["cells"] for row in found} == {len(DATASETS) - 1}
    assert cost.judge([row for row in rows if row["side"] == "base"], "knn") == []


# ---------------------------------------------------------------------- the step


def context_of(folder: Path, day: int) -> NightContext:
    return NightContext(
        root=folder,
        commit="a" * 40,
        night=folder / f"2026-11-{day:02d}-aaaaaaa",
        store=folder / "store",
        python=Path("python"),
        date=f"2026-11-{day:02d}",
    )


def test_where_no_model_changed_nothing_is_fitted(tmp_path):
    context = context_of(tmp_path, 22)
    assert step("cost")(context).verdict == NOT_RUN  # nobody knows what changed
    StepResult("ab-test", OK, "no model changed").write(context.steps)
    found = step("cost")(context)
    assert found.verdict == OK and found.findings == []


def test_it_becomes_an_advisory_when_two_nights_running_found_it(tmp_path):
    judged = {"knn": cost.judge(fits(factor=1.3), "knn")}
    first, second, third = (context_of(tmp_path, day) for day in (20, 21, 24))
    drift = tmp_path / "2026-11-22-aaaaaaa-against-v1" / "steps"

    found = cost.summed_up(first, judged, "d0eb531")
    assert found.verdict == OK and "knn" in found.headline and "next night" in found.headline
    found.write(first.steps)

    again = cost.summed_up(second, judged, "d0eb531")
    assert again.verdict == ADVISORY and "knn" in again.headline
    assert {row["verdict"] for row in again.findings} == {cost.AGAIN, cost.SAME}

    StepResult("cost", OK, "no model changed, so none costs more").write(second.steps)
    again.write(drift)  # a night against a release says nothing about the night before
    assert cost.summed_up(third, judged, "d0eb531").verdict == OK
    assert json.loads((drift / "cost.json").read_text())["verdict"] == ADVISORY


def test_the_headline_names_the_measure_that_grew_most(tmp_path):
    """Seconds and megabytes are no numbers of one scale."""
    rows = cost.judge(fits(factor=1.3), "knn")
    (time,) = [row for row in rows if row["measure"] == "CPU time"]
    assert any(row["new"] > time["new"] for row in rows)  # of memory
    judged = {"knn": [row | {"change": 3.0} if row is time else row for row in rows]}
    assert "300 % more CPU time" in cost.summed_up(context_of(tmp_path, 20), judged, "d").headline
