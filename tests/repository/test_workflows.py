"""The workflows of continuous integration and the nightly scripts, run as processes.

Actions that others wrote are not run; the shell steps are.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from repo import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SCRIPTS = [*sorted((ROOT / "deploy").glob("nightly*.sh")), ROOT / ".ci/run", ROOT / ".ci/setup"]


def parsed(path: Path) -> dict:
    """A workflow; YAML reads the key `on` as true."""
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {("on" if key is True else key): value for key, value in found.items()}


def steps(path: Path) -> list[dict]:
    return [step for job in parsed(path)["jobs"].values() for step in job["steps"]]


def step_of(workflow: str, name: str) -> dict:
    (found,) = (
        s for p in WORKFLOWS if p.stem == workflow for s in steps(p) if s.get("name") == name
    )
    return found


def run_step(step: dict, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A shell step as the runner starts it: in the checkout, with bash -eo pipefail."""
    env = {**os.environ, **environment}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


# ---------------------------------------------------------------------- the form of the workflows


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_asks_for_little_and_pins_what_it_uses(path):
    flow = parsed(path)
    assert flow["permissions"] == {"contents": "read"}
    for job in flow["jobs"].values():
        assert 0 < job["timeout-minutes"] <= 240
        assert "permissions" not in job
    for step in steps(path):
        assert ("uses" in step) != ("run" in step)
        if "uses" in step:
            owner, _, version = step["uses"].partition("@")
            assert owner.startswith("actions/") and re.fullmatch(r"v\d+\.\d+\.\d+", version), step
        else:  # what a person types into a form never becomes part of a command
            assert "${{" not in step["run"], step
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"https?://|index-url|pypi|secrets\.", text)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_shell_step_parses_and_names_files_of_the_repository(path):
    for step in (step for step in steps(path) if "run" in step):
        subprocess.run(["bash", "-n", "-c", step["run"]], check=True)
        program, *words = step["run"].split()
        known = program in ("make", "rm", "sudo", "docker")
        place = ROOT / program
        if program.startswith(".venv/bin/"):  # which `make floors` has elsewhere
            place = Path(sys.executable).parent / place.name
        assert known or os.access(place, os.X_OK), program
        assert all((ROOT / word).exists() for word in words if word.startswith("tests/"))
        if program == "make":
            dry = ["make", "--dry-run", *words]
            subprocess.run(dry, cwd=ROOT, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path):
    """A folder with the scripts."""
    return Path(shutil.copytree(ROOT / "deploy", tmp_path / "checkout" / "deploy")).parent


# ---------------------------------------------------------------------- the night itself

# bench, as far as the script is concerned: writes a night's folder, ends as it is told.
BENCH = """#!/usr/bin/env bash
echo "$@" >> asked
[[ $1 == nightly && $2 == --out ]]
if [[ -n ${NIGHT:-} ]]; then
    mkdir -p "$3/$NIGHT/suites"
    echo '{}' > "$3/$NIGHT/suites/head.json"
    [[ -n ${SLEEP:-} ]] || echo '## Red' > "$3/$NIGHT/summary.md"
fi
if [[ -n ${SLEEP:-} ]]; then
    trap 'echo ended >> stopped; exit 1' TERM
    touch sleeping
    for _ in {1..600}; do sleep 0.1; done
fi
exit "${CODE:-0}"
"""


@pytest.fixture
def prepared(checkout):
    """The checkout with a bench, a set-up that does nothing, and an old night."""
    bench = checkout / ".venv" / "bin" / "bench"
    bench.parent.mkdir(parents=True)
    bench.write_text(BENCH)
    bench.chmod(0o755)
    (checkout / "Makefile").write_text("setup:\n\t@true\n")
    old = checkout / "nights" / "2020-01-01-abc" / "suites"
    old.mkdir(parents=True)
    (old / "head.json").write_text("{}")
    (checkout / "nights" / "store").mkdir()
    others = [checkout / "nights" / "accepted-abc-20200101T000000"]
    others[0].mkdir()
    for path in (old / "head.json", old, old.parent, *others):
        os.utime(path, (1.6e9, 1.6e9))
    return checkout


def a_night(checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {"AGAINST": "", "TABSWEEP_NIGHTLY_DRIFT": "", **environment}
    return run_step(step_of("nightly", "Night"), checkout, **given)


def asked(checkout: Path) -> list[str]:
    """How `bench` was called, once a night."""
    return (checkout / "asked").read_text().splitlines()


def test_the_script_ends_as_the_night_did_and_leaves_its_folder_alone_and_the_store(prepared):
    done = a_night(prepared, NIGHT="2026-11-22-77aa001", CODE="4", AGAINST="v1 x")
    assert done.returncode == 4, done.stderr
    latest = prepared / "nights" / "latest"
    assert os.readlink(latest) == "2026-11-22-77aa001" and (latest / "summary.md").is_file()
    assert asked(prepared) == ["nightly --out nights --against v1 x"]
    left = {path.name for path in (prepared / "nights").iterdir()} - {".lock"}
    assert left == {"2026-11-22-77aa001", "latest", "store"}


def test_the_summary_ends_what_a_night_prints_that_is_not_green(prepared):
    night = {"NIGHT": "2026-11-22-77aa001"}
    assert "## " not in a_night(prepared, **night).stdout
    silent = a_night(prepared, CODE="2")  # it wrote nothing: not the one before
    assert silent.returncode == 2 and "did not end" in silent.stdout
    assert not (prepared / "nights" / "latest").is_symlink()
    red = a_night(prepared, **night, CODE="4")
    assert red.returncode == 4 and red.stdout.endswith("## Red\n")


def test_where_the_set_up_fails_the_night_before_is_not_shown_as_this_one(prepared, tmp_path):
    def summary() -> str:
        shown = tmp_path / "step-summary"
        shown.unlink(missing_ok=True)
        done = run_step(step_of("nightly", "Summary"), prepared, GITHUB_STEP_SUMMARY=str(shown))
        assert done.returncode == 0, done.stderr
        return shown.read_text()

    assert a_night(prepared, NIGHT="2026-11-22-77aa001").returncode == 0
    assert summary() == "## Red\n"
    (prepared / "nights" / "store" / "worktrees" / "abc").mkdir(parents=True)
    assert run_step(step_of("nightly", "Not from the night before"), prepared).returncode == 0
    left = {path.name for path in (prepared / "nights").iterdir()} - {".lock"}
    assert left == {"2026-11-22-77aa001", "store"}
    assert not [*(prepared / "nights" / "store").iterdir()]
    assert "did not end" in summary()
    (prepared / "Makefile").write_text("setup:\n\tfalse\n")
    failed = a_night(prepared, NIGHT="2026-11-23-77aa001")
    assert failed.returncode not in (0, 4) and "did not end" in failed.stdout
    assert not (prepared / "nights" / "latest").exists() and len(asked(prepared)) == 1


def test_a_night_that_is_stopped_ends_its_process_and_is_told(prepared):
    env = {**os.environ, "NIGHT": "2026-11-22-77aa001", "SLEEP": "yes"}
    env["TABSWEEP_NIGHTS"] = "nights/"
    out = {"stdout": subprocess.PIPE, "text": True}
    script = subprocess.Popen(["deploy/nightly.sh"], cwd=prepared, env=env, **out)
    try:
        limit = time.monotonic() + 60
        while not (prepared / "sleeping").exists():
            assert script.poll() is None and time.monotonic() < limit
            time.sleep(0.05)
        script.terminate()
        printed = script.communicate(timeout=60)[0].splitlines()
        assert script.returncode == 143
    finally:
        script.kill()
    assert (prepared / "stopped").read_text() == "ended\n"
    assert "did not end" in printed[-3] and "same day" in printed[-1]
    assert os.readlink(prepared / "nights" / "latest") == "2026-11-22-77aa001"
    assert asked(prepared) == ["nightly --out nights"]
    assert a_night(prepared).returncode == 0  # the lock is free


def test_the_weekly_drift_compares_with_the_last_tag(prepared):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(prepared)]
    drift = {"TABSWEEP_NIGHTLY_DRIFT": "yes", "NIGHT": "2026-11-22-77aa001"}
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    assert a_night(prepared, **drift).returncode == 0  # there is no tag
    subprocess.run([*git, "tag", "v0.1"], check=True)
    assert a_night(prepared, **drift).returncode == 0
    assert asked(prepared) == ["nightly --out nights", "nightly --out nights --against v0.1"]


def test_two_nights_at_once_are_refused(prepared):
    with open(prepared / "nights" / ".lock", "w") as lock:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)
        assert a_night(prepared).returncode == 3
    assert a_night(prepared).returncode == 0


# ---------------------------------------------------------------------- scripts


def test_the_scripts_can_be_run_and_parse():
    assert len(SCRIPTS) == 4
    for script in SCRIPTS:
        assert os.access(script, os.X_OK)
        subprocess.run(["bash", "-n", str(script)], check=True)
