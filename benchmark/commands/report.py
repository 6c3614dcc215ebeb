"""How do runs, or another tool's results, become a report? Read, completed, written out."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import check_run

LARGE = 20  # segments of ledgers: reading them takes as long as an import


def write_report(
    runs: Iterable[Path],
    out: Path | None,
    *,
    mirror: str | None = None,
    cache: str | None = None,
    results: Path | None = None,
    **how: Any,
) -> list[Path]:
    """Write the report of runs into `out` (default: report/ of the first run), or of `results`, a
    CSV of another tool (default: report/ beside it). `how`: what `reports.report.write` takes."""
    if results is not None:
        from ...reports.report import write
        from ..results.csv_import import read_results

        return write(read_results(results), out or results.parent / "report", **how)
    runs = list(runs)
    for run in runs:
        check_run(run)
    with _no_collection(), _imports_meanwhile(runs):
        from ..results.evidence_builder import evidence_of

        evidence = evidence_of(runs)
        from ...reports.report import write
        from ..results.importance import with_importance
        from ..results.seed_ensembles import with_ensembles

        evidence = with_ensembles(evidence, runs, mirror=mirror, cache=cache)
        if how.get("html", True):
            evidence = with_importance(evidence)
        return write(evidence, out or runs[0] / "report", **how)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without the search for cycles: a report makes millions of objects and hardly a cycle, and a
    tenth of its time went into looking."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _imports_meanwhile(runs: Iterable[Path]) -> Iterator[None]:
    """Imports what a report is made with on a core that reading a ledger leaves idle; of a large
    one what draws its diagrams, too. An error is left to where the module is imported for good.

    The thread is waited for: Python would crash if it ended in the middle of an import.
    """
    import pyarrow.parquet  # noqa: F401  # here: pandas imports it too, and reading begins with it

    large = sum(1 for run in runs for _ in run.glob("ledger/segment-*")) >= LARGE

    def run() -> None:
        with suppress(Exception):
            import pandas  # noqa: F401, I001  # first: it is needed first
            import scipy.special  # noqa: F401

            if large:
                import matplotlib.backends.backend_pdf
                import matplotlib.backends.backend_svg
                import matplotlib.figure  # noqa: F401

    thread = threading.Thread(target=run, name="imports")
    thread.start()
    try:
        yield
    finally:
        thread.join()
