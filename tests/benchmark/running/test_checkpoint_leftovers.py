"""What a killed writer of checkpoints left is removed when the run goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import bench
from small_sweeps import AGAIN

pytestmark = pytest.mark.usefixtures("work")


def test_a_resume_removes_half_written_checkpoints_and_keeps_whole_ones(copy_run) -> None:
    copy_run("knn")
    folder, key = Path("runs/knn/checkpoints"), "0123456789abcdef"
    folder.mkdir(exist_ok=True)
    torn, whole = folder / f".{key}.checkpoint.99999-0a0b0c0d.tmp", folder / f"{key}.checkpoint"
    for file in (torn, whole):
        file.write_bytes(b"half")
    assert bench("resume", "runs/knn", *AGAIN).code == 0
    assert not torn.exists() and whole.exists()
