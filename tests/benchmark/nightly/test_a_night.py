"""A tiny night of the steps around the models, by the command itself."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from calls import bench
from repo import ROOT

STEPS = "golden-reports,command-line,faults,nightly-tests"


def test_a_night_of_some_steps_has_a_page_and_starts_none_of_them_twice(tmp_path):
    top = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--show-toplevel"], capture_output=True, text=True
    )
    if top.returncode or Path(top.stdout.strip()) != ROOT:
        pytest.skip("not a git checkout")
    words = ("nightly", "--size", "tiny", "--only", STEPS, "--out", tmp_path / "nights", "--json")
    found = bench(*words)
    assert found.code == 0, found
    said = json.loads(found.out)
    verdicts = {step["name"]: step["verdict"] for step in said["steps"]}
    assert [verdicts[name] for name in ("golden-reports", "faults")] == ["ok", "ok"]
    assert verdicts["nightly-tests"] == verdicts["screen"] == "not-run"
    folder = Path(said["folder"])
    assert (folder / "issues" / "judged").read_text().split()[0] == "golden-reports"
    page = (folder / "night.html").read_text(encoding="utf-8")
    assert "files equal to the byte" in page and "runs with --tests" in page
    assert "command-line" in (folder / "summary.md").read_text(encoding="utf-8")

    ran = [folder / "steps" / f"{name}.json" for name in STEPS.split(",")[:-1]]
    before = [path.stat().st_mtime_ns for path in ran]
    assert bench(*words).code == 0
    assert [path.stat().st_mtime_ns for path in ran] == before
