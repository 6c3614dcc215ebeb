"""A working directory for tests of commands, and models of the user in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from calls import working_in
from small_sweeps import write_own_models


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    """An empty working directory."""
    folder = tmp_path / "work"
    folder.mkdir()
    with working_in(folder):
        yield folder


@pytest.fixture
def own(work: Path) -> str:
    """The name of a module with models of the user, in the working directory."""
    return write_own_models(work)
