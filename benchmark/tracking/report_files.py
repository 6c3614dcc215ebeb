"""The report of a sweep among the artifacts of its run in MLflow."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

FOLDER = "report"
WRITTEN = "tabsweep.report"  # tag: a hash of the files that were sent last


def report_hash(run: Path) -> str:
    """A hash of the names and bytes of a run's report, "" without one."""
    folder = run / FOLDER
    found = hashlib.sha256()
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        found.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:32] if files else ""


def send_report(client: MlflowClient, into: Run, run: Path) -> bool:
    """Copy the report into the artifacts of a run where it has changed: whether it had."""
    now = report_hash(run)
    if not now or into.data.tags.get(WRITTEN) == now:
        return False
    client.log_artifacts(into.info.run_id, str(run / FOLDER), FOLDER)
    client.set_tag(into.info.run_id, WRITTEN, now)
    return True
