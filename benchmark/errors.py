"""Which options of `bench sweep` make sense together? Checked before anything heavy is imported."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ..datasets import catalog
from .planning import suite as suites

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class SweepError(Exception):
    """A sweep that cannot start as asked; nothing was changed."""


class NoRun(Exception):
    """A folder that is not the folder of a run."""


class UnknownExperiment(Exception):
    """A name that is no experiment's."""


class NoGpu(Exception):
    """A GPU was asked for where there is none."""


def check_name(name: str) -> str:
    """A run's name is a folder's name: no path, nothing hidden. Raises SweepError."""
    if not NAME.fullmatch(name):
        raise SweepError(
            f"--name {name[:120]!r} must be 1 to 100 letters, digits, '.', '_' or '-', "
            "beginning with a letter or digit"
        )
    return name


def check_address_form(address: str) -> None:
    """A sweep finds Ray by "local", "auto" or HOST:PORT. Raises SweepError, without asking anybody.

    Ray's client (ray://) would keep the driver outside the cluster: its ledger and its workers
    would be parted by every break of the connection.
    """
    named = "--address"
    if address == "auto" and "://" in os.environ.get("RAY_ADDRESS", ""):
        named, address = "RAY_ADDRESS", os.environ["RAY_ADDRESS"]
    if address in ("local", "auto"):
        return
    host, _, port = address.rpartition(":")
    if "://" in address:
        raise SweepError(
            f"{named} {address[:120]!r}: a sweep runs on a machine of the cluster, where its "
            "address is auto or HOST:PORT. From anywhere else: "
            "bench submit --address http://HEAD:8265"
        )
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise SweepError(f"{named} {address[:120]!r} must be local, auto, or HOST:PORT")


def as_utf8(word: str) -> str:
    """A word of the command line as whoever typed it meant it: tables are UTF-8, and a locale that
    is not leaves the word's bytes undecoded (LC_ALL=C on a server, say).

    >>> as_utf8("gr\\udcc3\\udcb6\\udcc3\\udc9fe"), as_utf8("größe")
    ('größe', 'größe')
    """
    try:
        word.encode()
        return word
    except UnicodeEncodeError:
        return os.fsencode(word).decode("utf-8", "replace")


def csv_name(path: Path) -> str:
    """What a table of one's own is called.

    >>> csv_name(Path("data/My houses (2).csv"))
    'my-houses-2'
    """
    return re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")[:40] or "table"


def check_options(given: dict[str, Any]) -> suites.Suite | None:
    """The suite that is asked for, None for --csv. Raises SweepError, SuiteError, UnknownDataset,
    NoRun."""
    if (given["suite"] is None) == (given["csv"] is None):
        raise SweepError("say what to sweep: either --suite NAME or --csv FILE --target COLUMN")
    if given["name"] is not None:
        check_name(given["name"])
    for folder in given["reuse"]:
        check_run(folder)
    if given["csv"] is not None:
        if given["target"] is None:
            raise SweepError("--csv needs --target COLUMN, the column to predict")
        if given["datasets"]:
            raise SweepError("--dataset goes with --suite, not with --csv")
        return None
    for option in ("target", "task"):
        if given[option] is not None:
            raise SweepError(f"--{option} goes with --csv, not with --suite")
    chosen = suites.load(given["suite"])
    chosen.budget(given["budget"])
    for name in (*given["datasets"], *chosen.datasets, *chosen.offline):
        catalog.card(name)
    return chosen


def check_gpu(device: str) -> None:
    """Raises NoGpu where `device` is a GPU and torch sees none."""
    if device == "cpu":
        return
    import torch

    if not torch.cuda.is_available():
        raise NoGpu(f"--device {device}: torch sees no GPU on this machine; use --device cpu")


def check_run(folder: Path) -> None:
    """Raises NoRun, naming the runs that are near."""
    if (folder / "ledger" / "MANIFEST.json").exists():
        return
    near = sorted(path.parent.parent for path in folder.glob("*/ledger/MANIFEST.json"))
    near = near or sorted(p.parent.parent for p in folder.parent.glob("*/ledger/MANIFEST.json"))
    here = f"runs here: {', '.join(map(str, near[:8]))}"
    hint = here if near else "give the one that a sweep named, such as runs/uci-small-quick"
    raise NoRun(f"{folder} is not the folder of a run; {hint}")
