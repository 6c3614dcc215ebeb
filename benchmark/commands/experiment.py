"""`bench experiment`: list the papers' experiments, or run one."""

from __future__ import annotations

from pathlib import Path

from ..console import OK, Console, duration
from ..papers.catalog import Experiment, experiments
from ..papers.experiment_result import Size


def list_experiments(face: Console, paper: Path | None = None) -> int:
    """`bench experiment` without a name. paper: the folder of a paper, instead of the built-in
    ones."""
    known = experiments(paper).values()
    face.data(
        [
            {
                "name": e.name,
                "title": e.title,
                "source": e.source,
                "reduced": e.reduced,
                "full": e.full,
                "published": list(e.published),
            }
            for e in known
        ]
    )
    face.table(["experiment", "what", "source"], [[e.name, e.title, e.source] for e in known])
    return OK


def experiment_command(
    face: Console,
    experiment: Experiment,
    *,
    size: Size,
    seed: int,
    device: str,
    threads: int,
    out: Path,
    mirror: str | None,
    cache: str | None,
) -> int:
    """`bench experiment NAME`: runs it, prints its tables, says where the files are."""
    from ..papers.experiment_files import cells
    from ..papers.run_experiment import run_experiment

    folder = out / experiment.name
    face.say(f"{experiment.name}: {experiment.title} ({experiment.source})")
    face.say(f"size {size}: {experiment.full if size == 'full' else experiment.reduced}")
    result, facts, files = run_experiment(
        experiment,
        size=size,
        seed=seed,
        device=device,
        threads=threads,
        out=out,
        say=face.say,
        mirror=mirror,
        cache=cache,
    )
    for table in result.tables:
        face.say(f"\n{table.title}")
        face.table(list(table.columns), cells(table))
        if table.note:
            face.say(table.note)
    face.say()
    for remark in result.remarks:
        face.say(remark)
    face.say(f"{duration(facts['seconds'])}; written to {folder}:")
    for path in files:
        face.say(f"  {path.relative_to(folder)}")
    face.data(
        {
            "experiment": experiment.name,
            "tables": {
                t.name: [dict(zip(t.columns, row, strict=True)) for row in t.rows]
                for t in result.tables
            },
            "remarks": result.remarks,
            "files": [str(path) for path in files],
            "facts": facts,
        }
    )
    return OK
