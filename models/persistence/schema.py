"""The input schema of a saved model: its columns, and whether a table has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...common.columns.dates import ISO
from ...common.columns.dates import is_style as is_date_style
from ...common.columns.encoder import is_date, is_text
from ...common.columns.kinds import CATEGORY, DATE, NUMBER, STATED, TEXT
from ...common.columns.levels import Levels
from ...common.columns.numbers import is_number_style
from ...common.errors import Error
from ...common.tasks import TASKS
from ...common.text import did_you_mean
from ..library.columns import read_column, unknown_levels, values_of
from ..preprocessing import is_categorical
from .serialization import objects

Scalar = str | int | float | bool


class SchemaError(Error, ValueError):
    """A table lacks what the model was trained on; the message names the column."""

    id = "BENCH-E019"


@dataclass(frozen=True)
class Column:
    """One feature: `numeric`, `date`, `text`, or `categorical` with the categories that training
    knew.

    style: how the numbers were written in the file of the training rows, where they were not plain
    ("decimal commas"), and the dates.
    """

    name: str
    kind: str
    categories: tuple[Scalar, ...] = ()
    style: str = ""


@dataclass(frozen=True)
class Schema:
    """The features in the order of training, the task, and what comes out.

    classes: names of the class codes 0..C-1 that the estimator was fitted on; () where it was
    fitted on the labels themselves, and for regression. target: the name of what is predicted.
    """

    columns: tuple[Column, ...]
    task: str
    classes: tuple[str, ...] = ()
    target: str = ""

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        task: str,
        *,
        classes: Sequence[str] = (),
        target: str = "",
        styles: Mapping[str, str] | None = None,
    ) -> Schema:
        """The schema of a training frame; kinds and categories come from its dtypes. styles:
        {column: how its numbers were written}.

        >>> Schema.of(pd.DataFrame({"age": [1.0]}), "regression").names
        ['age']
        """
        columns = []
        for name in frame.columns:
            column, style = frame[name], (styles or {}).get(name, "")
            if is_date(column):
                columns.append(Column(name, DATE, style=style or ISO))
            elif is_text(column) or not is_categorical(column):
                columns.append(Column(name, TEXT if is_text(column) else NUMBER, style=style))
            else:
                levels = column.astype("category").cat.categories.tolist()
                columns.append(Column(name, CATEGORY, tuple(levels)))
        return cls.parse(cls(tuple(columns), task, tuple(classes), target).to_data())

    @property
    def names(self) -> list[str]:
        """The names of the columns, in the order of training."""
        return [column.name for column in self.columns]

    def to_data(self) -> dict[str, Any]:
        """The schema as JSON-able data, which `parse` reads."""
        columns = [
            {"name": c.name, "kind": c.kind}
            | ({"categories": list(c.categories)} if c.kind == CATEGORY else {})
            | ({"style": c.style} if c.style else {})
            for c in self.columns
        ]
        return {
            "columns": columns,
            "task": self.task,
            "classes": list(self.classes),
            "target": self.target,
        }

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Schema:
        """The schema in plain data; SchemaError where it is none."""
        columns = []
        for item in data["columns"]:
            name, kind, style = item["name"], item["kind"], item.get("style", "")
            levels = tuple(item.get("categories", ()))
            known = isinstance(name, str | int) and kind in STATED and _is_style(kind, style)
            if not known or not all(isinstance(v, Scalar) for v in levels):
                raise SchemaError(
                    "a column is a name, a kind, how it is written and its categories, texts or "
                    f"numbers, not {item!r:.80}"
                )
            columns.append(Column(name, kind, levels, style))  # type: ignore[arg-type]
        names = [column.name for column in columns]
        if not names or len(set(names)) != len(names) or data["task"] not in TASKS:
            raise SchemaError(f"columns must be there and differ, the task be one of {TASKS}")
        classes, target = tuple(data["classes"]), data["target"]
        if not all(isinstance(v, str) for v in (*classes, target)):
            raise SchemaError("classes and target must be texts")
        return cls(tuple(columns), data["task"], classes, target)

    def check_names(self, names: Sequence[Any], warn: Callable[[str], None]) -> None:
        """SchemaError names the columns that are missing; those not needed are a warning."""
        missing = [name for name in self.names if name not in set(names)]
        if missing:
            hint = did_you_mean(missing[0], set(names) - set(self.names))
            raise SchemaError(
                f"missing column{'s' * (len(missing) > 1)} "
                f"{', '.join(map(repr, missing[:10]))}{hint}; the model needs "
                f"{len(self.columns)} columns: {', '.join(map(str, self.names[:20]))}"
            )
        extra = [name for name in names if name not in set(self.names)]
        if extra:
            shown = ", ".join(map(repr, extra[:10])) + (", ..." if len(extra) > 10 else "")
            s, verb = ("s", "are") if len(extra) > 1 else ("", "is")
            warn(f"{len(extra)} column{s} that the model does not know {verb} ignored: {shown}")

    def conform(self, frame: pd.DataFrame, warn: Callable[[str], None]) -> pd.DataFrame:
        """The known columns in the order and kinds of training; unseen categories are counted.

        Categories that training did not know stay as they are: each model's preprocessing decides
        about them. A frame that conforms already is returned unchanged.
        """
        if not isinstance(frame, pd.DataFrame):
            frame = pd.DataFrame(np.asarray(frame))
        self.check_names(list(frame.columns), warn)
        rows, parts = frame.reset_index(drop=True), {}
        for c in self.columns:
            try:
                if c.kind == CATEGORY:
                    parts[c.name] = self._levels(rows[c.name], c, warn)
                else:
                    parts[c.name] = read_column(rows[c.name], c.kind, c.style, warn)
            except ValueError as error:
                raise SchemaError(str(error)) from None
        return pd.DataFrame(parts, index=rows.index).set_axis(frame.index)

    def _levels(self, column: pd.Series, known: Column, warn: Callable[[str], None]) -> pd.Series:
        values, unseen = Levels(known.categories).matched(values_of(column))
        new = list(dict.fromkeys(values[unseen]))
        if new:
            warn(unknown_levels(known.name, unseen, new))
        categories = pd.Index(objects([*known.categories, *new]), dtype=object)
        return pd.Series(pd.Categorical(values, categories=categories), index=column.index)


def _is_style(kind: str, style: str) -> bool:
    """Whether `style` is a way to write the values of a column of this kind."""
    if kind == DATE:
        return is_date_style(style)
    return not style or (kind == NUMBER and is_number_style(style))
