"""`bench fit --mlflow`: a registered model predicts in a fresh process as the saved file does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from calls import bench
from small_sweeps import AGAIN
from tabsweep.benchmark.tracking.store import default_uri
from tabsweep.models.persistence.model_file import load_model

pytestmark = pytest.mark.xdist_group("mlflow")

ASK = """
import sys, json, mlflow, numpy as np, pandas as pd
model = mlflow.pyfunc.load_model("models:/" + sys.argv[1])
rows = pd.read_json(sys.argv[2], orient="table")
signature = model.metadata.signature
assert signature is not None and model.input_example is not None, "signature or example missing"
flat = {"labels": [str(v) for v in model.predict(rows)]}
if signature.params is not None:
    flat["probabilities"] = model.predict(rows, params={"probabilities": True}).to_numpy().tolist()
print("ANSWER" + json.dumps(flat))
"""


def ask(run: Path, model: str, rows: Path) -> dict[str, list[object]]:
    """What the registered model answers in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, model, str(rows)],
        env={**os.environ, "MLFLOW_TRACKING_URI": default_uri(run)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.rpartition("ANSWER")[2])


@pytest.mark.parametrize(
    ("task", "times"), [("multiclass", 1), pytest.param("regression", 2, marks=pytest.mark.nightly)]
)
def test_a_registered_model_predicts_in_a_fresh_process_as_its_file_does(
    task: str, times: int, tmp_path: Path, raced: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    n = 90
    frame = pd.DataFrame(
        {
            "size": random.normal(size=n).round(3),
            "rooms": random.integers(1, 6, n),
            "town": random.choice(["Bonn", "Ulm", "Trier"], n),
        }
    )
    frame.loc[::9, "size"] = np.nan
    frame.loc[::11, "town"] = None
    total = frame["rooms"] + frame["size"].fillna(0.0)
    words = np.where(total > 4, "high", np.where(total > 2, "middle", "low"))
    frame["y"] = words if task == "multiclass" else total.round(3)
    written = frame["size"].map(lambda v: f"{v:.3f}".replace(".", ","))  # as a German file has it
    frame["size"] = written.where(frame["size"].notna(), None)
    file = tmp_path / "houses.csv"
    frame.to_csv(file, index=False)

    small = ("--trials", 1, "--folds", 1, "--model", "lightgbm", *AGAIN)
    swept = bench("sweep", "--csv", file, "--target", "y", *small, "--runs", tmp_path / "runs")
    assert swept.code == 0, swept
    run = tmp_path / "runs" / "csv-houses-quick"
    shutil.copy(raced.database, run / "mlflow.db")  # making one takes seconds
    monkeypatch.setenv("TABSWEEP_TRACKING_URI", "none")  # of sweeps: the model goes to its run's
    for _ in range(times):  # the second time it is version 2
        fit = bench("fit", run, "--model", "lightgbm", "--mlflow", "--register-as", "mine")
        assert fit.code == 0, fit
    rows = frame.drop(columns="y").head(20)
    place = tmp_path / "rows.json"
    rows.to_json(place, orient="table", index=False)
    refused = bench("fit", run, "--mlflow", "--tracking-uri", "none")
    assert refused.code == 2 and "leave it out" in refused.err
    answer = ask(run, f"mine/{times}", place)
    fitted = load_model(next((run / "fitted").iterdir()))
    assert answer["labels"] == [str(value) for value in fitted.predict(rows)]
    if task == "multiclass":
        assert answer["probabilities"] == fitted.predict_proba(rows).tolist()
