"""A portfolio learned without a dataset, ensembled from the trials that ran on that dataset."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...sweeps.study_state import TUNE
from ...sweeps.trial import canonical
from ..results.greedy_ensembles import candidates_of, ensemble_row
from .regrets import matrix_of, trials_of
from .selection import greedy

if TYPE_CHECKING:
    from ...reports.metrics import Metric
    from ..results.stored_predictions import Block

MIN_OTHERS = 4  # datasets to learn on, beside the one that is left out


class PortfolioRow:
    """The portfolio's row of each fold.

    The configurations that ran on a fold are ordered by their regrets on the other datasets alone
    (and not on datasets that share rows with it), measured there or estimated; the best `size` of
    them, chosen as `selection.greedy` does, are ensembled on the fold's validation rows. configs:
    {trial id: its configuration as JSON}.
    """

    def __init__(self, runs: Sequence[Path], size: int, configs: Mapping[str, str]) -> None:
        self._size = size
        self._configs = configs
        trials = trials_of(runs)
        self._twins = trials.twins
        self._matrix = matrix_of(trials)
        self._row = {name: i for i, name in enumerate(self._matrix.configurations)}

    def row(
        self,
        block: Block | None,
        metric: Metric,
        arrays: dict[str, dict[str, Any]],
        damage: list[str],
        dataset: str,
    ) -> dict[str, Any]:
        """Columns of the row of a fold; its `n_candidates` is the number of configurations whose
        predictions are there."""
        from ...reports.sections.regimes import LEFT_OUT, PORTFOLIO

        base = {"model": PORTFOLIO, "regime": LEFT_OUT}
        gone = {dataset} | self._twins.get(dataset, frozenset())
        matrix = self._matrix
        columns = [j for j, name in enumerate(matrix.datasets) if name not in gone]
        if len(columns) < MIN_OTHERS:
            return {
                **base,
                "reason": f"not measured: it is learned on {MIN_OTHERS} other datasets or more, "
                f"there are {len(columns)}",
            }
        by_config: dict[tuple[str, str], Any] = {}
        for trial in block.trials if block else ():
            if trial.stage == TUNE:
                config = canonical(json.loads(self._configs[trial.id]))
                by_config.setdefault((trial.model, config), trial)
        here = sorted(name for name in by_config if name in self._row)
        part = matrix.rows([self._row[name] for name in here], columns)
        picks = greedy(part, self._size)
        chosen = [by_config[part.configurations[pick.row]] for pick in picks]
        rows = [pick.row for pick in picks]
        return {
            **base,
            **ensemble_row(block, candidates_of(chosen), metric, arrays, damage),
            "measured": float(part.measured[rows].mean()) if rows else None,
            "estimated": float(part.estimated[rows].mean()) if rows else None,
        }
