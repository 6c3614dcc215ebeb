"""The report of runs: their evidence with all that stands beside it, written out."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...common.counting import count
from ...common.files import write_atomically
from ...common.text import first_few
from ...reports.optional import made
from ...sweeps.trial import digest
from ..errors import SweepError, check_run
from ..planning.environment import capture

if TYPE_CHECKING:
    from ...reports.evidence import Evidence
    from ...reports.output.tables import Section

NOTE = "report.json"  # in a run's folder: what its report was made of


class Made(NamedTuple):
    """A report that was written. `damage`: sentences on what of the runs was found damaged;
    `missed`: on optional parts that could not be made, which stand in its notes too."""

    files: list[Path]
    sections: list[Section]
    damage: list[str]
    missed: list[str]


def make_report(
    runs: Iterable[Path],
    out: Path | None,
    *,
    beside: Sequence[str] = (),
    only: Sequence[str] = (),
    datasets: Sequence[str] = (),
    regimes: bool | None = None,
    shown: Sequence[str] | None = None,
    newest_first: bool = False,
    **how: Any,
) -> Made:
    """Write the report of runs into `out` (default: report/ of the first run, or report-only/ of a
    choice).

    beside: entrants whose published results stand beside ours; DataError for an unknown name.
    only, datasets: the models, those beside ours included, and the datasets that are shown, () for
    all; ranks and tests are among them. regimes: whether the default, tuned and ensembled results
    of each model are shown (None: where there are not many trials). shown: how the pages call the
    runs in commands; by default, as they were named. newest_first: see `evidence_of`. how: as of
    `parts_and_files`. Raises NoRun, LedgerError, EvidenceError.
    """
    runs = list(runs)
    for run in runs:
        check_run(run)
    # Arrow's allocator asks for huge pages, and the system clears 2 MB for each that it touches: a
    # sixth of the CPU seconds of a report of a million trials.
    os.environ.setdefault("MIMALLOC_ALLOW_THP", "0")
    with _no_collection():
        from ...reports.aggregation import choice
        from ..results.evidence_builder import evidence_of, noting

        evidence = evidence_of(runs, newest_first=newest_first)
        own = evidence.models
        mine = [model for model in only if model in own] if beside else list(only)
        if only and not mine:
            known = first_few(own, 20)
            raise SweepError(f"--only names none of the run's own models, which are: {known}")
        if mine or datasets:
            evidence = choice.only(evidence, mine, datasets)
        if shown is not None:
            evidence = evidence.knowing(runs=list(shown))
        from ..results.answers import with_answers
        from ..results.greedy_ensembles import with_bags
        from ..results.learning_curves import with_curves
        from ..results.page_facts import with_cards
        from ..results.seed_ensembles import with_ensembles
        from ..results.trial_scores import with_true_scores
        from .feature_importance import with_features
        from .importance import with_importance

        evidence = with_true_scores(evidence, runs)
        evidence = with_ensembles(evidence, runs)
        missed: list[str] = []
        evidence = made("Ensembles of bags", partial(with_bags, evidence, runs), evidence, missed)
        more: dict[str, Callable[[Evidence], Evidence]] = {
            "Hyperparameter importance": with_importance,
            "What cards say of the datasets": with_cards,
            "Learning curves": partial(with_curves, runs=runs),
            "Figures of the answers to test rows": partial(with_answers, runs=runs),
            "Importance of features": partial(with_features, runs=runs),
        }
        for what, add in more.items() if how.get("html", True) else ():
            evidence = made(what, partial(add, evidence), evidence, missed)
        from .regimes import MOST_TRIALS, regimes_of

        n = len(evidence.trials)
        few = n <= MOST_TRIALS
        if not few and regimes is None:
            note = (
                f"Default, tuned and ensembled results are left out, as there are {n:,} trials, "
                f"more than {MOST_TRIALS:,}: bench report --regimes makes them."
            )
            evidence = noting(evidence, note)
        if regimes or (few and regimes is None):
            found = made(
                "Default, tuned and ensembled results",
                partial(regimes_of, evidence, runs),
                None,
                missed,
            )
            if found is not None:
                how = {**how, "by_regime": (found.frame, found.notes)}
                evidence = noting(evidence, damage=found.damage)
        if beside:
            from ..results.beside import run_datasets, with_published

            facts = run_datasets(runs)
            facts = {name: facts[name] for name in evidence.datasets()}
            shown_beside = with_published(evidence, facts, beside)
            evidence, how = shown_beside.evidence, {**how, "apart": shown_beside.apart}
        if only or datasets:
            choice.all_of("model", only, [*own, *evidence.models])
            evidence = choice.only(evidence, only)
            evidence = noting(evidence, of_choice(evidence, only, datasets))
        usual = "report-only" if only or datasets else "report"
        return parts_and_files(noting(evidence, *missed), out or runs[0] / usual, missed, **how)


def of_choice(evidence: Evidence, only: Sequence[str], datasets: Sequence[str]) -> str:
    """What a report of chosen models and datasets says of the choice."""
    chosen = [count(len(evidence.models), "chosen model")] if only else []
    chosen += [count(len(evidence.datasets()), "chosen dataset")] if datasets else []
    return f"Ranks, tests and figures are of the {' and '.join(chosen)} alone."


def _made_of(run: Path, how: dict[str, Any]) -> str:
    """A digest of what the report of a run depends on: its files, the report's own first one, the
    versions of all, and `how` it is made; "" where the code is being edited."""
    from .feature_importance import FILE

    environment = capture()
    folders = (run / "ledger", run / "predictions", run / FILE, run / "report" / "about.md")
    files = [path for folder in folders for path in (folder, *sorted(folder.rglob("*")))]
    stats = [(str(path), path.stat().st_mtime_ns) for path in files if path.is_file()]
    return "" if environment["code"].endswith("-dirty") else digest([stats, how, environment])


def note_made(run: Path, files: Sequence[Path], doubtful: int, **how: Any) -> None:
    """Note that the report of a run was made just now, for `unchanged`."""
    told = {"of": _made_of(run, how), "files": [str(file) for file in files], "doubtful": doubtful}
    write_atomically(run / NOTE, json.dumps(told).encode(), sync=False)


def unchanged(run: Path, **how: Any) -> tuple[list[Path], int] | None:
    """(files of a run's report, number of cells to look at first), where it would be the same if it
    were made again; else None."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        told = json.loads((run / NOTE).read_bytes())
        files = [Path(file) for file in told["files"]]
        now = _made_of(run, how)
        if now and now == told["of"] and all(file.exists() for file in files):
            return files, int(told["doubtful"])
    return None


def parts_and_files(evidence: Evidence, out: Path, missed: Sequence[str] = (), **how: Any) -> Made:
    """Write the report of an evidence into `out`. missed: what could not be made before; `how`:
    options of `reports.report.parts_of`, and `html` of `write`. Raises EvidenceError."""
    from ...reports.report import parts_of, write

    html = how.pop("html", True)
    parts = parts_of(evidence, **how)
    files = write(evidence, out, parts, html=html)
    return Made(files, parts.sections, [*evidence.facts.damage], [*missed, *parts.missed])


@contextmanager
def _no_collection() -> Iterator[None]:
    """Switch the garbage collector off: a report makes millions of objects and hardly a cycle, and
    the search for cycles took a tenth of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
