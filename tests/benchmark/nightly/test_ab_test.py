"""What the A/B test compares, and that what it could not compare is never green."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from tabsweep.benchmark.nightly.ab_test import (
    ab_test,
    common_cells,
    judged,
    paired,
    result_of,
)
from tabsweep.benchmark.nightly.checkout import Checkout
from tabsweep.benchmark.nightly.context import NightContext
from tabsweep.benchmark.nightly.sides import Side, SideError
from tabsweep.benchmark.nightly.step_result import StepResult

BASE = "d0eb531" + 33 * "0"
FOUND = ("knn/iris", "knn/wine", "mlp/iris")


def plan(*cells: str, **given: Any) -> dict[str, Any]:
    """What `sides.ids` finds; "knn/iris=2" is a cell with another id than "knn/iris"."""
    found: dict[str, Any] = {"left_out": {}, "absent": {}, "unknown": [], **given}
    ids = dict(cell.partition("=")[::2] for cell in cells or FOUND)
    return {**found, "cells": {f"{cell}/0/0": {"id": cell + more} for cell, more in ids.items()}}


def step(old: dict, new: dict, **given: Any) -> StepResult:
    """The step's result where the cells with other ids are equal."""
    cells, beside = common_cells(old, new, BASE, **given)
    rows = [
        {"kind": "model", "model": m, "verdict": "equal", "datasets": d} for m, d in cells.items()
    ]
    return result_of(rows, beside, BASE, shared=bool({*old["cells"]} & {*new["cells"]}))


def test_cells_with_other_ids_are_compared_and_equal_ids_need_no_fit() -> None:
    found = step(plan(), plan("knn/iris=2", "knn/wine", "mlp/iris"))
    assert found.verdict == "ok" and found.findings[0]["datasets"] == ["iris"]
    same = step(plan(), plan())
    assert (same.verdict, same.findings) == ("ok", [])
    assert same.headline == "no model's trials differ between the two commits"


def test_without_a_common_cell_there_is_no_verdict() -> None:
    only_new = step({**plan(), "cells": {}}, plan())
    assert only_new.verdict == "no-data" and "no cell" in only_new.reason
    assert {row["kind"] for row in only_new.findings} == {"new"}


@pytest.mark.parametrize("where", [0, 1])
@pytest.mark.parametrize("changed", [True, False])
def test_a_dataset_that_could_not_be_had_is_named(where: int, changed: bool) -> None:
    plans = [plan(), plan("knn/iris=2", "knn/wine", "mlp/iris") if changed else plan()]
    for name in [key for key in plans[where]["cells"] if "/wine/" in key]:
        del plans[where]["cells"][name]
    plans[where]["left_out"] = {"wine": "no network"}
    found = step(*plans)
    assert found.verdict == "no-data" and "wine" in found.headline
    assert "no network" in found.reason
    rows = [row for row in found.findings if row["verdict"] == "no-data"]
    assert [(row["kind"], row["dataset"]) for row in rows] == [("dataset", "wine")]
    assert not [row for row in found.findings if row["kind"] in ("lost", "new")]


def test_a_cell_of_the_release_that_is_not_planned_any_more_is_a_regression() -> None:
    new = plan("knn/iris", absent={"knn/wine": "too slow"}, unknown=["mlp"])
    found = step(plan(), new)
    assert found.verdict == "regression"
    notes = {(row["model"], row["dataset"]): row["note"] for row in found.findings}
    assert notes == {("knn", "wine"): "too slow", ("mlp", "iris"): "no model of this version"}


def test_a_model_that_no_version_plans_could_not_be_judged() -> None:
    typo = step(plan(), plan(), models=["knn", "knnn"])
    assert typo.verdict == "no-data" and typo.headline == "not judged: knnn"
    named = step(plan(), plan(unknown=["gone"]))
    assert named.verdict == "no-data" and "gone" in named.headline
    added = step(plan(), plan(*FOUND, "new/iris"), models=["knn", "new"])
    assert added.verdict == "ok" and added.findings[0]["verdict"] == "new"


# ---------------------------------------------------------------------- fits


def row(model: str, dataset: str, seed: int, error: float | None = 0.2, **given: Any) -> dict:
    status = {"status": "done", "cause": None, "message": ""}
    return {"model": model, "dataset": dataset, "seed": seed, "error": error, **status, **given}


CELLS = {"bad": ["iris", "wine"], "fine": ["iris"]}
BROKEN = {"status": "failed", "cause": "error", "message": "no memory", "error": None}


def fits(seeds: range, **of_bad: Any) -> list[dict]:
    """The rows of one side; `of_bad` changes those of the model "bad"."""
    return [
        row(model, dataset, seed, **(of_bad if model == "bad" else {}))
        for seed in seeds
        for model, datasets in CELLS.items()
        for dataset in datasets
    ]


THREE = fits(range(3))


def outcome(tmp_path: Path, base: dict, head: dict) -> tuple[dict[str, dict], StepResult]:
    """({model: its row}, the step's result) of fits on both sides."""

    def pairs_of(cells: dict, numbers: range) -> dict:
        return paired(fits(numbers, **base), fits(numbers, **head), CELLS, len(numbers))

    side = Side("base", BASE, tmp_path, Path("python"), {})
    found = judged(context_of(tmp_path), side, CELLS, pairs_of)
    models = {row["model"]: row for row in found if row["kind"] == "model"}
    return models, result_of(found, [], BASE, shared=True)


def context_of(folder: Path, **given: Any) -> NightContext:
    places = (folder / name for name in ("night", "store", "baseline.json"))
    return NightContext(Checkout(folder, "7" * 40), *places, **given)


@pytest.mark.parametrize(
    "head, note",
    [
        (BROKEN, "error on iris: no memory"),
        ({"error": math.nan}, "the error is nan on iris, seed 0"),
    ],
)
def test_a_fit_that_fails_or_has_no_finite_error_now_is_red(tmp_path, head, note) -> None:
    models, found = outcome(tmp_path, {}, head)
    assert (models["bad"]["verdict"], models["fine"]["verdict"]) == ("fails", "equal")
    assert models["bad"]["note"] == note
    assert found.verdict == "regression" and note in found.headline


@pytest.mark.parametrize("head", [{}, BROKEN, {"error": math.nan}])
@pytest.mark.parametrize("base", [BROKEN, {"error": math.inf}])
def test_a_model_that_no_pair_of_fits_compares_is_not_green(tmp_path, base, head) -> None:
    models, found = outcome(tmp_path, base, head)
    if base == BROKEN or head != BROKEN:
        assert models["bad"]["verdict"] == "no-data" and found.verdict == "no-data"
        assert found.headline == "not judged: bad" and "d0eb531000" in found.reason
    else:  # it ended before, with whatever error
        assert models["bad"]["verdict"] == "fails" and found.verdict == "regression"
    assert models["fine"]["verdict"] == "equal"


def test_the_change_of_a_single_pair_of_fits_has_no_bounds(tmp_path) -> None:
    def pairs_of(cells: dict, numbers: range) -> dict:
        heads = [{"error": 0.3} if seed == 0 else BROKEN for seed in numbers]
        pairs = [(row("bad", "iris", s), row("bad", "iris", s, **heads[s])) for s in numbers]
        return {"bad": pairs}

    side = Side("base", BASE, tmp_path, Path("python"), {})
    found, _ = judged(context_of(tmp_path), side, {"bad": ["iris"]}, pairs_of)
    assert found["verdict"] == "fails" and found["change"] == pytest.approx(0.5)
    assert found["lower"] is None and found["upper"] is None


def test_cpu_time_of_fits_long_enough_to_tell_stands_beside_the_verdict(tmp_path) -> None:
    models, found = outcome(tmp_path, {"cpu_s": 0.5}, {"cpu_s": 0.65})
    assert models["bad"]["cpu"] == pytest.approx(0.3) and models["fine"]["cpu"] is None
    assert found.verdict == "ok"


def test_a_planned_fit_without_a_row_is_an_error() -> None:
    for base, head in ((THREE[1:], THREE), (THREE, THREE[:-1]), (fits(range(2)),) * 2):
        with pytest.raises(SideError, match="of 3 planned fits"):
            paired(base, head, CELLS, 3)
    other = [row | {"seed": row["seed"] + 1} for row in THREE]
    with pytest.raises(SideError, match="bad on iris: .* returned 3, this one 3, both 2"):
        paired(THREE, other, CELLS, 3)


# ---------------------------------------------------------------------- the step


def test_without_a_baseline_it_does_not_run_and_the_screen_is_red(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    screened = StepResult("screen", "no-data", "there is no accepted baseline")
    assert ab_test(context, screened).verdict == "not-run"
