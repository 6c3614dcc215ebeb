"""The steps of a night around the models: reports, command line, tests, kills."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from repo import ROOT
from tabsweep.benchmark.nightly.checks import faults, golden_reports, sweep_path
from tabsweep.benchmark.nightly.context import NightContext
from tabsweep.benchmark.nightly.step_result import NO_DATA, NOT_RUN, OK, REGRESSION
from tabsweep.benchmark.nightly.steps import step


@pytest.fixture
def context(tmp_path) -> NightContext:
    """A tiny night of this checkout."""
    return NightContext(
        root=ROOT,
        commit="77aa001" + 33 * "0",
        night=tmp_path / "2026-11-22-77aa001",
        store=tmp_path / "store",
        python=Path(sys.executable),
        date="2026-11-22",
        size="tiny",
    )


# ---------------------------------------------------------------------- golden reports


def test_the_report_of_the_stored_run_is_what_was_stored_and_a_changed_file_is_named(context):
    found = step("golden-reports")(context)
    assert found.verdict == OK, (
        f"{found.headline}: if the change is wanted, run {golden_reports.AGAIN} --accept"
    )
    report = context.night / "golden-reports" / "report"
    stored = golden_reports.stored_digests()
    assert stored == golden_reports.digests(report) and len(stored) >= 25
    with open(report / "scores.tex", "ab") as file:
        file.write(b"%")
    (report / "ranks.md").unlink()
    (report / "new.csv").write_text("x")
    rows = golden_reports.differences(stored, golden_reports.digests(report))
    assert [row["subject"] for row in rows] == ["new.csv", "ranks.md", "scores.tex"]


# ---------------------------------------------------------------------- the command line


def python_but(folder: Path, words: str, instead: str) -> Path:
    """An interpreter like this one, but for calls with these words."""
    path = folder / "python"
    path.write_text(f'#!/bin/sh\ncase "$*" in *"{words}"*) {instead};; esac\n')
    with open(path, "a") as file:
        file.write(f'exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


def test_every_command_ends_well_and_has_a_budget_over_the_reference(context):
    found = step("command-line")(context)
    assert found.verdict != REGRESSION and len(found.findings) >= 5
    assert {row["verdict"] for row in found.findings} <= {"ok", "slow"}
    assert all(row["old"] > 0 for row in found.findings)


def test_a_command_that_fails_is_a_regression_and_is_named(context, tmp_path):
    python = python_but(tmp_path, "prog_name='bench') suites", "echo boom; exit 3")
    found = step("command-line")(replace(context, python=python))
    assert found.verdict == REGRESSION and "bench suites" in found.headline
    (row,) = [row for row in found.findings if row["verdict"] == "failed"]
    assert (
        row["subject"] == "suites" and "exit code 3" in row["message"] and "boom" in row["message"]
    )


def test_without_the_reference_nothing_can_be_judged(context, tmp_path):
    python = python_but(tmp_path, "import numpy", "exit 1")
    found = step("command-line")(replace(context, python=python))
    assert found.verdict == NO_DATA and found.reason


# ---------------------------------------------------------------------- tests of the checkout

SOME_TESTS = """
import pytest

@pytest.mark.fault(1)
@pytest.mark.nightly
def test_slow():
    {body}

@pytest.mark.fault(1, 2)
def test_of_two_faults():
    assert True

@pytest.mark.fault(2)
def test_of_one_fault():
    assert True
"""


def checkout_with(folder: Path, body: str) -> Path:
    """A checkout with a few tests of faults; one is nightly, with this body."""
    tests = folder / "checkout" / "tests" / "faults"
    tests.mkdir(parents=True)
    (tests / "test_bad_input.py").write_text(textwrap.dedent(SOME_TESTS.format(body=body)))
    (folder / "checkout" / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\n"
        'addopts = "-m \'not nightly\'"\nmarkers = ["nightly", "fault(n)"]\n'
    )
    return folder / "checkout"


def test_the_nightly_tests_run_when_asked_for_alone(context):
    found = step("nightly-tests")(context)
    assert found.verdict == NOT_RUN and "--tests" in found.reason


@pytest.mark.parametrize(
    "body, verdict",
    [("pass", OK), ("assert 1 == 2", REGRESSION), ("pytest.skip('no mirror')", NO_DATA)],
)
def test_a_failed_test_is_a_regression_and_none_that_ran_no_verdict(
    context, tmp_path, body, verdict
):
    root = checkout_with(tmp_path, body)
    found = step("nightly-tests")(replace(context, root=root, tests=True))
    assert found.verdict == verdict, found
    (row,) = found.findings
    assert row["subject"] == "tests/faults/test_bad_input.py::test_slow"
    if verdict == REGRESSION:
        assert "1 == 2" in row["message"] and "test_slow" in row["command"]
    if verdict == NO_DATA:
        assert found.reason == "no mirror"


def test_a_checkout_whose_tests_cannot_be_read_has_no_verdict(context, tmp_path):
    root = checkout_with(tmp_path, "syntax error (")
    found = step("nightly-tests")(replace(context, root=root, tests=True))
    assert found.verdict in (REGRESSION, NO_DATA) and found.headline


def test_the_faults_of_a_night_are_run_without_the_nightly_ones(context, tmp_path):
    root = checkout_with(tmp_path, "assert False")
    assert {n: len(tests) for n, tests in faults.fault_tests(root).items()} == {1: 1, 2: 2}
    found = step("faults")(replace(context, root=root))
    assert found.verdict == OK, found
    (row,) = found.findings
    assert row["verdict"] == "passed"
    empty = step("faults")(replace(context, root=tmp_path))
    assert empty.verdict == NO_DATA


def test_over_the_nights_every_test_of_every_fault_has_its_turn():
    known = faults.fault_tests(ROOT)
    assert len(known) > 25
    first, most = date(2026, 11, 22), max(map(len, known.values()))
    nights = -(-len(known) * most // faults.A_NIGHT) + 1
    seen = set()
    for night in range(nights):
        chosen = faults.of_the_night(known, first + timedelta(night), faults.A_NIGHT)
        assert len({number for number, _ in chosen}) == faults.A_NIGHT
        seen |= {*chosen}
    assert seen == {(number, name) for number, names in known.items() for name in names}


# ---------------------------------------------------------------------- kill and resume


def test_tables_that_differ_are_named_with_their_first_other_line():
    a = {"scores.csv": b"a\n1\n", "same.csv": b"x", "gone.csv": b"x", "more.csv": b"1\n"}
    b = {"scores.csv": b"a\n2\n", "same.csv": b"x", "new.csv": b"x", "more.csv": b"1\n2\n"}
    assert sweep_path.differences(a, b) == [
        ("gone.csv", "there", "no such file"),
        ("more.csv", "", "2"),
        ("new.csv", "no such file", "there"),
        ("scores.csv", "1", "2"),
    ]


def judged(**given):
    """The verdict on a killed sweep of four trials in which nothing went wrong, but for `given`."""
    tables = {"scores.csv": b"a\n1\n"}
    fine = {
        **{"planned": {"a", "b", "c", "d"}, "before": {"a": 1}, "after": dict.fromkeys("abcd", 1)},
        **{"serial": tables, "resumed": dict(tables)},
    }
    return sweep_path.judged(**{**fine, **given})


def test_a_killed_sweep_is_judged_by_its_trials_and_tables():
    assert judged().verdict == OK and "killed after 1 of 4" in judged().headline
    lost = judged(after=dict.fromkeys("abc", 1))
    twice = judged(after={**dict.fromkeys("abcd", 1), "a": 2})
    for found, verdict in ((lost, "lost"), (twice, "ran twice")):
        assert found.verdict == REGRESSION
        (row,) = found.findings
        assert row["verdict"] == verdict and row["note"] == "killed after 1 of 4 trials"
    assert judged(resumed={}).findings[0]["subject"] == "scores.csv"


def test_the_subject_of_a_killed_sweep_is_the_same_in_every_night():
    nights = [judged(before=dict.fromkeys("abcd"[:n], 1), after={"a": 1}) for n in (1, 3)]
    assert {row["subject"] for night in nights for row in night.findings} == {"trials"}


def test_sweeps_that_write_no_table_at_all_are_a_regression():
    found = judged(serial={}, resumed={})
    assert found.verdict == REGRESSION and "neither sweep wrote a table" in found.headline
    assert [row["subject"] for row in found.findings] == ["tables"]


@pytest.mark.nightly
@pytest.mark.xdist_group("ray-faults")
def test_a_killed_and_resumed_sweep_has_the_tables_of_a_serial_one(context):
    found = step("sweep-path")(context)
    assert found.verdict == OK, found
    assert "killed after" in found.headline and "tables equal" in found.headline
