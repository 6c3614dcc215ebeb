"""Authors' archives whose datasets have a card here: how a folder is known to be one of them."""

from __future__ import annotations

from .layout import Arrays

RTDL = {  # rows to train, validate and test; numeric and categorical features; task
    "california-housing": (13209, 3303, 4128, 8, 0, "regression"),
    "adult": (26048, 6513, 16281, 6, 8, "binary"),
    "helena": (41724, 10432, 13040, 27, 0, "multiclass"),
    "jannis": (53588, 13398, 16747, 54, 0, "multiclass"),
    "higgs-small": (62752, 15688, 19610, 28, 0, "binary"),
    "aloi": (69120, 17280, 21600, 128, 0, "multiclass"),
    "epsilon": (320000, 80000, 100000, 2000, 0, "binary"),
    "year": (370972, 92743, 51630, 90, 0, "regression"),
    "covtype": (371847, 92962, 116203, 54, 0, "multiclass"),
    "yahoo": (473134, 71083, 165660, 699, 0, "regression"),
    "microsoft": (723412, 235259, 241521, 136, 0, "regression"),
}
"""Gorishniy et al. 2021, Table 1, under the names of the cards; their folders have these names with
underscores."""


def official_name(found: Arrays, folder: str) -> str | None:
    """`rtdl-<dataset>` for a folder of RTDL's archive, known by its name (with hyphens), its form
    and the figures of the paper's Table 1; None for any other.

    No checksum of the archive is public, so this cannot tell it from another split of the same
    dataset, form and sizes: who adds such a one gives it a name of its own.
    """
    figures = (*found.sizes, found.width("num"), found.width("cat"), found.task)
    return f"rtdl-{folder}" if found.form == "N" and figures == RTDL.get(folder) else None
