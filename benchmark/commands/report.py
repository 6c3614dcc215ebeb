"""`bench report`: the evidence of runs, or of another tool's results, written out as tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..console import ENVIRONMENT, OK, Console, split_names
from ..errors import SweepError, command_on
from ..option_checks import without_choice
from ..outcome.run_report import make_report, parts_and_files


def report_command(
    console: Console, runs: Iterable[Path], results: Path | None, out: Path | None, **how: Any
) -> int:
    """`bench report`: the report of runs, or of `results`, a CSV of another tool (by default into
    report/ beside it); exit code 3 where the runs are damaged. `how`: the other options. Raises
    what `write_report` raises, DataError, and SweepError for an option of the CSV without one.
    """
    notes: list[str] = []
    how["beside"] = split_names(how["beside"])
    runs = list(runs)
    if (
        not runs and results is None and len(how["beside"]) == 1
    ):  # nothing of one's own: theirs alone
        results, how["beside"] = Path(how["beside"][0]), ()
    if results is not None and how["beside"]:
        raise SweepError("--beside goes with runs; published results have no rows beside them")
    if results is not None and (how.pop("regimes") or how.pop("portfolio")):
        raise SweepError("--regimes and --portfolio go with runs, which keep their predictions")
    if how.get("regimes") is False and how.get("portfolio"):
        raise SweepError("--portfolio is a row of what --no-regimes leaves out: leave one out")
    damage: list[str] = []
    if results is None:
        files, _, damage = make_report(runs, out, **without_choice(how))
    else:
        from ..results.csv_lines import Choice
        from ..results.entrants import results_file

        del how["beside"]
        choice = Choice(how.pop("where"), how.pop("rename"), how.pop("untuned") or "")
        del how["mirror"], how["cache"]
        file = results_file(results)
        evidence = file.evidence(choice)
        notes = evidence.meta["notes"]
        files = parts_and_files(evidence, out or file.folder / "report", **how)[1]
        for note in notes:
            console.tell(f"note: {note}")
    said = {"notes": notes} if notes else {}
    said |= {"damage": damage} if damage else {}
    console.data({"files": [str(path) for path in files], **said})
    for path in files:
        console.say(str(path))
    console.say_page(files)
    for text in damage:
        console.tell(f"damaged: {text}")
    if damage:
        console.tell(
            "to list everything that is damaged: "
            + "; ".join(command_on(run, "verify") for run in runs)
        )
    return ENVIRONMENT if damage else OK
