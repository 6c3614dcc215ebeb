"""What does a ledger hold, as tables? The one place that turns records into tidy frames."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..sweeps.halving import Halving, stages
from ..sweeps.ledger import Ledger, Record
from ..sweeps.records import latest_results
from ..sweeps.study import EVAL, TUNE
from ..sweeps.trial import DONE, canonical
from .status import plan_in, planned_slots, slots_of, study_name

if TYPE_CHECKING:
    import pandas as pd

    from ..reports.evidence import Evidence

COSTS = ("fit_s", "predict_s", "cpu_s", "peak_ram_mb")


def rows_of(ledger: Ledger) -> list[dict[str, Any]]:
    """One plain row for every slot that has ended, in the order of (study, stage, index)."""
    results = latest_results(ledger)
    slots: dict[tuple[str, str, int], tuple[str, int]] = {}
    for at, head in ledger.heads("result", "slot"):
        slots[head.study, head.stage, head.index] = (head.id, at)
    rows = []
    for (study, stage, index), (id, at) in sorted(slots.items()):
        if id not in results:  # its record was damaged: a slot that has not ended
            continue
        record = ledger.at(results[id])
        linked = ledger.head(at).kind == "slot"
        if linked and (record["fidelity"] or {}).get("async"):
            continue  # the place of a failure whose retry ended on another rung
        place = ledger.at(at) if linked else record
        rows.append(
            {
                "dataset": place["dataset"],
                "fold": place["fold"],
                "model": place["model"],
                "index": index,
                "stage": stage,
                "seed": record["seed"],
                "config": canonical(record["config"]),
                "status": record["status"],
                "cause": record["cause"] or "",
                "message": record["message"],
                **{f"val_{name}": value for name, value in record["val"].items()},
                **{f"test_{name}": value for name, value in record["test"].items()},
                **{name: record["costs"].get(name) for name in COSTS},
                "study": study,
                "id": id,
                "origin": record.get("origin") or "",
                "time": record["time"],
                "cpu": record["info"].get("cpu", ""),
            }
        )
    return rows


def select(rows: Iterable[Mapping[str, Any]], metric: Mapping[str, str]) -> dict[str, int]:
    """{study: index of the configuration that validation chose}, ties to the lower index.

    `metric` maps a task to the metric that selects; every row carries its `task`.
    """
    best: dict[str, tuple[float, int]] = {}
    for row in rows:
        loss = loss_of(row, metric[row["task"]]) if row["stage"] == TUNE else None
        if loss is None:
            continue
        key = (loss, row["index"])
        if row["study"] not in best or key < best[row["study"]]:
            best[row["study"]] = key
    return {study: index for study, (_, index) in best.items()}


def load_results(run: str | Path) -> pd.DataFrame:
    """The results of a run, one row a trial of a study.

    Columns: dataset, task, fold, model, index, stage, seed, config (JSON text), status, cause,
    message, selected, val_<metric>, test_<metric>, fit_s, predict_s, cpu_s (seconds), peak_ram_mb,
    study, id, origin, time, cpu. Raises LedgerError where `run` is not the folder of a run.
    """
    import pandas as pd

    plan, rows = planned_rows(Ledger(Path(run)))
    if not rows:
        return pd.DataFrame(columns=["dataset", "task", "fold", "model", "status", "selected"])
    return pd.DataFrame(rows)


def planned_rows(ledger: Ledger) -> tuple[Record, list[dict[str, Any]]]:
    """(the plan in force, the rows that belong to it, each with its `task` and `selected`)."""
    plan = plan_in(ledger)
    tasks = {study["dataset"]: study["task"] for study in plan["studies"]}
    planned = slots_of(plan)
    rows = [
        row
        for row in rows_of(ledger)
        if row["index"] < planned.get((row["study"], row["stage"]), 0)
    ]
    for row in rows:
        row["task"] = tasks[row["dataset"]]
    rows = on_rungs(rows, plan)
    chosen = select(rows, plan["metric"])
    for row in rows:
        row["selected"] = row["stage"] == TUNE and chosen.get(row["study"]) == row["index"]
    # An evaluation of what was chosen before the run was extended says nothing any more.
    config = {row["study"]: row["config"] for row in rows if row["selected"]}
    rows = [r for r in rows if r["stage"] != EVAL or r["config"] == config.get(r["study"])]
    return plan, rows


def on_rungs(rows: list[dict[str, Any]], plan: Record) -> list[dict[str, Any]]:
    """The rows without those of configurations that the plan in force does not promote: a run that
    was extended may have promoted them before. Rows of other studies stay, in their order."""
    metric = plan["metric"]
    halved = {
        study_name(study): study
        for study in plan["studies"]
        if study.get("rungs") and not study.get("async")
    }
    places: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["study"] in halved and row["stage"] != EVAL:
            places[row["study"], row["stage"]].append(row)
    gone: set[tuple[str, str, int]] = set()
    for name, study in halved.items():
        sizes = study["rungs"]
        halving = Halving(rungs=len(sizes))
        members = list(range(study["n_trials"]))
        for stage, size in zip(stages(halving, TUNE), [*sizes[1:], 0], strict=True):
            there = places[name, stage]
            gone |= {(name, stage, row["index"]) for row in there if row["index"] not in members}
            losses = {
                row["index"]: loss_of(row, metric[study["task"]])
                for row in there
                if row["index"] in members
            }
            members = halving.promote(losses, size) if len(losses) == len(members) else []
    return [row for row in rows if (row["study"], row["stage"], row["index"]) not in gone]


def loss_of(row: Mapping[str, Any], metric: str) -> float | None:
    """The validation score of a row as something to minimise; None where it has none."""
    from ..reports.metrics import METRICS

    value = row.get(f"val_{metric}") if row["status"] == DONE else None
    if value is None:
        return None
    return -value if METRICS[metric].direction == "max" else value


def evidence_of(runs: Iterable[str | Path]) -> Evidence:
    """One or several runs as the report reads them. Several must agree on metric and protocol.

    Raises LedgerError, or ValueError naming what two runs disagree on or both hold.
    """
    import pandas as pd

    from ..reports.evidence import Evidence

    ledgers = [Ledger(Path(run)) for run in runs]
    parts = [planned_rows(ledger) for ledger in ledgers]
    plans = [plan for plan, _ in parts]
    ends = [slots_in_the_end(*both) for both in zip(ledgers, plans, strict=True)]
    for other in plans[1:]:
        _agree(plans[0], other)
    rows = [row for _, part in parts for row in part]
    planned = [
        {
            "dataset": study["dataset"],
            "task": study["task"],
            "fold": study["fold"],
            "model": study["model"],
            "n_trials": ended.get(study_name(study), planned_slots(study)),
            "reason": study["reason"],
        }
        for plan, ended in zip(plans, ends, strict=True)
        for study in plan["studies"]
    ]
    trials = pd.DataFrame(rows) if rows else _empty_trials(plans)
    for task in {study["task"] for plan in plans for study in plan["studies"]}:
        column = f"test_{plans[0]['metric'][task]}"
        if column not in trials:
            trials[column] = float("nan")  # nothing succeeded: a table of failures
    if "task" in trials:
        trials = trials.drop(columns=[c for c in ("study", "time", "cpu") if c in trials])
    return Evidence.of(trials, pd.DataFrame(planned), meta_of(plans, rows))


def slots_in_the_end(ledger: Ledger, plan: Record) -> dict[str, int]:
    """{study: how many slots it had when it ended as planned}: failures may have left fewer than
    the plan says for the higher rungs and the evaluation."""
    planned = {study_name(study): study["n_trials"] for study in plan["studies"]}
    return {
        record["study"]: record["n_slots"]
        for record in ledger.records("study")
        if "n_slots" in record and planned.get(record["study"]) == record["n_trials"]
    }


def _empty_trials(plans: list[Record]) -> pd.DataFrame:
    import pandas as pd

    columns = ["dataset", "task", "fold", "model", "index", "stage", "seed", "status", "selected"]
    metrics = [f"test_{name}" for plan in plans for name in plan["metric"].values()]
    return pd.DataFrame(columns=[*columns, *dict.fromkeys(metrics)])


def _agree(first: Record, other: Record) -> None:
    for part in ("metric", "protocol", "seed"):
        a, b = first["identity"][part], other["identity"][part]
        for key in sorted(set(a) & set(b)):
            if a[key] != b[key]:
                raise ValueError(
                    f"the runs cannot share a table: {part} of {key} is {a[key]!r} in one and "
                    f"{b[key]!r} in the other"
                )


def meta_of(plans: list[Record], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the tables say about themselves, from plans and the last record's time."""
    from ..datasets.protocols import PROTOCOLS
    from .suite import Suite, parse

    first = plans[0]
    suites = [parse(plan["suite"], "the ledger's plan") for plan in plans]
    suite: Suite = suites[0]
    budget_name = first["options"]["budget"]
    budget = suite.budgets[budget_name]
    datasets = {name: facts for plan in plans for name, facts in plan["datasets"].items()}
    subset, why = independent(datasets)
    trials = sorted({study["n_trials"] for plan in plans for study in plan["studies"]})
    folds = sorted({study["fold"] for plan in plans for study in plan["studies"]})
    notes = [note for plan in plans for note in plan["notes"]]
    if budget.note:
        notes.insert(0, budget.note)
    if suite.folds_mean:
        notes.append(suite.folds_mean)
    notes.extend(promises_of(plans, rows))
    notes.extend(warnings_of(datasets))
    spread = f"{trials[0]}" if len(set(trials)) == 1 else f"{trials[0]} to {trials[-1]}"
    environment = first["environment"]
    cpus = sorted({row["cpu"] for row in rows} - {""})
    mixed = f" (results come from {len(cpus)} types)" if len(cpus) > 1 else ""
    return {
        "suite": ", ".join(dict.fromkeys(s.name for s in suites)),
        "budget": f"{budget_name}: {len(folds)} fold{'s' * (len(folds) != 1)}, "
        f"{spread} configurations a study, "
        f"{budget.seeds} evaluation seed{'s' * (budget.seeds > 1)}",
        "seed": first["options"]["seed"],
        "sampler": ", ".join(sorted({name for plan in plans for name in plan["samplers"]})),
        "metric": first["metric"],
        "protocol": {
            name: f"{facts['protocol']}: {PROTOCOLS[facts['protocol']]}"
            for name, facts in sorted(datasets.items())
        },
        "subset": subset,
        "subset_note": why,
        "left_out": {n: r for plan in plans for n, r in plan["left_out"].items()},
        "notes": list(dict.fromkeys(notes)),
        "last_record_utc": max((row["time"] for row in rows), default=""),
        "versions": environment["libraries"],
        "environment": {
            "cpu": ("; ".join(cpus) or environment["cpu"]) + mixed,
            **{name: str(environment[name]) for name in ("cores", "memory_mb", "system")},
        },
        "code": environment["code"],
        "lock": environment["lock"],
    }


LIMITED = ("timeout", "oom", "gpu_oom", "killed")


def promises_of(plans: list[Record], rows: list[dict[str, Any]]) -> list[str]:
    """Why another sweep of the same suite may give other tables, where it may."""
    found = []
    studies = [study for plan in plans for study in plan["studies"]]
    for how in sorted({study["async"] for study in studies if study.get("async")}):
        models = sorted({study["model"] for study in studies if study.get("async") == how})
        found.append(
            f"Bytes not promised: {', '.join(models)} searched by asynchronous {how.upper()}, "
            "which decides by who comes first."
        )
    struck = sorted({row["study"] for row in rows if row["cause"] in LIMITED})
    if struck:
        shown = ", ".join(struck[:5]) + (f" and {len(struck) - 5} more" if struck[5:] else "")
        found.append(f"Bytes not promised: a limit of time or memory struck in {shown}.")
    return found


def warnings_of(datasets: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What is odd about the data: a sentence a kind of oddity, with the datasets it befell."""
    found: dict[str, list[str]] = {}
    for name, facts in sorted(datasets.items()):
        for warning in facts["warnings"]:
            kind = warning.partition(":")[0] if "csv" not in facts else warning
            found.setdefault(kind, []).append(name)
    return [
        f"{kind}: {', '.join(names)} (see bench data passport)." for kind, names in found.items()
    ]


def independent(datasets: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], str]:
    """(the learnable datasets of which no two share rows, why the others are not among them).

    Of datasets that share rows the first by name stays.
    """
    kept: list[str] = []
    reasons = []
    for name, facts in sorted(datasets.items()):
        if not facts.get("learnable", True):
            reasons.append(f"{name} cannot be learned beyond the majority class")
            continue
        twin = next((other for other in facts.get("overlaps", []) if other in kept), None)
        if twin:
            reasons.append(f"{name} shares rows with {twin}")
            continue
        kept.append(name)
    note = f"Left out of the subset: {'; '.join(reasons)}." if reasons else ""
    return kept, note
