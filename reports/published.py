"""Which numbers did the papers print? Their result tables, as data.

One file a table, `published/<paper>_table<id>.csv`, with the columns paper, table, dataset, method,
metric, direction, value, spread, spread_kind (std, sem, none, unstated), n_repeats, note, and for
some tables factor and level. Units stand in `note`: accuracy is percent in npt and hopular, a
fraction in rtdl.
"""

from __future__ import annotations

import re
from importlib import resources

import pandas as pd

from ..common.text import did_you_mean

_NAME = re.compile(r"(?P<paper>[a-z]+)_(?:table)?(?P<table>[A-Za-z0-9._]+)\.csv")
_KEY = ["dataset", "method", "metric", "factor", "level", "configuration", "ensemble_size"]


def names() -> list[tuple[str, str]]:
    """(paper, table) of every stored table, sorted; ('rtdl', 'repo_means') among them."""
    folder = resources.files(__package__) / "published"
    found = (_NAME.fullmatch(entry.name) for entry in folder.iterdir())
    return sorted((m["paper"], m["table"]) for m in found if m)


def load(paper: str, table: str | int) -> pd.DataFrame:
    """The rows of one table in the paper's order, `value` and `spread` as floats.

    Raises ValueError, with a suggestion, for a table that is not stored.
    """
    known = names()
    if (paper, str(table)) not in known:
        asked, all_names = f"{paper}-{table}", [f"{p}-{t}" for p, t in known]
        hint = did_you_mean(asked, all_names)
        raise ValueError(f"no published table {asked}{hint}; known: {', '.join(all_names)}")
    folder = resources.files(__package__) / "published"
    table_name = f"{paper}_table{table}.csv"
    if not (folder / table_name).is_file():
        table_name = f"{paper}_{table}.csv"
    with (folder / table_name).open(encoding="utf-8") as file:
        frame = pd.read_csv(file, dtype=str, keep_default_na=False)
    for column in ("value", "spread", "n_repeats"):
        if column in frame:
            frame[column] = pd.to_numeric(frame[column].where(frame[column] != "")).astype(float)
    return frame


def key_columns(frame: pd.DataFrame) -> list[str]:
    """The columns that name a row of a table uniquely."""
    return [c for c in _KEY if c in frame]
