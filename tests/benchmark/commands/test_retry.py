"""`bench retry`: which causes it takes, and its answer where nothing failed."""

from __future__ import annotations

import pytest
from calls import bench
from run_records import make_run, plan, result


@pytest.mark.parametrize("cause", ["omm", "oom,omm", "oom,", ""])
def test_retry_of_an_unknown_cause_is_refused_with_a_suggestion(cause, tmp_path):
    run = make_run(tmp_path / "r", plan(), result(0, cause="oom"))
    found = bench("retry", run, "--cause", cause)
    assert (
        found.code == 2 and "unknown cause" in found.err and "known: error, gpu_error" in found.err
    )
    assert ("did you mean 'oom'?" in found.err) == ("omm" in cause)


def test_retry_with_nothing_to_do_exits_with_5_and_says_what_failed(tmp_path):
    run = make_run(tmp_path / "r", plan(), result(0, cause="oom"), result(1))
    found = bench("retry", run, "--cause", "timeout,killed")
    assert found.code == 5
    assert "1 oom" in found.out
    assert bench("retry", make_run(tmp_path / "fine", plan(), result(0))).code == 5
