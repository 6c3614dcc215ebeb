"""A ledger of the older format: refused with the way out, and written anew once."""

from __future__ import annotations

import json
import runpy
import sys
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ledger_cases import filled, log_of, row
from tabsweep.sweeps.store.ledger import Ledger, LedgerError, encode


def older(run: Path, *, crc: int = 0) -> Path:
    """Five records in that format; `crc` is added to the checksums in its segment."""
    filled(run, 0)
    log_of(run).unlink()
    texts = [encode(row(n))[9:-1] for n in range(3)]
    table = pa.table({"crc": pa.array([zlib.crc32(t) + crc for t in texts], type=pa.uint32())})
    table = table.append_column("json", pa.array(texts, type=pa.binary()))
    pq.write_table(table, run / "ledger" / "segment-000001.parquet")
    (run / "ledger" / "facts-000001.arrow").write_bytes(b"x")
    (run / "ledger" / "tail-000002.jsonl").write_bytes(encode(row(3)) + encode(row(4)))
    named = {"format": 1, "segments": [{"file": "segment-000001.parquet"}]}
    named["tail"] = "tail-000002.jsonl"
    (run / "ledger" / "MANIFEST.json").write_text(json.dumps(named))
    return run


def convert(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["old_format", str(run)])
    monkeypatch.delitem(sys.modules, "tabsweep.sweeps.store.old_format", raising=False)
    runpy.run_module("tabsweep.sweeps.store.old_format", run_name="__main__")


def test_it_is_refused_with_the_command_that_writes_it_anew(tmp_path, monkeypatch):
    run = older(tmp_path / "run")
    for write in (False, True):
        with pytest.raises(LedgerError, match=f"old_format {run}"):
            Ledger(run, write=write)
    convert(run, monkeypatch)
    assert [path.name for path in (run / "ledger").iterdir()] == ["log.jsonl"]
    assert list(Ledger(run).records()) == [row(n) for n in range(5)]


def test_a_damaged_one_is_left_as_it_is(tmp_path, monkeypatch):
    run = older(tmp_path / "run", crc=1)
    before = sorted(path.name for path in (run / "ledger").iterdir())
    with pytest.raises(Exception, match="a record of segment-000001.parquet fails its checksum"):
        convert(run, monkeypatch)
    assert sorted(path.name for path in (run / "ledger").iterdir()) == before
