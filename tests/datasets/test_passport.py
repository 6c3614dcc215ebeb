"""Passports: known faults are found in the data, and no others."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tabsweep.datasets import catalog, probes
from tabsweep.datasets.passport import first_look, passport
from tabsweep.datasets.protocols import make_folds
from tabsweep.datasets.table import Table, categorical_column


def toy(columns: dict[str, object], target: np.ndarray, *, name: str = "toy", **more) -> Table:
    """A table with these columns; floats are numeric, texts and whole numbers categories."""
    frame = pd.DataFrame(
        {
            key: values
            if np.asarray(values).dtype == np.float64
            else categorical_column(np.asarray(values).tolist())
            for key, values in columns.items()
        }
    )
    if target.dtype == np.float64:
        return Table(name, frame, target, "regression", (), "0" * 64, **more)
    classes = tuple(str(c) for c in range(int(target.max()) + 1))
    task = "binary" if len(classes) == 2 else "multiclass"
    return Table(name, frame, target.astype(np.int64), task, classes, "0" * 64, **more)


def noise(rng: np.random.Generator, n_rows: int = 200, n_columns: int = 4) -> dict[str, object]:
    return {f"x{j}": rng.normal(size=n_rows) for j in range(n_columns)}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def target(rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(np.arange(200) % 2)


def flags(table: Table, protocol: str = "holdout") -> dict[str, str]:
    page = passport(table, make_folds(table, protocol))
    assert json.loads(json.dumps(page, allow_nan=False)) == page
    return {flag["id"]: flag["severity"] for flag in page["flags"]}


def learnable(rng: np.random.Generator, target: np.ndarray) -> dict[str, object]:
    return {**noise(rng), "signal": target + rng.normal(size=len(target)) * 0.5}


def test_a_sound_table_has_no_flag_and_hashes_and_counts_stand_in_its_passport(rng, target) -> None:
    table = toy(learnable(rng, target), target)
    folds = make_folds(table, "kfold")
    page = passport(table, folds)
    assert page["flags"] == [] and page["sha256"] == table.sha256
    assert [fold["sha256"] for fold in page["folds"]] == [fold.sha256 for fold in folds]
    assert page["class_counts"] == {"0": 100, "1": 100}


def test_odd_columns_are_named(rng, target) -> None:
    columns = learnable(rng, target)
    columns["one"] = np.ones(200)
    columns["none"] = np.full(200, np.nan)
    columns["number"] = rng.permutation(200).astype(float)
    columns["name"] = [f"id-{k}" for k in range(200)]
    columns["holes"] = np.where(rng.random(200) < 0.3, np.nan, rng.normal(size=200))
    table = toy(columns, target)
    page = passport(table, make_folds(table, "holdout"))
    detail = {flag["id"]: flag["detail"] for flag in page["flags"]}
    assert detail["constant-columns"].endswith(" in one")
    assert detail["empty-columns"].endswith(" in none")
    assert detail["id-like-columns"].endswith(" in number, name")
    assert page["columns"]["holes"]["n_missing"] == table.frame["holes"].isna().sum()
    assert "missing-values" in detail and "unseen-categories" in detail


def test_duplicates_are_counted_within_and_across_the_parts(rng, target) -> None:
    columns = learnable(rng, target)
    doubled = {name: np.concatenate([v, v[:30]]) for name, v in columns.items()}  # type: ignore[index]
    labels = np.concatenate([target, target[:20], 1 - target[20:30]])
    table = toy(doubled, labels)
    folds = make_folds(table, "kfold")
    page = passport(table, folds)
    assert page["duplicates"]["n_repeated_features"] == 30
    assert page["duplicates"]["n_repeated_rows"] == 20
    assert page["duplicates"]["n_conflicting_rows"] == 20
    twins = {k: k + 200 for k in range(30)} | {k + 200: k for k in range(30)}
    across = [sum(twins.get(row) in set(f.train) for row in f.test) for f in folds]
    assert page["duplicates"]["n_test_rows_in_train"] == across and any(across)
    assert {"duplicate-rows", "train-test-duplicates"} <= {f["id"] for f in page["flags"]}


def test_a_feature_that_gives_the_target_away_is_found(rng, target) -> None:
    named = {**noise(rng), "leak": [f"t{1 - t}" for t in target]}
    assert flags(toy(named, target))["feature-is-target"] == "error"
    hidden = {**noise(rng), "leak": target * 10 + rng.random(200)}
    assert flags(toy(hidden, target))["single-feature-leak"] == "warning"
    amount = rng.normal(size=400)
    columns = {**noise(rng, 400), "leak": np.exp(amount)}
    assert "single-feature-leak" in flags(toy(columns, amount))
    heavy = np.exp(np.random.default_rng(5).normal(11, 1, 600)).round(2)
    tax = toy({"x": np.arange(600) % 7, "tax": (0.03 * heavy).round()}, heavy)
    assert flags(tax)["single-feature-leak"] == "warning"  # the tree has few rows in the tail
    for offset, unit in ((1.7e9, 1), (0, 1e-42)):  # 32 bits do not tell them apart
        times = {**noise(rng), "leak": (offset + target * 30 + rng.integers(25, size=200)) * unit}
        assert flags(toy(times, target))["single-feature-leak"] == "warning"


def test_gaps_that_go_with_one_value_of_the_target_are_a_leak(rng, target) -> None:
    told = np.where((target == 1) & (rng.random(200) < 0.8), 1.0, np.nan)
    left = np.where((target == 0) & (rng.random(200) < 0.8), np.nan, rng.normal(size=200))
    some = np.where(rng.random(200) < 0.8, 1.0, np.nan)
    few = np.full(200, np.nan)
    few[np.flatnonzero(target)[:9]] = 2.0
    for name, values, leak in (("x", told, 1), ("x", left, 1), ("x", some, 0), ("x", few, 0)):
        table = toy({**learnable(rng, target), name: values}, target)
        assert ("missingness-leak" in flags(table)) == bool(leak)
        assert sum("gaps tell the target" in line for line in first_look(table)) == leak


@pytest.mark.parametrize("numbered", [True, False])
def test_a_column_that_names_whom_rows_are_of_is_a_warning_where_they_share_the_target(
    rng, numbered
) -> None:
    """Five visits each of 60 patients; a town of theirs has no such rows, nor a single visit."""
    patient = np.repeat(np.arange(60), 5)
    ill, town = rng.integers(2, size=60)[patient], rng.integers(40, size=60)[patient]
    names = patient.astype(float) if numbered else np.array([f"p{i}" for i in patient])
    columns = {**noise(rng, 300), "patient": names, "town": town.astype(float)}
    detail = {f["id"]: f["detail"] for f in passport(toy(columns, ill), [])["flags"]}
    assert detail["repeated-entities"].startswith("rows with one value of patient have one value")
    [said] = [line for line in first_look(toy(columns, ill)) if "--group" in line]
    assert "60 of 60 values" in said and "town" not in said
    assert "repeated-entities" not in flags(toy(columns, rng.integers(2, size=300)))
    once = {**columns, "patient": np.arange(300.0)}
    assert "repeated-entities" not in flags(toy(once, ill))


def test_rows_in_the_order_of_a_date_are_named_with_the_option(rng, target) -> None:
    days = pd.date_range("2024-01-01", periods=200)
    plain = toy(learnable(rng, target), target)
    table, mixed = (
        replace(plain, frame=plain.frame.assign(day=dates))
        for dates in (days, days[rng.permutation(200)])
    )
    assert flags(table)["time-order"] == "warning" and "time-order" not in flags(mixed)
    assert any("--time day" in line for line in first_look(table))
    split = replace(table, times=np.arange(200.0))
    assert not any("--time" in line for line in first_look(split))


def test_a_row_of_totals_is_named(rng) -> None:
    """As a spreadsheet has it below the others: sums, a mean, and nothing where neither fits."""
    rooms, area = rng.integers(1, 6, 40).astype(float), rng.normal(90, 20, 40).round(1)
    price = (1000 * area + rng.normal(0, 500, 40)).round()
    below = {"rooms": [rooms.sum()], "area": [area.mean().round(1)], "kind": [None]}
    columns = {"rooms": rooms, "area": area, "kind": [*"ab" * 20]}
    for total, found in ((price.sum(), 1), (price.sum() / 2, 0)):
        whole = {name: [*values, *below[name]] for name, values in columns.items()}
        table = toy(whole, np.append(price, total))
        assert ("total-rows" in flags(table)) == bool(found)
        said = [line for line in first_look(table) if "sums up all others" in line]
        assert len(said) == found and all("row 41 of 41" in line for line in said)
    assert "total-rows" not in flags(toy(columns, price))


def test_a_target_that_nothing_predicts_is_said(rng, target) -> None:
    assert "hardly-predictable" in flags(toy(noise(rng), target))
    assert "hardly-predictable" in flags(toy(noise(rng), rng.normal(size=200)))


def test_a_feature_that_could_be_the_label_may_have_fractions_or_be_the_only_one(rng) -> None:
    target = rng.integers(2, size=200)
    dose = np.where(rng.random(200) < 0.5, 0.5, 1.0)
    assert "hardly-predictable" in flags(toy({**noise(rng), "dose": dose}, target))
    assert "hardly-predictable" in flags(toy({"dose": dose}, target))


def test_a_label_that_is_less_of_a_label_than_an_attribute_is_suspected(rng, target) -> None:
    columns = learnable(rng, target)
    swapped = {**columns, "decision": [f"d{t}" for t in target]}
    attribute = rng.permutation(target)
    assert flags(toy(swapped, attribute))["label-is-attribute"] == "error"
    assert "label-is-attribute" not in flags(toy(columns, target))
    assert "label-is-attribute" not in flags(toy(noise(rng), attribute))


def test_features_that_only_tell_answered_from_not_are_suspected(rng, target) -> None:
    silent = rng.random(200) < 0.15  # some people leave out nearly everything
    marks = {f"q{j}": (rng.random(200) < np.where(silent, 0.6, 0.03)) * 1 for j in range(10)}
    assert flags(toy(marks, target))["answered-or-not"] == "error"
    coins = {f"q{j}": (rng.random(200) < 0.1) * 1 for j in range(10)}
    assert "answered-or-not" not in flags(toy(coins, target))


def test_parts_that_were_scaled_apart_are_found_in_numbers_that_repeat(rng, target) -> None:
    counts = rng.integers(0, 20, size=(200, 4)).astype(float)
    part = np.arange(200) >= 150
    apart = np.where(part[:, None], counts / 3 + 0.01, counts / 2)
    masks = ((part, np.arange(200) < 20),)
    for values, found in ((apart, True), (counts, False)):
        columns = {f"x{j}": values[:, j] for j in range(4)}
        table = toy(columns, target, masks=masks)
        assert ("standardised-separately" in flags(table, "official")) is found


def test_drift_between_the_parts_is_found(rng, target) -> None:
    columns = learnable(rng, target)
    part = np.arange(200) >= 150
    columns["moved"] = rng.normal(size=200) + 2.0 * part
    columns["kinds"] = np.where(part, rng.integers(0, 2, 200), rng.integers(1, 4, 200))
    table = toy(columns, target, masks=((part, np.arange(200) < 20),))
    page = passport(table, make_folds(table, "official"))
    assert set(page["folds"][0]["drift_p"]) == {"moved", "kinds"}
    assert page["folds"][0]["n_test_rows_unseen_category"]["kinds"] > 0
    assert "drift" not in flags(table, "kfold")


def test_classes_too_small_for_the_folds_are_named(rng) -> None:
    target = rng.permutation(np.repeat([0, 1, 2], [120, 77, 3]))
    found = flags(toy(learnable(rng, target), target), "kfold")
    assert {"small-classes", "class-absent-in-test"} <= set(found)


def test_large_tables_are_probed_on_a_part(monkeypatch, rng, target) -> None:
    seen = []
    monkeypatch.setattr(probes, "skill", lambda x, *_, **options: seen.append(len(x)) or 0.5)
    monkeypatch.setattr("tabsweep.datasets.passport.MAX_ROWS_PROBED", 50)
    flags(toy(learnable(rng, target), target))
    assert set(seen) == {50}


def mirrored(name: str, mirror: str, tmp_path) -> tuple[Table, list]:
    table = catalog.load_dataset(name, mirror=mirror, cache=tmp_path)
    return table, make_folds(table, catalog.card(name).protocol)


SMALL = [n for n in catalog.names() if catalog.card(n).n_rows <= 2000 and n != "digits"]


@pytest.mark.parametrize(
    "names",
    [SMALL, pytest.param(["forest-cover-15k"], marks=pytest.mark.nightly)],
    ids=["small", "forest-cover"],
)
def test_the_known_faults_and_no_others_are_found_in_the_data(
    names: list[str], mirror: str, tmp_path
) -> None:
    for name in names:
        table, folds = mirrored(name, mirror, tmp_path)
        page = passport(table, folds[:1])
        errors = {flag["id"] for flag in page["flags"] if flag["severity"] == "error"}
        assert errors == set(catalog.card(name).faults), name


def test_horse_colic_stands_apart_in_its_numbers_too(mirror: str, tmp_path) -> None:
    table, folds = mirrored("horse-colic", mirror, tmp_path)
    assert "standardised-separately" in flags(replace(table, warnings=()), "official")
