"""`bench experiment`: list the papers' experiments, or run one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ...console import OK, Console, duration
from ...errors import check_gpu
from ...papers.catalog import experiments, find_experiment
from ...papers.experiment_result import Setting


def list_experiments(console: Console, paper: Path | None = None) -> int:
    """`bench experiment` without a name. paper: the folder of a paper, instead of the built-in
    ones."""
    known = experiments(paper).values()
    console.data(
        [
            {"name": e.name, "published": e.published, **e.entry.model_dump(exclude={"run"})}
            for e in known
        ]
    )
    console.table(
        ["experiment", "what", "source"], [[e.name, e.entry.title, e.entry.source] for e in known]
    )
    return OK


def experiment_command(console: Console, name: str, paper: Path | None, setting: Setting) -> int:
    """`bench experiment NAME`: runs it, prints its tables, says where the files are: in a folder of
    its name in `setting.out`. Raises UnknownExperiment and NoGpu before anything runs."""
    from ...papers.experiment_files import cells
    from ...papers.run_experiment import run_experiment

    experiment = find_experiment(name, paper)
    check_gpu(setting.device)
    setting = replace(setting, out=setting.out / experiment.name)
    console.say(f"{experiment.name}: {experiment.entry.title} ({experiment.entry.source})")
    console.say(f"size {setting.size}: {experiment.in_words(setting.size)}")
    result, facts, files = run_experiment(experiment, setting)
    for table in result.tables:
        console.say(f"\n{table.title}")
        console.table(table.columns, cells(table))
        if table.note:
            console.say(table.note)
    console.say()
    for remark in result.remarks:
        console.say(remark)
    console.say(f"{duration(facts['seconds'])}; written to {setting.out}:")
    for path in files:
        console.say(f"  {path.relative_to(setting.out)}")
    console.data(
        {
            "experiment": experiment.name,
            "tables": {
                table.name: [{c: row.get(c) for c in table.columns} for row in table.rows]
                for table in result.tables
            },
            "remarks": result.remarks,
            "files": [str(path) for path in files],
            "facts": facts,
        }
    )
    return OK
