"""The static site of `bench publish`: its first page, its downloads, and a report for each run."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....common.files import write_atomically
from ...errors import SweepError
from ..report import make_report, parts_and_files
from .combined import Combined, Run, combine, read_runs, slug

if TYPE_CHECKING:
    import pandas as pd

    from ....reports.output.tables import Section

HERE = Path(__file__).parent
MANIFEST = "site.json"
BOARD = "board"
HIDDEN = ("message", "origin")  # of a trial: may name folders and machines of the sweep


def publish(
    paths: Sequence[Path],
    out: Path,
    *,
    title: str,
    beside: Sequence[str] = (),
    mirror: str | None = None,
    cache: str | None = None,
) -> tuple[list[Path], list[str]]:
    """Write the site of runs into the folder `out`: (its files, what of the runs is damaged).

    The site is made in a folder beside `out` and moved into place file by file, so that a site that
    is being served has no missing file; files of an earlier site that this one does not have are
    deleted. The same runs give the same bytes. Raises SweepError for a folder that holds something
    else, and what `make_report` raises.
    """
    old = _files_of(out)
    runs = read_runs(paths)
    whole = combine(runs)
    staging = out.absolute().with_name(f".{out.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        damage: list[str] = []
        for run in runs:
            place = staging / "runs" / slug(run.name)
            shown = [f"runs/{run.name}"]  # no folder of this machine
            found = make_report(
                [run.path], place, mirror=mirror, cache=cache, beside=beside, shown=shown
            )
            damage += [f"{run.name}: {text}" for text in found[2]]
        if beside:
            from ...results.beside import with_published

            joined = with_published(whole.evidence, whole.own, beside)
            evidence, apart = joined.evidence, joined.apart
        else:
            evidence, apart = whole.evidence, None
        sections, _ = parts_and_files(evidence, staging / BOARD, apart=apart)
        for name, data in _downloads(runs, whole).items():
            write_atomically(staging / name, data, sync=False)
        page = _page(title, runs, whole, evidence, sections)
        write_atomically(staging / "index.html", page.encode("utf-8"), sync=False)
        write_atomically(staging / ".nojekyll", b"", sync=False)  # GitHub leaves files as they are
        return _moved(staging, out, old), damage
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _files_of(out: Path) -> set[str]:
    """The files of an earlier site in `out`; SweepError where it is something else."""
    if not out.exists():
        return set()
    if not out.is_dir():
        raise SweepError(f"--out {out} is a file: name a folder for the site")
    try:
        names = set(json.loads((out / MANIFEST).read_text("utf-8"))["files"])
    except FileNotFoundError:
        if any(out.iterdir()):
            raise SweepError(
                f"--out {out} holds other files and no site (no {MANIFEST}): name an empty folder, "
                "or one that does not exist yet"
            ) from None
        return set()
    except (ValueError, KeyError, TypeError):
        raise SweepError(
            f"--out {out}: its {MANIFEST} cannot be read: delete the folder, or name another one"
        ) from None
    return {name for name in names if ".." not in Path(name).parts and not Path(name).is_absolute()}


def _moved(staging: Path, out: Path, old: set[str]) -> list[Path]:
    """Move the finished site into `out`; delete the files that it no longer has, and the folders
    that this empties. What others put there stays."""
    names = sorted(p.relative_to(staging).as_posix() for p in staging.rglob("*") if p.is_file())
    sums = {name: hashlib.sha256((staging / name).read_bytes()).hexdigest() for name in names}
    manifest = json.dumps({"made_by": "tabsweep", "files": sums}, indent=1, sort_keys=True) + "\n"
    write_atomically(staging / MANIFEST, manifest.encode(), sync=False)
    first = [name for name in names if name != "index.html"]
    for name in (*first, "index.html", MANIFEST):  # the page last: what it links is there
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(staging / name, out / name)
    gone = sorted(old - set(names) - {MANIFEST})
    for name in gone:
        (out / name).unlink(missing_ok=True)
    for folder in sorted({p for name in gone for p in Path(name).parents[:-1]}, reverse=True):
        place = out / folder
        if place.is_dir() and not place.is_symlink() and not any(place.iterdir()):
            place.rmdir()
    return [out / name for name in (*names, MANIFEST)]


# ---------------------------------------------------------------------- downloads


def _downloads(runs: Sequence[Run], whole: Combined) -> dict[str, bytes]:
    """{file: bytes} of the tidy results: a row a fold, a row a trial, a row a cell of each run."""
    import pandas as pd

    from ....reports.aggregation.cells import studies
    from ....reports.output.tables import to_csv

    folds, trials = [], []
    for run in runs:
        found = studies(run.evidence)
        counted = {
            (dataset, model): bool(is_so)
            for dataset, model, name, is_so in whole.cells[
                ["dataset", "model", "run", "counted"]
            ].itertuples(index=False)
            if name == run.name
        }
        labels = [whole.labels[run.name, name] or name for name in found["dataset"]]
        here = [counted.get(cell, False) for cell in zip(labels, found["model"], strict=True)]
        metrics = [run.evidence.headline(task) for task in found["task"]]
        folds.append(_headed(found, run.name, column=labels, metric=metrics, counted=here))
        rows = run.evidence.trials.drop(columns=list(HIDDEN), errors="ignore")
        labels = [whole.labels[run.name, str(name)] or str(name) for name in rows["dataset"]]
        trials.append(_headed(rows, run.name, column=labels))
    tables = {
        "results.csv": pd.concat(folds, ignore_index=True),
        "trials.csv": pd.concat(trials, ignore_index=True),
        "cells.csv": whole.cells.assign(  # a run of another metric has no name on the board
            dataset=whole.cells["dataset"].where(whole.cells["dataset"] != "", whole.cells["own"])
        ).drop(columns="own"),
    }
    texts = {name: to_csv(frame).encode("utf-8") for name, frame in tables.items()}
    texts["trials.csv.gz"] = gzip.compress(texts.pop("trials.csv"), mtime=0)
    return texts


def _headed(frame: pd.DataFrame, run: str, column: Sequence[str], **more: Any) -> pd.DataFrame:
    """The rows with the run and the dataset's name on the board before them."""
    found = frame.assign(**more)
    found.insert(0, "run", run)
    found.insert(1, "on_board", list(column))
    return found


# ---------------------------------------------------------------------- the page


def _page(
    title: str, runs: Sequence[Run], whole: Combined, evidence: Any, parts: Sequence[Section]
) -> str:
    from ....reports.html import page
    from ....reports.html.write import other_page
    from ....reports.output import footnotes
    from ....reports.statistics.ranking import places

    first = page.index(page.Source.of(evidence, parts))
    named = {part.name: part for part in parts}
    place = places([entry["mean"] for entry in first["standings"]], "min")
    standings = [
        {**entry, "place": at} for at, entry in zip(place, first["standings"], strict=True)
    ]
    shown = [named[name] for name in ("scores", "beside") if name in named]
    return other_page(
        HERE / "site.html.j2",
        {
            "title": title,
            "verdict": first["verdict"],
            "lead": first["lead"],
            "notes": whole.notes,
            "standings": [_figures(entry) for entry in standings],
            "why": first["why"],
            "caption": [  # without the columns that this page does not have
                line for line in first["caption"] if not line.startswith("Fit and predict")
            ],
            "ranked": first["ranked"],
            "sections": [
                {
                    "name": part.name,
                    "title": part.title,
                    "remarks": part.remarks,
                    "tables": page.tables_of(part),
                }
                for part in shown
            ],
            "links": {name: f"{BOARD}/html/{file}" for name, file in first["links"].items()},
            "board": f"{BOARD}/html/index.html",
            "runs": [_run_row(run, whole) for run in reversed(runs)],
            "repeated": _repeated(whole),
            "newest": footnotes.join([run.name for run in runs[-1:]], limit=1),
            "downloads": _DOWNLOADS,
        },
        style=(HERE / "site.css").read_text(encoding="utf-8"),
    )


_DOWNLOADS = (
    ("results.csv", "a row for every run, dataset, fold and model: state and test scores"),
    ("cells.csv", "a row for every run, dataset and model: mean and spread of the ranked metric"),
    ("trials.csv.gz", "a row for every trial: configuration, scores, seconds, memory"),
    (f"{BOARD}/scores.parquet", "the score tables of this page, unrounded"),
)


def _figures(entry: Mapping[str, Any]) -> dict[str, str]:
    """A model's standing as texts."""
    return {
        "place": str(entry["place"]),
        "model": str(entry["model"]),
        "file": f"{BOARD}/html/{entry['file']}" if entry["file"] else "",
        "interval": str(entry["interval"]),
        "mean": f"{entry['mean']:.2f}",
        "se": f"{entry['se']:.2f}" if entry["se"] == entry["se"] else "",
        "win": f"{100 * entry['win']:.0f} %",
        "elo": f"{entry['elo']:.0f}",
        "score": f"{entry['score']:.2f}",
        "best": f"{entry['best']:g}",
        "cpu": "" if entry["cpu"] == "n/a" else f"{entry['cpu']} s",
    }


def _run_row(run: Run, whole: Combined) -> dict[str, Any]:
    """A run in the list: what it was, how far it came, and where its report is."""
    meta = run.evidence.meta
    mine = whole.cells[whole.cells["run"] == run.name]
    status = run.evidence.trials["status"].astype(str)
    return {
        "name": run.name,
        "link": f"runs/{slug(run.name)}/html/index.html",
        "last": run.last[:16].replace("T", " "),
        "suite": str(meta.get("suite") or ""),
        "budget": str(meta.get("budget") or ""),
        "seed": run.plan["options"]["seed"],
        "datasets": len(run.evidence.datasets()),
        "models": len(run.evidence.models),
        "trials": f"{len(status):,}",
        "failed": f"{int((status == 'failed').sum()):,}",
        "complete": f"{int((mine['state'] == 'complete').sum())} of {len(mine)}",
        "counted": int(mine["counted"].sum()),
        "code": str(meta.get("code") or "")[:12],
    }


def _repeated(whole: Combined) -> list[dict[str, Any]]:
    """The cells that several runs have, the oldest run first."""
    cells = whole.cells[whole.cells["dataset"] != ""]
    found = []
    for (dataset, model), group in cells.groupby(["dataset", "model"], sort=True):
        if len(group) < 2:
            continue
        for row in group.itertuples(index=False):
            known = row.mean == row.mean
            found.append(
                {
                    "dataset": dataset,
                    "model": model,
                    "run": row.run,
                    "metric": row.metric,
                    "score": f"{row.mean:.4f}" if known else row.state,
                    "spread": f"{row.spread:.4f}" if row.spread == row.spread else "",
                    "counted": bool(row.counted),
                }
            )
    return found
