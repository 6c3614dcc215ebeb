"""A tiny night of the steps around the models, by the command itself."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from calls import bench
from repo import ROOT


def test_a_night_has_a_summary_and_starts_no_step_twice(tmp_path):
    top = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--show-toplevel"], capture_output=True, text=True
    )
    if top.returncode or Path(top.stdout.strip()) != ROOT:
        pytest.skip("not a git checkout")
    words = ("nightly", "--size", "tiny", "--only", "golden-reports")
    words += ("--out", tmp_path / "nights", "--json")
    found = bench(*words)
    assert found.code == 0, found
    said = json.loads(found.out)
    verdicts = {step["name"]: step["verdict"] for step in said["steps"]}
    assert verdicts.pop("golden-reports") == "ok" and set(verdicts.values()) == {"not-run"}
    summary = Path(said["summary"])
    assert summary == Path(said["folder"]) / "summary.md"
    assert "files equal to the byte" in summary.read_text(encoding="utf-8")

    ran = summary.parent / "steps" / "golden-reports.json"
    before = ran.stat().st_mtime_ns
    assert bench(*words).code == 0
    assert ran.stat().st_mtime_ns == before
