"""Runs written as an entrant: a card, and a row for each model, fold and seed that counts.

An entrant stands beside other runs (`bench report --beside`) when its own runs are gone. A sweep
that runs dataset by dataset may be exported after each dataset: the entrant keeps earlier datasets,
and studies (model and fold) that these runs do not have.
"""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...common.files import file_sha256, write_atomically
from ...datasets.added.store import as_toml
from ...reports.aggregation.cells import counting
from ...reports.evidence import STUDY, Evidence, EvidenceError
from ...reports.metrics import metrics_of
from ...sweeps.store.ledger import Ledger
from ...sweeps.store.records import latest_results
from ..planning.plan_record import SINGLE, RunPlan, plan_in
from ..results.csv_lines import COSTS
from ..results.entrants import (
    CARD,
    RESULTS,
    TRIALS,
    DatasetFacts,
    Entrant,
    ResultsFile,
    results_file,
)
from ..results.evidence_builder import evidence_of
from ..results.learning_curves import CURVE

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")  # of TOML: others stand in quotes
KEYS = {"model": "method", "dataset": "dataset", "task": "task", "fold": "split", "seed": "seed"}
MORE = ["cause", "message", "config", "id"]
ENDS = ["steps", "limit", "unit"]  # where a fit in steps ended, and where it would have at last


def export(runs: Sequence[Path], folder: Path, *, title: str, mark: str, source: str) -> Any:
    """Write the complete datasets of runs as an entrant into `folder`; returns what was written:
    {"datasets", "kept", "left_out", "rows", "trials", "failed", "cpu_hours"}.

    A dataset is complete where every planned study of it has ended. Where the folder holds an
    entrant of the same budget already, its other datasets are kept, and the other studies of these
    datasets where data and protocol are the same. Raises EvidenceError where no
    dataset is complete or the folder holds other results, DataError where these are damaged,
    LedgerError for a run that cannot be read.
    """
    evidence = evidence_of(list(runs))
    ledgers = [Ledger(run) for run in runs]
    plans = [plan_in(ledger) for ledger in ledgers]
    complete = _complete(evidence)
    if not complete:
        raise EvidenceError("no dataset of these runs is complete, so there is nothing to export")
    budgets = sorted({(str(plan.options.budget), plan.suite.name) for plan in plans})
    reference = "budget " + "; ".join(f"{budget} of the suite {suite}" for budget, suite in budgets)
    commands = (f"bench sweep --suite {suite} --budget {budget}" for budget, suite in budgets)
    before = _standing(folder, reference)
    stood = before.datasets if before else {}
    kept = {name: facts for name, facts in stood.items() if name not in complete}
    trials = evidence.trials.assign(counts=counting(evidence))
    trials = trials[trials["dataset"].isin(complete)]
    new = {name: _facts(name, trials, plans, evidence) for name in complete}
    same = {name for name in complete if name in stood and _same_rows(stood[name], new[name])}
    replaced = set(trials[STUDY].astype({"fold": str}).itertuples(index=False, name=None))
    stays = _Stays(set(kept), same, replaced)
    rows = _joined(folder / RESULTS, stays, _rows(trials))
    tuning = _joined(folder / TRIALS, stays, _tuning_trials(evidence, trials, ledgers))
    both = {name: _both(stood[name], new[name], name, rows, tuning) for name in same}
    datasets = kept | new | both
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / RESULTS, _packed(rows))
    write_atomically(folder / TRIALS, _packed(tuning))
    behind = {m: of for plan in plans for m, of in plan.variants.items()}
    card = Entrant(
        title=title,
        reference=reference,
        source=source or "; ".join(commands),
        mark=mark,
        commit=_distinct(facts.commit for facts in datasets.values()),
        licence="Apache-2.0",
        sha256=file_sha256(folder / RESULTS),
        note=f"{_note(datasets)} A model has {ResultsFile(folder / RESULTS, folder).budget()}.",
        models=(before.models if before else {}) | behind,
        datasets=datasets,
    )
    write_atomically(folder / CARD, _toml(card).encode())
    return {
        "datasets": complete,
        "kept": sorted(kept),
        "left_out": sorted(set(evidence.datasets()) - set(complete)),
        "rows": len(rows),
        **_sums(datasets),
    }


def _standing(folder: Path, reference: str) -> Entrant | None:
    """The card of the entrant in `folder`. Raises DataError if it is damaged, EvidenceError if its
    results belong to another budget or suite."""
    if not (folder / CARD).is_file():
        return None
    card = results_file(folder).card  # compares the checksum
    if card.reference != reference:
        raise EvidenceError(
            f"{folder} holds results of the {card.reference}, and these are of the {reference}: "
            "name another folder"
        )
    return card


class _Stays(NamedTuple):
    """The stored rows that stay: all rows of the datasets `kept`, and of the datasets `same` the
    rows of studies (dataset, fold, model) that are not in `replaced`."""

    kept: set[str]
    same: set[str]
    replaced: set[tuple[str, str, str]]

    def of(self, stored: pd.DataFrame) -> pd.Series:
        """A mask of the stored rows."""
        places = pd.MultiIndex.from_frame(stored[["dataset", "split", "method"]])
        others = stored["dataset"].isin(self.same) & ~places.isin(list(self.replaced))
        return stored["dataset"].isin(self.kept) | others


def _joined(path: Path, stays: _Stays, new: pd.DataFrame) -> pd.DataFrame:
    """The stored rows that stay, with their digits unchanged, and the new rows."""
    frames = [pd.read_csv(io.StringIO(_csv(new)), dtype=str, keep_default_na=False)]
    if path.is_file():
        stored = pd.read_csv(path, dtype=str, keep_default_na=False)
        frames.append(stored[stays.of(stored)])
    rows = pd.concat(frames).fillna("")
    scores = sorted(c for c in rows if str(c).startswith(("val_", "test_")))
    others = [c for c in frames[0] if c not in scores]
    at = len(KEYS)
    order = ["dataset", "split", "method"]
    rows = rows.assign(split=rows["split"].astype(int)).sort_values(order, kind="stable")
    return rows[[*others[:at], *scores, *others[at:]]]


def _same_rows(stood: DatasetFacts, new: DatasetFacts) -> bool:
    return (stood.rows, stood.drawn) == (new.rows, new.drawn)


def _both(
    stood: DatasetFacts, new: DatasetFacts, name: str, rows: pd.DataFrame, tuning: pd.DataFrame
) -> DatasetFacts:
    """The card's facts on a dataset whose models come from several exports."""
    rows, tuning = rows[rows["dataset"] == name], tuning[tuning["dataset"] == name]
    study = rows.groupby(["method", "split"])["seed"]
    evaluated = study.transform("size") > 1
    again = evaluated & (rows["seed"] == study.transform("first"))  # ran as a tuning trial
    seconds = pd.to_numeric(tuning["cpu_seconds"]).sum()
    seconds += pd.to_numeric(rows.loc[evaluated & ~again, "cpu_seconds"]).sum()
    failed = (tuning["test"] == "").sum() + (evaluated & (rows["cause"] != "")).sum()
    return new.model_copy(
        update={
            key: was
            if (now := getattr(new, key)) in (was := getattr(stood, key))
            else f"{was}, {now}"
            for key in ("commit", "lock", "processor")
        }
        | {
            "folds": sorted({*stood.folds, *new.folds}),
            "last_record": max(stood.last_record, new.last_record),
            "trials": len(tuning) + int(evaluated.sum()),
            "failed": int(failed),
            "cpu_hours": round(float(seconds) / 3600, 3),
        }
    )


def _complete(evidence: Evidence) -> list[str]:
    planned = evidence.planned[evidence.planned["reason"].fillna("") == ""]
    recorded = evidence.trials.groupby(STUDY).size().rename("n_recorded").reset_index()
    studies = planned.merge(recorded, on=STUDY, how="left")
    open_ = studies["n_recorded"].fillna(0) < studies["n_trials"]
    return sorted(set(studies["dataset"]) - set(studies.loc[open_, "dataset"]))


def _rows(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials whose test scores count: evaluation runs, or the chosen tuning trial; for a study
    without a score its first failure."""
    counted = trials[trials["counts"]]
    keys = pd.MultiIndex.from_frame(counted[STUDY])
    rest = trials[~pd.MultiIndex.from_frame(trials[STUDY]).isin(keys)]
    rows = pd.concat([counted, rest.drop_duplicates(STUDY)])
    rows = rows.sort_values(["dataset", "fold", "model", "seed"], kind="stable")
    table = rows[list(KEYS)].rename(columns=KEYS)
    metrics = {name for task in rows["task"].unique() for name in metrics_of(task)}
    for name in sorted(metrics):
        for part in ("val", "test"):
            if f"{part}_{name}" in rows:
                table[f"{part}_{name}"] = _defined(rows, f"{part}_{name}")
    for name, column in COSTS.items():
        table[name] = rows[column].round(3)
    return table.assign(**{name: rows[name] for name in MORE}).reset_index(drop=True)


def _defined(rows: pd.DataFrame, column: str) -> pd.Series:
    """A metric's values on folds where all runs have one; other folds are left empty."""
    done = rows["status"] == "done"
    lacking = (rows[column].isna() & done).groupby([rows["dataset"], rows["fold"]])
    return rows[column].where(~lacking.transform("any"), np.nan)


def _tuning_trials(
    evidence: Evidence, trials: pd.DataFrame, ledgers: Sequence[Ledger]
) -> pd.DataFrame:
    """Every tuning trial in the order of its study: headline scores, CPU seconds, and where its
    fit ended of how many steps (empty for fits without a learning curve)."""
    tuning = trials[trials["stage"] == "tune"]
    tuning = tuning.sort_values([*STUDY, "index"], kind="stable")
    metric = tuning["task"].map({task: evidence.headline(task) for task in evidence.tasks})
    table = tuning[["model", "dataset", "fold", "index"]].set_axis(
        ["method", "dataset", "split", "index"], axis=1
    )
    table["metric"] = metric
    for part in ("val", "test"):
        score = pd.Series(np.nan, index=tuning.index)
        for name in metric.unique():
            score = score.where(metric != name, tuning.get(f"{part}_{name}", np.nan))
        table[part] = [f"{value:.6g}" if value == value else "" for value in score]
    table["cpu_seconds"] = tuning["cpu_s"].round(3)
    places = [(ledger, latest_results(ledger)) for ledger in ledgers]
    ends = []
    for id_, config in zip(tuning["id"], tuning["config"], strict=True):
        info: dict[str, Any] = next((of.at(at[id_])["info"] for of, at in places if id_ in at), {})
        curve = info.get(CURVE)
        limit = json.loads(config).get(curve["by"]) if curve else None
        known = curve is not None and limit is not None and not info.get("out_of_time")
        ends.append((curve["points"][-1][0], limit, curve["by"]) if known and curve else ("",) * 3)
    table[ENDS] = pd.DataFrame(ends, columns=ENDS, index=table.index, dtype=object)
    return table


def _csv(rows: pd.DataFrame) -> str:
    return rows.to_csv(index=False, lineterminator="\n")


def _packed(rows: pd.DataFrame) -> bytes:
    """The rows as a gzipped CSV with the same bytes whenever it is written."""
    text = io.BytesIO()
    with gzip.GzipFile(fileobj=text, mode="wb", mtime=0, compresslevel=9) as file:
        file.write(_csv(rows).encode())
    return text.getvalue()


def _facts(
    name: str, trials: pd.DataFrame, plans: Sequence[RunPlan], evidence: Evidence
) -> DatasetFacts:
    """The card's facts on a dataset of the runs."""
    mine, plans = trials[trials["dataset"] == name], [p for p in plans if name in p.datasets]
    environments = [plan.environment for plan in plans]
    return DatasetFacts(
        ours=name,
        rows=plans[0].datasets[name].sha256,
        drawn=list(plans[0].drawn(name)),
        folds=sorted({fold for plan in plans for fold in plan.folds_of(name)}),
        fits=plans[0].fits[name].replace(SINGLE, ""),
        commit=_distinct(str(e.get("code", "")) for e in environments),
        lock=_distinct(str(e.get("lock", ""))[:16] for e in environments),
        processor=_distinct(str(e.get("cpu", "unknown processor")) for e in environments),
        last_record=evidence.facts.last_record_utc,
        trials=len(mine),
        failed=int((mine["status"] == "failed").sum()),
        cpu_hours=round(float(mine.drop_duplicates("id")["cpu_s"].sum()) / 3600, 3),
    )


SEVERAL = re.compile(r"(?<=\)), ")  # between processors: "A (family 1, model 2), B (family 3)"


def _distinct(texts: Iterable[str]) -> str:
    return ", ".join(sorted({text for text in texts if text}))


def _sums(datasets: Mapping[str, DatasetFacts]) -> dict[str, Any]:
    facts = datasets.values()
    return {
        "trials": sum(one.trials for one in facts),
        "failed": sum(one.failed for one in facts),
        "cpu_hours": round(sum(one.cpu_hours for one in facts), 2),
    }


def _note(datasets: Mapping[str, DatasetFacts]) -> str:
    facts, about = datasets.values(), _sums(datasets)
    return (
        f"{about['trials']:,} trials, {about['failed']} of them failed; {about['cpu_hours']} "
        f"CPU-hours on {_distinct(p for one in facts for p in SEVERAL.split(one.processor))}; "
        f"requirements.lock {_distinct(p for one in facts for p in one.lock.split(', '))}; "
        f"last record {max(one.last_record for one in facts)}."
    )


def _toml(card: Entrant) -> str:
    """The card as TOML: its own keys, the models' table, and a table for each dataset."""

    def keys(of: Mapping[str, Any]) -> list[str]:
        bare = {key: key if BARE_KEY.fullmatch(key) else as_toml(key) for key in of}
        return [f"{bare[key]} = {as_toml(value)}" for key, value in of.items()]

    values = card.model_dump(exclude_defaults=True)
    models, datasets = values.pop("models", {}), values.pop("datasets")
    lines = ["# Written by `bench beside export`.", *keys(values), "", "[models]"]
    lines += keys(dict(sorted(models.items())))
    for name in sorted(datasets):
        lines += ["", f"[datasets.{as_toml(name)}]", *keys(datasets[name])]
    return "\n".join(lines) + "\n"
