"""Archives of model files: one sequence of bytes for one model, every damaged byte is found."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

from ...common.errors import Error
from .boosters import BOOSTER_MEMBERS

MAX_BYTES = 2**30
MEMBERS = ("manifest.json", "state.json", "arrays.bin", *sorted(BOOSTER_MEMBERS))


class ModelFileError(Error, ValueError):
    """A model cannot be saved, or a file is not one that may be loaded; the message says why."""

    id = "BENCH-E018"


def pack(members: Mapping[str, bytes]) -> bytes:
    """The one archive of these members: fixed order, no times, no compression."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in MEMBERS:
            if name in members:
                info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                info.create_system, info.external_attr = 3, 0o600 << 16
                archive.writestr(info, members[name])
    return out.getvalue()


def seal(members: Mapping[str, bytes], facts: Mapping[str, Any]) -> bytes:
    """The archive of these members and of a manifest with `facts` and their checksums."""
    sums = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
    }
    manifest = json.dumps({**facts, "members": sums}, indent=1, allow_nan=False)
    return pack({**members, "manifest.json": manifest.encode() + b"\n"})


def unpack(data: bytes) -> dict[str, bytes]:
    """The members of an archive that `pack` could have written; ModelFileError for any other."""
    if data[:4] != b"PK\x03\x04":
        what = "looks like a pickle" if data[:1] == b"\x80" else "is no model file"
        raise ModelFileError(f"it {what}; only files that `save_model` wrote are read")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members: dict[str, bytes] = {}
            for info in archive.infolist():
                stored = info.compress_type == zipfile.ZIP_STORED and info.file_size <= len(data)
                if info.filename not in MEMBERS or info.filename in members or not stored:
                    raise ModelFileError(
                        f"its member {info.filename[:80]!r} is none that a saved model has: it has "
                        "another name, appears twice or is compressed; refused before unpacking"
                    )
                members[info.filename] = archive.read(info)
    except ModelFileError:
        raise
    except Exception as error:  # the standard library has many words for a broken archive
        raise ModelFileError(f"it is damaged: {error}") from None
    if pack(members) != data:
        raise ModelFileError("it is damaged: bytes beside its members are not as they were saved")
    return members


def to_json(value: Any) -> bytes:
    """Compact JSON; no NaN."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def parse(data: bytes, name: str) -> dict[str, Any]:
    """The JSON object in a member; ModelFileError where there is none."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no JSON")

    try:
        value = json.loads(data, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"its {name} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise ModelFileError(f"its {name} holds no object")
    return value


def check_sums(manifest: Mapping[str, Any], members: Mapping[str, bytes]) -> None:
    """Raises ModelFileError unless the members are exactly those that the manifest names."""
    if set(manifest["members"]) != set(members) or not {"state.json", "arrays.bin"} <= set(members):
        raise ModelFileError("it lacks a member that its manifest names, or has one more")
    for name, data in members.items():
        digest = hashlib.sha256(data).hexdigest()
        if digest != manifest["members"][name]["sha256"]:
            raise ModelFileError(
                f"its member {name} has sha256 {digest}, its manifest says "
                f"{manifest['members'][name]['sha256']}; it was changed after it was saved"
            )
