"""Checkpoint files of the user: where and what they are.

Nothing is downloaded, ever. The path comes from an environment variable for each model and kind of
task, the bytes from the file; a trial's configuration holds the file's sha256.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...common.files import file_sha256
from ...common.text import one_line
from ..optional import optional

KINDS = {"binary": "classifier", "multiclass": "classifier", "regression": "regressor"}
LISTED = ".pretraining.txt"  # beside a checkpoint: the datasets that it was trained on, one a line


class CheckpointError(ValueError):
    """A checkpoint that is not named, not there, or another one than planned."""


@dataclass(frozen=True)
class CheckpointFile:
    """A checkpoint on this machine."""

    path: Path
    sha256: str

    @property
    def trained_on(self) -> tuple[str, ...] | None:
        """The datasets of its pretraining, from the list beside it: names of ours, or OpenML's as
        `openml:<dataset>`; None without a list. `#` begins a comment."""
        try:
            text = self.path.with_name(self.path.name + LISTED).read_text(encoding="utf-8")
        except OSError:
            return None
        lines = (line.partition("#")[0].strip() for line in text.splitlines())
        return tuple(dict.fromkeys(filter(None, lines)))


def variable(model: str, task: str) -> str:
    """The environment variable with the path of a model's checkpoint for a task.

    >>> variable("tabicl", "binary")
    'TABSWEEP_TABICL_CLASSIFIER'
    """
    return f"TABSWEEP_{model.upper()}_{KINDS[task].upper()}"


def checkpoint_of(model: str, task: str, sha256: str = "") -> CheckpointFile:
    """The user's checkpoint of a model for a task; with `sha256` it has to be that one.

    Raises CheckpointError, which names the way out, where none is named, the file is not there or
    is another one.
    """
    name = variable(model, task)
    given = os.environ.get(name, "")
    if not given:
        raise CheckpointError(
            f"{model!r} needs a checkpoint file of yours for {task} data, and nothing is "
            f"downloaded: give its path by --checkpoint {model}-{KINDS[task]}=PATH or {name}"
        )
    path = Path(given).expanduser().absolute()
    try:
        stat = path.stat()
        if not path.is_file():
            raise OSError("it is no file")
        file = CheckpointFile(path, _sha256(path, stat.st_mtime_ns, stat.st_size))
    except OSError as error:
        raise CheckpointError(
            f"{name}={one_line(given, 120)}: {one_line(error, 120)}; give the checkpoint that you "
            "downloaded elsewhere"
        ) from None
    if sha256 and file.sha256 != sha256:
        raise CheckpointError(
            f"{name}={one_line(given, 120)} has sha256 {file.sha256}; the run or the saved model "
            f"has {sha256}: name that file, or start another run"
        )
    return file


@lru_cache(maxsize=16)
def _sha256(path: Path, changed: int, size: int) -> str:
    return file_sha256(path)


@contextmanager
def without_downloads(model: str, *names: str) -> Iterator[None]:
    """Every downloader of the hub's client and of the library's modules `names` refuses in this
    block.

    A checkpoint whose path is given is never looked for elsewhere; this makes sure of it.
    """
    hub, constants, *modules = (
        optional(name, model=model, extra=model)
        for name in ("huggingface_hub", "huggingface_hub.constants", *names)
    )

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise CheckpointError("a download was refused: checkpoints are files of the user's")

    downloaders = "hf_hub_download snapshot_download download_model ensure_license_accepted".split()
    held = [
        (module, name, getattr(module, name))
        for module in (hub, *modules)
        for name in downloaders
        if hasattr(module, name)
    ]
    offline = constants.HF_HUB_OFFLINE
    try:
        constants.HF_HUB_OFFLINE = True
        for module, name, _ in held:
            setattr(module, name, refuse)
        yield
    finally:
        constants.HF_HUB_OFFLINE = offline
        for module, name, original in held:
            setattr(module, name, original)
