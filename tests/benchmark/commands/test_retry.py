"""`bench retry`: which causes it takes, and its answer where nothing failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from calls import bench
from run_records import make_run, plan, result
from tabsweep.benchmark.commands import sweep as runs


def test_retry_takes_causes_as_a_list_or_one_by_one(tmp_path, monkeypatch):
    run = make_run(tmp_path / "r", plan(), result(0, cause="oom"), result(1, cause="killed"))
    asked: list[Any] = []

    def resume(face: Any, run: Path, *, causes: Any, **given: Any) -> int:
        asked.append(causes)
        return 0

    monkeypatch.setattr(runs, "resume_command", resume)
    assert bench("retry", run, "--cause", "oom,killed").code == 0
    assert bench("retry", run, "--cause", "oom", "--cause", "killed, error").code == 0
    assert bench("retry", run).code == 0
    assert asked == [("oom", "killed"), ("oom", "killed", "error"), None]


@pytest.mark.parametrize("cause", ["omm", "oom,omm", "oom,", ""])
def test_retry_of_an_unknown_cause_is_refused_with_a_suggestion(cause, tmp_path):
    run = make_run(tmp_path / "r", plan(), result(0, cause="oom"))
    found = bench("retry", run, "--cause", cause)
    assert found.code == 2 and "unknown cause" in found.err and "known: error, gpu_oom" in found.err
    assert ("did you mean 'oom'?" in found.err) == ("omm" in cause)


def test_retry_with_nothing_to_do_exits_with_5_and_says_what_failed(tmp_path):
    run = make_run(tmp_path / "r", plan(), result(0, cause="oom"), result(1))
    found = bench("retry", run, "--cause", "timeout,killed")
    assert found.code == 5
    assert "1 oom" in found.out
    assert bench("retry", make_run(tmp_path / "fine", plan(), result(0))).code == 5
