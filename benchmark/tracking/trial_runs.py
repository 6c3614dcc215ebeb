"""Runs of MLflow for single trials, below the run of their study, so that trials can be compared.

Into a database they go by a few statements a study, through the tables that the installed MLflow
declares: its own calls cost 30 ms of CPU a trial. A server gets three requests a trial, some at a
time. Both find what an earlier pass has written and write nothing twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .mapping import FINISHED, TrialRun
from .store import quiet_mlflow

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

AT_ONCE = 4  # requests to a server
ROWS = 500  # ids that one query names
INDEX = "tabsweep.trial"  # tag: the trial's place in its study
CHOSEN = "chosen"  # tag of the trial that its study chose


@dataclass
class Store:
    """A store that trials are written to; `database` where it is one, and no server."""

    client: MlflowClient
    experiment_id: str
    database: bool
    retries: int = 2
    _artifacts: list[str] = field(default_factory=list)

    @property
    def artifacts(self) -> str:
        """The place of the experiment's artifacts."""
        if not self._artifacts:
            found = self.client.get_experiment(self.experiment_id)
            self._artifacts.append(found.artifact_location)
        return self._artifacts[0]

    # -- public ------------------------------------------------------------------------------------

    def write(
        self, parent: str, trials: Sequence[TrialRun], common: Mapping[str, str], *, fresh: bool
    ) -> None:
        """Write trials below the run with the id `parent`; `common` are tags of all of them.
        `fresh`: no pass wrote any below it before."""
        if not trials:
            return
        shared = {**common, "mlflow.parentRunId": parent}
        if self.database:
            self._insert(parent, trials, shared)
            return
        have = {} if fresh else self._by_index(parent)
        with quiet_mlflow(retries=0), ThreadPoolExecutor(AT_ONCE) as pool:
            jobs = [pool.submit(self._send, trial, shared, have) for trial in trials]
            for job in jobs:
                job.result()

    def choose(self, parent: str, index: int) -> None:
        """Mark one trial of a study as the chosen one, where there are runs of its trials."""
        runs = self.client.search_runs(
            [self.experiment_id],
            f"tags.`mlflow.parentRunId` = '{parent}' and tags.`{INDEX}` = '{index}'",
            max_results=1,
        )
        for run in runs:
            if run.data.tags.get(CHOSEN) != "true":
                self.client.set_tag(run.info.run_id, CHOSEN, "true")

    def delete(self, parent: str) -> None:
        """Delete all trials below a run."""
        for run in self._below(parent):
            self.client.delete_run(run.info.run_id)

    # -- a server ----------------------------------------------------------------------------------

    def _send(self, trial: TrialRun, shared: Mapping[str, str], have: Mapping[str, Run]) -> None:
        from mlflow.entities import Metric, Param

        known = have.get(str(trial.index))
        if known is not None and known.info.status == trial.status:
            return  # its status is what is written last
        if known is not None:
            id = known.info.run_id
        else:
            tags = {**shared, **trial.tags, INDEX: str(trial.index)}
            made = self.client.create_run(
                self.experiment_id, start_time=trial.start_ms, tags=tags, run_name=trial.name
            )
            id = made.info.run_id
        params = [Param(k, v) for k, v in trial.params.items()]
        for first in range(100, len(params), 100):
            self.client.log_batch(id, params=params[first : first + 100])
        metrics = [Metric(*point.data) for point in trial.points]
        self.client.log_batch(id, metrics=metrics, params=params[:100])
        self.client.set_terminated(id, status=trial.status, end_time=trial.end_ms)

    def _by_index(self, parent: str) -> dict[str, Run]:
        """{index: run} of the trials that are there; second runs of one are deleted."""
        found: dict[str, Run] = {}
        runs = self._below(parent)
        runs.sort(key=lambda run: (run.info.status != FINISHED, run.info.run_id))
        for run in runs:
            index = run.data.tags.get(INDEX, "")
            if index in found:
                self.client.delete_run(run.info.run_id)
            else:
                found[index] = run
        return found

    def _below(self, parent: str) -> list[Run]:
        runs: list[Run] = []
        token = None
        while True:
            page = self.client.search_runs(
                [self.experiment_id],
                f"tags.`mlflow.parentRunId` = '{parent}'",
                max_results=1000,
                page_token=token,
            )
            runs += page
            token = page.token
            if not token:
                return runs

    # -- a database --------------------------------------------------------------------------------

    def _insert(self, parent: str, trials: Sequence[TrialRun], shared: Mapping[str, str]) -> None:
        import sqlalchemy as sa
        from mlflow.store.tracking.dbmodels import models as db

        ids = {trial.index: run_id(parent, trial) for trial in trials}
        every = list(ids.values())
        with self.client._tracking_client.store.ManagedSessionMaker(read_only=False) as session:
            have: set[str] = set()
            for first in range(0, len(every), ROWS):
                some = every[first : first + ROWS]
                query: Any = sa.select(db.SqlRun.run_uuid).where(db.SqlRun.run_uuid.in_(some))
                have |= set(session.execute(query).scalars())
            rows = Rows()
            for trial in trials:
                if ids[trial.index] not in have:
                    rows.add(ids[trial.index], trial, shared, self.experiment_id, self.artifacts)
            for table, values in (
                (db.SqlRun, rows.runs),
                (db.SqlTag, rows.tags),
                (db.SqlParam, rows.params),
                (db.SqlMetric, rows.metrics),
                (db.SqlLatestMetric, rows.metrics),
            ):
                if values:
                    session.execute(sa.insert(table.__table__), values)


def run_id(parent: str, trial: TrialRun) -> str:
    """The id of a trial's run in a database: the same in every pass."""
    return hashlib.sha256(f"{parent}/{trial.index}".encode()).hexdigest()[:32]


@dataclass
class Rows:
    """What MLflow's own calls would write for some trials, table by table."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    tags: list[dict[str, Any]] = field(default_factory=list)
    params: list[dict[str, Any]] = field(default_factory=list)
    metrics: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self, id: str, trial: TrialRun, shared: Mapping[str, str], experiment: str, artifacts: str
    ) -> None:
        """The rows of one trial."""
        from mlflow.utils.uri import append_to_uri_path

        self.runs.append(
            {
                "run_uuid": id,
                "name": trial.name,
                "artifact_uri": append_to_uri_path(artifacts, id, "artifacts"),
                "experiment_id": int(experiment),
                "source_type": "UNKNOWN",
                "source_name": "",
                "entry_point_name": "",
                "source_version": "",
                "user_id": shared.get("mlflow.user", "unknown"),
                "status": trial.status,
                "start_time": trial.start_ms,
                "end_time": trial.end_ms,
                "deleted_time": None,
                "lifecycle_stage": "active",
            }
        )
        names = {"mlflow.runName": trial.name, INDEX: str(trial.index)}
        for key, value in {**shared, **trial.tags, **names}.items():
            self.tags.append({"run_uuid": id, "key": key, "value": value})
        for key, value in trial.params.items():
            self.params.append({"run_uuid": id, "key": key, "value": value})
        for point in trial.points:
            key, number, time_ms, step = point.data
            row = {"run_uuid": id, "key": key, "value": number, "is_nan": False}
            self.metrics.append({**row, "timestamp": time_ms, "step": step})
