"""How does a published table come out here? Run what is missing, then print both side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..console import FAILED, OK, Console
from ..papers.outcome import Size

# Published table -> the suite whose run stands beside it.
SUITES = {f"npt-table-{table}": "npt-small" for table in (8, 9, 10, 11, 12)}
SUITES |= {"hopular-table-1": "hopular-small", "hopular-table-2": "hopular-medium"}
SUITES |= {f"rtdl-table-{table}": "rtdl" for table in (2, 3, 6, 19)}
SUITES |= {f"cheatt-table-{table}": "cheatt" for table in (1, 2, 3, 4)}

# Published table -> (its title, what it holds, the experiment that measures it).
EXPERIMENTS = {
    "hopular-table-a7": ("Hopular, Table A.7", "peak memory", "hopular-cost"),
    "hopular-table-a8": ("Hopular, Table A.8", "step time", "hopular-cost"),
}
FULL = ("paper", "full")  # budgets that mean an experiment's full size; others the reduced one


def list_tables(face: Console) -> int:
    """`bench reproduce --list`."""
    from ..papers import tables

    return tables.list_tables(face)


def reproduce_command(face: Console, table: str, *, no_run: bool, **given: Any) -> int:
    """`bench reproduce TABLE`: exit code of the sweep, or 0 where nothing had to run."""
    from ..papers import tables

    tables.refuse_others(table)
    if table in EXPERIMENTS:
        return _from_experiment(face, table, no_run=no_run, **given)
    from ...reports.reproduction.comparison import (
        datasets_of,
        models_of,
        reproduction,
        write_comparison,
    )
    from ..errors import check_run
    from ..planning import suite as suites
    from ..results.evidence_builder import evidence_of
    from ..results.seed_ensembles import with_ensembles
    from . import sweep

    what = reproduction(table)  # an unknown table is refused before anything runs
    suite = suites.load(SUITES[table])
    if what.narrow and not given["datasets"]:
        known = datasets_of(table)
        given["datasets"] = tuple(name for name in suite.datasets if name in known)
    if what.level and not given["models"]:
        given["models"] = tuple(models_of(table))
    request = sweep.request_of(
        suite,
        task=None,
        sampler=None,
        space=None,
        seed=0,
        timeout=None,
        memory_mb=None,
        reuse=(),
        address="local",
        allow_code_change=False,
        **{name: value for name, value in given.items() if name != "tracking_uri"},
    )
    code = OK
    if no_run:
        check_run(request.folder)
    else:
        code = sweep.run_and_report(face, request, given["tracking_uri"])
        if code not in (OK, FAILED):
            return code
    out = request.folder / "report"
    evidence = with_ensembles(
        evidence_of([request.folder]), [request.folder], mirror=request.mirror, cache=request.cache
    )
    files = write_comparison(evidence, table, out)
    for path in files:
        if path.suffix == ".md":
            face.say(path.read_text(encoding="utf-8").rstrip())
    face.say("\n".join(str(path) for path in files))
    face.data({"files": [str(path) for path in files]})
    return code


def _from_experiment(
    face: Console,
    table: str,
    *,
    no_run: bool,
    budget: str,
    runs: Path,
    name: str | None,
    device: str,
    mirror: str | None,
    cache: str | None,
    **rest: Any,
) -> int:
    """A table that an experiment measures: RUNS/NAME holds it, by default <experiment>-<size>."""
    from ..arguments import check_experiment
    from ..errors import NoRun, SweepError, check_gpu, check_name
    from .experiment import run_experiment

    unused = sorted(k for k in ("models", "datasets", "folds", "trials") if rest.get(k))
    if unused:
        raise SweepError(f"{table} is no sweep: it takes no --{unused[0].rstrip('s')}")
    experiment = check_experiment(EXPERIMENTS[table][2])
    size: Size = "full" if budget in FULL else "reduced"
    out = runs / check_name(name or f"{experiment.name}-{size}")
    folder = out / experiment.name
    if _measured(folder, size) is None:
        if no_run:
            raise NoRun(f"{folder} holds no {size} {experiment.name}; leave --no-run out")
        check_gpu(device)
        face.say(f"{experiment.name}, {size}: {getattr(experiment, size)}")
        run_experiment(
            experiment, size=size, device=device, out=out, say=face.say, mirror=mirror, cache=cache
        )
    else:
        face.say(f"{folder} holds what was measured before; without that folder it runs anew")
    files = sorted(folder.glob(f"{table}.*"))
    face.say((folder / f"{table}.md").read_text(encoding="utf-8").rstrip())
    face.say("\n".join(str(path) for path in files))
    face.data({"files": [str(path) for path in files]})
    return OK


def _measured(folder: Path, size: str) -> dict[str, Any] | None:
    """The facts of an experiment of that size that ended in `folder`."""
    try:
        facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) and facts.get("size") == size else None
