"""Bring an MLflow store up to date with a run. A second pass changes nothing.

One MLflow run per study (dataset, fold, model), one per trial below it, and one that holds the
report. A study's run is written whole, by MLflow's own client, and bears a hash of what it shows
(the tag `tabsweep.digest`). A later pass leaves it alone if the ledger still says the same.
Otherwise it writes a new run in its place, because a logged metric cannot be taken back. Whatever
was deleted in the store is written again, and whatever a killed pass left half done is redone.
Results are never read from a store.
"""

from __future__ import annotations

import hashlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...common.files import write_atomically
from ...sweeps.store.ledger import Ledger
from .experiments import experiment_of
from .mapping import TRIALS_SHOWN, Projection, Shown, StudyRun, project
from .store import check, default_uri, file_lock, is_server, opened, redact, user_of

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

KEY = "tabsweep.key"  # tag: which study of which run folder
DIGEST = "tabsweep.digest"  # tag: `StudyRun.digest`, or a hash of the report's files
PARENT = "mlflow.parentRunId"
INHERITED = ("suite", "budget", "run", "seed", "task", "metric", "protocol")  # tags of trials, too
AT_ONCE = 4  # trials that are sent to a server at once
REPORT = "report"  # the folder of a run's report


@dataclass
class SyncReport:
    """What one pass did. `trials`: how many runs of trials were written; `report`: whether the
    sweep's report was copied."""

    uri: str
    experiment: str
    experiment_id: str = ""
    runs: int = 0
    created: int = 0
    replaced: int = 0
    trials: int = 0
    report: bool = False
    seconds: float = 0.0

    def __str__(self) -> str:
        text = (
            f"{self.experiment} in {self.uri}: {self.runs} studies, {self.created} created, "
            f"{self.trials} trials written in {self.seconds:.1f} s"
        )
        if self.report:
            text += "; the report was copied"
        if self.replaced:
            text += f"; {self.replaced} replaced, because the run has gone on since"
        return text


def sync(
    run: Path,
    *,
    uri: str | None = None,
    trials_shown: int | None = None,
) -> SyncReport:
    """Bring a tracking store up to date with the ledger. Idempotent; one at a time per run
    and store.

    trials_shown: the largest sweep, in trials, whose trials have MLflow runs; None for the number
    of the last pass, at first 1,000. Raises LedgerError, and TrackingError for a store that is
    refused, unreachable or broken (without credentials in the message).
    """
    uri = check(uri or default_uri(run))
    started = time.monotonic()
    ledger = Ledger(run)
    if trials_shown is None:
        trials_shown = last_sync(run, uri=uri).get("trials_shown", TRIALS_SHOWN)
    projection = project(ledger, trials_shown=trials_shown)
    report = SyncReport(redact(uri), projection.experiment, runs=len(projection.runs))
    with file_lock(_cursor_path(run, uri).with_suffix(".lock")):
        with opened(uri, run) as client:
            store = _Store(client, projection, report, run, uri)
            store.write_studies()
            store.write_report()
        report.seconds = time.monotonic() - started
        cursor = {**asdict(report), "trials_shown": trials_shown}
        write_atomically(_cursor_path(run, uri), json.dumps(cursor, indent=1).encode() + b"\n")
    return report


def last_sync(run: Path, *, uri: str | None = None) -> dict[str, Any]:
    """The report of the last successful pass, with `trials_shown`; {} before the first."""
    try:
        return json.loads(_cursor_path(run, uri or default_uri(run)).read_bytes())
    except (OSError, ValueError):
        return {}


def _cursor_path(run: Path, uri: str) -> Path:
    # The default store moves with its folder; of other addresses the secret part does not count.
    place = "default" if uri == default_uri(run) else redact(uri)
    return run / "tracking" / f"{hashlib.sha256(place.encode()).hexdigest()[:16]}.json"


# ---------------------------------------------------------------------- one pass


class _Store:
    """A store during one pass, with its experiment and its MLflow runs of this run folder."""

    def __init__(
        self, client: MlflowClient, projection: Projection, report: SyncReport, run: Path, uri: str
    ) -> None:
        self.client, self.projection, self.report, self.run = client, projection, report, run
        found = experiment_of(client, projection, run, uri)
        report.experiment, report.experiment_id = found.name, found.experiment_id
        self.common = {
            **projection.common,
            "tabsweep.run_id": projection.run_id,
            "mlflow.user": user_of(uri),
        }
        self.at_once = AT_ONCE if is_server(uri) else 1  # SQLite has one writer
        self.known: dict[str, Run] = {}  # by their keys
        mine = self._search(f"tags.`tabsweep.run_id` = '{projection.run_id}'")
        # A server without an answer may have made a run twice: one a key stays, a whole one first.
        for known in sorted(mine, key=lambda r: (r.info.status == "RUNNING", r.info.run_id)):
            if self.known.setdefault(known.data.tags.get(KEY, ""), known) is not known:
                self._remove(known)

    def _key(self, study: str) -> str:
        """The tag `tabsweep.key` of a study's run; "" stands for the report's run."""
        return f"{self.projection.run_id}:{study}"

    def _search(self, filter: str) -> list[Run]:
        runs: list[Run] = []
        token = None
        while True:
            page = self.client.search_runs(
                [self.report.experiment_id], filter, max_results=1000, page_token=token
            )
            runs += page
            token = page.token
            if not token:
                return runs

    def _remove(self, run: Run) -> None:
        """Delete a run and its trials."""
        for trial in self._search(f"tags.`{PARENT}` = '{run.info.run_id}'"):
            self.client.delete_run(trial.info.run_id)
        self.client.delete_run(run.info.run_id)

    # -- studies -----------------------------------------------------------------------------------

    def write_studies(self) -> None:
        """Write the studies that the store lacks or has with other content, and all ranks."""
        for study in self.projection.runs:
            known = self.known.get(self._key(study.name))
            if known is not None and _shows(known, study):
                id, rank = known.info.run_id, known.data.metrics.get("rank")
            else:
                if known is not None:
                    self._remove(known)
                    self.report.replaced += 1
                id, rank = self._write_study(study), None
                self.report.created += 1
            if study.rank is not None and study.rank.value != rank:
                self.client.log_metric(id, *study.rank)

    def _write_study(self, study: StudyRun) -> str:
        from mlflow.entities import Dataset, DatasetInput

        keys = {KEY: self._key(study.name), DIGEST: study.digest}
        id = self._create(study, {**self.common, **keys})
        self.client.log_inputs(id, [DatasetInput(Dataset(**study.dataset))])
        tags = {**self.common, **study.tags}
        inherited = {PARENT: id, **{k: tags[k] for k in INHERITED if k in tags}}
        inherited["mlflow.user"] = tags["mlflow.user"]
        with ThreadPoolExecutor(self.at_once) as pool:
            list(pool.map(lambda one: self._fill(self._create(one, inherited), one), study.trials))
        self.report.trials += len(study.trials)
        self._fill(id, study)
        return id

    def _create(self, shown: Shown, tags: dict[str, str]) -> str:
        made = self.client.create_run(
            self.report.experiment_id,
            start_time=shown.start_ms,
            tags={**tags, **shown.tags},
            run_name=shown.name,
        )
        return made.info.run_id

    def _fill(self, id: str, shown: Shown) -> None:
        """Write params and metrics, then the status, which marks a run as whole."""
        from mlflow.entities import Metric, Param

        metrics = [Metric(*point) for point in shown.points]
        self.client.log_batch(id, metrics, [Param(k, v) for k, v in shown.params.items()])
        self.client.set_terminated(id, status=shown.status, end_time=shown.end_ms)

    # -- the report --------------------------------------------------------------------------------

    def write_report(self) -> None:
        """Copy the run's report, if it exists and has changed, to an MLflow run of its own."""
        shown, now = self.projection.sweep, _report_hash(self.run)
        key = self._key("")
        known = self.known.get(key)
        if not now or known is not None and known.data.tags.get(DIGEST) == now:
            return
        tags = {**self.common, KEY: key, DIGEST: ""}
        id = known.info.run_id if known is not None else self._create(shown, tags)
        self.client.log_artifacts(id, str(self.run / REPORT), REPORT)
        self._fill(id, shown)
        self.client.set_tag(id, DIGEST, now)
        self.report.report = True


def _shows(known: Run, study: StudyRun) -> bool:
    """Whether an MLflow run is whole and has the study's present content."""
    return known.info.status != "RUNNING" and known.data.tags.get(DIGEST) == study.digest


def _report_hash(run: Path) -> str:
    """A hash of the names and bytes of a run's report, "" without one."""
    folder = run / REPORT
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    both = hashlib.sha256()
    for path in files:
        both.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
        both.update(path.read_bytes())
    return both.hexdigest()[:32] if files else ""
