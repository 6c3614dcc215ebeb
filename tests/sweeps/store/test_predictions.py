"""Files of predictions: what belongs to them, and what is said of one that is gone."""

from __future__ import annotations

import shlex

import numpy as np
from tabsweep.sweeps.store import predictions
from tabsweep.sweeps.store.predictions import Predictions, files_in


def test_the_command_that_checks_a_run_can_be_copied_also_where_its_folder_has_a_blank(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(predictions, "ROLL_AT", 100)
    folder = tmp_path / "my runs" / "first" / "predictions"
    folder.mkdir(parents=True)
    said: list[str] = []
    store = Predictions(folder, warn=said.append)
    store.open()
    for _ in range(3):
        store.put({"val": np.zeros(20)})
    assert sorted(files_in(folder)) == [0, 1, 2]
    (folder / "000000.bin").unlink()
    store.sync()
    store.close()
    (text,) = said
    words = shlex.split(text.partition("; ")[2])
    assert words[:3] == ["bench", "verify", str(folder.parent)]
