"""Small ledgers for tests."""

from __future__ import annotations

from pathlib import Path

from calls import contents as contents
from tabsweep.sweeps.store.ledger import Ledger


def row(n: int) -> dict:
    return {"kind": "result", "id": f"id-{n}", "value": n / 3, "text": f"row {n} é\r\n"}


def filled(run: Path, n: int) -> list[dict]:
    """A ledger of n records, closed; returns them."""
    ledger = Ledger(run, write=True)
    for i in range(n):
        ledger.append([row(i)])
    ledger.close()
    return [row(i) for i in range(n)]


def log_of(run: Path) -> Path:
    return run / "ledger" / "log.jsonl"
