"""States of unfinished fits as bytes: an archive like a model file, without a pickle.

manifest.json says which fit the state belongs to and the sha256 of the rest; state.json,
arrays.bin and booster.* hold the model as plain data (see `serialization.py`). Only classes of a
closed list are created.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base import BadState
from . import archive
from .allowlist import NotPlain
from .archive import ModelFileError, check_sums, parse, to_json, unpack
from .serialization import Reader, Writer

FORMAT, VERSION = "tabsweep-state", 1

Members = dict[str, bytes]


def dump(model: Any) -> Members:
    """A fitted model (None where there is none) as the members of an archive."""
    writer = Writer()
    state = to_json({"model": writer.write(model)})
    return {"state.json": state, "arrays.bin": writer.arrays, **writer.boosters}


def load(members: Members, *, threads: int) -> Any:
    """The model that was given to `dump`; BadState where the members hold none."""
    reader = Reader(members["arrays.bin"], members, threads=threads)
    try:
        return reader.read(parse(members["state.json"], "state.json")["model"])
    except (NotPlain, ModelFileError, KeyError, TypeError) as error:
        raise BadState(f"the state cannot be read: {error}") from None


def seal(members: Members, facts: Mapping[str, Any]) -> bytes:
    """The members as one archive; `facts` say which fit the state belongs to."""
    return archive.seal(members, {"format": FORMAT, "version": VERSION, **facts})


def unseal(state: bytes, facts: Mapping[str, Any]) -> Members:
    """The members of an archive. BadState if it is damaged or its facts differ."""
    try:
        members = unpack(state)
        manifest = parse(members.pop("manifest.json", b""), "manifest.json")
        check_sums(manifest, members)
    except (ModelFileError, KeyError, TypeError) as error:
        raise BadState(f"the state is damaged: {error}") from None
    for name, wanted in {"format": FORMAT, "version": VERSION, **facts}.items():
        if manifest.get(name) != wanted:
            raise BadState(
                f"the state is of another fit: its {name} is {manifest.get(name)!r}, "
                f"here it is {wanted!r}"
            )
    return members
