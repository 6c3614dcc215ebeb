"""Evidence for tests of the HTML pages, and a parser of their tags."""

from __future__ import annotations

import html.parser
import json

import numpy as np
import pandas as pd
from report_cases import METRIC, TASKS
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.facts import Facts

HOSTILE = [
    '=HYPERLINK("http://evil.example","x")',
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "' onmouseover='alert(3)",
    "<!-- {{ 7 * 7 }} {% raw %}",
    "javascript:alert(4)",
    "left\u202eright\x00\u2028",
    "n" * 300,
    "../../x",
    "</style><style>*{display:none}",
    "&lt;b&gt; & \\u003c",
    "日本語 ñandú 😀",
    "#without=all&sort=elo,%",
]
MODELS = ["forest", "linear", "net", "svm"]


def results(models=MODELS, n=8, n_trials=4, n_folds=2, seed=0):
    """Trials with validation scores, costs, ties, one failed trial, one model that failed twice."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        task = TASKS[i % 3]
        for fold in range(n_folds):
            for j, model in enumerate(models):
                val = rng.uniform(0.5, 0.9, n_trials)
                best = int(np.argmin(val) if task == "regression" else np.argmax(val))
                gone = j == 1 and i == 2
                for index in range(n_trials):
                    failed = gone or (j == 2 and index == 1)
                    rows.append(
                        {
                            "dataset": f"data-{i}",
                            "task": task,
                            "fold": fold,
                            "model": model,
                            "index": index,
                            "stage": "tune",
                            "seed": 1,
                            "status": "failed" if failed else "done",
                            "cause": "timeout" if failed else "",
                            "message": "out of time" if failed else "",
                            "config": json.dumps({"depth": index, "rate": 0.1}),
                            "fit_s": 1.0 + j,
                            "predict_s": 0.5,
                            "cpu_s": 2.0 + j,
                            "id": str(len(rows)),
                            f"val_{METRIC[task]}": None if failed else val[index],
                            # two decimals: some models tie
                            f"test_{METRIC[task]}": None if failed else round(val[index], 1),
                            "selected": index == best and not failed,
                        }
                    )
    frame = pd.DataFrame(rows)
    study = ["dataset", "fold", "model"]
    for _, mine in frame[frame["status"] == "done"].groupby(study):
        if not mine["selected"].any():  # the best had failed: the next is chosen
            name = f"val_{METRIC[mine['task'].iloc[0]]}"
            at = (
                mine[name].idxmin() if mine["task"].iloc[0] == "regression" else mine[name].idxmax()
            )
            frame.loc[at, "selected"] = True
    return frame


def evidence_of(frame, **facts):
    rows = {f"data-{i}": 400 * (i + 1) for i in range(8)}
    known = {"metric": METRIC, "suite": "test", "budget": "quick", "rows": rows, **facts}
    return Evidence.of(frame, None, Facts(**known))


def drawn(text):
    """The numbers of each figure of a page."""
    found = [attributes.get("data-figure") for _, attributes in Tags(text).found]
    return [json.loads(figure) for figure in found if figure]


class Tags(html.parser.HTMLParser):
    """Every tag with its attributes, and the text of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.found, self.inside, self.raw, self.text = [], "", [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.inside = tag if tag in ("script", "style") else ""
        if self.inside:
            self.raw.append([tag, dict(attrs), ""])

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside:
            self.raw[-1][2] += data
        else:
            self.text += data
