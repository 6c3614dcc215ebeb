"""How does a published table come out here? Run what is missing, then print both side by side."""

from __future__ import annotations

from typing import Any

from .face import FAILED, OK, Face

# Published table -> the suite whose run stands beside it.
SUITES = {f"npt-table-{table}": "npt-small" for table in (8, 9, 10, 11, 12)}


def list_tables(face: Face) -> int:
    """`bench reproduce --list`."""
    from ..reports.compare import REPRODUCTIONS

    face.data([{"table": name, "suite": SUITES[name]} for name in REPRODUCTIONS])
    face.table(
        ["table", "what", "metric", "suite"],
        [[name, what.title, what.metric, SUITES[name]] for name, what in REPRODUCTIONS.items()],
    )
    return OK


def reproduce_command(face: Face, table: str, *, no_run: bool, **given: Any) -> int:
    """`bench reproduce TABLE`: exit code of the sweep, or 0 where nothing had to run."""
    from ..reports.compare import reproduction, write_comparison
    from . import runs
    from . import suite as suites
    from .frame import evidence_of
    from .options import check_run

    reproduction(table)  # an unknown table is refused before anything runs
    request = runs.request_of(
        suites.load(SUITES[table]),
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
        code = runs.run_and_report(face, request, given["tracking_uri"])
        if code not in (OK, FAILED):
            return code
    out = request.folder / "report"
    files = write_comparison(evidence_of([request.folder]), table, out)
    for path in files:
        if path.suffix == ".md":
            face.say(path.read_text(encoding="utf-8").rstrip())
    face.say("\n".join(str(path) for path in files))
    face.data({"files": [str(path) for path in files]})
    return code
