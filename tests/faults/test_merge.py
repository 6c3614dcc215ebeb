"""`bench merge`: runs that were made apart become the run that one machine would have made."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from calls import Ran, bench, without_reports, working_in
from small_sweeps import AGAIN, FAST, executions, write_own_models, write_suite
from tabsweep.sweeps.store.ledger import Ledger, encode

SWEEP = ("sweep", "--suite", "halves.json", *FAST[:-2])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working directory with runs/whole, and its halves, each computed by itself."""
    with working_in(tmp_path_factory.mktemp("merge")) as here, without_reports():
        # both models on both datasets, one of them tuned by a sampler with a history
        write_suite("halves.json", "halves", ["iris", "wine"], ["knn", "constant"], folds=2,
                    trials=4, seeds=2, sampler="tpe")  # fmt: skip
        for runs, name, words in (
            ("runs", "whole", []),
            ("a", "iris", ["--dataset", "iris"]),
            ("b", "wine", ["--dataset", "wine"]),
        ):
            assert bench(*SWEEP, "--runs", runs, "--name", name, *words).code == 0
        yield here


def merge(*words: object, code: int = 0) -> dict[str, Any]:
    found = bench("merge", *words, "--json")
    assert found.code == code, found
    return json.loads(found.out)


def tables(run: Path) -> dict[str, bytes]:
    """The report, written again, but for what tells times and origins."""
    assert bench("report", run).code == 0
    kept = ("scores", "tests", "seeds", "folds", "leaderboard")
    found = {p.name: p.read_bytes() for p in (run / "report").iterdir() if p.stem in kept}
    assert len(found) > 10
    return found


@pytest.fixture(scope="module")
def whole_tables(folder: Path) -> dict[str, bytes]:
    return tables(folder / "runs" / "whole")


def of_disjoint(run: str) -> list[dict[str, Any]]:
    return list(Ledger(Path(run)).records("result"))


def test_two_halves_of_a_sweep_are_the_whole_to_the_byte_and_nothing_runs(
    folder: Path, tmp_path: Path, whole_tables: dict[str, bytes]
) -> None:
    out = tmp_path / "c" / "ours"
    found = merge("a/iris", "b/wine", "--out", out)
    n = len(of_disjoint("a/iris")) + len(of_disjoint("b/wine"))
    assert found["written"] and sum(found["taken"].values()) == found["done"] == found["planned"]
    assert found["left"] == 0 and not found["refused"]
    records = list(Ledger(out).records("result"))
    assert len(records) == n and {r["origin"] for r in records} == {"iris", "wine"}
    times = {r["id"]: r["time"] for run in ("a/iris", "b/wine") for r in of_disjoint(run)}
    assert {r["id"]: r["time"] for r in records} == times  # copied, not computed
    assert tables(out) == whole_tables
    whole, ours = (list(Ledger(Path(r)).records("study")) for r in ("runs/whole", out))
    strip = lambda those: sorted((s["study"], s["best"], s["loss"]) for s in those)  # noqa: E731
    assert strip(whole) == strip(ours) and len(ours) == 8
    assert bench("verify", out).code == 0
    before = executions(str(out))
    assert bench("resume", out, *AGAIN).code == 0 and executions(str(out)) == before


def test_halves_of_one_study_and_overlaps_are_united_and_a_resume_runs_the_rest(
    folder: Path, tmp_path: Path, whole_tables: dict[str, bytes]
) -> None:
    lone = tmp_path / "lone"  # no other run's trials are to be found beside it
    words = ["--runs", lone, "--name", "few", "--trials", 3, "--folds", 1, "--model", "knn"]
    assert bench(*SWEEP, *words).code == 0
    out = tmp_path / "c" / "ours"
    found = merge(lone / "few", "a/iris", "--out", out)
    assert found["written"] and found["left"] > 0
    before = executions(str(out))
    assert bench("resume", out, *AGAIN).code == 0
    assert all(n == 1 for n in executions(str(out)).values()) and len(executions(str(out))) > len(
        before
    )
    assert tables(out) == whole_tables


def rewritten(
    run: Path, change: Callable[[dict[str, Any]], Any], kind: str = "result", number: int = 4
) -> dict[str, Any]:
    """Change a record, with a right checksum, and append the one that `change` returns, if any;
    returns the record."""
    log = run / "ledger" / "log.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    at = [i for i, line in enumerate(lines) if f'"kind":"{kind}"'.encode() in line][number]
    record = json.loads(lines[at][9:])
    assert encode(record) == lines[at]
    more = change(record)
    lines[at] = encode(record)
    log.write_bytes(b"".join([*lines, encode(more)] if more else lines))
    return record


def better(record: dict[str, Any]) -> None:
    record["test"]["accuracy"] = 1.0 - 1e-6


def other_seed(record: dict[str, Any]) -> None:
    record["config"] = {**record["config"], next(iter(record["config"])): 7}


def swapped(record: dict[str, Any]) -> None:
    where = record["predictions"]
    where["val"], where["test"] = where["test"], where["val"]


def failed(record: dict[str, Any]) -> None:
    record |= {"status": "failed", "cause": "bad luck"}


def second(record: dict[str, Any]) -> dict[str, Any]:
    return record | {"study": "nowhere", "config": {"n_neighbors": 9999}}


TAMPERS = {
    "a better score": better,
    "another configuration": other_seed,
    "predictions of other rows": swapped,
    "an odd failure": failed,
    "another id": lambda record: record.update(id="0" * 32),
    "a damaged file": lambda record: record["predictions"]["val"].update(sha256="0" * 64),
    "no predictions": lambda record: record.update(predictions={}),
    "another model": lambda record: record.update(model="svm"),
    "a second record of the same id": second,
    "a second record with another seed": lambda record: (
        record | {"study": "nowhere", "seed": 12345}
    ),
}


# What a merge does not take from a result, as the trial that the plan asks for has it.
UNREAD = ("another model", "a second record of the same id", "a second record with another seed")


@pytest.mark.fault(42)
@pytest.mark.parametrize("what", TAMPERS)
def test_a_tampered_trial_is_named_and_never_taken_over_as_it_is(
    what: str, folder: Path, tmp_path: Path, whole_tables: dict[str, bytes]
) -> None:
    theirs = Path(shutil.copytree("b/wine", tmp_path / "theirs"))
    record = rewritten(theirs, TAMPERS[what])
    key = f"{record['study']}#{record['stage']}#{record['index']}"
    assert bench("status", theirs).code == 0  # its checksums are right
    out = tmp_path / "c" / "ours"
    printed: Ran = bench("merge", "a/iris", theirs, "--out", out, "--json")
    found = json.loads(printed.out)
    named = f"{theirs} {key}" in found["refused"] and key in printed.err
    assert named == (printed.code == 3)
    assert named or what in UNREAD
    assert found["left"] > 0 or what in ("another configuration", *UNREAD)
    if what in ("a better score", "another configuration"):
        assert bench("resume", out, *AGAIN).code == 0
        assert tables(out) == whole_tables


@pytest.mark.fault(42)
def test_a_record_of_a_slot_that_cannot_be_is_not_taken_over(
    folder: Path, tmp_path: Path, whole_tables: dict[str, bytes]
) -> None:
    run = Path(shutil.copytree("b/wine", tmp_path / "wine"))
    stages = [record["stage"] for record in of_disjoint(str(run))]
    for stage in ("tune", "eval"):
        rewritten(run, lambda record: record | {"index": -1}, number=stages.index(stage))
    assert {r["stage"] for r in of_disjoint(str(run)) if r["index"] == -1} == {"tune", "eval"}
    out = tmp_path / "c" / "ours"
    found = merge("a/iris", run, "--out", out)
    assert found["written"] and sum(found["taken"].values()) == found["planned"]
    assert all(r["index"] >= 0 for r in Ledger(out).records() if r["kind"] in ("result", "slot"))
    assert tables(out) == whole_tables


@pytest.mark.fault(42)
def test_of_two_runs_that_contradict_each_other_the_first_counts_and_both_are_named(
    folder: Path, tmp_path: Path
) -> None:
    mine = Path(shutil.copytree("b/wine", tmp_path / "mine"))
    (first, *_) = [r for r in of_disjoint("b/wine") if r["model"] == "constant"]
    ledger = Ledger(mine, write=True)
    arrays = ledger.predictions.get(first["predictions"])
    nearly = {part: values * (1 + 1e-13) for part, values in arrays.items()}
    where = ledger.predictions.put(nearly)
    ledger.predictions.sync()
    ledger.append([{**first, "predictions": where}])
    ledger.close()
    out = tmp_path / "ours"
    found = merge("b/wine", mine, "--out", out, code=3)
    assert len(found["conflicts"]) == 1 and first["id"] in found["conflicts"][0]
    assert not found["refused"] and found["left"] == 0
    copied = next(r for r in of_disjoint(str(out)) if r["id"] == first["id"])
    sums = lambda r: [place["sha256"] for place in r["predictions"].values()]  # noqa: E731
    assert sums(copied) == sums(first)


def test_runs_that_cannot_share_a_table_are_refused(folder: Path, tmp_path: Path) -> None:
    assert bench(*SWEEP, "--runs", "d", "--name", "seed", "--dataset", "wine", "--trials", 1,
                 "--folds", 1, "--seed", 3).code == 0  # fmt: skip
    for theirs, text in (
        ("d/seed", "seed"),
        ("a/iris", "two different runs"),
        ("nowhere", "not the folder of a run"),
    ):
        found = bench("merge", "a/iris", theirs, "--out", tmp_path / "ours")
        assert found.code == 2 and text in found.err, found
    found = bench("merge", "a/iris", "b/wine", "--out", "a/iris")
    assert found.code == 2 and "exists" in found.err
    assert not (tmp_path / "ours").exists()


EVIL = """
from pathlib import Path
Path({mark!r}).touch()


class X:
    pass
"""


@pytest.mark.fault(28)
@pytest.mark.parametrize("place", ["options", "models", "of"])
@pytest.mark.parametrize("form", ["{folder}/evil.py:X", "evil.py:X", "{folder}/evil:X", "evil:X"])
def test_a_class_that_a_record_names_is_not_imported(
    form: str, place: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = Path(shutil.copytree("b/wine", tmp_path / "theirs"))
    mark = tmp_path / "imported"
    (tmp_path / "evil.py").write_text(EVIL.format(mark=str(mark)))
    monkeypatch.syspath_prepend(str(tmp_path))  # the worst case: it could be imported at once
    name = form.format(folder=tmp_path)

    def named(plan: dict[str, Any]) -> None:
        budget = plan["suite"]["budgets"]["quick"]
        if place == "options":
            plan["options"]["models"] = [name, "evil:X"]
        elif place == "models":
            budget["models"] = [*budget["models"], name]
        else:
            budget["models"] = [*budget["models"], "mine"]
            budget["model"] = {**budget.get("model", {}), "mine": {"of": name}}

    rewritten(theirs, named, "plan", 0)
    before = list(sys.path)
    for runs in (["a/iris", theirs], [theirs, "a/iris"]):
        found = bench("merge", *runs, "--out", tmp_path / "ours")
        assert found.code == 2 and name[:60] in found.err and len(found.err.splitlines()) == 1
        assert ("--trust evil:X" in found.err) == (form == "evil:X")
    assert not mark.exists() and "evil" not in sys.modules and sys.path == before
    assert not (tmp_path / "ours").exists()


def test_runs_of_a_class_of_ones_own_are_merged_with_trust(folder: Path, tmp_path: Path) -> None:
    name = f"{write_own_models(folder)}:Plain"
    for data in ("iris", "wine"):
        words = ["--runs", tmp_path / data, "--name", data, "--model", name, "--dataset", data]
        assert bench(*SWEEP, *words, "--folds", 1).code == 0
    runs = [tmp_path / "iris" / "iris", tmp_path / "wine" / "wine"]
    refused = bench("merge", *runs, "--out", tmp_path / "ours")
    assert refused.code == 2 and f"--trust {name}" in refused.err
    found = merge(*runs, "--out", tmp_path / "ours", "--trust", name)
    assert found["written"] and found["left"] == 0


def test_one_file_of_two_machines_is_one_table(folder: Path, tmp_path: Path) -> None:
    rows = "a,b,y\n" + "".join(f"{i},{i * i % 7},{i % 3 > 0}\n" for i in range(60))
    runs = []
    for machine, model in (("one", "knn"), ("two", "constant")):
        (tmp_path / machine).mkdir()
        table = tmp_path / machine / "my.csv"
        table.write_text(rows)
        suite = """name = "own"
title = "A file"
datasets = []
default_budget = "quick"

[file.mine]
path = "my.csv"
target = "y"

[budgets.quick]
trials = 1
folds = 1
models = ["knn", "constant"]
"""
        (tmp_path / machine / "own.toml").write_text(suite)
        words = ["--suite", tmp_path / machine / "own.toml", "--model", model, *FAST[:-2]]
        assert bench("sweep", *words, "--runs", tmp_path / machine, "--name", model).code == 0
        runs.append(tmp_path / machine / model)
    first, other = (tmp_path / machine / "my.csv" for machine in ("one", "two"))
    first.unlink()  # as where the first run comes from another machine
    assert merge(*runs, "--out", tmp_path / "c" / "ours")["left"] == 0
    assert bench("resume", tmp_path / "c" / "ours", *AGAIN).code == 0
    copy = Path(shutil.move(other, tmp_path / "copy.csv"))
    lost = bench("merge", *runs, "--out", tmp_path / "c" / "more")
    assert lost.code == 2 and "mine" in lost.err and "--csv FILE" in lost.err
    assert merge(*runs, "--out", tmp_path / "c" / "more", "--csv", copy)["left"] == 0
    assert str(copy) in json.dumps(next(Ledger(tmp_path / "c" / "more").records("plan")))
