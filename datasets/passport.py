"""Dataset passports: hashes, counts, and flags for faults found in the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..common.text import first_few, one_line
from . import probes
from .card import FAULTS
from .protocols import Fold
from .table import Table

LEAK = 0.99  # a single feature with this skill or more is a leak
MANY_CELLS, BY_CHANCE = 10, 1e-6  # from which on gaps that go with one value of the target count
LITTLE = 0.2  # below this skill of all features, the label is suspected to be wrong
HARDLY = 0.15  # below this skill of all features, the dataset does not separate models
MUCH = 0.5  # an attribute predicted with this skill is likelier the label
DRIFT_P = 1e-3  # divided by the number of columns and folds
MAX_ROWS_PROBED, MAX_COLUMNS_PROBED = 5_000, 1_000
MAX_ROWS_LOOKED, MAX_COLUMNS_LOOKED = 2_000, 300  # at the start of a sweep
MAX_CELLS_COUNTED = 2_000_000  # of the part of a passport that a plan keeps
SHOWN = 8  # names in a sentence
SEVERAL = 30  # values, at least, that are in several rows; days, at least, in whose order rows are
ALIKE = 0.95  # of the values in several rows must have one value of the target
ADDED, EXACT = 5, 1e-3  # values that a total adds, at least; its rounding, as a share of the total

Flag = dict[str, str]


def flag(name: str, severity: str, detail: str) -> Flag:
    """A flag. `severity`: 'error' (do not use the data like this), 'warning' (belongs into a
    report) or 'info'; `detail`: one sentence."""
    return {"id": name, "severity": severity, "detail": detail}


def listed(names: Iterable[str]) -> str:
    """Names in a sentence: the first few, and how many more."""
    return first_few((one_line(name, 60) for name in names), SHOWN)


def column_facts(table: Table) -> dict[str, dict[str, Any]]:
    """Column -> kind, number of distinct values and missing cells, whether it is constant, and
    whether it looks like an identifier (every row differs)."""
    facts = {}
    for name, codes in probes.column_codes(table).items():
        present = codes[~np.isnan(codes)]
        distinct = np.unique(present)
        kind = table.kinds[name]
        every_row_differs = len(distinct) == table.n_rows >= 10
        whole = bool((present == np.round(present)).all())
        facts[name] = {
            "kind": kind,
            "n_distinct": len(distinct),
            "n_missing": int(table.n_rows - len(present)),
            "constant": len(distinct) <= 1,
            "id_like": every_row_differs
            and (kind == "categorical" or (kind == "numeric" and whole)),
        }
    return facts


def column_flags(facts: dict[str, dict[str, Any]], n_rows: int) -> list[Flag]:
    """Flags of `column_facts`: empty, constant and identifier-like columns, missing values."""
    flags = []
    empty = [n for n, f in facts.items() if f["n_missing"] == n_rows]
    constant = [n for n, f in facts.items() if f["constant"] and n not in empty]
    ids = [n for n, f in facts.items() if f["id_like"]]
    missing = [n for n, f in facts.items() if 0 < f["n_missing"] < n_rows]
    if empty:
        flags.append(flag("empty-columns", "warning", f"no value in {listed(empty)}"))
    if constant:
        flags.append(flag("constant-columns", "warning", f"one value in {listed(constant)}"))
    if ids:
        flags.append(flag("id-like-columns", "warning", f"all rows differ in {listed(ids)}"))
    if missing:
        cells = sum(facts[n]["n_missing"] for n in missing)
        flags.append(flag("missing-values", "info", f"{cells} cells in {listed(missing)}"))
    return flags


def missingness_flags(table: Table) -> list[Flag]:
    """Flags of features whose gaps tell the target: filled, or empty, only where the target has one
    value, in MANY_CELLS rows at least, and by chance with a probability below BY_CHANCE."""
    shares = np.unique(table.target, return_counts=True)[1] / max(1, table.n_rows)
    if len(shares) < 2:
        return []
    flags = []
    for name in table.frame.columns:
        gaps = table.frame[name].isna().to_numpy()
        if not gaps.any() or gaps.all():
            continue
        for which, rows in (("filled", ~gaps), ("empty", gaps)):
            values, n = np.unique(table.target[rows]), int(rows.sum())
            if len(values) > 1 or n < MANY_CELLS or n * np.log(shares.max()) > np.log(BY_CHANCE):
                continue
            value = table.classes[int(values[0])] if table.classes else f"{values[0]:g}"
            detail = (
                f"{name} is {which} in {n} rows, in all of which the target is"
                f" {one_line(value, 40)}: its gaps tell the target"
            )
            flags.append(flag("missingness-leak", "warning", detail))
    return flags


def total_flags(table: Table) -> list[Flag]:
    """Flags of rows that sum up the others, as under a spreadsheet: in each column of numbers, a
    regression's target included, a cell is empty, the sum of all others or their mean; in two
    columns at least it is the sum."""
    columns = {name: table.frame[name].to_numpy() for name in table.numeric}
    if table.task == "regression":
        columns["the target"] = table.target
    rows, sums = np.arange(table.n_rows), np.zeros(table.n_rows, int)
    names = []
    for name, x in columns.items():
        if len(rows) and np.count_nonzero(np.nan_to_num(x)) > ADDED:
            total, n, cell = np.nansum(x), np.count_nonzero(~np.isnan(x)), x[rows]
            is_sum = (cell != 0) & (np.abs(2 * cell - total) <= EXACT * np.abs(cell))
            is_mean = np.abs(n * cell - total) <= EXACT * np.abs(total)
            kept = is_sum | is_mean | np.isnan(cell)
            rows, sums = rows[kept], (sums + is_sum)[kept]
            names.append(name)
    found = rows[sums > 1]
    numbers = listed(f"{row + 1:,}" for row in found)
    detail = (
        f"row {numbers} of {table.n_rows:,} sums up all others in {listed(names)}: take it out of"
        " the file"
    )
    return [flag("total-rows", "error", detail)] if len(found) else []


def entity_flags(table: Table) -> list[Flag]:
    """Flags of features that may name the person or thing that several rows are of: nearly all
    values in several rows have one value of the target, six standard deviations more than if
    targets were dealt out at random, and at least half of all rows have such a value."""
    target, n_each = np.unique(table.target, return_inverse=True, return_counts=True)[1:]
    flags = []
    for name, codes in probes.column_codes(table).items():
        known = ~np.isnan(codes)
        value = np.unique(codes[known], return_inverse=True)[1]
        n_rows = np.bincount(value)
        several = n_rows > 1
        pairs = np.unique(value * len(n_each) + target[known])
        same = several & (np.bincount(pairs // len(n_each)) == 1)
        alike = int(same.sum())
        if several.sum() < SEVERAL or 2 * n_rows[same].sum() < table.n_rows:
            continue
        sizes, n_values = np.unique(n_rows[several], return_counts=True)
        chance = np.array([((n_each / table.n_rows) ** size).sum() for size in sizes])
        expected, spread = n_values @ chance, np.sqrt(n_values @ (chance * (1 - chance)))
        if alike >= ALIKE * several.sum() and alike > expected + 6 * max(spread, 1.0):
            detail = (
                f"rows with one value of {name} have one value of the target ({alike:,} of"
                f" {several.sum():,} values with several rows, {expected:,.0f} by chance): where"
                " they are of one person or thing, --group keeps them in one part of a fold"
            )
            flags.append(flag("repeated-entities", "warning", detail))
    return flags


def order_flags(table: Table) -> list[Flag]:
    """Flags of dates in whose order the rows are, where nothing says how rows are to be split."""
    if table.times is not None or table.groups is not None or table.masks:
        return []
    flags = []
    for name in (n for n, kind in table.kinds.items() if kind == "date"):
        seconds = table.frame[name].to_numpy().astype("datetime64[us]").astype(np.int64)
        steps = np.diff(seconds)
        if table.frame[name].isna().any() or np.count_nonzero(steps) < SEVERAL:
            continue
        if (steps >= 0).all() or (steps <= 0).all():
            detail = (
                f"rows are in the order of {name} and are split at random, so models are tested on"
                f" times between those that they know; --time {name} tests them on later ones"
            )
            flags.append(flag("time-order", "warning", detail))
    return flags


def duplicate_facts(
    table: Table, x: np.ndarray, folds: list[Fold]
) -> tuple[dict[str, Any], list[Flag]]:
    """(counts, flags) of rows with equal features: in the table, with different targets, and in
    both the training and the test part of a fold."""
    ids = probes.row_ids(x)
    with_target = probes.row_ids(np.column_stack([ids, table.target]))
    n_distinct, n_distinct_with = len(np.unique(ids)), len(np.unique(with_target))
    targets_of = np.bincount(ids[np.unique(with_target, return_index=True)[1]])
    n_conflicting = int((targets_of[ids] > 1).sum())
    across = [int(np.isin(ids[f.test], ids[f.train]).sum()) for f in folds]
    facts = {
        "n_repeated_features": table.n_rows - n_distinct,
        "n_repeated_rows": table.n_rows - n_distinct_with,
        "n_conflicting_rows": n_conflicting,
        "n_test_rows_in_train": across,
    }
    flags = []
    if n_distinct < table.n_rows:
        detail = (
            f"{table.n_rows - n_distinct} of {table.n_rows} rows repeat the features of another,"
            f" {table.n_rows - n_distinct_with} its target too; {n_conflicting} rows have a twin"
            " with another target"
        )
        flags.append(flag("duplicate-rows", "warning", detail))
    if any(across):
        detail = f"up to {max(across)} test rows of a fold have their features in its training rows"
        flags.append(flag("train-test-duplicates", "warning", detail))
    return facts, flags


def class_counts(table: Table) -> dict[str, int]:
    """Class -> its rows, in the order of the codes; empty for a regression."""
    if not table.classes:
        return {}
    counts = np.bincount(table.target, minlength=table.n_classes).tolist()
    return dict(zip(table.classes, counts, strict=True))


def class_flags(table: Table, folds: list[Fold]) -> list[Flag]:
    """Flags for classes with fewer than 10 rows, and for folds whose training or test part lacks a
    class."""
    flags = []
    small = [f"{c} ({n})" for c, n in class_counts(table).items() if n < 10]
    if small:
        flags.append(
            flag("small-classes", "warning", f"fewer than 10 rows in class {listed(small)}")
        )
    for part in ("train", "test"):
        lacking = [
            str(f.index)
            for f in folds
            if len(np.unique(table.target[getattr(f, part)])) < len(np.unique(table.target))
        ]
        if lacking:
            detail = f"a class has no {part} row in fold {listed(lacking)}"
            flags.append(flag(f"class-absent-in-{part}", "warning", detail))
    return flags


def probed_rows(table: Table, most: int) -> np.ndarray:
    """Row numbers, ascending: all, or where there are more than `most` a random sample of them,
    always the same."""
    kept = np.arange(table.n_rows)
    if table.n_rows > most:
        kept = np.sort(np.random.default_rng(0).permutation(kept)[:most])
    return kept


def _looked_at(table: Table, most: int) -> Table:
    """The first MAX_COLUMNS_LOOKED columns of at most `most` rows, without weights and splits."""
    rows = probed_rows(table, most)
    frame = table.frame.iloc[rows, :MAX_COLUMNS_LOOKED].reset_index(drop=True)
    return Table(table.name, frame, table.target[rows], table.task, table.classes, table.sha256)


def _counted_part(table: Table) -> Table:
    """As much of a table as MAX_CELLS_COUNTED cells, of the first MAX_COLUMNS_LOOKED columns."""
    n_columns = max(1, min(table.n_features, MAX_COLUMNS_LOOKED))
    return _looked_at(table, max(1, MAX_CELLS_COUNTED // n_columns))


def first_look(table: Table) -> list[str]:
    """A sentence for rows that are totals or in the order of a date, and for each feature that
    names what rows are of, or predicts the target alone, as the passport's flags say it.

    For the start of a sweep: of features MAX_COLUMNS_LOOKED are looked at, what they predict in
    MAX_ROWS_LOOKED rows, and what they name in as many as have MAX_CELLS_COUNTED cells.
    """
    part = _looked_at(table, MAX_ROWS_LOOKED)
    _, leaks = single_flags(part, probes.matrix(part), part.target)
    leaks += missingness_flags(part)
    known = "a leak, unless it is known before the target (drop it)"
    rows = [*total_flags(table), *entity_flags(_counted_part(table)), *order_flags(table)]
    return [
        *(each["detail"] for each in rows),
        *(f"{each['detail']}: {known}" for each in leaks),
    ]


def single_flags(
    table: Table, x: np.ndarray, target: np.ndarray
) -> tuple[dict[str, float], list[Flag]]:
    """(feature -> skill, flags) of the first features, of which x (N, F) has the values, that
    predict the target alone."""
    flags = []
    alone = {}
    for j, name in enumerate(table.frame.columns[: x.shape[1]]):
        alone[name] = probes.skill(x[:, [j]], target, table.task, single=True, n_cuts=1)
        if alone[name] >= LEAK:  # a second look, at all rows
            alone[name] = probes.skill(x[:, [j]], target, table.task, single=True)
        if table.task == "regression":  # a tree has few leaves for the tails of a straight line
            alone[name] = max(alone[name], probes.line_skill(x[:, j], target))
        if table.classes and probes.same_classes(x[:, j], target):
            flags.append(flag("feature-is-target", "error", f"{name} is the target by other names"))
        elif alone[name] >= LEAK:
            detail = f"{name} alone predicts the target with skill {alone[name]:.3f}"
            flags.append(flag("single-feature-leak", "warning", detail))
    return alone, flags


def label_flags(table: Table, x: np.ndarray) -> tuple[dict[str, Any], list[Flag]]:
    """(skills, flags): features that predict the target alone, and signs of a wrong label."""
    kept = probed_rows(table, MAX_ROWS_PROBED)
    x, target = x[kept], table.target[kept]
    names = list(table.frame.columns)
    alone, flags = single_flags(table, x[:, :MAX_COLUMNS_PROBED], target)
    if len(alone) < len(names):
        detail = f"the first {len(alone):,} of {len(names):,} features were tried for leaks"
        flags.append(flag("features-not-tried", "info", detail))
    together = probes.skill(x, target, table.task)
    if table.classes and together < LITTLE:
        like = {}
        for j in probes.class_like(table, x) if len(names) > 1 else ():
            rest, codes = np.delete(x, j, axis=1), np.unique(x[:, j], return_inverse=True)[1]
            like[names[j]] = probes.skill(rest, codes, "multiclass")
        best = {n: s for n, s in like.items() if s >= MUCH}
        if best:
            detail = (
                f"all features predict the target with skill {together:.2f}, but"
                f" {listed(f'{n} with {s:.2f}' for n, s in best.items())}: the stored label may be"
                " an attribute, and one of these the class"
            )
            flags.append(flag("label-is-attribute", "error", detail))
    if table.classes and together < 2 * LITTLE and probes.answered_or_not(x):
        detail = (
            f"all {x.shape[1]} features have two values, the rare ones heap up in some rows, and"
            f" all predict the target with skill {together:.2f}: they seem to say only whether a"
            " value was there"
        )
        flags.append(flag("answered-or-not", "error", detail))
    if together < HARDLY:
        detail = f"all features together have skill {together:.2f} (0 is a constant's)"
        flags.append(flag("hardly-predictable", "warning", detail))
    return {
        "all_features": round(together, 3),
        "single_features": {n: round(s, 3) for n, s in alone.items()},
    }, flags


def split_facts(table: Table, folds: list[Fold]) -> tuple[list[dict[str, Any]], list[Flag]]:
    """(facts, flags) of the folds: sizes, hash, categories absent from training, drift."""
    codes = probes.column_codes(table)
    facts, flags, unseen_in, drift_in, apart_in = [], [], set(), set(), set()
    level = DRIFT_P / max(1, table.n_features * len(folds))
    for fold in folds:
        unseen = {}
        for name in table.categorical:
            new = ~np.isin(codes[name][fold.test], codes[name][fold.train])
            new &= ~np.isnan(codes[name][fold.test])
            if new.any():
                unseen[name] = int(new.sum())
        drift = {
            name: p
            for name, kind in table.kinds.items()
            if (p := probes.drift_p(codes[name][fold.train], codes[name][fold.test], kind)) < level
        }
        apart = probes.columns_apart(table, fold.test)
        unseen_in |= set(unseen)
        drift_in |= set(drift)
        apart_in |= set(apart)
        facts.append(
            {
                "index": fold.index,
                "n_train": len(fold.train),
                "n_val": len(fold.val),
                "n_test": len(fold.test),
                "sha256": fold.sha256,
                "n_test_rows_unseen_category": unseen,
                "drift_p": drift,
            }
        )
    if unseen_in:
        detail = (
            f"test rows have categories that no training row has, in {listed(sorted(unseen_in))}"
        )
        flags.append(flag("unseen-categories", "info", detail))
    if apart_in:
        detail = f"test and other rows share no value of {listed(sorted(apart_in))}"
        flags.append(flag("standardised-separately", "error", detail))
    if drift_in:
        detail = f"training and test rows differ in distribution in {listed(sorted(drift_in))}"
        flags.append(flag("drift", "warning", detail))
    return facts, flags


def warning_flags(table: Table) -> list[Flag]:
    """Flags of the table's own warnings: a known fault under its id, others as `reading`."""
    flags = []
    for warning in table.warnings:
        name, _, detail = warning.partition(": ")
        known = name in FAULTS
        flags.append(
            flag(
                name if known else "reading",
                "error" if known else "warning",
                detail if known else warning,
            )
        )
    return flags


def counted(table: Table, folds: Iterable[Fold]) -> dict[str, Any]:
    """The part of a passport that only counts, for the plan of a sweep; no model is fitted.

    `class_counts` of all rows; `columns`, a list of `column_facts` with their names in the table's
    order, of the first MAX_COLUMNS_LOOKED columns; `n_rows_counted`, the number of rows that these
    are about (MAX_CELLS_COUNTED cells at most); `flags` of the columns, repeated rows and classes.
    Columns and rows are judged only where all rows are counted.
    """
    part = _counted_part(table)
    columns = column_facts(part)
    flags = warning_flags(table) + order_flags(table)
    every = list(folds)
    if part.n_rows == table.n_rows:
        flags += column_flags(columns, part.n_rows) + missingness_flags(part)
        flags += total_flags(part) + entity_flags(part)
        if part.n_features == table.n_features:
            flags += duplicate_facts(part, probes.matrix(part), every)[1]
    flags += class_flags(table, every) if table.classes else []
    return {
        "n_rows_counted": part.n_rows,
        "class_counts": class_counts(table),
        "columns": [{"name": name, **facts} for name, facts in columns.items()],
        "flags": sorted(flags, key=_urgency),
    }


def passport(
    table: Table, folds: Iterable[Fold], *, overlaps: Sequence[str] = ()
) -> dict[str, Any]:
    """Facts and flags about `table` and its `folds`, as plain data for JSON.

    Each of `flags` has id, severity and detail. All of it comes from the values but `overlaps`, the
    datasets of which the card says that they share rows.
    """
    folds = list(folds)
    x = probes.matrix(table)
    columns = column_facts(table)
    duplicates, duplicate_flags = duplicate_facts(table, x, folds)
    labels, from_labels = label_flags(table, x)
    parts, from_parts = split_facts(table, folds)
    flags = warning_flags(table) + column_flags(columns, table.n_rows) + duplicate_flags
    flags += missingness_flags(table) + total_flags(table) + entity_flags(table)
    flags += order_flags(table)
    flags += (class_flags(table, folds) if table.classes else []) + from_labels
    flags += from_parts
    if overlaps:
        flags.append(flag("shared-rows", "warning", f"rows are also in {listed(overlaps)}"))
    return {
        "name": table.name,
        "task": table.task,
        "sha256": table.sha256,
        "n_rows": table.n_rows,
        "n_features": table.n_features,
        "n_classes": table.n_classes,
        "class_counts": class_counts(table),
        "columns": columns,
        "duplicates": duplicates,
        "skill": labels,
        "folds": parts,
        "flags": sorted(flags, key=_urgency),
    }


def _urgency(flag: Flag) -> tuple[int, str, str]:
    return ("error", "warning", "info").index(flag["severity"]), flag["id"], flag["detail"]
