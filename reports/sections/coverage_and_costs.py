"""Coverage (what ran, what failed and why) and costs (seconds and memory) of a sweep."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ..aggregation.cells import COMPLETE, FAILED, OPEN, UNSUPPORTED
from ..evidence import Evidence
from ..output import escape, footnotes
from ..output.tables import Panel, ReportTable, Section, TableCell

# Seconds to predict 1,000 rows: in one batch, and one by one.
PREDICTIONS = ("predict_1k_s", "predict_1k_single_s")
RARE = {
    "peak_vram_mb": "peak GPU MiB",
    "median_step_s": "ms a step",
}  # shown where some trial has them
MAX_FAILURES = 40  # kinds of failure that the table lists


def coverage(evidence: Evidence, studies: pd.DataFrame) -> Section:
    """The file `coverage`: folds with a score, and failures by cause."""
    tables = [_folds_table(evidence, studies)]
    failures = _failures(evidence)
    if len(failures):
        tables.append(_failures_table(failures, bool(evidence.facts.runs)))
    head, frame = _summary(evidence, studies), _coverage_frame(evidence, studies)
    about = "what was run, what failed and why"
    return Section("coverage", "Coverage", tuple(tables), frame, head, about)


def _summary(evidence: Evidence, studies: pd.DataFrame) -> tuple[str, ...]:
    recorded = len(evidence.trials)
    done, failed = (int(evidence.having("status", word).sum()) for word in ("done", "failed"))
    open_ = int((studies["n_trials"] - studies["n_recorded"]).clip(lower=0).sum())
    whole = int((studies["state"] == COMPLETE).sum())
    return (
        f"{footnotes.count(recorded, 'trial')} recorded: {done} done, {failed} failed, "
        f"{recorded - done - failed} unsupported; {open_} planned and not recorded. "
        f"{whole} of {len(studies)} studies have a score.",
    )


def _coverage_frame(evidence: Evidence, studies: pd.DataFrame) -> pd.DataFrame:
    """One row per (dataset, model): folds and trials by outcome, then the causes with counts."""
    states = (COMPLETE, FAILED, UNSUPPORTED, OPEN)
    counts = {"folds": 1, **{f"folds_{s}": (studies["state"] == s).astype(int) for s in states}}
    counts["trials_planned"] = studies["n_trials"]
    counts |= {f"trials_{s}": studies[f"n_{s}"] for s in ("recorded", "done", "failed")}
    cells = studies.assign(**counts).groupby(["dataset", "task", "model"], sort=True)
    frame = cells[list(counts)].sum().reset_index()
    words = ["dataset", "model", "status", "cause"]
    bad = evidence.trials.loc[~evidence.having("status", "done"), words]
    cause = bad["cause"].where(bad["cause"] != "", bad["status"])
    causes = bad.assign(cause=cause).groupby(["dataset", "model", "cause"], sort=True).size()
    texts: dict[tuple[str, str], list[str]] = {}
    for (dataset, model, word), n in causes.items():
        texts.setdefault((dataset, model), []).append(f"{word} {n}")
    pairs = list(zip(frame["dataset"], frame["model"], strict=True))
    frame["causes"] = ["; ".join(texts.get(pair, [])) for pair in pairs]
    reasons = studies[studies["state"] == UNSUPPORTED].groupby(["dataset", "model"], sort=True)
    why = {key: str(rows["cause"].iloc[0]) for key, rows in reasons}
    frame["reason"] = [why.get(pair, "") for pair in pairs]
    return frame


def _folds_table(evidence: Evidence, studies: pd.DataFrame) -> ReportTable:
    models = evidence.models
    states: dict[tuple[str, str], list[str]] = {}
    for dataset, model, state in zip(
        *(studies[name].tolist() for name in ("dataset", "model", "state")), strict=True
    ):
        states.setdefault((dataset, model), []).append(state)
    cells = {key: (mine.count(COMPLETE), len(mine), set(mine)) for key, mine in states.items()}
    rows = []
    for dataset in evidence.datasets():
        row = [TableCell(escape.label(dataset))]
        for model in models:
            row.append(_fold_cell(cells.get((dataset, model))))
        rows.append(tuple(row))
    title = "Folds with a score, of the folds planned. Incomplete cells are bold."
    notes = [
        *footnotes.setting(evidence),
        "n/s: not supported, a planned absence; –: not planned. A fold has a score when all "
        "planned trials of its study are recorded and a configuration was chosen; evaluations, "
        "where planned, must all be done.",
        *_absences(studies),
        *_unchosen(studies),
        *_fit_warnings(evidence),
    ]
    header = ("dataset", *(escape.label(m) for m in models))
    return ReportTable("coverage-folds", title, header, (Panel(tuple(rows)),), tuple(notes))


def _absences(studies: pd.DataFrame) -> list[str]:
    """One note per reason why something is not supported, with the datasets."""
    absent = studies[studies["state"] == UNSUPPORTED]
    return [
        f"Not supported on {footnotes.join(sorted(set(rows['dataset'])))}: "
        f"{escape.visible(str(reason))}."
        for reason, rows in absent.groupby("cause", sort=True)
    ]


def _fit_warnings(evidence: Evidence) -> list[str]:
    """A note on warnings that libraries gave in fits, as {category: count} by model."""
    warned = evidence.facts.fit_warnings
    parts = [
        f"{escape.label(model)}: {', '.join(f'{name} {n}' for name, n in counts.items())}"
        for model, counts in warned.items()
    ]
    return [f"Warnings of libraries in fits: {'; '.join(parts)}."] if parts else []


def _unchosen(studies: pd.DataFrame) -> list[str]:
    """A note on studies without a chosen configuration although no trial failed."""
    lost = studies[(studies["state"] == FAILED) & (studies["n_failed"] == 0)]
    if lost.empty:
        return []
    return [
        f"Without a score though no trial failed: {len(lost)} studies of "
        f"{footnotes.join(sorted(set(lost['dataset'])))}. The metric has no meaning on their "
        "validation rows (all of one class, say), so no configuration could be chosen."
    ]


def _fold_cell(counts: tuple[int, int, set[str]] | None) -> TableCell:
    if counts is None:
        return TableCell("–")
    whole, planned, states = counts
    if states == {UNSUPPORTED}:
        return TableCell("n/s")
    return TableCell(f"{whole}/{planned}", bold=whole < planned)


def _failures(evidence: Evidence) -> pd.DataFrame:
    """One row per (model, cause, message): the number of trials, and their datasets."""
    words = ["model", "cause", "message", "dataset"]
    bad = evidence.trials.loc[evidence.having("status", "failed"), words]
    bad = bad.assign(cause=bad["cause"].where(bad["cause"] != "", "error"), n=1)
    grouped = bad.groupby(["model", "cause", "message"], sort=True)
    kinds = grouped.agg(n=("n", "sum"), datasets=("dataset", lambda names: sorted(set(names))))
    return kinds.reset_index().sort_values(["n", "model"], ascending=[False, True], kind="stable")


def _failures_table(failures: pd.DataFrame, of_runs: bool) -> ReportTable:
    """of_runs: whether there are runs, with logs and a ledger, not results of another tool."""
    rows = [
        (
            TableCell(escape.label(row.model)),
            TableCell(escape.label(row.cause)),
            TableCell(escape.cut(escape.one_line(row.message), 100)),
            TableCell(footnotes.join(row.datasets, limit=6)),
            TableCell(str(row.n)),
        )
        for row in failures.head(MAX_FAILURES).itertuples(index=False)
    ]
    more = len(failures) - MAX_FAILURES
    notes = ["bench logs RUN --failed prints their tracebacks."] if of_runs else []
    if more > 0:
        there = " stand in the ledger" if of_runs else " are not shown"
        notes.append(f"{more} more kinds of failure{there}.")
    header = ("model", "cause", "message", "datasets", "trials")
    panels = (Panel(tuple(rows)),)
    return ReportTable(
        "coverage-failures", "Failures.", header, panels, tuple(notes), 4, in_latex=False
    )


def costs(evidence: Evidence) -> Section:
    """The file `costs`: trials, CPU seconds, wall seconds, memory and the time that a prediction
    takes, by model.

    A result that several rows share by its id ran once and is counted once.
    """
    trials = evidence.trials
    ids = pd.factorize(trials["id"])[0]
    frame = _cost_frame(evidence, ids)
    title = "What the sweep cost: sums over trials, the median trial, and the largest memory."
    copied = bool(frame["copied"].any())
    header = [
        "model",
        "trials",
        *["copied"] * copied,
        "CPU s",
        "fit s",
        "predict s",
        "fit s, median",
    ]
    rare = [title for column, title in RARE.items() if column in frame]
    header += ["CPU %", "peak MiB", *rare, "ms per 1,000 rows", "ms per row"]
    total = frame["cpu_s"].sum()
    models, names = pd.factorize(trials["model"])
    once = ~_again(trials, ids, models)

    def medians(column: str) -> dict[str, float]:
        found = trials[column][once].groupby(models[once]).median()
        return {names[i]: float(median) for i, median in found.items()}

    fits, steps, batches, singles = map(medians, ("fit_s", "step_s", *PREDICTIONS))
    rows = []
    for model in evidence.models:
        mine = frame[frame["model"] == model]
        share = 100.0 * mine["cpu_s"].sum() / total if total > 0 else math.nan
        figures = [
            _seconds(mine["cpu_s"].sum(min_count=1)),
            _seconds(mine["fit_s"].sum(min_count=1)),
            _seconds(mine["predict_s"].sum(min_count=1)),
            _seconds(fits.get(model, math.nan), 3),
            "n/a" if math.isnan(share) else f"{share:.1f}",
            _seconds(mine["peak_ram_mb"].max(), 0),
            *([_seconds(mine["peak_vram_mb"].max(), 0)] if "peak_vram_mb" in mine else []),
            *([_seconds(1000.0 * steps.get(model, math.nan))] if "median_step_s" in mine else []),
            _seconds(1000.0 * batches.get(model, math.nan)),  # 1,000 rows: milliseconds
            _seconds(singles.get(model, math.nan), 2),  # seconds of 1,000: milliseconds of one
        ]
        counts = [str(int(mine["trials"].sum())), *[str(int(mine["copied"].sum()))] * copied]
        rows.append((TableCell(escape.label(model)), *map(TableCell, counts + figures)))
    notes = [
        *footnotes.setting(evidence),
        "Trials that share one result count once, failed ones included. Copied: results taken from "
        "another run; their costs are those of that run.",
        "Wall seconds are sums over trials, not the duration of the sweep. They are comparable on "
        "the same hardware only; CPU seconds depend on it less.",
        *(["GPU: the tensors of a trial. A step: of training, in the median trial."] * bool(rare)),
        "Milliseconds of a prediction: the median of the trials that were measured (the chosen and "
        "those that were the best of their study before), apart from the trial's own predictions "
        "and warm, of a batch of 1,000 rows and of single rows (the CSV has seconds per 1,000 rows "
        "for both). n/a: too slow for the time that this may take, or not recorded.",
    ]
    table = ReportTable("costs", title, tuple(header), (Panel(tuple(rows)),), tuple(notes))
    table = table.without_same("trials", "copied")
    about = "trials, CPU and wall seconds, memory, time of a prediction"
    return Section("costs", "Costs", (table,), frame, about=about)


def _again(trials: pd.DataFrame, ids: np.ndarray, *keys: np.ndarray) -> np.ndarray:
    """Mask of the rows whose result was already counted in an earlier row with the same id (and
    keys). `ids` are integer codes, which are compared faster than strings."""
    found = np.bincount(ids, minlength=1)[ids] > 1
    shared = pd.DataFrame(dict(enumerate((ids[found], *(key[found] for key in keys)))))
    found[found] = shared.duplicated().to_numpy() & (trials["id"][found] != "").to_numpy()
    return found


def _cost_frame(evidence: Evidence, ids: np.ndarray) -> pd.DataFrame:
    """One row per (dataset, model)."""
    trials, (number, keys) = evidence.trials, evidence.study_numbers
    order = np.arange(len(trials))
    if (np.diff(number) < 0).any():  # the last bits of the sums depend on this order
        order = np.argsort(number, kind="stable")
    order = order[~_again(trials, ids)[order]]
    tasks = evidence.planned.drop_duplicates("dataset").set_index("dataset")["task"]
    keys = keys.assign(task=keys["dataset"].map(tasks))
    cells = keys.groupby(["dataset", "task", "model"], sort=True)
    columns = ["cpu_s", "fit_s", "predict_s", "peak_ram_mb", "peak_vram_mb", "step_s"]
    once = trials[[*columns, *PREDICTIONS]].iloc[order]
    once = once.assign(
        cell=cells.ngroup().to_numpy()[number[order]],
        trials=1,
        failed=evidence.having("status", "failed")[order].astype(int),
        copied=(~evidence.having("origin", ""))[order].astype(int),
    )
    grouped = once.groupby("cell", sort=True)
    sums = grouped[["trials", "failed", "copied", "cpu_s", "fit_s", "predict_s"]].sum(min_count=1)
    sums["peak_ram_mb"] = grouped["peak_ram_mb"].max()
    if once["peak_vram_mb"].notna().any():
        sums["peak_vram_mb"] = grouped["peak_vram_mb"].max()
    rare = ["step_s"] if once["step_s"].notna().any() else []
    for name in ("fit_s", *rare, *PREDICTIONS):
        sums[f"median_{name}"] = grouped[name].median()
    names = cells.size().index.to_frame(index=False)
    frame = names.iloc[sums.index].reset_index(drop=True).join(sums.reset_index(drop=True))
    for name in ("trials", "failed", "copied"):
        frame[name] = frame[name].astype(int)
    return frame


def _seconds(value: float, decimals: int = 1) -> str:
    return "n/a" if value is None or math.isnan(value) else f"{value:.{decimals}f}"
