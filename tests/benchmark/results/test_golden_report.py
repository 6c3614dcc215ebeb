"""The report of a stored run is the stored one to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_run import ACCEPT, stored, written


@pytest.mark.locked
def test_the_report_of_the_stored_run_is_what_was_stored(tmp_path: Path) -> None:
    before, now = stored(), written(tmp_path)
    names = sorted(name for name in before | now if before.get(name) != now.get(name))
    assert not names, f"if the change is wanted, run {ACCEPT}"
    assert len(now) >= 25
