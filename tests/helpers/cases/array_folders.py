"""Folders of arrays in the forms that papers publish, with made-up values."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

SIZES = (60, 20, 24)
PARTS = ("train", "val", "test")


def values(
    sizes: tuple[int, ...] = SIZES, task: str = "binclass", n_num: int = 3, n_cat: int = 2
) -> dict[str, dict[str, np.ndarray]]:
    """{part: numbers (float32, some NaN), categories (text, some "nan"), target} of one dataset.

    The first numeric feature is the row's number, so that rows can be told apart; it decides the
    target in a quiet way.
    """
    rng = np.random.default_rng(7)
    found = {}
    start = 0
    for part, n in zip(PARTS, sizes, strict=True):
        row = np.arange(start, start + n)
        numbers = rng.normal(size=(n, n_num)).astype(np.float32)
        numbers[:, 0] = row
        numbers[::7, n_num - 1] = np.nan
        texts = rng.choice(["10", "9", "red", "nan"], size=(n, n_cat))
        if task == "regression":
            target = 2.0 * row + rng.normal(size=n)
        else:
            target = row % (2 if task == "binclass" else 3)
        found[part] = {"N": numbers, "C": texts, "y": target}
        start += n
    return found


def info_of(
    made: Mapping[str, Mapping[str, np.ndarray]], task: str = "binclass", **changes: Any
) -> dict[str, Any]:
    """An `info.json` that fits."""
    info = {
        "name": "Toy",
        "task_type": task,
        "n_num_features": made["train"]["N"].shape[1],
        "n_cat_features": made["train"]["C"].shape[1],
        **{f"{part}_size": len(made[part]["y"]) for part in PARTS},
    }
    return {k: v for k, v in {**info, **changes}.items() if v is not None}


def write_parts(
    folder: Path, *, task: str = "binclass", names: str = "NCy", texts: type = str, **kinds: Any
) -> Path:
    """A file for each part: `N_train.npy`, ... (RTDL, TALENT), or with names="X" `X_num_train.npy`,
    ... (TabR). `texts` object writes pickled categories."""
    made = values(task=task, **kinds)
    folder.mkdir(parents=True)
    stems = dict(zip("NCy", ("X_num", "X_cat", "Y") if names == "X" else names, strict=True))
    for part, arrays in made.items():
        for what, array in arrays.items():
            if what == "C" and texts is object:
                array = array.astype(object)
            np.save(folder / f"{stems[what]}_{part}.npy", array, allow_pickle=True)
        if names == "NCy":  # what archives hold besides
            np.save(folder / f"idx_{part}.npy", np.arange(len(arrays["y"])))
    (folder / "info.json").write_text(json.dumps(info_of(made, task)))
    return folder


def write_whole(folder: Path, *, task: str = "regression", n_unused: int = 4) -> Path:
    """Whole arrays with row numbers of the parts (TabReD), rows in a random order."""
    made = values(task=task)
    rows = {what: np.concatenate([made[part][what] for part in PARTS]) for what in "NCy"}
    n = len(rows["y"])
    order = np.random.default_rng(1).permutation(n + n_unused)  # new place of each old row
    folder.mkdir(parents=True)
    for what, stem in (("N", "X_num"), ("C", "X_cat"), ("y", "Y")):
        padded = np.concatenate([rows[what], rows[what][:n_unused]])
        out = np.empty_like(padded)
        out[order] = padded
        np.save(folder / f"{stem}.npy", out)
    np.save(folder / "X_bin.npy", (order % 2).astype(np.float32)[:, None])
    np.save(folder / "X_meta.npy", order)
    (folder / "split-default").mkdir()
    stops = np.cumsum((0, *SIZES))
    for part, start, stop in zip(PARTS, stops[:-1], stops[1:], strict=True):
        np.save(folder / "split-default" / f"{part}_idx.npy", order[start:stop])
    (folder / "info.json").write_text(json.dumps(info_of(made, task, n_bin_features=1)))
    return folder


def tarred(folder: Path, path: Path) -> Path:
    """A .tar.gz of a folder, under its name."""
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, folder.name)
    return path
