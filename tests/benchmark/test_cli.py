"""The command line: its imports, options, JSON documents, listings, error ids and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from calls import Ran, bench
from click.testing import CliRunner
from repo import errors
from tabsweep.benchmark import console
from tabsweep.benchmark.cli import main
from tabsweep.benchmark.planning import suite as suites
from tabsweep.datasets import catalog
from tabsweep.datasets.errors import DatasetUnavailable
from tabsweep.models import registry

ROOT = Path(__file__).parents[2]
HEAVY = {"pandas", "torch", "ray", "mlflow", "sklearn", "numpy", "optuna", "hyperopt", "pyarrow"}
CHEAP = [["--help"], ["sweep", "--help"], ["--version"], ["sweep", "--sute", "smoke"], ["swep"]]
CONFIG_ERRORS = [
    ["sweep"],
    ["sweep", "--suite", "uci-smal"],
    ["sweep", "--suite", "smoke", "--budget", "quik"],
    ["sweep", "--suite", "smoke", "--dataset", "irs"],
    ["sweep", "--suite", "smoke", "--name", "../../x"],
    ["sweep", "--suite", "smoke", "--csv", "x.csv"],
    ["sweep", "--csv", "x.csv"],
    ["status", "nowhere"],
    ["report", "nowhere"],
    ["fit", "nowhere", "--tracking-uri", "http://localhost:1"],
    ["reproduce", "--list", "npt-table-1"],
]


def commands(
    group: click.Group = main, prefix: tuple[str, ...] = ()
) -> dict[tuple[str, ...], click.Command]:
    """{the words that name a command: the command}"""
    found = {}
    for name, command in group.commands.items():
        path = (*prefix, name)
        found |= commands(command, path) if isinstance(command, click.Group) else {path: command}
    return found


# ---------------------------------------------------------------------- the cost of an answer


CALLS = f"""
import json, sys
from tabsweep.benchmark.cli import main
codes = []
for args in json.loads(sys.argv[1]):
    try:
        codes.append(main(args, prog_name="bench", standalone_mode=True))
    except SystemExit as end:
        codes.append(end.code)
roots = {{name.partition(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names)
print(json.dumps([codes, sorted(roots), sorted({HEAVY!r} & roots)]))
"""


def after(calls: list[list[str]]) -> tuple[list[int], set[str], list[str]]:
    """(exit codes, packages imported, heavy ones among them) of calls in one fresh process."""
    process = subprocess.run(
        [sys.executable, "-c", CALLS, json.dumps(calls)], capture_output=True, text=True
    )
    codes, roots, heavy = json.loads(process.stdout.splitlines()[-1])
    return codes, set(roots), heavy


def test_help_and_misspelt_words_import_click_and_nothing_else_of_other_packages():
    codes, roots, _ = after(CHEAP)
    assert codes == [0, 0, 0, 2, 2]
    _, empty, _ = after([])
    assert roots - empty <= {"_tabsweep_complete"}, "what importing the verbs did not import"
    ours = {name for name in empty if not name.startswith("_")}
    assert ours <= {"tabsweep", "click", "sitecustomize", "colorama"}, ours


def test_refusals_and_the_list_of_models_import_nothing_heavy_and_write_nothing(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    codes, _, heavy = after([["models"], *CONFIG_ERRORS])
    assert codes == [0] + [2] * len(CONFIG_ERRORS)
    assert heavy == []
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------- the same everywhere


def test_every_command_has_help_the_common_options_and_says_what_each_option_does():
    assert "..." not in bench("--help").out.partition("Commands:")[2]  # no line is cut
    for path, command in commands().items():
        found = bench(*path, "--help")
        assert found.code == 0, path
        for option in ("--json", "--quiet", "--verbose", "--no-color", "--help"):
            assert option in found.out, path
        options = [one for one in command.params if isinstance(one, click.Option)]
        assert [one.opts for one in options if not (one.help or "").strip()] == [], path


def test_a_misspelt_word_is_answered_with_a_suggestion():
    for args, near in (
        (["swep"], "sweep"),
        (["sweep", "--sute"], "--suite"),
        (["data", "lst"], "list"),
    ):
        found = bench(*args)
        assert found.code == 2 and near in found.err.splitlines()[-1], found.err


# ---------------------------------------------------------------------- for programs


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["models", "svm"], 0),
        (["models", "smv"], 2),
        (["suites", "uci-small"], 0),
        (["data", "passport", "iris"], 0),
        (["data", "verify", "iris", "diabetes"], 0),
        (["data", "fetch", "wine"], 0),
        (["data", "passport", "irs"], 2),
        (["reproduce", "--list"], 0),
        (["reproduce", "npt-table-99"], 2),
        (["reproduce", "npt-table-8", "--no-run"], 2),
        (["status", "nowhere"], 2),
        (["sweep", "--suite", "smok"], 2),
        (["sweep", "--suite", "smoke", "--dry-run"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_json_prints_one_document_and_nothing_else(args, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = bench(*args, "--json")
    assert found.code == code
    document = json.loads(found.out)
    if code:
        assert document["error"]["id"].startswith("BENCH-E")
        assert document["error"]["message"]
    assert not list(tmp_path.iterdir())


def test_the_document_survives_whatever_libraries_print():
    code = """
import os, sys, click
from tabsweep.benchmark.console import common

@click.command()
@common
def noisy(face):
    print("a library")
    face.say("for people")
    os.write(1, b"a library in C\\n")
    os.system("echo a child process")
    face.data({"value": float("nan"), "path": os.path, "list": (1, 2)})
    os.write(1, b"later\\n")
    return 1

noisy()
"""
    found = subprocess.run([sys.executable, "-c", code, "--json"], capture_output=True, text=True)
    assert found.returncode == 1
    assert json.loads(found.stdout)["list"] == [1, 2]
    assert json.loads(found.stdout)["value"] is None
    for line in ("a library", "a library in C", "a child process", "later"):
        assert line in found.stderr.splitlines()
    assert "for people" not in found.stdout + found.stderr


def test_lists_as_json_say_what_each_model_dataset_and_suite_is():
    models, cards, known = (
        {one["name"]: one for one in json.loads(bench(*words, "--json").out)}
        for words in (["models"], ["data", "list"], ["suites"])
    )
    assert set(models) == set(registry.names()) and set(cards) == set(catalog.names())
    assert set(known) == set(suites.files())
    assert models["gaussian-process"]["max_rows"] == 2000
    assert "npt" in models["knn"]["spaces"]["binary"]
    assert cards["iris"]["task"] == "multiclass" and not cards["iris"]["files"]
    assert all(len(file["sha256"]) == 64 for file in cards["yacht"]["files"])
    assert known["uci-small"]["datasets"] == 25
    assert known["uci-small"]["default_budget"] == "quick"


# ---------------------------------------------------------------------- for people


def test_every_model_and_suite_can_be_shown():
    for name in registry.names():
        found = bench("models", name)
        assert found.code == 0, name
        assert f"{name}: " in found.out and "hyperparameter" in found.out or name == "constant"
    for name in suites.files():
        found = bench("suites", name)
        assert found.code == 0 and suites.load(name).default_budget in found.out, name


def test_the_values_of_a_space_are_shown_with_their_scale_and_step():
    assert "int [1, 100], log" in bench("models", "knn").out
    assert "int [8, 64], step 2" in bench("models", "autoint").out
    assert "log-uniform [0.0001, 0.5], shift -0.0001" in bench("models", "lightgbm").out
    assert "source: Kossen et al. 2021 (NPT), Table 19" in bench("models", "xgboost").out


def test_quiet_says_nothing_about_what_is_fine():
    assert bench("models", "--quiet").out == ""


# ---------------------------------------------------------------------- errors


def raising(error: Exception, *args: str) -> Ran:
    @click.command()
    @console.common
    def command(face):
        raise error

    result = CliRunner().invoke(command, list(args))
    return Ran(result.exit_code, result.stdout, result.stderr)


def test_an_error_has_an_id_that_no_other_has_and_keeps_its_exit_code():
    own = [cls for cls in errors() if "id" in vars(cls)]
    system = [cls for cls in own if issubclass(cls, OSError)]
    assert {cls.id for cls in system} == {"BENCH-E016"}
    assert len({cls.id for cls in own}) == len(own) - len(system) + 1
    for cls in errors():
        assert cls.exit_code in (2, 3)


def test_an_error_of_another_library_has_no_id_for_its_name():
    assert raising(type("DataError", (Exception,), {})("no disk")).code == 1


@pytest.mark.parametrize(
    ("error", "id", "code"),
    [
        (suites.SuiteError("two\nlines"), "BENCH-E001", 2),
        (DatasetUnavailable("iris", "gone"), "BENCH-E013", 3),
        (ValueError("two\nlines"), "BENCH-E017", 2),
        (OSError(28, "No space left on device"), "BENCH-E016", 3),
        (PermissionError(13, "Permission denied"), "BENCH-E016", 3),
    ],
)
def test_a_known_error_is_one_line_with_an_id_and_an_exit_code(error, id, code):
    found = raising(error)
    assert found.code == code
    assert found.err.startswith(f"error {id}: ") and found.err.count("\n") == 1
    assert "Traceback" in raising(error, "-v").err


def test_an_unforeseen_error_keeps_its_traceback_and_exits_with_1():
    found = raising(RuntimeError())
    assert found.code == 1
    assert "Traceback" in found.err and "error BENCH-E000: RuntimeError" in found.err


def test_an_interrupt_exits_with_130():
    found = raising(KeyboardInterrupt(), "--json")  # type: ignore[arg-type]
    assert found.code == 130
    assert json.loads(found.out) == {"interrupted": True}


# ---------------------------------------------------------------------- where a document goes


def test_a_document_that_cannot_be_written_is_no_failure_of_trials():
    """A pipe whose reader has gone, a full disk, no standard output at all."""
    call = [sys.executable, "-c", "from tabsweep.benchmark.cli import main; main()"]
    call += ["models", "--json"]
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as pipe, open("/dev/full", "w") as full:
        gone = subprocess.run(call, stdout=pipe, stderr=subprocess.PIPE, text=True)
        disk = subprocess.run(call, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (gone.returncode, gone.stderr) == (0, "")
    assert disk.returncode == 3 and disk.stderr.startswith("error BENCH-E016: standard output")
    closed = subprocess.run(
        ["bash", "-c", '"$@" >&-', "bash", *call], stderr=subprocess.PIPE, text=True
    )
    assert (closed.returncode, closed.stderr) == (0, "")
