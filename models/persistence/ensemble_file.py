"""Ensembles in one model file: an archive of model files, each with its weight.

    manifest.json   format, schema of the input, sha256 of the rest
    state.json      weight and length in bytes of each part
    arrays.bin      the parts: whole model files of `model_file.py`, all with this schema

A prediction is the mean of the parts' predictions (probabilities for classes) by their weights.
Loading makes the same guarantees as for one model.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...common.files import write_atomically
from .archive import MAX_BYTES, ModelFileError, check_sums, parse, seal, to_json, unpack
from .fitted import Fitted, FittedEnsemble
from .schema import Schema
from .serialization import is_native

FORMAT, VERSION = "tabsweep-model", 1  # of all model files
ENSEMBLE = "ensemble"
OpenMembers = Callable[..., Fitted]


def save_ensemble(
    parts: Sequence[tuple[float, bytes]],
    path: str | Path,
    *,
    schema: Schema,
    name: str,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write an ensemble to one file, atomically; returns its path.

    parts: weights, which need not add up to 1, and the bytes of model files (`model_bytes`).
    name: what it is called. about: as for `save_model`. Raises ModelFileError for too many
    bytes.
    """
    total = math.fsum(weight for weight, _ in parts)
    state = [{"weight": weight / total, "bytes": len(part)} for weight, part in parts]
    members = {"state.json": to_json({"parts": state}), "arrays.bin": b"".join(p for _, p in parts)}
    facts = {
        "format": FORMAT,
        "version": VERSION,
        "how": ENSEMBLE,
        "name": name,
        "schema": schema.to_data(),
        "python": platform.python_version(),
        "about": dict(about or {}),
    }
    data = seal(members, facts)
    if len(data) > MAX_BYTES:
        raise ModelFileError(f"the ensemble takes {len(data)} bytes, more than {MAX_BYTES}")
    write_atomically(Path(path), data)
    return Path(path)


def open_ensemble(
    manifest: Mapping[str, Any],
    members: Mapping[str, bytes],
    open_members: OpenMembers,
    *,
    trust: Collection[str],
    warn: Callable[[str], None],
) -> FittedEnsemble:
    """The ensemble in the members of an archive. open_members: opens those of a part. Raises
    ModelFileError, ValueError, LookupError, TypeError for one that is none."""
    check_sums(manifest, members)
    schema = Schema.parse(manifest["schema"])
    weights, archives = _parts(members)
    said: dict[str, None] = {}
    parts = tuple(
        open_members(archive, trust=trust, warn=lambda text: said.update({text: None}))
        for archive in archives
    )
    for text in said:  # each once, not once a part
        warn(text)
    if not (parts and all(0 < weight <= 1 for weight in weights)):
        raise ValueError(f"weights {weights} of {len(parts)} parts")
    if any(part.schema != schema for part in parts):
        raise ValueError("parts of another schema than the ensemble's")
    how = "refit" if any(part.how == "refit" for part in parts) else "state"
    name, about = str(manifest["name"]), manifest["about"]
    parts = tuple(replace(part, about=about) for part in parts)
    return FittedEnsemble(None, schema, name, how, about, None, parts, weights)


def has_native(members: Mapping[str, bytes]) -> bool:
    """Whether a model, or a part of an ensemble, is read by compiled code of a boosting library."""
    state = parse(members.get("state.json", b""), "state.json")
    if "parts" not in state:
        return is_native(state)
    try:
        return any(has_native(archive) for archive in _parts(members)[1])
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"it is no whole ensemble: {type(error).__name__}") from None


def _parts(members: Mapping[str, bytes]) -> tuple[tuple[float, ...], list[dict[str, bytes]]]:
    """(weights, members of the archives) of the parts of an ensemble, none of which is one."""
    told = parse(members["state.json"], "state.json")["parts"]
    ends = np.cumsum([int(one["bytes"]) for one in told]).tolist()
    data = members["arrays.bin"]
    if min(int(one["bytes"]) for one in told) <= 0 or ends[-1] != len(data):
        raise ValueError("parts of other lengths than it says")
    files = [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    archives = [unpack(file) for file in files]
    if any("parts" in parse(one["state.json"], "state.json") for one in archives):
        raise ModelFileError("it holds an ensemble within an ensemble; refused")
    return tuple(float(one["weight"]) for one in told), archives
