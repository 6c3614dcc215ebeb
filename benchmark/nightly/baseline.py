"""The accepted baseline: a file in the repository that a reviewed commit moves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...common.errors import Error
from ...common.files import write_atomically
from ...sweeps.trial import DONE, FAILED
from ..planning.environment import cpu_model
from .checkout import SHORT
from .context import NightContext
from .sides import Row, fit, head_of, ids, lock_of

FORMAT = 1


class BaselineError(Error, ValueError):
    """A baseline that cannot be read or must not be accepted, with the way out."""


def read(path: Path) -> dict[str, Any] | None:
    """The content of a baseline, None where the file is missing. Raises BaselineError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        found: dict[str, Any] = json.loads(text)
        missing = {"format", "commit", "accepted", "cells", "models", "data"} - set(found)
    except (ValueError, TypeError) as error:
        raise BaselineError(f"{path} is no baseline ({error}); {_way(path)}") from None
    if missing or found["format"] != FORMAT:
        what = f"lacks {', '.join(sorted(missing))}" if missing else f"format {found['format']}"
        raise BaselineError(f"{path} is no baseline of this version ({what}); {_way(path)}")
    return found


def _way(path: Path) -> str:
    return f"git checkout {path.name}, or write it anew: bench baseline accept --reason TEXT"


def accept(context: NightContext, reason: str) -> dict[str, Any]:
    """Fit every cell of the suite and write the baseline of this commit; returns its content.

    Raises BaselineError where files differ from the commit, a dataset could not be had, a fit
    returned nothing, or a fit failed that the previous baseline has: the new baseline would hide
    that failure from then on.
    """
    path = context.baseline_file
    checkout = context.checkout
    if checkout.changed:
        raise BaselineError(
            f"files differ from commit {checkout.commit[:SHORT]}: a baseline names a commit that "
            "can be had again; commit them first"
        )
    head = head_of(context)
    planned = ids(context, head)
    if planned["left_out"]:
        told = "; ".join(f"{name}: {why}" for name, why in sorted(planned["left_out"].items()))
        raise BaselineError(f"not every dataset could be had ({told}); --mirror DIR brings them")
    cells = cells_of(planned["cells"])
    rows = fit(context, head, cells, seeds={"accepted": 0}, runs=context.runs)
    missing = sorted({*planned["cells"]} - {key_of(row) for row in rows})
    if missing:
        raise BaselineError(f"{len(missing)} fits returned no row ({', '.join(missing[:5])})")
    old = context.baseline
    failed = sorted(key_of(row) for row in rows if row["status"] == FAILED)
    known = {key for key, cell in (old or {}).get("cells", {}).items() if cell["status"] == FAILED}
    broken = [key for key in failed if key not in known]
    if broken and old is not None:
        raise BaselineError(
            f"{len(broken)} fits fail that the baseline at {old['commit'][:SHORT]} has "
            f"({', '.join(broken[:5])}): mend them, or begin anew by removing {path}"
        )
    found = content(planned, rows, checkout.commit, reason, lock_of(checkout.root))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(found, indent=1, sort_keys=True).encode() + b"\n")
    return found


def content(
    planned: Mapping[str, Any],
    rows: list[Row],
    commit: str,
    reason: str,
    lock: str,
) -> dict[str, Any]:
    """What the file holds; those before it are in the file's history."""
    done = {key_of(row): row for row in rows}
    cells = {}
    for key, cell in planned["cells"].items():
        row = done[key]
        cells[key] = {
            **{"id": cell["id"], "config": cell["config"], "status": row["status"]},
            **{"sha256": row["sha256"] if row["status"] == DONE else ""},
        }
    return {
        "format": FORMAT,
        **{"commit": commit, "accepted": datetime.now(UTC).strftime("%Y-%m-%d")},
        **{"reason": reason, "lock": hashlib.sha256(lock.encode()).hexdigest()},
        **{"cpu": cpu_model(), "cells": cells},
        **{"models": planned["models"], "data": planned["data"]},
    }


def key_of(row: Mapping[str, Any]) -> str:
    """The key of a row's cell: model/dataset/fold/seed."""
    return f"{row['model']}/{row['dataset']}/{row['fold']}/{row['seed']}"


def cells_of(keys: Iterable[str]) -> dict[str, list[str]]:
    """{model: datasets} of keys of cells."""
    found: dict[str, list[str]] = {}
    for key in sorted(keys):
        model, dataset, _, _ = key.split("/")
        if dataset not in found.setdefault(model, []):
            found[model].append(dataset)
    return found
