"""One pass that writes into an MLflow store what it lacks of a run: in batches, idempotent.

One MLflow run per study (dataset, fold, model), one per trial below it, and one that holds the
report. The tags `tabsweep.synced` and `tabsweep.trials` of a study record in the store how much was
written, so that a second pass adds nothing, a deleted database is filled again and a killed pass
continues. Results are never read from a store.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...common.files import write_atomically
from ...sweeps.store.ledger import Ledger, LedgerError
from ...sweeps.store.run_lock import owner_of
from .experiments import experiment_of, user_of
from .mapping import RUNNING, TRIALS_SHOWN, Point, Projection, StudyRun, project
from .report_files import report_hash, send_report
from .store import (
    Refused,
    TrackingError,
    check,
    default_uri,
    file_lock,
    open_store,
    probe,
    quiet_mlflow,
    redact,
    scheme_of,
    scrub,
    sqlite_path,
    writing,
)
from .trial_runs import Store

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

COMMON = ("suite", "budget", "run", "seed", "task", "metric", "protocol", "mlflow.user")
REFUSALS = ("PERMISSION_DENIED", "UNAUTHENTICATED")
BATCH = 1000  # what MLflow takes in one call: metrics, and all items together
SYNCED = "tabsweep.synced"
TRIALS = "tabsweep.trials"
NOTHING = "0:-:-"
TRIALS_VARIABLE = "TABSWEEP_TRACKING_TRIALS"  # another limit of runs for single trials


@dataclass
class SyncReport:
    """What one pass did; `trials` counts the trials that were written, `report` says whether the
    sweep's report was."""

    uri: str
    experiment: str
    experiment_id: str = ""
    runs: int = 0
    created: int = 0
    updated: int = 0
    replaced: int = 0
    deleted: int = 0
    doubles: int = 0
    trials: int = 0
    report: bool = False
    seconds: float = 0.0

    def to_data(self) -> dict[str, Any]:
        """The fields by name, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        text = (
            f"{self.experiment} in {self.uri}: {self.runs} studies, {self.created} created, "
            f"{self.updated} updated, {self.trials} trials written in {self.seconds:.1f} s"
        )
        if self.report:
            text += "; the report was copied"
        if self.replaced:
            text += f"; {self.replaced} replaced, because their trials were run again"
        if self.doubles:
            text += f"; {self.doubles} that a server had made twice were deleted"
        if self.deleted:
            text += f"; {self.deleted} were deleted in MLflow and stay so (restore them there)"
        return text


def sync(
    run: Path,
    *,
    uri: str | None = None,
    live: bool | None = None,
    finished_only: bool = False,
    retries: int = 2,
    trials_shown: int | None = None,
) -> SyncReport:
    """Bring a tracking store up to date with the ledger. Idempotent; one at a time per run
    and store.

    `live` says whether a driver is at work (None: look for one); a study that it left unfinished is
    shown as running, else as killed. `trials_shown`: up to how many trials of the sweep each has a
    run of its own (None: TABSWEEP_TRACKING_TRIALS, or 2,000). The report of the run is copied
    beside its studies, unless `live` or `finished_only`. Raises TrackingError (a store that is
    refused, unreachable or broken; the message holds no credentials) and LedgerError.
    """
    run = Path(run)
    uri = check(uri or default_uri(run))
    started = time.monotonic()
    probe(uri)
    ledger = Ledger(run)
    if live is None:
        live = owner_of(run) is not None
    projection = project(
        ledger, live=live, finished_only=finished_only, trials_shown=_limit(trials_shown)
    )
    report = SyncReport(redact(uri), projection.experiment, runs=len(projection.runs))
    with file_lock(_cursor_path(run, uri).with_suffix(".lock")):
        try:
            with quiet_mlflow(retries=retries), writing(uri, run):
                client = open_store(uri)
                _write(client, projection, report, run, uri)
                if not finished_only and not live:
                    report.report = _write_report(client, projection, report, run)
        except (TrackingError, LedgerError):
            raise
        except Exception as error:
            raise explain(error, uri) from None
        report.seconds = time.monotonic() - started
        cursor = {
            **report.to_data(),
            "records": len(ledger),
            "complete": not finished_only,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_atomically(_cursor_path(run, uri), json.dumps(cursor, indent=1).encode() + b"\n")
    return report


def _limit(given: int | None) -> int:
    text = os.environ.get(TRIALS_VARIABLE, "") if given is None else str(given)
    if text and not text.isdecimal():
        raise TrackingError(f"{TRIALS_VARIABLE}={text!r} must be a number of trials")
    return int(text) if text else TRIALS_SHOWN


def last_sync(run: Path, *, uri: str | None = None) -> dict[str, Any] | None:
    """What the last pass that ended well reported, with `records`, `complete`, `time`; or None."""
    try:
        return json.loads(_cursor_path(Path(run), uri or default_uri(Path(run))).read_bytes())
    except (OSError, ValueError):
        return None


def _cursor_path(run: Path, uri: str) -> Path:
    folder = run / "tracking"
    folder.mkdir(exist_ok=True)
    # The default store moves with its folder; of other addresses the secret part does not count.
    place = "default" if uri == default_uri(run) else redact(uri)
    return folder / f"{hashlib.sha256(place.encode()).hexdigest()[:16]}.json"


def explain(error: Exception, uri: str) -> TrackingError:
    """The error of a store in one line without secrets."""
    text = scrub(error, uri) or type(error).__name__
    if scheme_of(uri) == "sqlite":
        return TrackingError(
            f"cannot write {sqlite_path(uri)} ({text}): sync again, and if that does not help, "
            "delete the file: it is rebuilt from the ledger"
        )
    code = getattr(error, "error_code", None)
    if code in REFUSALS or "error code 401" in text:
        return Refused(
            f"the tracking server {redact(uri)} refuses {user_of(uri)!r} ({text}): check "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        )
    return TrackingError(f"the tracking server {redact(uri)} failed ({text})")


# ---------------------------------------------------------------------- one pass


def _write(
    client: MlflowClient, projection: Projection, report: SyncReport, run: Path, uri: str
) -> None:
    found = experiment_of(client, projection.experiment, projection.note, run, uri)
    report.experiment, report.experiment_id = found.name, found.experiment_id
    experiment_id = found.experiment_id
    have, doubles = _known_runs(client, experiment_id, projection.run_id)
    store = Store(client, experiment_id, scheme_of(uri) not in ("http", "https"))
    user = user_of(uri)
    for double in doubles:
        _retire(client, double, store)
        report.doubles += 1
    for want in projection.runs:
        known = have.get(want.key)
        if known is not None and known.info.lifecycle_stage == "deleted":
            report.deleted += 1
            continue
        if known is not None and _outdated(known, want):
            # MLflow cannot take steps and params back: another run replaces this one.
            _retire(client, known, store)
            report.replaced += 1
            known = None
        if known is None:
            want.tags["mlflow.user"] = user
            known = _create(client, experiment_id, want, projection.run_id)
            report.created += 1
            report.trials += _fill(client, known, want, store, fresh=True)[1]
            continue
        changed, trials = _fill(client, known, want, store)
        report.updated += changed
        report.trials += trials


def _write_report(
    client: MlflowClient, projection: Projection, report: SyncReport, run: Path
) -> bool:
    """Copy the run's report, if there is one, to a run of its own: whether it had changed."""
    if not report_hash(run):
        return False
    want, id = projection.sweep, report.experiment_id
    known = _known_runs(client, id, projection.run_id, key=want.key)[0].get(want.key)
    if known is not None and known.info.lifecycle_stage == "deleted":
        return False
    store = Store(client, id, database=False)  # which has no trials to write
    if known is None:
        want.tags["mlflow.user"] = user_of(report.uri)
        known = _create(client, id, want, projection.run_id)
    _fill(client, known, want, store)
    return send_report(client, known, run)


def _create(client: MlflowClient, experiment_id: str, want: StudyRun, run_id: str) -> Run:
    """A new run in the store. A call without an answer may have made one all the same, so MLflow's
    own blind retries are off: it is looked for before a second try."""
    from mlflow.exceptions import MlflowException

    def create() -> Run:
        with quiet_mlflow(retries=0):
            return client.create_run(
                experiment_id, start_time=want.start_ms, tags=want.tags, run_name=want.study
            )

    try:
        return create()
    except MlflowException:
        made = _known_runs(client, experiment_id, run_id)[0].get(want.key)
        if made is not None and made.info.lifecycle_stage != "deleted":
            return made
        return create()


def _retire(client: MlflowClient, run: Run, store: Store) -> None:
    """Delete a run that is replaced by another one, and its trials."""
    key = run.data.tags["tabsweep.key"]
    if TRIALS in run.data.tags:
        store.delete(run.info.run_id)
    client.set_tag(run.info.run_id, "tabsweep.key", f"superseded {key}")
    client.delete_run(run.info.run_id)


def _known_runs(
    client: MlflowClient, experiment_id: str, run_id: str, key: str | None = None
) -> tuple[dict[str, Run], list[Run]]:
    """({key: run} of this run folder, those deleted in MLflow included; second runs of a key).
    key: only the runs with it."""
    from mlflow.entities import ViewType

    runs: list[Run] = []
    token = None
    while True:
        page = client.search_runs(
            [experiment_id],
            filter_string=f"tags.`tabsweep.run_id` = '{run_id}'"
            + (f" and tags.`tabsweep.key` = '{key}'" if key else ""),
            run_view_type=ViewType.ALL,
            max_results=1000,
            page_token=token,
        )
        runs += page
        token = page.token
        if not token:
            break
    found: dict[str, Run] = {}
    doubles = []
    # What is active and knows most comes first.
    runs.sort(key=lambda r: (r.info.lifecycle_stage == "deleted", -_mark(r)[0], r.info.run_id))
    for run in runs:
        key = run.data.tags.get("tabsweep.key", "")
        if key not in found:
            found[key] = run
        elif run.info.lifecycle_stage != "deleted":
            doubles.append(run)
    return found, doubles


def _mark(run: Run) -> tuple[int, str, str]:
    """(trials written, their digest, the digest of the final points) of a run in the store."""
    count, trials, finals = run.data.tags.get(SYNCED, NOTHING).split(":")
    return int(count), trials, finals


def _outdated(run: Run, want: StudyRun) -> bool:
    """Does the store hold points or params that the ledger no longer has?"""
    count, trials, _ = _mark(run)
    if 0 < count <= len(want.trials) and want.trials_digest(count) != trials:
        return True
    shown, children = _shown(run)
    if 0 < shown <= len(want.children) and want.children_digest(shown) != children:
        return True
    return bool(run.data.params and want.params and run.data.params != want.params)


def _shown(run: Run) -> tuple[int, str]:
    """(trials below the run of a study, their digest) in the store."""
    count, _, trials = run.data.tags.get(TRIALS, "0:-").partition(":")
    return int(count), trials


def _fill(
    client: MlflowClient, run: Run, want: StudyRun, store: Store, *, fresh: bool = False
) -> tuple[bool, int]:
    """Add what a run in the store lacks: (was anything written, of how many trials). `fresh`: the
    run was made by this pass."""
    from mlflow.entities import Dataset, DatasetInput, Metric, Param, RunTag

    id = run.info.run_id
    count, _, finals = _mark(run)
    if count > len(want.trials):
        return False, 0  # an older copy of the ledger has nothing new
    if SYNCED not in run.data.tags and want.dataset:
        client.log_inputs(id, [DatasetInput(Dataset(**want.dataset))])
    shown, _ = _shown(run)
    below = want.children[shown:]
    common = {k: v for k, v in run.data.tags.items() if k in COMMON}
    store.write(id, below, common, fresh=fresh)
    now = count if want.held else len(want.trials)
    points = [point for trial in want.trials[count:now] for point in trial]
    if want.finals and finals != want.final_digest:
        points = want.finals + points
        finals = want.final_digest
        if want.chosen is not None and want.chosen < shown:
            store.choose(id, want.chosen)
    tags = {k: v for k, v in want.tags.items() if run.data.tags.get(k) != v}
    mark = f"{now}:{want.trials_digest(now)}:{finals}"
    if run.data.tags.get(SYNCED) != mark:
        tags[SYNCED] = mark  # with the last batch: earlier ones may be written twice
    if below:
        tags[TRIALS] = f"{len(want.children)}:{want.children_digest(len(want.children))}"
    params = {k: v for k, v in want.params.items() if k not in run.data.params}
    items = [Param(k, v) for k, v in params.items()]
    labels = [RunTag(k, v) for k, v in tags.items()]
    for first in range(100, len(items), 100):
        client.log_batch(id, params=items[first : first + 100])
    room = BATCH - len(labels) - min(len(items), 100)
    batches = list(_batches(points, room))
    for batch in batches[:-1]:
        client.log_batch(id, metrics=[Metric(*point.data) for point in batch])
    if batches or items or labels:
        last = [Metric(*point.data) for point in batches[-1]] if batches else []
        client.log_batch(id, metrics=last, params=items[:100], tags=labels)
    wrote = bool(points or items or labels or below)
    if run.info.status != want.status:
        wrote = True
        if want.status == RUNNING:
            client.update_run(id, status=RUNNING)
        else:
            client.set_terminated(id, status=want.status, end_time=want.end_ms)
    return wrote, max(now - count, len(below))


def _batches(points: Sequence[Point], size: int) -> Iterator[Sequence[Point]]:
    for first in range(0, len(points), size):
        yield points[first : first + size]
