"""Implausible cells: results to check before the tables are believed, each with a likely cause.

The checks are in `reports/alarms/`. Each returns findings on cells of the headline metrics, or says
why it had nothing to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pandas as pd

from ...common.text import one_line
from ..alarms import choice, inside, no_skill, others
from ..alarms.finding import Finding, NotChecked, Results, trials_behind
from ..evidence import Evidence
from ..output import footnotes
from ..output.tables import Panel, ReportTable, Section, TableCell, decimals_for, fixed

NAME, TITLE = "look-first", "Look at these first"
ABOUT = "implausible cells, each with a likely cause"
MAX_ROWS = 40  # of the printed table; the CSV has all

CHECKS: dict[str, Callable[[Results], Iterator[Finding]]] = {
    no_skill.NO_SKILL_CHECK: no_skill.no_better_than_a_constant,
    others.FAR: others.far_better,
    others.FOLD: others.unlike_folds,
    others.SWAPPED: others.swapped,
    choice.DEFAULT: choice.worse_than_default,
    choice.FAR: choice.validation_far_better,
    choice.SAME: choice.validation_is_test,
    inside.LEAK: inside.leaks,
    others.IDENTICAL: others.identical,
    inside.COPIED: inside.copied,
    inside.CONTRADICT: inside.contradicting,
    inside.SEEDS: inside.seeds_alike,
    inside.TIMES: inside.out_of_proportion,
}
RULES: dict[str, str] = no_skill.RULES | others.RULES | choice.RULES | inside.RULES


def section(evidence: Evidence, studies: pd.DataFrame, headline: pd.DataFrame) -> Section:
    """The file `look-first`.

    studies, headline: `cells.studies` and the cells of each task's headline metric.
    """
    flagged, skipped = checked(Results(evidence, studies, headline))
    cells = sum(len(finding.cells) for finding in flagged)
    remark = "No implausible cell was found."
    if flagged:
        remark = (
            f"{footnotes.count(len(flagged), 'finding')} on {footnotes.count(cells, 'cell')}. A "
            "finding is a reason to look, not a verdict: the tables hold these cells as they are."
        )
    if flagged and not evidence.facts.foreign:  # another tool's results are no trials
        remark += " The trials behind a cell: bench explain scores DATASET MODEL --run RUN; their "
        remark += "ids are in the CSV."
    if skipped:
        remark += f" Not checked: {'; '.join(f'{name} ({why})' for name, why in skipped.items())}."
    return Section(
        NAME, TITLE, (_table(flagged, skipped),), _frame(evidence, flagged), (remark,), ABOUT
    )


def findings(evidence: Evidence, studies: pd.DataFrame, headline: pd.DataFrame) -> list[Finding]:
    """The findings of all checks: in the order of CHECKS, those on many cells first."""
    return checked(Results(evidence, studies, headline))[0]


def checked(results: Results) -> tuple[list[Finding], dict[str, str]]:
    """(findings as of `findings`, {check: why it did not run})."""
    flagged: list[Finding] = []
    skipped: dict[str, str] = {}
    for name, check in CHECKS.items():
        try:
            found = list(check(results))
        except NotChecked as reason:
            skipped[name] = str(reason)
        except Exception as error:  # an alarm ends no report
            skipped[name] = f"it failed with {type(error).__name__}: {one_line(error, 200)}"
        else:
            flagged += sorted(found, key=lambda f: (-len(f.cells), f.cells))
    return flagged, skipped


def caveat(frame: pd.DataFrame) -> str:
    """A sentence for the verdict on a table that names the datasets on which no model learned; ""
    for none. frame: that of the section."""
    names = frame.loc[frame["cause"].str.startswith(no_skill.NOBODY), "dataset"].unique()
    if not len(names):
        return ""
    where = footnotes.join(names, limit=3)
    return (
        f"Nobody learned on {where}: no model has an error below {100 * no_skill.NEAR:g} % of a "
        "constant prediction's."
    )


# --- output ---------------------------------------------------------------------------------------


def _frame(evidence: Evidence, flagged: Sequence[Finding]) -> pd.DataFrame:
    """One row per cell of a finding."""
    tasks = dict(zip(evidence.planned["dataset"], evidence.planned["task"], strict=True))
    behind = trials_behind(evidence) if flagged else {}
    rows = [
        {
            "finding": number,
            "check": finding.check,
            "dataset": dataset,
            "task": tasks[dataset],
            "model": model,
            "metric": evidence.headline(tasks[dataset]),
            "value": value,
            "seen": finding.seen,
            "cause": finding.cause,
            "trials": " ".join(behind.get((dataset, model), [])),
        }
        for number, finding in enumerate(flagged, start=1)
        for dataset, model, value in finding.cells
    ]
    columns = "finding check dataset task model metric value seen cause trials".split()
    return pd.DataFrame(rows, columns=columns)


def _table(flagged: Sequence[Finding], skipped: Mapping[str, str]) -> ReportTable:
    rows = [
        (
            TableCell(finding.check),
            TableCell(footnotes.join(finding.datasets, limit=3)),
            TableCell(footnotes.join(finding.models, limit=6)),
            TableCell(_value(finding)),
            TableCell(finding.seen),
            TableCell(finding.cause),
        )
        for finding in flagged[:MAX_ROWS]
    ]
    ran = [f"{name}: {rule}." for name, rule in RULES.items() if name not in skipped]
    notes = ["Checks: " + " ".join(ran)]
    if len(flagged) > MAX_ROWS:
        notes.insert(0, f"{len(flagged) - MAX_ROWS} more findings stand in the CSV.")
    header = ("check", "dataset", "model", "score", "seen", "likely cause")
    panels = (Panel(tuple(rows)),) if rows else ()
    title = "Cells to check before the tables are believed."
    return ReportTable(NAME, title, header, panels, tuple(notes), 6, in_latex=False)


def _value(finding: Finding) -> str:
    """The score where the finding is on one cell."""
    if len(finding.cells) > 1:
        return ""
    value = finding.cells[0][2]
    return fixed(value, decimals_for([value]))
