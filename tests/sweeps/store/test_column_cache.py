"""The file of columns: it says what the log says, and is made again where it does not."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from calls import bench
from ledger_cases import log_of
from tabsweep.benchmark.results.evidence_builder import evidence_of
from tabsweep.benchmark.results.slots_frame import columns_of, results_frame, study_ends
from tabsweep.sweeps.store import ledger as store
from tabsweep.sweeps.store.blocks import CODEC, LENGTH, table_bytes
from tabsweep.sweeps.store.column_cache import COSTS, column_values
from tabsweep.sweeps.store.ledger import Ledger, LedgerError, decode, encode
from tabsweep.sweeps.store.log import LogReader
from tabsweep.sweeps.store.records import latest_results
from tabsweep.sweeps.trial import canonical

N_STUDIES = 5


def result(random: np.random.Generator, **changes: Any) -> dict[str, Any]:
    """A result as the engine writes it, at random a failure, on a rung or without some scores."""
    study = int(random.integers(N_STUDIES))
    index = int(random.integers(6))
    failed = random.uniform() < 0.2
    scores = {"accuracy": random.uniform(), "roc_auc": None} if study else {"rmse": 3}
    return {
        "kind": "result",
        "id": f"{int(random.integers(20)):032x}",
        "study": f"d{study % 2}/{study}/m",
        "stage": str(random.choice(["tune", "eval", "rung0"])),
        "index": index,
        "dataset": f"d{study % 2}",
        "fold": study,
        "model": "m",
        "config": {"lr": random.uniform(), "name": "é", "n": index},
        "seed": int(random.integers(2**32)),
        "fidelity": {"async": "asha"} if random.uniform() < 0.2 else None,
        "status": "failed" if failed else "done",
        "cause": "oom" if failed else None,
        "message": "größer\n" if failed else "",
        "val": {} if failed else scores,
        "test": {} if failed else scores,
        "costs": {"fit_s": random.uniform(), "cpu_s": 1} if random.uniform() < 0.9 else {},
        "info": {"cpu": "x"} if random.uniform() < 0.5 else {},
        "log": "",
        "predictions": {},
        "time": f"2030-01-01T00:00:{index:02d}.000Z",
        **({"origin": "other"} if random.uniform() < 0.3 else {}),
        **changes,
    }


def records(n: int, seed: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    found: list[dict[str, Any]] = []
    names = ("id", "study", "stage", "index", "config", "seed", "dataset", "fold", "model", "time")
    for i in range(n):
        made = result(random)
        kind = random.choice(["result", "result", "slot", "lease", "study"])
        if kind == "slot":
            made = {"kind": "slot", **{name: made[name] for name in names}}
        elif kind == "lease":
            made = {"kind": "lease", **{name: made[name] for name in names[:5]}}
        elif kind == "study":
            made = {"kind": "study", "study": made["study"], "n_trials": 4, "n_slots": i}
        found.append(made)
    return found


def one_by_one(ledger: Ledger) -> list[dict[str, Any]]:
    """The rows of a ledger, record after record: what the columns must say at a fraction of it."""
    results = latest_results(ledger)
    slots = {
        (head.study, head.stage, head.index): (head.id, at)
        for at, head in ledger.heads("result", "slot")
    }
    rows = []
    for (study, stage, index), (id, at) in sorted(slots.items()):
        if id not in results:
            continue
        record = ledger.at(results[id])
        linked = ledger.head(at).kind == "slot"
        if linked and (record["fidelity"] or {}).get("async"):
            continue
        place = ledger.at(at) if linked else record
        scores = {f"{part}_{k}": v for part in ("val", "test") for k, v in record[part].items()}
        row = {
            **{name: place[name] for name in ("dataset", "fold", "model")},
            **{"study": study, "stage": stage, "index": index},
            **{name: record[name] for name in ("seed", "status", "message", "id", "time")},
            "config": canonical(record["config"]),
            "cause": record["cause"] or "",
            **{name: record["costs"].get(name) for name in COSTS},
            **{
                "origin": record.get("origin") or "",
                "cpu": record["info"].get("cpu", ""),
                "gpu": "",
            },
        }
        rows.append({k: value for k, value in (row | scores).items() if value is not None})
    return rows


def filled(run: Path, found: list[dict[str, Any]]) -> None:
    ledger = Ledger(run, write=True)
    for record in found:
        ledger.append([record], sync=False)
    ledger.close()


def rows_in(ledger: Ledger, **how: Any) -> list[dict[str, Any]]:
    rows = results_frame(columns_of(ledger.columns()), **how).to_dict("records")
    return [{k: value for k, value in row.items() if value == value} for row in rows]


def test_the_columns_say_what_the_records_say_one_by_one(tmp_path, monkeypatch):
    for seed, sealed in itertools.product(range(4), (True, False)):
        monkeypatch.setattr(store, "COLUMNS_AT", 60 if sealed else 1000)
        columns_say_what_records_say(tmp_path / f"{seed}-{sealed}", seed, sealed)


def columns_say_what_records_say(folder: Path, seed: int, sealed: bool) -> None:
    filled(folder, records(200, seed))
    assert (folder / "ledger" / "columns.bin").exists() == sealed
    ledger = Ledger(folder)
    expected = one_by_one(ledger)
    assert len(expected) > 20 and rows_in(ledger) == expected
    assert rows_in(ledger, compact=True) == expected
    with_writer = Ledger(folder, write=True)
    assert rows_in(with_writer) == expected
    with_writer.close()
    ends = [(r["study"], r["n_trials"], r["n_slots"]) for r in ledger.records("study")]
    assert study_ends(columns_of(ledger.columns())) == ends


def columns_of_run(run: Path) -> Path:
    return run / "ledger" / "columns.bin"


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def with_line(data: bytes, **changes: Any) -> bytes:
    """The first block with these changes in its own line, whose checksum is right."""
    at = data.index(b"\n") + 1
    line = decode(data[:at])
    assert line is not None
    return encode({**line, **changes}) + data[at:]


def with_table(data: bytes, change: Callable[[pa.Table], pa.Table]) -> bytes:
    """The first block with other columns, its checksum right."""
    at = data.index(b"\n") + 1
    line = decode(data[:at])
    assert line is not None
    heads, rest = data[at : at + line["heads"]], data[at + line["heads"] :]
    size = int.from_bytes(rest[:LENGTH], "little")
    unpacked = pa.decompress(rest[LENGTH : line["columns"]], size, CODEC)
    table = pa.ipc.open_stream(unpacked).read_all()
    columns = table_bytes(change(table))
    crc = zlib.crc32(heads + columns)
    line |= {"columns": len(columns), "crc32": crc}
    return encode(line) + heads + columns + rest[line["columns"] :]


def without_a_column(data: bytes) -> bytes:
    return with_table(data, lambda table: table.drop_columns(["origin"]))


def with_far_too_many_rows(data: bytes) -> bytes:
    """The right columns for rows that nobody wrote, which lz4 makes small: not even unpacked."""
    return with_table(data, lambda table: table.take(np.zeros(50_000, dtype=int)))


COLUMN_DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[:-100],
    "zeros": lambda data: data[:-100] + bytes(100),
    "of another log": lambda data: with_line(data, log_crc32=7),
    "of a newer version": lambda data: with_line(data, format=99),
    "of other columns": without_a_column,
    "of too many rows": with_far_too_many_rows,
    **{f"bit {at}": lambda data, at=at: flipped(data, at) for at in (3, 40, 700, 5000, 9000)},
}


AS_THEY_SAY = ("of other columns", "of too many rows")  # their checksums are right


def test_columns_that_are_not_there_or_not_right_are_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "COLUMNS_AT", 40)
    filled(tmp_path / "whole", records(90, 1))
    whole = columns_of_run(tmp_path / "whole").read_bytes()
    expected = one_by_one(Ledger(tmp_path / "whole"))
    for name, damage in {"gone": None, **COLUMN_DAMAGE}.items():
        run = Path(shutil.copytree(tmp_path / "whole", tmp_path / name))
        columns_of_run(run).unlink() if damage is None else columns_of_run(run).write_bytes(
            damage(whole)
        )
        ledger = Ledger(run)
        assert rows_in(ledger) == expected and not ledger.warnings, name
        assert not ledger.has_right_columns() and len(ledger) == 90, name
        Ledger(run, write=True).close()
        if name not in AS_THEY_SAY:  # they are read from the records, more slowly
            assert columns_of_run(run).read_bytes() == whole, name
        assert rows_in(Ledger(run)) == expected


def test_a_reader_of_right_columns_decodes_no_record_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "COLUMNS_AT", 40)
    found = records(80, 5)
    found[50] = {"kind": "plan", "studies": []}
    filled(tmp_path, found)
    expected = one_by_one(Ledger(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(LogReader, "text", lambda *args: pytest.fail("a record was decoded"))
        ledger = Ledger(tmp_path)
        assert rows_in(ledger) == expected and len(ledger) == 80 and list(ledger.heads())
    assert list(ledger.records("plan")) == [found[50]]
    assert list(ledger.records()) == found


def test_a_log_that_is_shorter_than_its_columns_say_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "COLUMNS_AT", 40)
    filled(tmp_path, records(90, 2))
    log = log_of(tmp_path)
    kept = log.read_bytes().splitlines(keepends=True)[:60]
    log.write_bytes(b"".join(kept))
    for write in (False, True):
        ledger = Ledger(tmp_path, write=write)
        assert "ends before records that it held" in ledger.warnings[0]
        assert list(map(encode, ledger.records())) == kept
        ledger.close()
    assert not Ledger(tmp_path).warnings


def test_a_log_that_is_replaced_under_a_reader_is_an_error_and_no_other_record(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(store, "COLUMNS_AT", 20)
    filled(tmp_path, records(50, 3))
    reader = Ledger(tmp_path)
    log_of(tmp_path).write_bytes(log_of(tmp_path).read_bytes()[9:])
    with pytest.raises(LedgerError, match="replaced"):
        reader.at(25)
    log_of(tmp_path).unlink()
    with pytest.raises(LedgerError, match="cannot read"):
        reader.at(3)


def test_records_are_read_in_any_order(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "COLUMNS_AT", 30)
    expected = records(100, 4)
    expected[7]["text"] = expected[77]["text"] = "x" * 300_000  # longer than what is read at once
    filled(tmp_path, expected)
    ledger = Ledger(tmp_path)
    for at in np.random.default_rng(0).permutation(100):
        assert ledger.at(int(at)) == expected[at]


class Crash(BaseException):
    """Stands for the end of the process: nothing in the product catches it."""


@pytest.mark.parametrize("kind", [Crash, OSError])
@pytest.mark.parametrize("step", ["truncate", "open", "write"])
def test_a_crash_or_a_full_disk_while_columns_are_written_loses_nothing(
    tmp_path, monkeypatch, kind, step
):
    monkeypatch.setattr(store, "COLUMNS_AT", 10)
    expected = records(35, 8)
    ledger = Ledger(tmp_path, write=True)
    ledger.append(expected[:9])
    with open(columns_of_run(tmp_path), "ab") as file:
        file.write(b"half of a block")

    def failing(*args: Any, **kwargs: Any) -> Any:
        if step == "write":
            columns_of_run(tmp_path).write_bytes(b"half of a block")
        raise kind(errno.ENOSPC, "injected")

    with monkeypatch.context() as patch:
        if step == "truncate":
            patch.setattr(os, "truncate", failing)
        else:
            patch.setattr(store, "open", failing, raising=False)
        with pytest.raises(Crash) if kind is Crash else nullcontext():
            ledger.append([expected[9]])
    assert list(Ledger(tmp_path).records()) == expected[:10]
    if kind is Crash:
        ledger = Ledger(tmp_path, write=True)
    ledger.append(expected[10:])
    assert list(ledger.records()) == expected
    ledger.close()
    again = Ledger(tmp_path)
    assert list(again.records()) == expected and again.has_right_columns()


def test_a_reader_beside_a_writer_sees_every_record_that_is_durable(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "COLUMNS_AT", 10)
    writer, expected = Ledger(tmp_path, write=True), records(45, 9)
    real, n = store.blocks_in, [0]

    def blocks_in(*args: Any) -> Any:
        found = real(*args)
        writer.append(expected[n[0] : n[0] + 5])  # between reading the columns and the log
        n[0] += 5
        return found

    monkeypatch.setattr(store, "blocks_in", blocks_in)
    for _ in range(9):
        assert list(Ledger(tmp_path).records()) == expected[: n[0]]
    writer.close()


def cell(n: int, kind: str = "result", **more: Any) -> dict[str, Any]:
    record = {"kind": kind, "id": f"{n:032x}", "study": f"d/{n % 3}/m", "stage": "tune"}
    return {**record, "index": n, "status": "done" if n % 2 else "failed", **more}


def test_the_head_of_a_record_is_what_the_record_says_in_a_block_or_not(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "COLUMNS_AT", 10)
    odd: list[dict[str, Any]] = [
        {"kind": "plan", "studies": [], "time": "now"},
        {"kind": "death", "id": "ab", "cause": "oom"},
        cell(5, "slot", index=None, study=3, stage=["x"], status=None, id=7.5),
        cell(6, index=2**40),
        cell(7, index=True),
        cell(8, index=-1),
    ]
    expected = [*odd, *map(cell, range(20))]
    filled(tmp_path, expected)
    ledger = Ledger(tmp_path)
    heads = [ledger.head(at) for at in ledger.positions()]
    assert heads == [store.head_of(record) for record in expected]
    assert heads[-1] == store.Head("result", f"{19:032x}", "d/1/m", "tune", 19, "done")
    assert heads[2] == store.Head("slot") and heads[3].index == heads[5].index == -1
    assert list(ledger.records()) == expected
    assert [*ledger.positions("death", "slot")] == [1, 2] and [*ledger.positions("x")] == []
    assert [*ledger.heads()] == [*enumerate(heads)]
    assert [*ledger.heads("death", "slot")] == [(1, heads[1]), (2, heads[2])]


def test_a_report_names_the_processors_of_its_own_results_alone(tmp_path):
    cell = ("--dataset", "iris", "--model", "knn", "--workers", 0, "--tracking-uri", "none")
    assert bench("sweep", "--suite", "smoke", *cell, "--runs", tmp_path, "--name", "run").code == 0
    run = tmp_path / "run"
    ledger = Ledger(run, write=True)
    own = next(ledger.records("result"))
    ledger.append([own | {"info": own["info"] | {"cpu": "Ancient 486"}}])
    assert "results come from 2 types" in evidence_of([run]).facts.environment["cpu"]
    ledger.append([own])  # and again: the last result of a trial counts
    ledger.close()
    assert evidence_of([run]).facts.environment["cpu"] == own["info"]["cpu"]


def test_what_has_another_type_than_it_should_is_not_stated():
    odd = {
        "kind": "result",
        **{"study": 3, "index": True, "fold": -1, "seed": 2**70, "status": None, "config": [1]},
        **{"val": {"accuracy": "1", "rmse": 10**400, "größe": 1.0, "r2": False}, "test": None},
        **{"costs": {"fit_s": 1, "cpu_s": None}, "info": 7, "message": "\udcc3"},
    }
    assert column_values(odd) == {
        **{"kind": "result", "config": "[1]", "seed": str(2**70), "message": "\\udcc3"},
        **{"fit_s": 1.0, "val_accuracy": None, "val_rmse": None, "val_r2": None},
    }


def test_a_seed_may_need_more_than_64_bits(tmp_path):
    random = np.random.default_rng(0)
    filled(tmp_path, [result(random, index=i, id=f"{i}", seed=2**70 + i) for i in range(3)])
    frame = results_frame(columns_of(Ledger(tmp_path).columns()))
    assert sorted(frame["seed"]) == [2**70, 2**70 + 1, 2**70 + 2]
    assert isinstance(frame, pd.DataFrame) and frame["fold"].dtype == np.int64
