"""Evidence for tests of the written report, and helpers that read and compile its files."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from tabsweep.reports import report
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.facts import Facts

HOSTILE = [
    '=HYPERLINK("http://evil.example","x")',
    "</script><script>alert(1)</script>",
    r"\input{/etc/passwd}",
    "a|b",
    "$x_",
    "left\u202eright",
    "n" * 300,
    "nul\x00byte",
    "../../x",
    "[1cm]",
    "*star",
    "--two--dashes---",
    "# heading\n| --- |",
    "%comment & more ~^`'\"",
    "@cmd",
    "日本語 ñandú 😀",
    "www.evil.example",
]
METRIC = {"binary": "roc_auc", "multiclass": "accuracy", "regression": "rmse"}
TASKS = ("binary", "multiclass", "regression")


def pdflatex(folder, page="page"):
    """The log of pdflatex on a page of the folder, of lualatex where its files have letters that
    pdflatex lacks; the test is skipped where there is none."""
    sources = [path.read_text(encoding="utf-8") for path in folder.rglob("*.tex")]
    engine = "pdflatex" if all(map(str.isascii, sources)) else "lualatex"
    if shutil.which(engine) is None:
        pytest.skip(f"needs {engine}: install texlive")
    if engine == "lualatex" and subprocess.run(["kpsewhich", "luaotfload.sty"]).returncode:
        pytest.skip("needs luaotfload: install texlive-luatex")
    words = [engine, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", page]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0 and "Output written" in done.stdout, done.stdout[-2000:]
    return done.stdout


def rows_of(datasets, models, *, n_folds=2, score=None, seed=0):
    """One selected trial a study; `datasets` maps name -> task."""
    rng = np.random.default_rng(seed)
    rows = []
    for dataset, task in datasets.items():
        for fold in range(n_folds):
            for j, model in enumerate(models):
                value = rng.uniform(0.6, 0.9) + 0.01 * j if score is None else score(dataset, j)
                rows.append(
                    {
                        "dataset": dataset,
                        "task": task,
                        "fold": fold,
                        "model": model,
                        "index": 0,
                        "stage": "tune",
                        "seed": 1,
                        "status": "done",
                        "cause": "",
                        "message": "",
                        "selected": True,
                        "cpu_s": 1.5,
                        "fit_s": 1.0,
                        "id": f"{len(rows)}",
                        f"test_{METRIC[task]}": value,
                    }
                )
    return pd.DataFrame(rows)


def mixed(n=7):
    return {f"{task}-{i}": task for task in TASKS for i in range(n)}


def evidence_of(frame, planned=None, **facts):
    tasks = {t: METRIC[t] for t in TASKS}
    return Evidence.of(frame, planned, Facts(**{"metric": tasks, "suite": "test", **facts}))


def texts(evidence, folder, **options):
    """{path inside the report: bytes}, without the pages."""
    parts = report.parts_of(evidence, **options)
    paths = report.write(evidence, folder, parts, html=False)
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}


def readable(written):
    return {n: data for n, data in written.items() if not n.endswith((".pdf", ".parquet"))}


def csv_rows(data):
    return list(csv.DictReader(io.StringIO(data.decode())))


def hostile_evidence():
    datasets = {**dict.fromkeys(HOSTILE, "binary"), **mixed(1)}
    frame = rows_of(datasets, HOSTILE[:9], n_folds=3)
    frame.loc[3, ["status", "cause", "message", "selected"]] = [
        "failed",
        "=cmd",
        "Traceback\n|x| \\end{document} <b>",
        False,
    ]
    return evidence_of(
        frame,
        notes=[r"\write18{rm} <img src=x> $"],
        budget="quick_&%",
        protocol={HOSTILE[0]: "official \x00 #", HOSTILE[1]: "k|fold"},
        left_out={HOSTILE[4]: "no \\network"},
        versions={"a|b": "<1>"},
        test_over_train=dict.fromkeys(datasets, 1 / 9),
    )
