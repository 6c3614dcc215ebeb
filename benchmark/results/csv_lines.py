"""The lines of a file of results that are read, in one form whatever the shape of the file.

A file has a line for each score (columns metric and value), or a column for each metric.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ...common.text import first_few, one_line, suggest
from ...datasets.reading.cells import read_text
from ...datasets.reading.files import check_size, unpacked
from ...reports.evidence import LARGEST, EvidenceError
from ...reports.metrics import METRICS

if TYPE_CHECKING:
    from numpy.typing import NDArray

COSTS = {"seconds": "fit_s", "predict_seconds": "predict_s", "cpu_seconds": "cpu_s"}
COSTS |= {"memory_mb": "peak_ram_mb"}
REQUIRED = ("method", "dataset", "metric", "value")
OPTIONAL = ("task", "config", "cause", "message", *COSTS)
LAYOUT = ("split", "fold", "seed", "part", "kind", "variant")  # which run a line is of

SINGLE, ENSEMBLE = "single", "ensemble"
TEST, VAL, TRAIN = "test", "val", "train"
PARTS = {TEST: TEST, VAL: VAL, "validation": VAL, TRAIN: TRAIN}
TUNED = ("", "tuned")  # variants under the method's own name; others are added to it
DEFAULT = "default"
COLUMN = " column"  # of our own; those of a file have no space before their names

_PART = re.compile(rf"({'|'.join(PARTS)})([-_ .].*|\d+)?", re.IGNORECASE)
# Lines that a tool adds below those that they sum up; of a dataset, means alone.
_MEAN = r"(?:mean|average|avg|median)\.?"
_SUMMARY = rf"{_MEAN}|std|stdev|sd|se|sem|var|variance|min|max|sum|total|overall"
SUMMARIES = {
    "split": re.compile(_SUMMARY, re.IGNORECASE),
    "dataset": re.compile(_MEAN, re.IGNORECASE),
}
_METRIC = re.compile(rf"(?:({'|'.join(PARTS)})[-_ ])?({'|'.join(METRICS)})")


@dataclass
class Lines:
    """Lines of a file as cells of text, with their numbers in the file, which errors name."""

    name: str
    cells: pd.DataFrame
    numbers: NDArray[np.int64]
    delimiter: str
    unread: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, path: Path) -> Lines:
        """Every line of a CSV file, which may be compressed. Raises DataError."""
        check_size(path)
        with unpacked(path) as (plain, _):
            read = read_text(plain, path.name)
        return cls(
            one_line(path.name, 100),
            read.frame.astype(object),
            np.array(read.lines),
            read.delimiter,
            notes=list(read.notices),
        )

    def at(self, mask: NDArray[np.bool_] | pd.Series) -> Lines:
        """The lines at a mask; both objects share the notes."""
        mask = np.asarray(mask, dtype=bool)
        return replace(
            self, cells=self.cells[mask].reset_index(drop=True), numbers=self.numbers[mask]
        )

    def refuse(self, bad: NDArray[np.bool_] | pd.Series, law: str) -> None:
        """Raise EvidenceError for the first line where `bad` is true; `law` may name its cells."""
        at = np.flatnonzero(np.asarray(bad))
        if not len(at):
            return
        cells = {k: repr(one_line(v, 60)) for k, v in self.cells.iloc[int(at[0])].items()}
        more = f" (and {len(at) - 1} lines more)" if len(at) > 1 else ""
        raise EvidenceError(f"{self.name}: line {self.numbers[at[0]]}: {law.format(**cells)}{more}")

    def refuse_header(self, law: str) -> None:
        """Raise EvidenceError for the header line."""
        raise EvidenceError(f"{self.name}: line 1: {law}")

    def floats(self, column: str) -> NDArray[np.float64]:
        """A column of finite numbers, NaN where it is empty. Raises EvidenceError."""
        text = self.cells[column]
        plain = text.str.replace(",", ".", regex=False) if self.delimiter == ";" else text
        numbers = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64)
        bad = (text != "").to_numpy() & ~np.isfinite(numbers)
        self.refuse(bad, f"{column} must be a finite number or empty, not {{{column}}}")
        law = f"{column} {{{column}}} is larger than {LARGEST:g}; no spread follows from it"
        self.refuse(np.abs(numbers) > LARGEST, law)
        return numbers


def scored_lines(path: Path, untuned: str = "") -> Lines:
    """The lines of a file with the columns method (its variant included), dataset, split, seed,
    part, kind, metric, value and OPTIONAL. `part` is test or val (lines of train are left out); the
    notes say what was not read. `untuned`: the variant whose runs stand in on datasets where a
    method has no tuned ones; "" for none. Raises EvidenceError that names the line and the law,
    DataError for a file that is no table.
    """
    lines = _one_score_a_line(_with_untuned(Lines.of(path), untuned))
    _check_columns(lines)
    known = (*REQUIRED, *LAYOUT, *OPTIONAL)
    lines.unread = tuple(name for name in lines.cells if name not in known)
    if lines.unread:
        lines.notes.append(f"Columns that are not read: {some(lines.unread)}.")
    lines = _without_summaries(_with_parts(_with_splits(lines)))
    cells = lines.cells
    if "seed" not in cells:
        cells["seed"] = "0"
    if "kind" not in cells:
        cells["kind"] = SINGLE
    cells["kind"] = cells["kind"].replace({"": SINGLE})
    near = f"known: {SINGLE}, {ENSEMBLE}"
    lines.refuse(~cells["kind"].isin([SINGLE, ENSEMBLE]), f"unknown kind {{kind}}; {near}")
    for column in ("method", "dataset", "split"):
        # A report writes letters composed: a name in two forms would be two rows that look alike.
        cells[column] = cells[column].str.normalize("NFC")
        lines.refuse(cells[column] == "", f"{column} is empty")
    if "variant" in cells:
        _name_variants(lines)
    for column in OPTIONAL:
        if column not in lines.cells:
            lines.cells[column] = ""
    return lines


def literal(text: str) -> str:
    """Text as it stands in a law of `Lines.refuse`, where braces name cells."""
    return text.replace("{", "{{").replace("}", "}}")


def some(names: Iterable[object]) -> str:
    """Names joined by commas; after 12 of them their number."""
    return first_few((one_line(name, 60) for name in names), 12)


def _one_score_a_line(lines: Lines) -> Lines:
    """The lines with one score each; a file may have one column a metric instead."""
    cells = lines.cells
    if "metric" in cells or "value" in cells:
        return lines
    metrics = {name: m for name in cells if (m := _METRIC.fullmatch(str(name)))}
    if not metrics:
        return lines
    several = {str(m[1]).lower() for m in metrics.values() if m[1]}
    if several and "part" in cells:
        lines.refuse_header(
            f"a column part, and one named {next(iter(metrics))!r}; keep one of them"
        )
    failed = (cells[list(metrics)] == "").all(axis=1)
    caused = cells["cause"] != "" if "cause" in cells else np.zeros(len(cells), dtype=bool)
    lines.refuse(
        failed & ~caused,
        f"no value of {', '.join(metrics)}; give one, or the cause of a failure in 'cause'",
    )
    part_of = {name: PARTS[m[1].lower()] if m[1] else TEST for name, m in metrics.items()}
    of_failures = min(metrics, key=lambda name: part_of[name] != TEST)  # where one has its line
    others = [name for name in cells if name not in metrics]
    long = cells.melt(others, var_name=COLUMN, value_name="value", ignore_index=False)
    lost = failed.loc[long.index].to_numpy()
    kept = (long["value"] != "").to_numpy() | (lost & (long[COLUMN] == of_failures).to_numpy())
    long, lost = long[kept], lost[kept]
    metric = long[COLUMN].map({name: m[2] for name, m in metrics.items()})
    long = long.assign(metric=metric.where(~lost, ""))
    if several:
        long = long.assign(part=long[COLUMN].map(part_of))
    numbers = lines.numbers[long.index]
    long = long.drop(columns=COLUMN).reset_index(drop=True)
    return replace(lines, cells=long.astype(object), numbers=numbers)


def _check_columns(lines: Lines) -> None:
    known = list(lines.cells.columns)
    missing = [name for name in REQUIRED if name not in known]
    if missing:
        others = [name for name in known if name not in (*REQUIRED, *LAYOUT, *OPTIONAL)]
        hint = f"; {suggest(missing[0], others)}" if others else ""
        lines.refuse_header(
            f"no column {' and no column '.join(missing)}{hint}; needed: {', '.join(REQUIRED)} (or "
            "a column per metric, such as accuracy)"
        )


def _with_splits(lines: Lines) -> Lines:
    """The column split, for which a file may say fold. A split that is called as a part of the data
    is refused, lest scores on training rows be averaged with the others."""
    cells = lines.cells
    if "fold" in cells and "split" not in cells:
        cells["split"] = cells.pop("fold")
    if "split" not in cells:
        cells["split"] = "0"
    alone = cells["split"].nunique() == 1 and cells["split"].iloc[0].lower() == TEST  # a holdout
    law = "split {split} names a part of the data; put train, val and test into a column 'part'"
    lines.refuse(cells["split"].str.fullmatch(_PART) & (not alone), law)
    return lines


def _without_summaries(lines: Lines) -> Lines:
    """The lines without summaries: a method's mean and deviation over splits, which would count as
    splits, and a mean over datasets, which would count as a dataset."""
    for column, word in SUMMARIES.items():
        cells = lines.cells
        sums = cells[column].str.strip().str.fullmatch(word)
        if not sums.any() or cells[column].nunique() == 1:  # a file of means alone
            continue
        of = cells[["method"] if column == "dataset" else ["method", "dataset"]]
        alone = ~pd.MultiIndex.from_frame(of).isin(pd.MultiIndex.from_frame(of[~sums]))
        law = f"{column} {{{column}}} sums up others, and method {{method}} has no line of one"
        lines.refuse(sums & alone, f"{law}; add those, or leave the column {column} out")
        names = sorted(cells.loc[sums, column].unique())
        law = f"Lines of {column} {some(names)} sum up others and are not read ({sums.sum()} lines)"
        lines.notes.append(f"{law}; a {column} of its own needs another name.")
        lines = lines.at(~sums)
    return lines


def _with_parts(lines: Lines) -> Lines:
    """The column part with the words test and val; lines of train are left out."""
    cells = lines.cells
    if "part" not in cells:
        cells["part"] = TEST
        return lines
    part = cells["part"].str.lower().map(PARTS)
    law = "unknown part {part}; known: train, val, test"
    lines.refuse(part.isna(), law)
    cells["part"] = part
    if not (part == TEST).any():
        words = " and ".join(sorted(set(part)))
        lines.refuse(
            part != TEST,
            f"part {{part}}: the file has {words} lines only, and a report "
            "is of test scores; add the lines of part test",
        )
    n = int((part == TRAIN).sum())
    if n:
        lines.notes.append(f"Scores on training rows are not read ({n} lines).")
    return lines.at(part != TRAIN)


def _with_untuned(lines: Lines, untuned: str) -> Lines:
    """The lines, with copies of the variant `untuned` as tuned lines where a method has no tuned
    line on a dataset."""
    cells = lines.cells
    if not untuned or not {"method", "dataset", "variant"} <= set(cells):
        return lines
    key = pd.MultiIndex.from_frame(cells[[c for c in ("method", "dataset", "kind") if c in cells]])
    tuned = cells["variant"].isin(TUNED).to_numpy()
    copies = lines.at((cells["variant"] == untuned).to_numpy() & ~key.isin(key[tuned]))
    pairs = copies.cells[["method", "dataset"]].drop_duplicates()
    if len(pairs):
        named = some(f"{m} on {d}" for m, d in pairs.itertuples(index=False))
        lines.notes.append(f"Variant {untuned} in place of tuned runs, which are lacking: {named}.")
    word = "tuned" if (cells["variant"] == "tuned").any() else ""
    return replace(
        lines,
        cells=pd.concat([cells, copies.cells.assign(variant=word)], ignore_index=True),
        numbers=np.concatenate([lines.numbers, copies.numbers]),
    )


def _name_variants(lines: Lines) -> None:
    """Append the variant to the method's name, except for tuned and single variants."""
    cells = lines.cells
    variant = cells.pop("variant")
    only = variant.unique()
    if len(only) == 1 and only[0] not in (
        *TUNED,
        DEFAULT,
    ):  # a default one is never taken for tuned
        lines.notes.append(f"Variant of every line: {one_line(only[0], 60)}.")
        return
    named = cells["method"] + "-" + variant
    taken = ~variant.isin(TUNED) & named.isin(cells.loc[variant.isin(TUNED), "method"])
    law = "a variant of method {method} gets the name of another method; rename one"
    lines.refuse(taken, law)
    cells["method"] = np.where(variant.isin(TUNED), cells["method"], named)
