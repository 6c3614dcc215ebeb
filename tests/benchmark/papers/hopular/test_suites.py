"""Hopular's tables, suites and published numbers are those of its paper and code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from paper_runs import planned, scored
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from tabsweep.benchmark.papers.catalog import FOLDER, published_tables
from tabsweep.benchmark.papers.hopular.median_ranks import ranks_of_values
from tabsweep.benchmark.papers.hopular.printed import PrintedHopfield
from tabsweep.benchmark.papers.published_values import load
from tabsweep.benchmark.planning import suite as suites
from tabsweep.datasets import catalog
from tabsweep.datasets.protocols import make_folds
from tabsweep.models.hopular.network import Hopfield
from tabsweep.reports.evidence import Evidence
from tabsweep.reports.reproduction.comparison import compare
from tabsweep.reports.statistics.ranking import standard_error

# rows, numeric and categorical features, share of the other rows that validates, missing cells
MEDIUM = {
    "blastchar": (7021, 3, 16, 0.2, 11),
    "colleges": (7063, 32, 12, 0.2, 104_249),
    "eye-movements": (10_936, 19, 3, 0.125, 0),
    "gesture-phase": (9873, 32, 0, 0.125, 0),
    "shrutime": (10_000, 5, 5, 0.2, 0),
    "sulfur": (10_081, 5, 0, 0.2, 0),
}
PUBLISHED = published_tables()
FIVE = ["hopular", "npt", "xgboost", "catboost", "lightgbm"]

# ---------------------------------------------------------------------- the medium tables


@pytest.fixture(scope="module", params=MEDIUM)
def medium(request: pytest.FixtureRequest, mirror: str) -> Any:
    return catalog.load_dataset(request.param, mirror=mirror)


def test_a_medium_table_has_the_columns_of_the_authors_code_and_no_row_twice(medium):
    rows, numeric, categorical, _, missing = MEDIUM[medium.name]
    found = medium.n_rows, len(medium.numeric), len(medium.categorical)
    assert found == (rows, numeric, categorical)
    assert int(medium.frame.isna().sum().sum()) == missing
    whole = medium.frame.astype(object).assign(target=medium.target)
    assert not whole.duplicated().any()


def test_a_medium_table_is_cut_as_the_authors_code_draws_it(medium):
    share, classes = MEDIUM[medium.name][3], medium.task != "regression"
    kind = StratifiedKFold if classes else KFold
    drawn = kind(5, shuffle=True, random_state=1).split(medium.frame, medium.target)
    folds = make_folds(medium, "official")
    tested = np.concatenate([fold.test for fold in folds])
    assert sorted(tested) == list(range(medium.n_rows))
    for fold, (rest, test) in zip(folds, drawn, strict=True):
        labels = medium.target[rest] if classes else None
        train, val = train_test_split(rest, test_size=share, random_state=1, stratify=labels)
        for ours, theirs in ((fold.train, train), (fold.val, val), (fold.test, test)):
            assert ours.tolist() == sorted(theirs.tolist())


def test_missing_cells_follow_their_rows_through_the_removal_of_duplicates(mirror):
    charges = catalog.load_dataset("blastchar", mirror=mirror).frame
    gaps = charges["TotalCharges"].isna()
    assert (charges.loc[gaps, "tenure"] == 0).all() and (charges["tenure"] == 0).sum() == 11
    colleges = catalog.load_dataset("colleges", mirror=mirror).frame
    listed = json.loads(Path(mirror, "colleges", "missing.json").read_text())
    kept = [2, 3, 4, *range(6, 30), *range(31, 48)]
    for row in (0, 17, 3000, 7062):
        want = [position in listed.get(str(row), []) for position in kept]
        assert colleges.iloc[row].isna().tolist() == want


# ---------------------------------------------------------------------- the loader's partition


@pytest.mark.parametrize(
    ("name", "n_test", "true", "trained"),
    [("glass", 53, 12, 31), ("conn-bench-sonar-mines-rocks", 52, 15, 33)],
)
def test_the_permuted_partition_is_the_one_that_the_released_loader_makes(
    name, n_test, true, trained, mirror
):
    table = catalog.load_dataset(name, mirror=mirror)
    stored = make_folds(table, "official")
    permuted = make_folds(table, "official-permuted")
    assert np.isin(permuted[0].test, stored[0].test).sum() == true
    assert np.isin(permuted[0].train, stored[0].test).sum() == trained
    assert len(permuted[0].test) == n_test
    for ours, theirs in zip(permuted, stored, strict=True):
        sizes = [len(p) for p in (ours.train, ours.val, ours.test)]
        assert sizes == [len(p) for p in (theirs.train, theirs.val, theirs.test)]
        every = np.concatenate([ours.train, ours.val, ours.test])
        assert sorted(every) == list(range(table.n_rows))


def test_the_permuted_suite_differs_from_its_twin_in_the_protocol_alone():
    twin, suite = suites.load("hopular-small"), suites.load("hopular-small-permuted")
    assert suite.datasets == twin.datasets and suite.metric == twin.metric
    assert suite.protocol == dict.fromkeys(suite.datasets, "official-permuted")
    assert set(suite.budgets["reduced"].models) < set(twin.budgets["reduced"].models)


# ---------------------------------------------------------------------- spaces and budgets


@pytest.mark.parametrize("suite", ["hopular-small", "hopular-medium"])
@pytest.mark.parametrize("model", ["xgboost", "catboost", "lightgbm"])
def test_boosting_has_a_thousand_trials_of_tpe_in_the_papers_ranges(suite, model):
    _, space, sampler, trials = planned(suite, "paper", model, suites.load(suite).datasets[0])
    assert (sampler, trials) == ("hyperopt", 1000)
    assert space.params["n_estimators"].point(0) == 1000


@pytest.mark.parametrize("suite", ["hopular-small", "hopular-medium"])
def test_hopulars_grid_has_the_twelve_settings_of_its_paper(suite):
    _, space, sampler, trials = planned(suite, "paper", "hopular", suites.load(suite).datasets[0])
    assert (sampler, trials, space.size) == ("grid", 12, 12)
    found = [space.grid_point(i) for i in range(12)]
    settings = {(c["n_blocks"], c["n_nets"], c["beta_scaling"]) for c in found}
    assert settings == {(b, m, s) for b in (4, 8) for m in (8, 16) for s in (1, 100, 1000)}


def test_npt_as_a_baseline_has_eight_settings_a_width_and_not_all_of_them_on_sonar():
    _, space, _, trials = planned("hopular-medium", "paper", "npt", "sulfur")
    found = [space.grid_point(i) for i in range(trials)]
    base = {"n_layers": 8, "n_heads": 8, "p_target": 1.0, "p_feature": 0.15}
    changes = [{k: c[k] for k in base if c[k] != base[k]} for c in found]
    assert changes[:4] == [{}, {"n_layers": 16}, {"n_heads": 16}, {"n_layers": 16, "n_heads": 16}]
    assert changes[4:] == [{"p_target": 0.1}, {"p_target": 0.5}, {"p_feature": 0.2}, {}]
    assert [c["schedule"] for c in found] == ["cosine"] * 7 + ["cosine-cyclic"]
    assert {(c["width"], c["lr"], c["steps"]) for c in found} == {(32, 1e-3, 10_000)}
    small = planned("hopular-small", "paper", "npt", "glass")
    sonar = planned("hopular-small", "paper", "npt", "conn-bench-sonar-mines-rocks")
    assert (small[1].size, sonar[1].size) == (16, 14)
    every, there = (
        [tuple(sorted(s[1].grid_point(i).items())) for i in range(s[1].size)]
        for s in (small, sonar)
    )
    left_out = [dict(point) for point in every if point not in there]
    assert set(there) < set(every)
    assert [(c["width"], c["n_layers"]) for c in left_out] == [(128, 16), (128, 16)]


def test_the_medium_suite_compares_the_five_methods_over_three_seeds_of_one_split():
    suite = suites.load("hopular-medium")
    assert suite.datasets == sorted(MEDIUM)
    for budget in suite.budgets.values():
        assert (budget.models, budget.folds, budget.seeds) == (FIVE, 1, 3)


# ---------------------------------------------------------------------- published beside ours


def evidence(scores: dict[tuple[str, str], list[float]], task: str) -> Evidence:
    protocols = {dataset: "official: stored" for dataset, _ in scores}
    metrics = {"regression": "mse", "binary": "accuracy"}
    return scored(scores, task, metrics, protocol=protocols)


def test_table_2_has_the_error_over_replicates_and_a_place_for_what_cannot_be_read():
    mse = [0.0010, 0.0012, 0.0014]
    found = evidence({("sulfur", "hopular"): mse, ("sulfur", "npt"): [0.002] * 3}, "regression")
    section = compare(found, PUBLISHED["hopular-table-2"])
    rows = section.frame.set_index(["dataset", "method"])
    hopular, npt = rows.loc["sulfur", "hopular"], rows.loc["sulfur", "npt"]
    assert (hopular["published"], hopular["published_se"]) == (1.04, 0.02)
    assert hopular["ours"] == pytest.approx(1.2)
    assert hopular["ours_se"] == pytest.approx(1000 * standard_error(np.array(mse)))
    assert hopular["within_two"] == (abs(1.2 - 1.04) <= 2 * np.hypot(0.02, hopular["ours_se"]))
    assert np.isnan(npt["published"]) and npt["ours"] == pytest.approx(2.0)
    assert "not legible" in npt["note"]
    text = "\n".join(section.tables[0].notes)
    assert "evaluation seeds" in text and "above 1.23" in text
    assert len(section.frame) == len(load(FOLDER / "hopular", "table2")) == 30


def test_the_medians_that_the_paper_prints_follow_from_its_table_2():
    found = ranks_of_values(PUBLISHED["hopular-table-2"])
    assert found == {
        "hopular": 1.5, "lightgbm": 2.0, "catboost": 2.5, "npt": 4.5, "xgboost": 4.5,
    }  # fmt: skip


def test_table_1_ranks_our_methods_among_themselves_and_says_so():
    scores = {
        (f"set-{i}", model): [value, value]
        for i, row in enumerate([(0.9, 0.8, 0.7), (0.9, 0.8, 0.7), (0.6, 0.7, 0.8)])
        for model, value in zip(("hopular", "linear", "knn"), row, strict=True)
    }
    section = compare(evidence(scores, "binary"), PUBLISHED["hopular-table-1"])
    rows = section.frame.set_index("model")
    ranked = rows[rows["median_rank"].notna()]
    assert ranked["median_rank"].to_dict() == {"hopular": 1.0, "linear": 2.0, "knn": 3.0}
    assert ranked["published"].to_dict() == {"hopular": 7.5, "linear": 10.0, "knn": 24.0}
    assert rows.loc["linear", "method"] == "logistic-regression"
    assert rows.loc["hopular", "mean_rank"] == pytest.approx(5 / 3)
    assert any("among the models of this run alone" in n for n in section.tables[0].notes)
    assert rows.loc["mars", "note"].startswith("no maintained library")
    assert rows.loc["ff-snn", "note"] == "not in this run" and np.isnan(rows.loc["svm", "se"])
    shown = [panel.title for panel in section.tables[0].panels]
    assert shown == ["all datasets (3)", "published methods without a rank of ours"]
    assert sorted(len(panel.rows) for panel in section.tables[0].panels) == [3, 26]


@pytest.mark.parametrize("budget", ["reduced", "paper"])
def test_every_published_method_of_table_1_is_in_the_suite_or_a_planned_absence(budget):
    table, suite = PUBLISHED["hopular-table-1"], suites.load("hopular-small")
    here = [table.model_of(m) for m in table.rows["method"] if m not in table.absent]
    assert (len(table.rows), list(table.absent)) == (29, ["mars"])
    assert set(suite.budgets[budget].models) == set(here) and len(here) == 28


def test_the_plain_networks_are_seven_settings_of_one_model():
    suite = suites.load("hopular-small")
    for budget in ("reduced", "paper"):
        numbers = suite.budgets[budget]
        names = [name for name in numbers.models if name.startswith("ff-")]
        assert {numbers.asked(name) for name in names} == {"feed-forward"}
        kinds = {tuple(sorted(numbers.model[name].fixed.items())) for name in names}
        assert len(kinds) == len(names) == 7
        for name in names:
            _, space, _, trials = planned("hopular-small", budget, name, "glass")
            point = space.sample(np.random.default_rng(0))
            assert numbers.model[name].fixed.items() <= point.items()
            assert trials == (1 if budget == "reduced" else 50)


def test_as_printed_the_state_is_kept_and_keys_are_the_values():
    net = Hopfield(8, 2, 1.0, 0.0).eval()
    x, patterns = torch.randn(1, 3, 8), torch.randn(1, 5, 8)
    with torch.no_grad():
        net.value.weight.copy_(net.key.weight)
        net.bias.zero_()
        told = net(x, net.store(patterns)) - net.norm(x)
        net.__class__ = PrintedHopfield
        torch.testing.assert_close(net(x, net.store(patterns)) - x, told)
