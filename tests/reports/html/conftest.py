"""The pages that the tests of this folder share."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from page_cases import HOSTILE, evidence_of, results
from tabsweep.reports import report
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.html import write


@pytest.fixture(scope="session")
def evidence():
    return evidence_of(results(), subset=[f"data-{i}" for i in range(6)], notes=["quick: a look"])


@pytest.fixture(scope="session")
def parts(evidence):
    return report.parts_of(evidence)


@pytest.fixture(scope="session")
def pages(evidence, parts):
    return write.pages(evidence, parts)


@pytest.fixture(scope="session")
def hostile():
    """Pages on which every name, message and note is an attack."""
    frame = results(HOSTILE[:8], n=len(HOSTILE), n_trials=2)
    names = dict(zip([f"data-{i}" for i in range(len(HOSTILE))], HOSTILE, strict=True))
    frame["dataset"] = frame["dataset"].map(names)
    frame["message"] = frame["message"].where(frame["message"] == "", HOSTILE[1])
    frame["config"] = json.dumps({HOSTILE[1]: HOSTILE[0], "<!--": "<img src=x onerror=alert(1)>"})
    facts = {"notes": HOSTILE, "suite": HOSTILE[1], "environment": {HOSTILE[1]: HOSTILE[2]}}
    importance = pd.DataFrame(
        [(HOSTILE[1], HOSTILE[1], 1.0, 20)],
        columns=["model", "parameter", "importance", "n_trials"],
    )
    one = evidence_of(frame, **facts)
    one = Evidence(one.trials, one.planned, one.facts, None, importance)
    return write.pages(one, report.parts_of(one))
