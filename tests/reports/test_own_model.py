"""A model of the user's own in a report: in the verdict, marked, shown wherever rows are few."""

from __future__ import annotations

import pytest
from report_cases import evidence_of, rows_of, texts
from tabsweep.reports import report
from tabsweep.reports.aggregation.choice import only
from tabsweep.reports.evidence import EvidenceError

OWN = "my.module:Mine"
MODELS = [*(f"model-{i:02}" for i in range(30)), OWN]
TABLES = {f"binary-{i}": "binary" for i in range(12)}


def evidence(own_at=30):
    """Models in the order of their numbers, but for one's own, which is `own_at`."""
    order = [m for m in MODELS if m != OWN]
    order.insert(own_at, OWN)
    places = [order.index(model) for model in MODELS]
    families = {name: ["external" if ":" in name else "gbdt", "", ""] for name in MODELS}
    frame = rows_of(TABLES, MODELS, score=lambda d, j: 0.9 - 0.01 * places[j])
    return evidence_of(frame, families=families)


def verdict(found):
    return next(
        part for part in report.parts_of(found).sections if part.name == "leaderboard"
    ).remarks[0]


def test_the_verdict_says_where_ones_own_model_stands_and_from_whom_it_differs():
    assert (
        f"{OWN} is 31st of 31, mean rank 31.00, significantly worse than model-00 and "
        in verdict(evidence())
    )
    assert (
        f"{OWN} is 3rd of 31, mean rank 3.00, not significantly different from model-00."
        in verdict(evidence(2))
    )
    assert verdict(evidence(0)).count(OWN) == 1


def test_figures_of_the_best_models_and_rows_of_the_page_have_ones_own(tmp_path):
    written = texts(evidence(), tmp_path)
    for name in ("pairwise-wins", "profiles"):
        drawn = written[f"paper/{name}.tex"].decode()
        assert "Mine{*}" in drawn and "model-11" in drawn and "model-12" not in drawn
        assert "best mean ranks and ours" in drawn
    found = evidence()
    paths = report.write(found, tmp_path / "page", report.parts_of(found))
    index = next(p for p in paths if p.name == "index.html").read_text(encoding="utf-8")
    assert index.count('<tr class="own">') >= 3  # leaderboard, scores, models


def test_a_report_of_chosen_models_and_datasets_ranks_these_alone():
    found = evidence()
    chosen = only(found, [OWN, "model-07"], found.datasets()[:5])
    assert chosen.models == ["model-07", OWN] and len(chosen.datasets()) == 5
    assert "leads with mean rank 1.00 of 2 models on 5 datasets" in verdict(chosen)
    assert only(found).models == found.models
    with pytest.raises(EvidenceError, match="did you mean 'my.module:Mine'"):
        only(found, ["my.module:Mime"])
