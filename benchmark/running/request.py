"""One call of `bench sweep` as a value: suite, options, run folder, workers and data folders."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...sweeps.store.ledger import Ledger, Record
from ...sweeps.workers.pool import RunTrial
from ..planning.own_tables import OwnTable
from ..planning.plan import Options
from ..planning.plan_record import last_plan
from ..planning.suite import Suite
from .run_trial import run_trial


@dataclass
class Request:
    """What `bench sweep`, `resume` and `retry` ask for, parsed and checked.

    workers: CPUs for trials, None for all, 0 for this process. reuse: runs elsewhere whose finished
    trials may be copied. retry: which recorded failures run again. paths: folders that workers put
    on sys.path, for models of the user.
    """

    suite: Suite
    options: Options
    runs: Path
    name: str
    workers: int | None = None
    address: str = "local"
    mirror: str | None = None
    cache: str | None = None
    allow_code_change: bool = False
    reuse: tuple[Path, ...] = ()
    retry: Callable[[Record], bool] = lambda record: False
    tables: Mapping[str, OwnTable] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    run_trial: RunTrial = run_trial

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.runs / self.name


def models_of(request: Request) -> list[str]:
    """Every model that a request may mean: named, of the suite, or of the run that it extends."""
    named = [*request.options.models, *request.suite.budget(request.options.budget)[1].models]
    if (request.folder / "ledger" / "MANIFEST.json").exists():
        plan = last_plan(Ledger(request.folder))
        named.extend(plan["options"]["models"] if plan else [])
    return named


def import_folders(models: Iterable[str]) -> list[str]:
    """The folders from which models of the user ("module:Class") are imported: the working
    directory, which is put on sys.path; none where every model is a registered one."""
    if not any(":" in model for model in models):
        return []
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return [folder]
