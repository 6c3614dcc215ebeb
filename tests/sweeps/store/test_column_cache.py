"""The columns beside a segment: the same as its records, and made again where damaged."""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
import threading
import time
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from calls import bench
from tabsweep.benchmark.commands import report
from tabsweep.benchmark.results.evidence_builder import evidence_of, plain_rows
from tabsweep.benchmark.results.slots_frame import columns_of, results_frame, study_ends
from tabsweep.sweeps.store import ledger as store
from tabsweep.sweeps.store import segment_files
from tabsweep.sweeps.store.column_cache import COSTS, column_values
from tabsweep.sweeps.store.ledger import Ledger, LedgerError
from tabsweep.sweeps.store.records import latest_results
from tabsweep.sweeps.store.segment_files import SegmentFolder
from tabsweep.sweeps.store.segments import SealedPart, column_file_bytes
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
            **{"origin": record.get("origin") or "", "cpu": record["info"].get("cpu", "")},
        }
        rows.append(row | {name: value for name, value in scores.items() if value is not None})
    return rows


def filled(run: Path, found: list[dict[str, Any]]) -> None:
    ledger = Ledger(run, write=True)
    for record in found:
        ledger.append([record], sync=False)
    ledger.close()


def rows_in(ledger: Ledger) -> list[dict[str, Any]]:
    return plain_rows(results_frame(columns_of(ledger.columns())))


def test_the_columns_say_what_the_records_say_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr(segment_files, "ROW_GROUP", 7)
    for seed, sealed in itertools.product(range(4), (True, False)):
        monkeypatch.setattr(store, "SEAL_AT", 60 if sealed else 1000)
        columns_say_what_records_say(tmp_path / f"{seed}-{sealed}", seed, sealed)


def columns_say_what_records_say(folder: Path, seed: int, sealed: bool) -> None:
    filled(folder, records(200, seed))
    assert len(list((folder / "ledger").glob("facts-*"))) == (3 if sealed else 0)
    ledger = Ledger(folder)
    expected = one_by_one(ledger)
    assert len(expected) > 20 and rows_in(ledger) == expected
    compact = results_frame(columns_of(ledger.columns()), compact=True)
    assert plain_rows(compact) == expected and "config" in compact
    with_writer = Ledger(folder, write=True)
    assert rows_in(with_writer) == expected
    with_writer.close()
    ends = [(r["study"], r["n_trials"], r["n_slots"]) for r in ledger.records("study")]
    assert study_ends(columns_of(ledger.columns())) == ends


COLUMN_DAMAGE = [
    "gone",
    "bytes",
    "empty",
    "another number",
    "of an older version",
    "unnamed",
    "of a newer version",
]


def test_columns_that_are_not_there_or_not_whole_are_made_again(tmp_path, monkeypatch):
    for n, damage in enumerate(COLUMN_DAMAGE):
        folder = tmp_path / str(n)
        monkeypatch.setattr(store, "SEAL_AT", 40)
        filled(folder, records(90, 1))
        expected = one_by_one(Ledger(folder))
        manifest = folder / "ledger" / "MANIFEST.json"
        for path in (folder / "ledger").glob("facts-*"):
            if damage == "gone":
                path.unlink()
            elif damage == "bytes":
                path.write_bytes(path.read_bytes()[:-100] + bytes(100))
            elif damage == "empty":
                path.write_bytes(b"")
            elif damage == "another number":
                table = pa.ipc.open_file(path.read_bytes()).read_all()
                more = pc.add(table.column("fit_s"), 1.0)
                at = table.column_names.index("fit_s")
                path.write_bytes(column_file_bytes(table.set_column(at, "fit_s", more)))
        if damage in ("of an older version", "unnamed", "of a newer version"):
            named = json.loads(manifest.read_text())
            for segment in named["segments"]:
                if damage == "unnamed":
                    del segment["facts"]
                elif damage == "of a newer version":
                    segment["facts"] = {"file": segment["facts"]["file"], "blake3": "0"}
                else:
                    segment["facts"]["crc32"] = rewritten(
                        folder / "ledger" / segment["facts"]["file"]
                    )
            manifest.write_text(json.dumps(named))
        ledger = Ledger(folder)
        assert rows_in(ledger) == expected and not ledger.warnings


def test_columns_that_an_older_version_named_by_their_sha256_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SEAL_AT", 40)
    filled(tmp_path, records(80, 1))
    expected = one_by_one(Ledger(tmp_path))
    manifest = tmp_path / "ledger" / "MANIFEST.json"
    named = json.loads(manifest.read_text())
    for segment in named["segments"]:
        file = segment["facts"]["file"]
        data = (tmp_path / "ledger" / file).read_bytes()
        segment["facts"] = {"file": file, "sha256": hashlib.sha256(data).hexdigest()}
    manifest.write_text(json.dumps(named))
    monkeypatch.setattr(SealedPart, "_texts", lambda self: pytest.fail("records were decoded"))
    assert rows_in(Ledger(tmp_path)) == expected


def test_no_import_outlives_a_report(tmp_path, monkeypatch):
    """Python crashes where it ends while a thread imports."""
    ended = []

    @contextmanager
    def slowly(*errors):
        with suppress(*errors):
            yield
        time.sleep(0.2)
        ended.append(threading.current_thread().name)

    monkeypatch.setattr(report, "suppress", slowly)
    filled(tmp_path, records(5, 0))
    with pytest.raises(LedgerError, match="no plan"):
        report.write_report([tmp_path], None)
    assert ended == ["imports"]


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_import_that_fails_beside_the_reading_is_left_to_who_needs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    filled(tmp_path, records(5, 0))
    with pytest.raises(LedgerError, match="no plan"):
        report.write_report([tmp_path], None)


def test_a_report_names_the_processors_of_its_own_results_alone(tmp_path):
    cell = ("--dataset", "iris", "--model", "knn", "--workers", 0, "--tracking-uri", "none")
    assert bench("sweep", "--suite", "smoke", *cell, "--runs", tmp_path, "--name", "run").code == 0
    run = tmp_path / "run"
    ledger = Ledger(run, write=True)
    own = next(ledger.records("result"))
    ledger.append([own | {"info": own["info"] | {"cpu": "Ancient 486"}}])
    assert "results come from 2 types" in evidence_of([run]).meta["environment"]["cpu"]
    ledger.append([own])  # and again: the last result of a trial counts
    ledger.close()
    assert evidence_of([run]).meta["environment"]["cpu"] == own["info"]["cpu"]


def rewritten(path: Path) -> str:
    """Leaves a column out of a file; returns its checksum, which is right."""
    table = pa.ipc.open_file(path.read_bytes()).read_all()
    path.write_bytes(column_file_bytes(table.drop_columns(["origin"])))
    return f"{zlib.crc32(path.read_bytes()):08x}"


def damage_first_segment(run: Path) -> None:
    path = run / "ledger" / "segment-000001.parquet"
    data = path.read_bytes()
    path.write_bytes(data[:600] + bytes(40) + data[640:])


def test_of_a_damaged_segment_the_columns_say_only_what_its_intact_records_do(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(store, "SEAL_AT", 40)
    monkeypatch.setattr(segment_files, "ROW_GROUP", 10)
    filled(tmp_path, records(90, 2))
    whole = rows_in(Ledger(tmp_path))
    damage_first_segment(tmp_path)
    reader = Ledger(tmp_path)
    assert reader.warnings and rows_in(reader) == one_by_one(reader) != whole
    writer = Ledger(tmp_path, write=True)  # mends it, and its columns with it
    writer.close()
    again = Ledger(tmp_path)
    assert not again.warnings and rows_in(again) == one_by_one(again) == rows_in(reader)


def test_a_deferred_reader_opens_a_segment_where_a_record_of_it_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SEAL_AT", 40)
    found = records(130, 5)
    found[50] = {"kind": "plan", "studies": []}
    filled(tmp_path, found)
    opened: list[str] = []
    check = SegmentFolder.check
    monkeypatch.setattr(
        SegmentFolder, "check", lambda self, s: opened.append(s["file"]) or check(self, s)
    )
    ledger = Ledger(tmp_path, deferred=True)
    assert rows_in(ledger) == one_by_one(Ledger(tmp_path))
    opened.clear()
    ledger = Ledger(tmp_path, deferred=True)
    assert rows_in(ledger) and len(ledger) == 130 and not opened
    assert list(ledger.records("plan")) == [found[50]]
    assert opened == ["segment-000002.parquet"]
    assert list(ledger.records()) == list(Ledger(tmp_path).records())


def test_what_a_damaged_segment_held_is_still_in_its_columns(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SEAL_AT", 40)
    filled(tmp_path, records(90, 2))
    whole = rows_in(Ledger(tmp_path))
    damage_first_segment(tmp_path)
    ledger = Ledger(tmp_path, deferred=True)
    assert rows_in(ledger) == whole and not ledger.warnings
    assert list(ledger.heads()) and "segment-000001" in ledger.warnings[0] and ledger.torn_bytes
    (tmp_path / "ledger" / "facts-000001.arrow").unlink()
    ledger = Ledger(tmp_path, deferred=True)
    assert rows_in(ledger) == rows_in(Ledger(tmp_path)) != whole and ledger.warnings


def test_a_segment_that_is_replaced_under_a_reader_is_an_error_and_no_other_record(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(store, "SEAL_AT", 20)
    filled(tmp_path, records(50, 3))
    reader = Ledger(tmp_path)
    first, second = sorted((tmp_path / "ledger").glob("segment-*"))
    kept = reader.at(3)
    first.write_bytes(second.read_bytes())
    assert reader.at(3) == kept  # what was read is kept
    reader = Ledger(tmp_path.parent / copied(tmp_path))
    path = reader.folder / second.name
    path.write_bytes(path.read_bytes()[:-4] + b"XXXX")
    with pytest.raises(LedgerError, match="replaced"):
        reader.at(25)


def copied(run: Path) -> str:
    """The same records in another folder."""
    filled(run.with_name("again"), records(50, 3))
    return "again"


def test_a_reader_reads_records_in_any_order_and_forgets_the_oldest(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SEAL_AT", 30)
    monkeypatch.setattr(segment_files, "ROW_GROUP", 4)
    monkeypatch.setattr(segment_files, "GROUPS_KEPT", 2)
    expected = records(100, 4)
    filled(tmp_path, expected)
    ledger = Ledger(tmp_path)
    for at in np.random.default_rng(0).permutation(100):
        assert ledger.at(int(at)) == expected[at]
    assert ledger._segments.groups.cache_info().currsize == 2


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
