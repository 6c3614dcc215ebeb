"""Hostile input is inert: names, tables, suite files, and files that somebody else prepared."""

from __future__ import annotations

import ast
import csv
import json
import os
import pickle
import random
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from calls import bench
from ledger_cases import log_of
from refusals import refused
from repo import ROOT, dotted, modules, tree
from small_sweeps import FAST, write_suite
from tabsweep.benchmark.outcome.fit_and_save import place
from tabsweep.benchmark.planning.plan_record import last_plan
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.sweeps.store.blocks import FORMAT
from tabsweep.sweeps.store.checkpoints import CheckpointFolder
from tabsweep.sweeps.store.ledger import Ledger, encode

pytestmark = pytest.mark.usefixtures("work")

IRIS = ("--suite", "smoke", "--dataset", "iris", "--folds", 1, "--trials", 1)


# ---------------------------------------------------------------------- names

ODD = [
    '=HYPERLINK("http://evil.example","x")',
    "</script><script>alert(1)</script>",
    r"\input{/etc/passwd}",
    "a|b",
    "a b",
    "$x_",
    "left\u202eright",
    "n" * 300,
    "a#tune#1",
]
BAD = ["a\0b", "../../x", "x/../../y", r"..\x", "/etc/x", "~/x", "two\nlines", 5]


@pytest.fixture
def named(work: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[object], str]:
    """Makes a model with a name of its own in the working directory; how to ask for it."""
    module = f"named_{random.Random(str(work)).randrange(10**9)}"
    names = [*ODD, *BAD]
    lines = ["from tabsweep.models.constant import Constant\n"]
    lines += [f"class M{i}(Constant):\n    name = {name!r}\n" for i, name in enumerate(names)]
    (work / f"{module}.py").write_text("".join(lines))
    monkeypatch.syspath_prepend(str(work))
    return lambda name: f"{module}:M{names.index(name)}"


@pytest.mark.fault(13)
def test_odd_names_go_through_a_whole_sweep_and_come_out_inert(named, work):
    picks = [word for name in ODD for word in ("--model", named(name))]
    found = bench("sweep", *IRIS, *picks, *FAST, "--name", "odd")
    assert found.code == 0, found
    assert set(load_results("runs/odd")["model"]) == set(ODD), "the names did not get there"
    report = work / "runs" / "odd" / "report"
    files = [path for path in report.rglob("*") if path.is_file()]
    for path in files:
        if path.suffix == ".pdf":
            continue
        text = path.read_text(encoding="utf-8")
        assert not set(text) & {"\0", "\u202e"}, path
        if path.suffix == ".tex":
            ours = re.sub(r"\\input\{[a-z-]+\}", "", text)  # main.tex takes in its neighbours
            assert not re.search(r"\\input\b", ours) and not re.search(r"(?<!\\)\$x", text)
        if path.suffix == ".md":
            assert "<script" not in text and "http://" not in text
        if path.suffix == ".csv":
            with open(path, newline="", encoding="utf-8") as stream:
                cells = [cell for row in csv.reader(stream) for cell in row]
            assert not any(cell[:1] in ("=", "+", "@") for cell in cells)
            assert path.stem != "scores" or any(cell.startswith("'=HYP") for cell in cells)
    assert {".tex", ".md", ".csv", ".html"} <= {path.suffix for path in files}
    for path in (work / "runs").rglob("*"):  # no name of a model is the name of a file
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,100}", path.name), path


@pytest.mark.fault(13)
@pytest.mark.parametrize("name", BAD, ids=repr)
def test_a_model_whose_name_has_control_characters_or_is_a_path_is_refused(named, name):
    refused("BENCH-E004", "sweep", *IRIS, "--model", named(name), *FAST)


@pytest.mark.fault(13)
def test_names_that_look_alike_as_files_are_files_of_their_own():
    files = {place(Path("run"), None, "iris", name).name for name in ODD if "/" not in name}
    assert len(files) == len([name for name in ODD if "/" not in name])
    for name in (*ODD, "../../x", "a\0b"):
        path = place(Path("run"), None, "iris", name)
        assert path.parent == Path("run/fitted") and len(path.name) < 120
        assert re.fullmatch(r"[A-Za-z0-9._-]+", path.name)


# ---------------------------------------------------------------------- tables


@pytest.mark.fault(14)
def test_odd_but_usable_columns_are_handled_said_and_cost_no_row():
    """A byte-order mark, an empty column, mixed types, gaps, and a category that only one row has:
    in the fold where that row is for testing, training never saw it."""
    n = 60
    lines = [
        f"{'' if i % 7 == 0 else i * 7 % 11 + 0.5},{'once' if i == 3 else 'ab'[i % 2]},,"
        f"{'broken' if i == 5 else i % 9},{i * 5 % 13 + 0.25}\n"
        for i in range(n)
    ]
    Path("t.csv").write_text("\ufeffsize,kind,nothing,mixed,price\n" + "".join(lines))
    call = ("--csv", "t.csv", "--target", "price", "--folds", 10, "--trials", 1, "--bag", 0)
    found = bench("sweep", *call, "--model", "knn", "--model", "decision-tree", *FAST)
    assert found.code == 0, found
    assert "warning: column 'nothing'" in found.err
    mixed = next(line for line in found.err.splitlines() if "column 'mixed'" in line)
    assert all(words in mixed for words in ("59", "1", "'broken'"))
    ledger = Ledger(Path("runs/csv-t-quick"))
    plan = last_plan(ledger)
    assert plan is not None and plan.datasets["t"].n_rows == n
    assert plan.datasets["t"].n_features == 4
    tested: dict[str, int] = {}
    for record in ledger.records("result"):
        parts = ledger.predictions.get(record["predictions"])
        assert all(np.isfinite(values).all() for values in parts.values())
        tested[record["model"]] = tested.get(record["model"], 0) + len(parts["test"])
    assert tested == {"knn": n, "decision-tree": n}, "rows are missing from the tests"


# ---------------------------------------------------------------------- suite files


@pytest.mark.fault(15)
def test_a_suite_file_with_an_unknown_model_is_refused():
    suite = write_suite("mine.json", "mine", ["iris"], ["kn"])
    assert "'kn'" in refused("BENCH-E004", "sweep", "--suite", suite, *FAST)


@pytest.mark.fault(15)
def test_a_model_and_a_dataset_that_options_name_twice_count_once():
    twice = ("--dataset", "iris", "--model", "knn") * 2
    call = ("sweep", "--suite", "smoke", *twice, "--folds", 1, "--trials", 2, "--workers", 0)
    found = bench(*call, "--tracking-uri", "none", "--runs", "runs", "--json")
    assert found.code == 0 and json.loads(found.out)["planned"] == 2


# ---------------------------------------------------------------------- files of somebody else


class Canary:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.fixture
def bomb(work: Path) -> bytes:
    """A pickle that makes the folder "canary"; it has been shown to work."""
    canary = work / "canary"
    data = pickle.dumps(Canary(canary))
    pickle.loads(data)
    assert canary.is_dir()
    canary.rmdir()
    return data


def as_checkpoints(run: Path, bomb: bytes) -> None:
    folder = run / "checkpoints"
    folder.mkdir(exist_ok=True)
    ids = [record["id"] for record in Ledger(run).records("result")]
    for key in ids:
        (folder / f"{key}.checkpoint").write_bytes(bomb)
        assert CheckpointFolder(folder).get(key) is None
        (folder / f"{key}.checkpoint").write_bytes(bomb)


def as_line(run: Path, bomb: bytes) -> None:
    log = log_of(run)
    log.write_bytes(log.read_bytes() + bomb + b"\n")


def as_log(run: Path, bomb: bytes) -> None:
    log_of(run).write_bytes(bomb)


def as_columns(run: Path, bomb: bytes) -> None:
    """A file of columns whose checksums are right, and whose tables are none."""
    log = log_of(run).read_bytes()
    block = {"kind": "block", "format": FORMAT, "start": 0, "end": len(log), "kinds": ["plan"]}
    block |= {"records": log.count(b"\n"), "heads": len(bomb), "columns": len(bomb)}
    block |= {"log_crc32": zlib.crc32(log), "crc32": zlib.crc32(2 * bomb)}
    (run / "ledger" / "columns.bin").write_bytes(encode(block) + 2 * bomb)


def as_predictions(run: Path, bomb: bytes) -> None:
    (run / "predictions" / "000000.bin").write_bytes(bomb)


def as_objects(run: Path, bomb: bytes) -> None:
    """Records that call their predictions an array of objects, with the checksum of a pickle."""
    import hashlib

    as_predictions(run, bomb)
    records = [*Ledger(run).records()]
    sha256 = hashlib.sha256(bomb).hexdigest()
    for record in records:
        for where in record.get("predictions", {}).values():
            where |= {"dtype": "|O", "offset": 0, "shape": [1], "sha256": sha256}
    log_of(run).write_bytes(b"".join(map(encode, records)))


@pytest.mark.fault(28)
def test_a_plan_with_the_right_checksum_and_the_wrong_parts_is_refused_in_one_line():
    assert bench("sweep", *IRIS, "--model", "knn", *FAST, "--name", "theirs").code == 0
    run = Path("runs/theirs")
    records = [*Ledger(run).records()]
    for part, wrong in (("options", []), ("datasets", "iris"), ("studies", {}), ("suite", None)):
        changed = [r | {part: wrong} if r["kind"] == "plan" else r for r in records]
        log_of(run).write_bytes(b"".join(map(encode, changed)))
        kind = type(wrong).__name__
        for call in (("status",), ("report",), ("verify",), ("resume", "--workers", 0)):
            found = bench(call[0], run, *call[1:])
            assert found.code == 3 and "Traceback" not in found.err, (call, found)
            assert f"its {part} is a {kind}" in found.out + found.err, (call, found)


@pytest.mark.fault(19, 28)
@pytest.mark.parametrize(
    "place_it", [as_checkpoints, as_line, as_log, as_columns, as_predictions, as_objects]
)
def test_no_command_runs_what_somebody_put_into_a_run(place_it, bomb):
    assert bench("sweep", *IRIS, "--model", "lightgbm", *FAST, "--name", "theirs").code == 0
    run = Path("runs/theirs")
    place_it(run, bomb)
    assert any(bomb in path.read_bytes() for path in run.rglob("*") if path.is_file())
    common = ("--workers", 0, "--tracking-uri", "none")
    calls = [
        ("status", run),
        ("report", run),
        ("logs", run),
        ("fit", run, "--model", "lightgbm", "--dataset", "iris"),
        ("resume", run, *common),
        ("sweep", *IRIS, "--model", "lightgbm", *FAST, "--name", "mine"),  # it may be copied from
        ("clean", run, "--all", "--yes"),
    ]
    codes = {}
    for call in calls:
        found = bench(*call)
        assert "Traceback" not in found.err and "BENCH-E000" not in found.err, (call, found)
        assert not Path("canary").exists(), f"{call[0]} ran what was put there"
        codes[call[0]] = found.code
    assert codes["sweep"] == 0 and status_of(Path("runs/mine")).done == 1
    if place_it in (as_log, as_columns):
        assert {codes["status"], codes["report"], codes["resume"]} == {3}


@pytest.mark.fault(19)
def test_a_pickle_in_place_of_a_model_is_refused_with_the_reason(bomb):
    Path("m.tabsweep").write_bytes(bomb)
    Path("t.csv").write_text("a,b\n1,2\n")
    found = bench("predict", "m.tabsweep", "t.csv", "--out", "out.csv")
    assert found.code == 2 and "error BENCH-E018" in found.err and "pickle" in found.err
    assert not Path("canary").exists() and not Path("out.csv").exists()


# What could run code from a file, and where that is right nevertheless.
LOADERS = re.compile(
    r"(pickle|joblib|marshal|dill|shelve|torch)\.(load|loads|open)$|read_pickle$|"
    r"^(yaml\.(load|full_load|unsafe_load)|eval|exec)$"
)
ALLOWED = {
    # An exception that Ray Tune in this very process wrote a moment before.
    ("sweeps/ray_tune/callbacks.py", "ray.cloudpickle.load"),
    # A script that times other packages' own files, which it wrote a moment before.
    ("benchmark/perf/peers.py", "joblib.load"),
    # Messages between a driver and its workers, and data in a folder that this user alone may read.
    ("sweeps/workers/process_calls.py", "pickle.loads"),
    ("sweeps/workers/process_worker.py", "pickle.loads"),
    ("sweeps/workers/process_worker.py", "joblib.load"),
}


@pytest.mark.fault(19)
def test_no_module_of_the_product_unpickles_anything_from_a_file():
    n_calls, found = 0, set()
    for path in modules():
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Call):
                continue
            n_calls += 1
            name, words = dotted(node.func), {word.arg: word.value for word in node.keywords}
            assert not words.keys() & {"allow_pickle", "trusted"}, f"{path}:{node.lineno}"
            only = words.get("weights_only")
            weights = isinstance(only, ast.Constant) and only.value is True
            if LOADERS.search(name) and not (name == "torch.load" and weights):
                found.add((path.relative_to(ROOT).as_posix(), name))
    assert n_calls > 1000, "the modules were not found"
    assert found <= ALLOWED, f"these could run what a file says: {found - ALLOWED}"
