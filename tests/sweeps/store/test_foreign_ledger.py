"""A ledger that somebody else prepared, and stored predictions."""

from __future__ import annotations

import numpy as np
import pytest
from ledger_cases import filled
from tabsweep.sweeps.store import predictions
from tabsweep.sweeps.store.ledger import Ledger, LedgerError

# ---------------------------------------------------------------------- a prepared ledger


PATHS = ["../../x", "/etc/passwd", "..", "", "a/b", None, 3]
PLACE = {"offset": 0, "shape": [1], "dtype": "<f8", "sha256": "0"}


@pytest.mark.fault(28)
def test_a_place_that_is_a_path_or_lacks_something_is_refused(tmp_path):
    filled(tmp_path, 1)
    ledger = Ledger(tmp_path)
    for place in (*({**PLACE, "file": name} for name in PATHS), {}, None, "x", {"file": "0.bin"}):
        with pytest.raises(LedgerError, match="refused"):
            ledger.get_predictions({"val": place})


IMPOSSIBLE = [
    {"dtype": "|O"},
    {"dtype": "garbage"},
    {"dtype": "<U8"},
    {"shape": [-1]},
    {"shape": [10**15, 10**6]},
    {"shape": "x"},
    {"shape": None},
    {"offset": -8},
    {"offset": 10**30},
    {"offset": None},
    {"sha256": "0" * 64},
]


@pytest.mark.fault(28)
def test_impossible_predictions_are_refused_before_memory_is_asked_for(tmp_path):
    for change in IMPOSSIBLE:
        ledger = Ledger(tmp_path, write=True)
        where = ledger.put_predictions({"val": np.arange(6.0).reshape(3, 2)})
        ledger.sync_predictions()
        assert np.array_equal(ledger.get_predictions(where)["val"], np.arange(6.0).reshape(3, 2))
        with pytest.raises(LedgerError):
            ledger.get_predictions({"val": {**where["val"], **change}})
        ledger.close()


# ---------------------------------------------------------------------- predictions


def test_predictions_come_back_bit_for_bit_across_files(tmp_path, monkeypatch):
    monkeypatch.setattr(predictions, "ROLL_AT", 100)
    chance = np.random.default_rng(0)
    ledger = Ledger(tmp_path, write=True)
    arrays, places = [], []
    for n in range(6):
        arrays.append({"val": chance.random((n, 3)), "test": chance.random(n).astype("float32")})
        places.append(ledger.put_predictions(arrays[-1]))
    ledger.sync_predictions()
    ledger.close()
    assert len(list((tmp_path / "predictions").iterdir())) > 2
    ledger = Ledger(tmp_path, write=True)  # a new driver writes behind what is there
    arrays.append({"val": np.array([1, 2, 3])})
    places.append(ledger.put_predictions(arrays[-1]))
    ledger.sync_predictions()
    ledger.close()
    for expected, where in zip(arrays, places, strict=True):
        found = Ledger(tmp_path).get_predictions(where)
        for part, array in expected.items():
            assert found[part].dtype == array.dtype and np.array_equal(found[part], array)


@pytest.mark.fault(19, 28)
def test_objects_are_never_stored_as_predictions(tmp_path):
    ledger = Ledger(tmp_path, write=True)
    with pytest.raises(LedgerError, match="object"):
        ledger.put_predictions({"val": np.array([object()])})
    ledger.close()


def test_a_line_that_never_ends_is_refused_before_it_fills_the_memory(tmp_path):
    filled(tmp_path, 1)
    with open(tmp_path / "ledger" / "log.jsonl", "ab") as file:
        file.truncate(file.tell() + 100 * 2**20)  # a hole: 100 MB of zeros, no newline
    with pytest.raises(LedgerError, match="too long"):
        Ledger(tmp_path)
