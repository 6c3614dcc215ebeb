"""Runs as an entrant: the results that count, a row a model, fold and seed, with a card.

What is written stands beside other runs without the runs themselves (`bench report --beside`).
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...common.files import file_sha256, write_atomically
from ...reports.evidence import STUDY, Evidence, EvidenceError
from ...reports.metrics import metrics_of
from ...sweeps.store.ledger import Ledger
from ..planning.plan_record import drawn_by, plan_in
from ..results.entrants import CARD, RESULTS
from ..results.evidence_builder import evidence_of

COSTS = {"fit_s": "seconds", "predict_s": "predict_seconds", "cpu_s": "cpu_seconds"}
COSTS |= {"peak_ram_mb": "memory_mb"}
KEYS = {"model": "method", "dataset": "dataset", "task": "task", "fold": "split", "seed": "seed"}
MORE = ["cause", "message", "config", "id"]


def export(runs: Sequence[Path], folder: Path, *, title: str, mark: str, source: str) -> Any:
    """Write the complete datasets of runs as an entrant into `folder`; returns what was written:
    {"datasets", "left_out", "rows", "trials", "failed", "cpu_hours"}.

    A dataset is complete where every planned study of it has ended. Raises EvidenceError where none
    is, LedgerError for a run that cannot be read.
    """
    evidence = evidence_of(list(runs))
    plans = [plan_in(Ledger(run)) for run in runs]
    complete = _complete(evidence)
    if not complete:
        raise EvidenceError("no dataset of these runs is complete, so there is nothing to export")
    trials = evidence.trials[evidence.trials["dataset"].isin(complete)]
    rows = _rows(trials)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / RESULTS, _packed(rows))
    spent_s = trials.drop_duplicates("id")["cpu_s"].sum()
    about = {
        "datasets": complete,
        "left_out": sorted(set(evidence.datasets()) - set(complete)),
        "rows": len(rows),
        "trials": len(trials),
        "failed": int((trials["status"] == "failed").sum()),
        "cpu_hours": round(float(spent_s) / 3600, 2),
    }
    card = _card(evidence, plans, folder, about, {"title": title, "mark": mark, "source": source})
    write_atomically(folder / CARD, card.encode())
    return about


def _complete(evidence: Evidence) -> list[str]:
    planned = evidence.planned[evidence.planned["reason"].fillna("") == ""]
    recorded = evidence.trials.groupby(STUDY).size().rename("n_recorded").reset_index()
    found = planned.merge(recorded, on=STUDY, how="left")
    open_ = found["n_recorded"].fillna(0) < found["n_trials"]
    return sorted(set(found["dataset"]) - set(found.loc[open_, "dataset"]))


def _rows(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials whose test scores count: the evaluation runs, or the chosen tuning trial; of a
    study without a score, its first failure."""
    evaluated = trials["stage"] == "eval"
    has = evaluated.groupby([trials[name] for name in STUDY]).transform("any")
    counted = trials[(evaluated & has) | (trials["selected"].astype(bool) & ~has)]
    keys = pd.MultiIndex.from_frame(counted[STUDY])
    rest = trials[~pd.MultiIndex.from_frame(trials[STUDY]).isin(keys)]
    found = pd.concat([counted, rest.drop_duplicates(STUDY)])
    found = found.sort_values(["dataset", "fold", "model", "seed"], kind="stable")
    table = found[list(KEYS)].rename(columns=KEYS)
    metrics = {name for task in found["task"].unique() for name in metrics_of(task)}
    for name in sorted(metrics):
        for part in ("val", "test"):
            if f"{part}_{name}" in found:
                table[f"{part}_{name}"] = _defined(found, f"{part}_{name}")
    for column, name in COSTS.items():
        table[name] = found[column].round(3)
    return table.assign(**{name: found[name] for name in MORE}).reset_index(drop=True)


def _defined(rows: pd.DataFrame, column: str) -> pd.Series:
    """A metric where every run of a fold has it; one that is undefined for some is left out."""
    done = rows["status"] == "done"
    lacking = (rows[column].isna() & done).groupby([rows["dataset"], rows["fold"]])
    return rows[column].where(~lacking.transform("any"), np.nan)


def _packed(rows: pd.DataFrame) -> bytes:
    """The rows as a gzipped CSV with the same bytes whenever it is written."""
    text = io.BytesIO()
    with gzip.GzipFile(fileobj=text, mode="wb", mtime=0, compresslevel=9) as file:
        file.write(rows.to_csv(index=False, lineterminator="\n").encode())
    return text.getvalue()


def _card(
    evidence: Evidence,
    plans: Sequence[Mapping[str, Any]],
    folder: Path,
    about: Mapping[str, Any],
    words: Mapping[str, str],
) -> str:
    meta = evidence.meta
    environments = [plan.get("environment") or {} for plan in plans]
    machines = sorted({str(e.get("cpu", "unknown processor")) for e in environments})
    locks = sorted({str(e.get("lock", ""))[:16] for e in environments})
    commits = sorted({str(e.get("code", "")) for e in environments})
    note = (
        f"{about['trials']:,} trials, {about['failed']} of them failed; {about['cpu_hours']} "
        f"CPU-hours on {', '.join(machines)}; requirements.lock {', '.join(locks)}; "
        f"last record {meta.get('last_record_utc', 'unknown')}. {meta.get('budget', '')}"
    )
    swept = "; ".join(sorted({_command(plan) for plan in plans}))
    lines = [
        "# Written by `bench beside export`.",
        f"title = {json.dumps(words['title'])}",
        f"reference = {json.dumps('budget ' + '; '.join(sorted({_budget(p) for p in plans})))}",
        f"source = {json.dumps(words['source'] or swept)}",
        f"mark = {json.dumps(words['mark'])}",
        f"commit = {json.dumps(', '.join(commits))}",
        'licence = "Apache-2.0"',
        f"sha256 = {json.dumps(file_sha256(folder / RESULTS))}",
        f"note = {json.dumps(note.strip())}",
    ]
    behind = {m: of for plan in plans for m, of in _variants(plan).items()}
    lines += [
        "",
        "[models]",
        *(f"{name} = {json.dumps(of)}" for name, of in sorted(behind.items())),
    ]
    for plan in plans:
        for name in plan["datasets"]:
            if name in about["datasets"]:
                lines += ["", f"[datasets.{json.dumps(name)}]", *_dataset(plan, name)]
    return "\n".join(lines) + "\n"


def _budget(plan: Mapping[str, Any]) -> str:
    return f"{plan['options']['budget']} of the suite {plan['suite']['name']}"


def _command(plan: Mapping[str, Any]) -> str:
    return f"bench sweep --suite {plan['suite']['name']} --budget {plan['options']['budget']}"


def _variants(plan: Mapping[str, Any]) -> dict[str, str]:
    """{method: the model behind it} of the budget's rows with `of`."""
    searches = plan["suite"]["budgets"][plan["options"]["budget"]].get("model") or {}
    return {name: search["of"] for name, search in searches.items() if search.get("of")}


def _dataset(plan: Mapping[str, Any], name: str) -> list[str]:
    folds = sorted({study["fold"] for study in plan["studies"] if study["dataset"] == name})
    return [
        f"ours = {json.dumps(name)}",
        f"rows = {json.dumps(plan['datasets'][name]['sha256'])}",
        f"drawn = {json.dumps(list(drawn_by(plan, name)))}",
        f"folds = {json.dumps(folds)}",
    ]
