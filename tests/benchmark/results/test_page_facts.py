"""What the pages get beside the results: counts of the data, cards, families, learning curves."""

from __future__ import annotations

import pandas as pd
import pytest
from golden_run import unpack
from tabsweep.benchmark.planning.plan_record import PlannedDataset
from tabsweep.benchmark.results.evidence_builder import evidence_of
from tabsweep.benchmark.results.learning_curves import CURVE, with_curves
from tabsweep.benchmark.results.page_facts import facts_of, with_cards
from tabsweep.datasets.catalog import card, load_dataset, splits
from tabsweep.datasets.passport import counted, passport
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.facts import Facts
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.store.records import latest_results


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The stored run of the nightly benchmark, of a version that kept no counts of the data."""
    return unpack(tmp_path_factory.mktemp("stored") / "run")


def test_a_plan_counts_what_the_passport_counts():
    table = load_dataset("iris")
    folds = splits("iris")
    found, whole = counted(table, folds), passport(table, folds)
    assert found["class_counts"] == whole["class_counts"] and found["n_rows_counted"] == 150
    assert {column.pop("name"): column for column in found["columns"]} == whole["columns"]
    assert [f for f in found["flags"] if f not in whole["flags"]] == []
    assert {"duplicate-rows"} <= {flag["id"] for flag in found["flags"]}


def test_a_run_without_counts_has_the_columns_of_its_card(run):
    evidence = evidence_of([run])
    facts = with_cards(evidence).facts.of_datasets["iris"]
    assert not facts["passport"] and facts["licence"] == card("iris").licence
    assert set(facts["classes"].values()) == {None} and len(facts["classes"]) == 3
    assert evidence.facts.runs == [str(run)]
    assert set(evidence.facts.families) == set(evidence.models)


def test_facts_of_a_file_of_the_user_come_from_its_plan_alone():
    of = {"csv": {"path": "x.csv"}, "warnings": ["w"], "sizes": [[6, 2, 2]]}
    planned = PlannedDataset("binary", 10, 2, "sha", "kfold", **of)
    found = facts_of({"mine": planned})["mine"]
    assert found["own"] and found["warnings"] == ["w"] and found["sizes"] == [6.0, 2.0, 2.0]
    empty = pd.DataFrame({"dataset": ["mine"], "task": ["binary"], "fold": [0], "model": ["m"]})
    rows = empty.assign(index=0, stage="tune", seed=0, status="done", test_roc_auc=0.5)
    one = Evidence.of(rows, None, Facts(metric={"binary": "roc_auc"}, of_datasets={"mine": found}))
    assert "licence" not in with_cards(one).facts.of_datasets["mine"]


def test_the_curves_of_chosen_trials_are_read_from_their_records(run):
    evidence = evidence_of([run])
    assert not with_curves(evidence, [run]).facts.curves  # a version that kept none
    chosen = evidence.trials[evidence.trials["selected"]].iloc[0]
    ledger = Ledger(run, write=True)
    record = ledger.at(latest_results(ledger)[chosen["id"]])
    curve = {"by": "epochs", "points": [[1, 0.5], [2, 0.25]]}
    ledger.append([{**record, "info": {**record["info"], CURVE: curve}}])
    ledger.close()
    found = with_curves(evidence_of([run]), [run]).facts.curves
    place = {"dataset": chosen["dataset"], "fold": chosen["fold"]}
    assert found == {chosen["model"]: [{**place, **curve}]}
