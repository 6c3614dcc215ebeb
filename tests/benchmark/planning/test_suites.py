"""Suite files: those that ship name what exists, and a fault in one is named by line and key."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from calls import bench
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.fold_facts import Data
from tabsweep.benchmark.planning.plan import Options, Plan
from tabsweep.benchmark.planning.space_overrides import PlanError, narrow
from tabsweep.benchmark.planning.suite import SuiteError
from tabsweep.datasets import catalog
from tabsweep.models import registry
from tabsweep.reports.metrics import DEFAULT_METRIC, METRICS
from tabsweep.sweeps.search.space import Space

GOOD = """
name = "good"
title = "A suite to spoil"
datasets = ["iris", "wine"]
offline = ["digits"]

[metric]
binary = "roc_auc"

[protocol]
iris = "kfold"

[budgets.quick]
models = ["knn", "linear"]
folds = 2
trials = 3

[budgets.quick.model.knn]
trials = 2
"""


# ---------------------------------------------------------------------- the suites that ship


@pytest.mark.parametrize("name", suites.files())
def test_every_suite_names_known_datasets_models_and_metrics(name):
    suite = suites.load(name)
    assert suite.name == name
    assert {*suite.datasets, *suite.offline} <= set(catalog.names())
    for task, metric in (DEFAULT_METRIC | dict(suite.metric)).items():
        assert task in METRICS[metric].tasks
    for budget in suite.budgets.values():
        asked = {budget.asked(name) for name in (*budget.models, *budget.model)}
        assert all(registry.spec(name) for name in asked)
        rows = {name for name in budget.model if budget.asked(name) != name}  # run when named
        known = {*budget.models, *(budget.asked(name) for name in rows), *rows}
        assert set(budget.model) <= known, "a section for a model that never runs"


@pytest.mark.parametrize("name", suites.files())
def test_the_record_of_a_plan_means_the_searches_of_its_suite(name):
    """A resume reads the suite from the ledger."""
    suite = suites.load(name)
    again = suites.parse(suite.model_dump(mode="json"), "the ledger's plan")
    for key, budget in suite.budgets.items():
        for model in {*budget.models, *budget.model, "of a resume that adds one"}:
            for dataset in (*suite.datasets, *suite.offline, None):
                recorded = again.budgets[key].search(model, dataset)
                assert recorded == budget.search(model, dataset), (key, model, dataset)


@pytest.mark.parametrize("name", suites.files())
def test_what_a_suite_falls_back_to_offline_needs_no_file(name):
    suite = suites.load(name)
    assert all(not catalog.card(dataset).files for dataset in suite.offline)
    bundled = [d for d in (*suite.datasets, *suite.offline) if not catalog.card(d).files]
    if suite.offline:
        assert len(bundled) >= suite.offline_below


# ---------------------------------------------------------------------- what a suite narrows

VARIANTS = Space.parse(
    {
        "params": {
            "p": {"kind": "choice", "values": [1, 2]},
            "variant": {
                "kind": "variants",
                "values": [{"n_neighbors": 1, "weights": "uniform"}]
                + [{"n_neighbors": 5, "weights": w} for w in ("uniform", "distance")],
            },
        }
    }
)


def test_a_suite_may_pin_what_variants_set_and_what_the_space_does_not_search():
    assert VARIANTS.size == 6
    pinned = narrow(VARIANTS, {"weights": "distance"}, {}, "knn")
    assert pinned.size == 4  # two variants are the same now
    assert {c["weights"] for c in map(pinned.grid_point, range(4))} == {"distance"}
    added = narrow(Space({}), {"weights": "distance"}, {}, "knn")
    assert added.grid_point(0) == {"weights": "distance"}
    law = r"narrows 'wieghts' of 'knn' \(did you mean 'weights'\?\); its space has: p, variant"
    with pytest.raises(PlanError, match=law):
        narrow(VARIANTS, {"wieghts": "distance"}, {}, "knn")
    for fixed, choices in (({"weights": "unifrm"}, {}), ({}, {"weights": ["uniform", "unifrm"]})):
        with pytest.raises(PlanError, match="'weights' of 'knn' .*'unifrm'.*one of 'uniform'"):
            narrow(Space({}), fixed, choices, "knn")
    with pytest.raises(PlanError, match="'n_neighbors' of 'knn' .* 2.5; it must be a whole number"):
        narrow(VARIANTS, {"n_neighbors": 2.5}, {}, "knn")
    with pytest.raises(PlanError, match="values must not be empty"):
        narrow(VARIANTS, {}, {"p": []}, "knn")
    with pytest.raises(PlanError, match="narrows 'n_neighbors' of 'knn'; its space has: p, var"):
        narrow(VARIANTS, {}, {"n_neighbors": [5]}, "knn")


LAYERED = """
fixed = {p = 1, weights = "uniform"}
[budgets.quick.model.near]
of = "knn"
fixed = {n_neighbors = 1}
[budgets.quick.dataset.wine.model.knn]
trials = 1
fixed = {n_neighbors = 9, p = 2}
"""


def test_what_is_said_of_a_dataset_goes_over_the_rest_and_a_rows_own_words_over_all():
    budget = suites.parse(tomllib.loads(GOOD + LAYERED), "here").budgets["quick"]
    assert budget.search("knn", "iris").fixed == {"p": 1, "weights": "uniform"}
    assert (budget.search("knn", "iris").trials, budget.search("knn", "wine").trials) == (2, 1)
    wine = {"n_neighbors": 9, "p": 2, "weights": "uniform"}
    assert budget.search("knn", "wine").fixed == wine
    assert budget.search("near", "wine").fixed == wine | {"n_neighbors": 1}
    assert budget.search("near", "iris").trials == 2 and budget.asked("near") == "knn"
    assert budget.search("linear", "wine") == suites.Search()


def plan_of(text: str) -> Plan:
    """The plan of a suite on one fold of its datasets."""
    suite = suites.parse(tomllib.loads(text), "here")
    data = {
        name: Data(catalog.load_dataset(name), "holdout", dict(enumerate(catalog.splits(name))))
        for name in suite.datasets
    }
    return Plan(suite, Options(folds=1), data, {})


def test_a_model_that_a_suite_leaves_out_on_a_dataset_is_planned_there_with_the_reason():
    text = GOOD + '[budgets.quick.dataset.wine.model.knn]\nabsent = "too slow here"\n'
    plan = plan_of(text)
    absent = {(s.dataset, s.model): s.reason for s in plan.studies if s.reason}
    assert absent == {("wine", "knn"): "too slow here"}
    assert ("wine", "knn") not in {(s.data_key, s.model) for s in plan.build()}


def test_a_sweep_of_nothing_but_absences_says_why_and_names_models_that_can(work):
    def line_of(err: str) -> str:
        (line,) = [line for line in err.splitlines() if "nothing runs" in line]
        return line

    one = ("sweep", "--suite", "smoke", "--dataset", "diabetes", "--model", "naive-bayes")
    planned = bench(*one, "--dry-run")
    assert planned.code == 0 and "naive-bayes has no regression form" in line_of(planned.err)
    way = line_of(planned.err).partition("models that can: ")[2].split(", ")
    assert "adaboost" in way and "naive-bayes" not in way and "discriminant-analysis" not in way
    ran = bench(*one, "--workers", "0", "--tracking-uri", "none")
    assert ran.code == 0 and line_of(ran.err) == line_of(planned.err)
    both = bench(*one, "--model", "knn", "--dry-run")
    assert both.code == 0 and "nothing runs" not in both.err


# ---------------------------------------------------------------------- files that are wrong


def fault(tmp_path: Path, text: str, kind: str = "toml") -> str:
    """What is said about a suite file; it names the file, and is one line."""
    path = tmp_path / f"bad.{kind}"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SuiteError) as caught:
        suites.load(str(path))
    message = str(caught.value)
    assert message.startswith(str(path)) and "\n" not in message
    return message.removeprefix(str(path))


def test_the_suite_that_the_next_tests_spoil_is_fine_as_toml_and_json(tmp_path):
    for kind, text in (("toml", GOOD), ("json", json.dumps(tomllib.loads(GOOD)))):
        (tmp_path / f"good.{kind}").write_text(text)
        assert suites.load(str(tmp_path / f"good.{kind}")).name == "good"


@pytest.mark.fault(15)
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("title", "titel", ":3: titel: unknown key; did you mean 'title'?"),
        ("trials = 2", "trial = 2", ":19: budgets.quick.model.knn.trial: unknown key; did you"),
        ("trials = 2", "trials = 0", ":19: budgets.quick.model.knn.trials: must be greater than"),
        ("folds = 2", 'folds = "2"', ":15: budgets.quick.folds: must be a valid integer, not '2'"),
        ('["knn", "linear"]', '"knn"', ":14: budgets.quick.models: must be a valid list, not"),
        ('["knn", "linear"]', "[]", ":14: budgets.quick.models: must have at least 1 item"),
        ('"linear"]', '"knn"]', ":14: budgets.quick.models: 'knn' is there 2 times"),
        ('"wine"]', '"iris"]', ":4: datasets: 'iris' is there 2 times"),
        ('binary = "', 'binry = "', ":8: metric.binry: unknown key; did you mean 'binary'?"),
        ('"kfold"', '"kfolds"', ":11: protocol.iris: unknown value 'kfolds'; did you mean 'kfold'"),
        ('iris = "', 'irs = "', ":11: protocol.irs: no dataset of the suite; did you mean 'iris'"),
        ('"good"', '"../x"', ":2: name: must match pattern"),
        ("title =", "default_budget = 'slow'\ntitle =", ":3: default_budget: no budget 'slow'"),
        ('name = "good"', "", ": name: is missing"),
        ("model.knn]", "dataset.iris.model.knm]", "quick.dataset.iris.model.knm: no model of the"),
        ("model.knn]", "dataset.wein.model.knn]", "quick.dataset.wein: no dataset of the suite"),
        ("folds = 2", "folds = ", ": not TOML: Invalid value (at line 15"),
        ("folds = 2", "folds = 2\nfolds = 3", ": not TOML: Cannot overwrite a value (at line 16"),
    ],
)
def test_a_fault_in_a_toml_file_is_named_by_line_and_key(tmp_path, old, new, says):
    assert GOOD.count(old) == 1
    assert says in fault(tmp_path, GOOD.replace(old, new))


def test_what_is_no_suite_file_is_refused(tmp_path):
    fault(tmp_path, "x = " + "[" * 5000)
    for text in ("", "[1]", '"word"', "[" * 100_000, '{"name": "x",'):
        fault(tmp_path, text, "json")
    (tmp_path / "large.toml").write_text("# \n" * 1_000_000)
    (tmp_path / "latin.toml").write_bytes("title = 'größe'".encode("latin-1"))
    (tmp_path / "folder.toml").mkdir()
    for name in ("large.toml", "latin.toml", "folder.toml", "absent.toml"):
        with pytest.raises(SuiteError, match=name):
            suites.load(str(tmp_path / name))


def test_choices_hold_for_the_first_configuration_too_and_one_outside_takes_no_points_trial():
    models = '"decision-tree", "random-forest"]'
    text = GOOD.replace('"linear"]', models).replace("trials = 3", "trials = 30")
    text += """
fixed = {weights = "uniform", p = 1}
[budgets.quick.model.decision-tree]
choices = {max_depth = [2, 3]}
fixed = {min_samples_leaf = 4, ccp_alpha = 0.0}
[budgets.quick.model.random-forest]
space = "npt"
[budgets.quick.dataset.wine.model.knn]
trials = 9
choices = {n_neighbors = [41, 43]}
"""
    plan = plan_of(text)
    tried: dict[str, list[int]] = {}
    for made, study in zip((s for s in plan.studies if not s.reason), plan.build(), strict=True):
        assert made.name == study.name
        for i in range(made.n_trials):
            config = study.sampler.ask(i)
            value = config.get("max_depth", config.get("n_neighbors"))
            tried.setdefault(made.name, []).append(value)
            study.sampler.tell(i, config, float(i))
    for name, listed in (("iris/0/decision-tree", [2, 3]), ("wine/0/knn", [41, 43])):
        assert len(tried[name]) == 2 and tried[name][0] == listed[0]
        assert set(tried[name]) <= {*listed}
    assert len(tried["iris/0/random-forest"]) == 17  # 16 points, and the default outside
    assert tried["iris/0/knn"][0] == registry.defaults("knn")["n_neighbors"]


def test_a_model_that_a_budget_does_not_name_has_its_own_space_where_it_lacks_the_budgets():
    for suite, model, found in (
        ("rtdl", "linear", ("default", "tpe")),
        ("npt-uci-transductive", "linear", ("default", "tpe")),  # in place of a grid
        ("npt-uci-transductive", "knn", ("npt", "grid")),
        ("npt-uci-transductive", "extra-trees", ("default", "tpe")),
    ):
        plan = Plan(suites.load(suite), Options(budget="paper", models=(model,)), {}, {})
        space, _, sampler, _ = plan.search(model, "regression")
        assert (space, sampler) == found, (suite, model)


def test_seeds_and_sight_of_test_rows_are_options_too():
    words = "sweep --suite smoke --dataset iris --model npt --model knn --folds 1 --dry-run --json"
    found = json.loads(bench(*words.split(), "--seeds", 4, "--trials", 1, "--transductive").out)
    assert found["cells"] == 2 * (1 + 4)
    assert any("npt saw the features" in note for note in found["notes"])
    blind = bench(*words.replace("--model npt ", "").split(), "--transductive").out
    assert any("without effect" in note for note in json.loads(blind)["notes"])
    refused = bench(*words.split(), "--seeds", 4, "--bag", 3)
    assert refused.code == 2 and "a bag takes the place of evaluation seeds" in refused.err
