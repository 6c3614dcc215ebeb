"""Asynchronous searches of one study, with the checkpoints of the ledger's own run."""

from __future__ import annotations

from typing import Any

from tabsweep.sweeps.ray_tune.async_search import Asynchronous
from tabsweep.sweeps.store.checkpoints import CheckpointFolder
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.study import Study
from tabsweep.sweeps.workers.pool import RunTrial


def async_search(
    study: Study, how: str, ledger: Ledger, run_trial: RunTrial, **more: Any
) -> Asynchronous:
    return Asynchronous(
        [study],
        how,
        ledger=ledger,
        checkpoints=CheckpointFolder(ledger.run / "checkpoints"),
        run_trial=run_trial,
        load=lambda key: None,
        slots=2,
        **more,
    )
