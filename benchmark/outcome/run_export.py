"""A run's trials in the forms of others: Optuna's studies, CSV and Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...sweeps.store.ledger import Ledger
from ...sweeps.store.records import latest_results
from ...sweeps.study_state import EVAL, TUNE
from ...sweeps.trial import DONE
from ..errors import SweepError
from ..planning.plan_record import plan_in
from ..results.evidence_builder import load_results
from ..results.learning_curves import CURVE

if TYPE_CHECKING:
    import pandas as pd
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

RUN = "tabsweep run"  # the attribute of an exported study that names its run
NOT_ATTRIBUTES = ("config", "study", "stage", "index", "status", "time", "task", "origin")


@dataclass(frozen=True)
class Configuration:
    """One configuration of a study: its row of `load_results`, of the highest rung, and `curve`,
    its validation losses by step: at its rungs, else the learning curve of its fit."""

    row: dict[str, Any]
    curve: dict[int, float] = field(default_factory=dict)


def configurations(run: Path) -> Iterator[tuple[str, str, list[Configuration]]]:
    """(study, the metric that selects, its configurations by index) of each study of a run.

    Raises LedgerError where `run` is not the folder of a run.
    """
    ledger = Ledger(run)
    metric, records = plan_in(ledger).metric, latest_results(ledger)
    frame = load_results(run)
    frame = frame[frame["stage"] != EVAL]
    for study, rows in frame.groupby("study", sort=False):
        wanted = metric[rows["task"].iloc[0]]
        configs = []
        for _, own in rows.groupby("index"):
            ordered = own.iloc[(own["stage"] == TUNE).argsort(kind="stable")].to_dict("records")
            curve = {}
            for row in ordered if len(ordered) > 1 else ():
                step = ledger.at(records[row["id"]])["fidelity"]["stop"]
                if row["status"] == DONE:
                    curve[int(step)] = float(row[f"val_{wanted}"])
            points = ledger.at(records[ordered[-1]["id"]]).get("info", {}).get(CURVE)
            if not curve and points:
                curve = {int(step): float(loss) for step, loss in points["points"]}
            configs.append(Configuration(ordered[-1], curve))
        yield str(study), wanted, configs


def to_tables(run: Path, folder: Path, kind: str) -> list[Path]:
    """Write `trials`, the rows of `load_results`, and `curves` (study, index, step, value) as "csv"
    or "parquet"; returns the files."""
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    curves = [
        (study, one.row["index"], step, value)
        for study, _, configs in configurations(run)
        for one in configs
        for step, value in one.curve.items()
    ]
    tables: dict[str, pd.DataFrame] = {
        "trials": load_results(run),
        "curves": pd.DataFrame(curves, columns=["study", "index", "step", "value"]),
    }
    files = [folder / f"{name}.{kind}" for name in tables]
    for path, table in zip(files, tables.values(), strict=True):
        table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path, index=False)
    return files


def to_optuna(run: Path, url: str) -> list[str]:
    """Write each study of a run into a storage of Optuna as RUN/DATASET/FOLD/MODEL, and return
    these names. A study that an earlier export of the run wrote is replaced.

    Raises SweepError for a storage that cannot be opened and a study of this name from elsewhere.
    """
    import optuna
    from optuna.study import StudyDirection
    from sqlalchemy.exc import SQLAlchemyError

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        storage = optuna.storages.RDBStorage(url)
    except (SQLAlchemyError, ImportError, ValueError) as error:
        raise SweepError(f"Optuna cannot open {url!r}: {error}") from error
    from ...reports.metrics import METRICS

    known = {study.study_name: study for study in storage.get_all_studies()}
    names = []
    for study, metric, configs in configurations(run):
        name = f"{run.resolve().name}/{study}"
        if name in known and known[name].user_attrs.get(RUN) != str(run.resolve()):
            raise SweepError(f"{url} has a study {name!r} of another origin; name another storage")
        if name in known:
            storage.delete_study(known[name]._study_id)
        up = METRICS[metric].direction == "max"
        direction = StudyDirection.MAXIMIZE if up else StudyDirection.MINIMIZE
        made = optuna.create_study(storage=storage, study_name=name, direction=direction)
        made.set_user_attr("value", f"val_{metric}")
        made.set_user_attr(RUN, str(run.resolve()))
        spread = _distributions([json.loads(one.row["config"]) for one in configs])
        for one in configs:
            storage.create_new_trial(made._study_id, _frozen(one, metric, spread))
        names.append(name)
    return names


def _frozen(
    one: Configuration, metric: str, spread: dict[str, tuple[BaseDistribution, bool]]
) -> FrozenTrial:
    """A configuration as a finished trial of Optuna. One that a lower rung stopped is pruned."""
    from optuna.trial import FrozenTrial, TrialState

    row = one.row
    state = TrialState.FAIL
    if row["status"] == DONE:
        state = TrialState.COMPLETE if row["stage"] == TUNE else TrialState.PRUNED
    end = datetime.fromisoformat(row["time"]).astimezone().replace(tzinfo=None)
    config = json.loads(row["config"])
    return FrozenTrial(
        number=-1,  # the storage counts
        trial_id=-1,
        state=state,
        value=row[f"val_{metric}"] if state is TrialState.COMPLETE else None,
        datetime_start=end - timedelta(seconds=row["fit_s"] if row["fit_s"] == row["fit_s"] else 0),
        datetime_complete=end,
        params={k: json.dumps(v) if spread[k][1] else v for k, v in config.items()},
        distributions={k: spread[k][0] for k in config},
        user_attrs={k: v for k, v in row.items() if k not in NOT_ATTRIBUTES and v == v},
        system_attrs={},
        intermediate_values=one.curve,
    )


def _distributions(configs: list[dict[str, Any]]) -> dict[str, tuple[BaseDistribution, bool]]:
    """{hyperparameter: (the range or the set of its values here, whether they are JSON texts)}."""
    from optuna.distributions import CategoricalDistribution

    spread: dict[str, tuple[BaseDistribution, bool]] = {}
    for name in dict.fromkeys(key for config in configs for key in config):
        values = [config[name] for config in configs if name in config]
        kinds = {type(value) for value in values}
        if kinds <= {int, float}:
            spread[name] = range_of(values), False
        else:
            plain = kinds <= {str} or kinds <= {bool}
            texts = values if plain else [json.dumps(value) for value in values]
            spread[name] = CategoricalDistribution(list(dict.fromkeys(texts))), not plain
    return spread


def range_of(values: Sequence[Any]) -> BaseDistribution:
    """The range of numbers, whole where all of them are; on a logarithmic scale where all are above
    0 and span more than two decades."""
    from optuna.distributions import FloatDistribution, IntDistribution

    low, high = min(values), max(values)
    kind = IntDistribution if all(type(value) is int for value in values) else FloatDistribution
    return kind(low, high, log=low > 0 and high > 100 * low)
