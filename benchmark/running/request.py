"""One call of `bench sweep` as a value: its options, and the suite that they name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ...sweeps.store.ledger import Ledger, Record
from ...sweeps.store.run_folder import is_run
from ...sweeps.workers.pool import RunTrial
from ..errors import NO_RAY
from ..planning.costs.estimate import ALONE_S, START_S
from ..planning.options import Options
from ..planning.own_tables import OwnTable
from ..planning.plan_record import last_plan
from ..planning.suite import Suite
from .run_trial import run_trial


@dataclass
class Request:
    """What `bench sweep`, `resume` and `retry` ask for, parsed and checked.

    options: as given, with the name of the run. retry: which recorded failures run again. verify:
    whether all stored predictions are read first; a trial whose predictions are damaged runs
    again. paths: folders that workers put on sys.path, for models of the user.
    """

    suite: Suite
    options: Options
    retry: Callable[[Record], bool] = lambda record: False
    verify: bool = False
    tables: dict[str, OwnTable] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    run_trial: RunTrial = run_trial

    @property
    def name(self) -> str:
        """The name of the run: by default that of the suite and its budget."""
        return str(self.options.on(self.suite).name)

    @property
    def address(self) -> str:
        """Where the trials run: as given; by default files of the user on the CPUs of this machine
        need no Ray."""
        options = self.options
        alone = bool(self.tables) and options.device == "cpu" and not options.asynchronous
        return options.address or (NO_RAY if alone else "local")

    @property
    def start_s(self) -> float:
        """Expected seconds until the first trial begins: those of Ray, or of workers alone."""
        if self.options.workers == 0:
            return 0.0
        return ALONE_S if self.address == NO_RAY else START_S

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.options.runs / self.name


def models_of(request: Request) -> list[str]:
    """Every model that a request may mean: named, of the suite, or of the run that it extends. A
    row of the suite with a model behind it (`of`) counts as that model."""
    budget = request.suite.budget(request.options.budget)[1]
    named = [*request.options.models, *budget.models]
    if is_run(request.folder):
        plan = last_plan(Ledger(request.folder))
        named.extend(plan.options.models if plan else [])
    return [budget.asked(name) for name in named]


def import_folders(models: Iterable[str]) -> list[str]:
    """The folder from which models of the user ("module:Class") are imported, the working
    directory, which is put on sys.path; none where every model is a registered one."""
    if not any(":" in model for model in models):
        return []
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    return [here]
