"""`bench baseline accept` and `bench baseline show`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ....sweeps.store.run_lock import RunLock
from ...console import NOTHING, OK, Console, count
from ...nightly.baseline import accept, cells_of, file_of, read
from ...nightly.checkout import SHORT, checkout_of
from ...planning.environment import ROOT
from .night import context_of


def accept_command(console: Console, *, reason: str, **given: Any) -> int:
    """`bench baseline accept`: fit every cell of this commit and write the baseline's file."""
    if not reason.strip():
        raise ValueError("--reason must not be empty: it is what a reviewer reads")
    checkout = checkout_of(ROOT)
    name = f"accepted-{checkout.label}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    context = context_of(console, checkout, against=None, night=name, **given)
    context.night.mkdir(parents=True, exist_ok=True)
    path = file_of(checkout.root, given["baseline"])
    with RunLock(context.night, note=console.say), RunLock(context.store, note=console.say):
        found = accept(context, reason.strip(), path)
    console.data({"file": str(path), "commit": found["commit"], "cells": len(found["cells"])})
    console.say(
        f"{path}: {count(len(found['cells']), 'cell')} of {count(len(found['models']), 'model')} "
        f"at {found['commit'][:SHORT]}; commit it"
    )
    return OK


def show_command(console: Console, *, baseline: Path | None) -> int:
    """`bench baseline show`: the accepted commit, its cells, and the baselines before it."""
    path = file_of(ROOT, baseline)
    found = read(path)
    if found is None:
        console.data({"file": str(path), "baseline": None})
        console.say(f"{path} does not exist: bench baseline accept --reason TEXT writes it")
        return NOTHING
    console.data({"file": str(path), **found})
    cpu_s = sum(cell["cpu_s"] or 0.0 for cell in found["cells"].values())
    console.say(f"{path}: {found['commit'][:SHORT]}, accepted {found['accepted']}")
    console.say(f"reason: {found['reason']}")
    console.say(
        f"{count(len(found['cells']), 'cell')} of {count(len(found['models']), 'model')} on "
        f"{count(len(found['data']), 'dataset')}, {cpu_s:.0f} CPU seconds on {found['cpu']}"
    )
    cells = cells_of(found["cells"])
    rows = []
    for model, datasets in cells.items():
        mine = [c for key, c in found["cells"].items() if key.split("/")[0] == model]
        failed = sum(cell["status"] != "done" for cell in mine)
        spent = sum(cell["cpu_s"] or 0.0 for cell in mine)
        rows.append([model, len(datasets), failed or None, f"{spent:.2f}"])
    console.table(["model", "datasets", "failed", "CPU s"], rows)
    for old in reversed(found["previous"]):
        console.say(f"before: {old['commit'][:SHORT]}, {old['accepted']}: {old['reason']}")
    return OK
