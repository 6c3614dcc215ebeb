"""An HTTP server on this machine that answers as OpenML's does: tasks, data, suites, errors."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from local_server import LocalServer

Answer = tuple[int, str, bytes]


def flowers(n: int = 90, seed: int = 0) -> pd.DataFrame:
    """A row number, two numbers with gaps, two categories and a class of three."""
    rng = np.random.default_rng(seed)
    kind = np.arange(n) % 3
    frame = pd.DataFrame(
        {
            "row": np.arange(n, dtype=float),
            "petal length": rng.normal(size=n).round(3) + kind,
            "width": np.where(np.arange(n) % 11 == 0, np.nan, rng.normal(size=n).round(3)),
            "colour": rng.choice(["none", "deep, red", "it's"], n),
            "size": rng.choice(["small", "middle", "large"], n),
            "class": np.array(["setosa", "versi color", "virginica"])[kind],
        }
    )
    frame.loc[::13, "size"] = None
    return frame


DOMAINS = {
    "colour": ["none", "deep, red", "it's"],
    "size": ["small", "middle", "large"],
    "class": ["virginica", "setosa", "versi color"],
}


def arff(frame: pd.DataFrame, name: str = "flowers") -> bytes:
    """The table as OpenML stores it: names and texts in quotes, ? for what is missing."""

    def quoted(text: object) -> str:
        return "'" + str(text).replace("\\", "\\\\").replace("'", "\\'") + "'"

    lines = ["% a comment", f"@RELATION {name}", ""]
    for column in frame:
        kind = "REAL"
        if column in DOMAINS:
            kind = "{" + ",".join(map(quoted, DOMAINS[column])) + "}"
        lines.append(f"@ATTRIBUTE {quoted(column)} {kind}")
    lines += ["", "@DATA"]
    for row in frame.itertuples(index=False):
        cells = ("?" if pd.isna(v) else quoted(v) if isinstance(v, str) else repr(v) for v in row)
        lines.append(",".join(cells))
    return ("\n".join(lines) + "\n").encode()


def parquet(frame: pd.DataFrame) -> bytes:
    """The table as OpenML's Parquet files have it: nominal columns are dictionaries."""
    columns = {
        name: pa.array([v if isinstance(v, str) else None for v in frame[name]]).dictionary_encode()
        if name in DOMAINS
        else pa.array(frame[name], from_pandas=True)
        for name in frame
    }
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


def splits(n: int = 90, folds: int = 3, repeats: int = 2) -> bytes:
    """The file of a task's splits, each repeat another cross-validation."""
    lines = ["@RELATION Task_splits", "@ATTRIBUTE type {TRAIN,TEST}"]
    lines += [f"@ATTRIBUTE {name} NUMERIC" for name in ("rowid", "repeat", "fold")] + ["@DATA"]
    for repeat in range(repeats):
        part = np.random.default_rng(repeat).permutation(n) % folds
        for fold in range(folds):
            for role, rows in (("TRAIN", part != fold), ("TEST", part == fold)):
                lines += [f"{role},{row},{repeat},{fold}" for row in np.flatnonzero(rows)]
    return ("\n".join(lines) + "\n").encode()


class OpenML(LocalServer):
    """The server. `trouble` maps a path to what is answered there instead, once for each entry of
    its list."""

    def __init__(self) -> None:
        super().__init__()
        self.trouble: dict[str, list[Answer]] = {}
        self.files: dict[str, bytes] = {}
        self.answers: dict[str, Callable[[], Any]] = {}
        self.url = f"{self.root}/api/v1"

    def answer(self, path: str, headers: Any) -> tuple[int, dict[str, str], bytes]:
        """What is found, with its type as a header."""
        status, kind, body = self.found(path)
        return status, {"Content-Type": kind}, body

    def found(self, path: str) -> Answer:
        """(status, content type, body) of a request."""
        if self.trouble.get(path):
            return self.trouble[path].pop(0)
        if path in self.files:
            return 200, "application/octet-stream", self.files[path]
        if path in self.answers:
            return 200, "application/json", json.dumps(self.answers[path]()).encode()
        kinds = {"task": ("151", "Unknown task"), "data": ("111", "Unknown dataset")}
        kinds["study"] = ("601", "Unknown study")
        for kind, (code, said) in kinds.items():
            if path.startswith(f"/api/v1/json/{kind}/"):
                return problem(code, said)
        return 404, "text/plain", b"not found"

    def add_dataset(self, number: int, name: str, frame: pd.DataFrame, **more: Any) -> None:
        """A dataset with its files; `more` overrides fields of its description."""
        place, packed = f"/data/v1/download/{number}/{name}.arff", f"/datasets/{number}.pq"
        self.files[place] = arff(frame)
        self.files[packed] = parquet(frame)
        about = {
            "id": str(number),
            "name": name,
            "version": "2",
            "description": "Made up.",
            "format": "ARFF",
            "upload_date": "2014-04-06T23:23:39",
            "licence": "Public",
            "url": self.root + place,
            "file_id": str(number),
            "default_target_attribute": "class",
            "citation": "Nobody (2026)",
            "tag": ["study_1"],
            "visibility": "public",
            "status": "active",
            "md5_checksum": hashlib.md5(self.files[place]).hexdigest(),
            "parquet_url": self.root + packed,
        }
        self.answers[f"/api/v1/json/data/{number}"] = lambda: {
            "data_set_description": {**about, **more}
        }

    def add_task(
        self, number: int, dataset: int, target: str = "class", kind: str = "1", made: bytes = b""
    ) -> None:
        """A task on a dataset with ten thirds of folds; `kind` 2 is a regression."""
        place = f"/api_splits/get/{number}/Task_{number}_splits.arff"
        self.files[place] = made or splits()
        names = {"1": "Supervised Classification", "2": "Supervised Regression", "5": "Clustering"}
        procedure = {
            "id": "1",
            "type": "crossvalidation",
            "data_splits_url": self.root + place,
            "parameter": [
                {"name": "number_repeats", "value": "2"},
                {"name": "number_folds", "value": "3"},
                {"name": "percentage"},
                {"name": "stratified_sampling", "value": "true"},
            ],
        }
        self.answers[f"/api/v1/json/task/{number}"] = lambda: {
            "task": {
                "task_id": str(number),
                "task_name": f"Task {number}",
                "task_type_id": kind,
                "task_type": names[kind],
                "input": [
                    {
                        "name": "source_data",
                        "data_set": {"data_set_id": str(dataset), "target_feature": target},
                    },
                    {"name": "estimation_procedure", "estimation_procedure": procedure},
                    {"name": "cost_matrix", "cost_matrix": []},
                    {
                        "name": "evaluation_measures",
                        "evaluation_measures": {"evaluation_measure": "predictive_accuracy"},
                    },
                ],
                "output": [{"name": "predictions", "predictions": {"format": "ARFF"}}],
            }
        }

    def add_suite(self, number: int, alias: str, tasks: list[int]) -> None:
        """A suite of tasks under its number and its alias."""
        listed = [str(task) for task in tasks]
        for key in (str(number), alias):
            self.answers[f"/api/v1/json/study/{key}"] = lambda: {
                "study": {
                    "id": str(number),
                    "alias": alias,
                    "main_entity_type": "task",
                    "name": f"Suite {alias}",
                    "data": {"data_id": ["61"]},
                    "tasks": {"task_id": listed if len(listed) > 1 else listed[0]},
                }
            }


def problem(code: str, said: str) -> Answer:
    """A refusal as OpenML words it, in JSON."""
    return 412, "application/json", json.dumps({"error": {"code": code, "message": said}}).encode()
