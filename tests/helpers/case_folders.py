"""Small inputs that failed once: one folder a case, in the folder that TABSWEEP_CASES names."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

VARIABLE = "TABSWEEP_CASES"


def copy_of(kind: str, case: str, to: Path) -> Path:
    """A copy of a case's folder; skips the test where there is none.

    kind: engine or tables; case: the folder's name; to: an empty folder.
    """
    given = os.environ.get(VARIABLE, "")
    folder = Path(given) / kind / case
    if not given or not folder.is_dir():
        pytest.skip(f"{VARIABLE} names no folder with {kind}/{case}")
    for path in folder.iterdir():
        shutil.copyfile(path, to / path.name)  # without its rights: a copy may be written to
    return to
