"""How the columns of a user's file are read: what is asked for, what is noted, what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from ...common.columns.kinds import STATED
from ...common.columns.notations import MISSING
from ...common.columns.numbers import Numbers
from ...common.text import first_few, one_line, suggest
from ..errors import DataError

GROUP_OR_TIME = "a group and a time column exclude each other: a split keeps to one"
TASKS = ("binary", "multiclass", "classification", "regression")

LIKE_A_NUMBER = re.compile(r"\W?(?:FY ?|[Qq])?\d")  # of a text that a person may read as a number

T = TypeVar("T")


@dataclass(frozen=True)
class Reading:
    """How the columns of a file become a table.

    target: the column to predict; None where it is not named yet. task: 'binary', 'multiclass',
    'classification' or 'regression'; None: from the target's values. group: rows with the same
    value here stay in one part of a split. time: the rows' times; training rows come before the
    tested ones. weight: how much each row counts, in fits and in scores. None of the three is a
    feature, nor is a column in `drop`.
    missing: texts that mark a missing value, besides MISSING.
    categorical, numeric, date, text: columns whose kind is not to be guessed. day_first: whether
    dates such as 01/02/2024 begin with the day; None: the column tells. drop_missing_target:
    whether rows without a target are left out, and not refused. join: columns whose categories or
    classes are one where only case, blanks or a mark at their end tell them apart. positive: the
    class that counts as positive in average precision and F1; None: the last by name. costs:
    "CLASS:OTHER=NUMBER", what a row of CLASS costs that is taken for OTHER, and "CLASS=NUMBER", the
    same for every other class; 1 where nothing is said, 0 for the right class. Where the colons of
    classes make CLASS:OTHER doubtful, a JSON list of the two stands for it.
    """

    target: str | None = None
    task: str | None = None
    group: str | None = None
    time: str | None = None
    weight: str | None = None
    drop: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    date: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    join: tuple[str, ...] = ()
    day_first: bool | None = None
    drop_missing_target: bool = False
    positive: str | None = None
    costs: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Reading:
        """From a mapping, which may hold more; an absent field has its default."""
        given = {f.name: data[f.name] for f in fields(cls) if data.get(f.name) is not None}
        plain: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        return cls(**plain)

    def to_data(self) -> dict[str, Any]:
        """The fields that are set, lists for tuples, for JSON and TOML."""
        given = {f.name: v for f in fields(self) if (v := getattr(self, f.name)) != f.default}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in given.items()}

    def stated(self, column: str) -> str:
        """The word of the kind that a column is said to have, "" for a guess."""
        return next((kind for kind in STATED if column in getattr(self, kind)), "")

    def of_columns(self, known: Collection[str]) -> Reading:
        """Without the names that are no column."""
        given = self.to_data()
        for key in ("target", "group", "time", "weight"):
            if given.get(key) not in known:
                given.pop(key, None)
        lists = {k: [c for c in given.get(k, ()) if c in known] for k in (*STATED, "drop", "join")}
        return Reading.of({**given, **lists})

    @property
    def protocol(self) -> str:
        """The usual protocol of such a table."""
        by_time = "kfold" if self.time is None else "temporal"
        return by_time if self.group is None else "grouped"


@dataclass
class Notes:
    """What is said about a table's reading: sentences, columns of numbers that are written in some
    style ({style: {column: Numbers}}), columns in which a word counts as missing ({word: names of
    columns}), and columns whose texts begin with digits and are no numbers ({column: a text})."""

    sentences: list[str] = field(default_factory=list)
    styles: dict[str, dict[str, Numbers]] = field(default_factory=dict)
    words: dict[str, list[str]] = field(default_factory=dict)
    digits: dict[str, str] = field(default_factory=dict)

    def add_style(self, name: str, numbers: Numbers) -> None:
        """Keep the column for a sentence, unless its numbers are plain."""
        if numbers.style:
            self.styles.setdefault(numbers.style, {})[name] = numbers

    def add_words(self, name: str, texts: Iterable[str], marks: Collection[str]) -> None:
        """Keep the column for a sentence on each of the texts that no one has named as a mark of a
        missing value."""
        for text in sorted(set(texts).difference(MISSING, marks)):
            self.words.setdefault(text, []).append(name)

    def add_digits(self, name: str, texts: Collection[str]) -> None:
        """Keep the column for a sentence where most of its different texts begin with digits."""
        some = [text for text in texts if LIKE_A_NUMBER.match(text)]
        if len(some) > max(2, len(texts) / 2):
            self.digits[name] = min(some)

    def all(self) -> list[str]:
        """The sentences, with one for each style and for each word."""
        found = list(self.sentences)
        for style, columns in self.styles.items():
            name, numbers = next(iter(columns.items()))
            names = list(map(repr, columns))
            shown = first_few(names, 5)
            text, value = numbers.example
            found.append(
                f"{style} in column{'s' if names[1:] else ''} {shown}: {text!r} is read as "
                f"{value:.15g}" + (f" ({name!r})" if names[1:] else "")
            )
        for text, names in self.words.items():
            found.append(
                f"{one_line(text, 20)!r} counts as missing in column{'s' if names[1:] else ''} "
                f"{first_few(map(repr, names), 5)}; --categorical keeps it"
            )
        if self.digits:
            names, text = list(map(repr, self.digits)), next(iter(self.digits.values()))
            found.append(
                f"column{'s' if names[1:] else ''} {first_few(names, 5)}: texts that begin with "
                f"digits and are no numbers or dates, such as {one_line(text, 20)!r}; read as "
                "categories or texts"
            )
        return found


def column_problems(name: str, reading: Reading, columns: Iterable[str]) -> list[str]:
    """What is wrong with the columns that are named for the file `name`: one that is not there, one
    with two roles or kinds, none left; and an unknown task. `columns` are those of the file."""
    known = list(columns)
    found = []
    if reading.task is not None and reading.task not in TASKS:
        found.append(f"unknown task {reading.task!r}; {suggest(reading.task, TASKS)}")
    roles: dict[str, str] = {}
    for column, role in (
        (reading.target, "the target"),
        (reading.group, "the group column"),
        (reading.time, "the time column"),
        (reading.weight, "the weight column"),
        *dict.fromkeys(reading.drop, "left out").items(),
    ):
        if column is None:
            continue
        if column in roles:
            found.append(f"column {column!r} cannot be {roles[column]} and {role} as well")
        roles[column] = role
    stated: dict[str, str] = {}
    for word in STATED:
        for column in getattr(reading, word):
            if stated.setdefault(column, word) != word:
                found.append(f"column {column!r} cannot be {stated[column]} and {word}")
    for column in dict.fromkeys((*roles, *stated, *reading.join)):
        if column not in known:
            why = suggest(column, known)
            if len(known) == 1:
                why += "; it has one column, as commas, semicolons, tabs and bars separate fields"
            found.append(f"{name} has no column {column!r}; {why}")
    if "" in known and "" not in roles:
        place = known.index("") + 1
        found.append(f'{name}: column {place} has no name; name it, or leave it out (--drop "")')
    if reading.group is not None and reading.time is not None:
        found.append(GROUP_OR_TIME)
    if len(roles) == len(known):
        others = len(roles) > 1
        found.append(
            f"{name} has {'no feature left' if others else 'the target alone, and no feature'}"
        )
    return found


class Problems:
    """What is wrong with a file: the first problem is raised, unless all are `kept`."""

    def __init__(self, *, keep: bool = False) -> None:
        self.keep = keep
        self.kept: list[str] = []

    def tried(self, make: Callable[..., T], *how: Any) -> T | None:
        """The result of `make(*how)`. A DataError is kept for later, and None is returned."""
        try:
            return make(*how)
        except DataError as error:
            self.add(str(error))
            return None

    def add(self, *problems: str) -> None:
        """Keep problems, or raise the first as a DataError."""
        if problems and not self.keep:
            raise DataError(problems[0])
        self.kept += problems
