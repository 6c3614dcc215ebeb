"""NPT's spaces and suites follow its paper, and what its sweeps promise."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from paper_runs import planned
from small_sweeps import suite_of
from tabsweep.benchmark.outcome.run_report import make_report
from tabsweep.benchmark.papers.catalog import FOLDER
from tabsweep.benchmark.papers.npt.printed import PrintedBlock
from tabsweep.benchmark.papers.npt.variant_ranks import VARIANTS
from tabsweep.benchmark.papers.published_values import printed_values
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.plan import Options, Plan
from tabsweep.benchmark.planning.space_overrides import PlanError
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.benchmark.running import sweep
from tabsweep.datasets import catalog
from tabsweep.models import registry
from tabsweep.models.npt.network import Block
from tabsweep.sweeps.search.space import Space

SMALL = ("boston", "breast-cancer-wdbc", "concrete", "yacht")
STEPS = {  # the base model, p_target 0.5, p_target 0.1, as in the authors' scripts
    "boston": (2000, 4000, 20000),
    "breast-cancer-wdbc": (2000, 4000, 20000),
    "concrete": (10000, 10000, 20000),
    "yacht": (10000, 10000, 20000),
}
LARGE = {  # C.1.3: width, rows of a batch, steps, learning rate, p_target, p_feature
    "protein": (128, 2048, 400_000, 1e-3, 0.15, 0.15),
    "kick": (64, 4096, 250_000, 1e-3, 0.5, 0.15),
    "income-kdd": (64, 2048, 2_000_000, 1e-3, 0.15, 0.0),
    "poker-hand": (64, 4096, 200_000, 1e-3, 0.5, 0.15),
    "forest-cover": (64, 1800, 800_000, 5e-3, 0.5, 0.15),
    "higgs": (64, 4096, 500_000, 1e-3, 1.0, 0.15),
}


def points(space: Space) -> list[dict[str, Any]]:
    return [space.grid_point(i) for i in range(space.size or 0)]


# ---------------------------------------------------------------------- what the paper says


TEN = ("npt-uci", "npt-uci-transductive")


@pytest.mark.parametrize("suite", ["npt-small", "npt-small-transductive", *TEN])
@pytest.mark.parametrize("dataset", SMALL)
def test_the_small_sets_try_the_eight_models_with_their_scripted_steps(suite, dataset):
    found = points(planned(suite, "paper" if suite in TEN else "networks", "npt", dataset)[1])
    base, half, tenth = STEPS[dataset]
    for name, config in zip(VARIANTS, found, strict=True):  # as Table 13 calls them
        assert (config["n_layers"] == 16) == ("layers-16" in name)
        assert (config["n_heads"] == 16) == ("heads-16" in name)
        assert config["p_target"] == {"p-target-0.1": 0.1, "p-target-0.5": 0.5}.get(name, 1.0)
        assert (config["p_feature"] == 0.2) == (name == "p-feature-0.2")
        assert (config["schedule"] == "cosine-cyclic") == (name == "cosine-cyclic")
        assert config["schedule_share"] == (0.2 if name == "cosine-cyclic" else 0.5)
        assert config["steps"] == {1.0: base, 0.5: half, 0.1: tenth}[config["p_target"]]
    usual = {"n_layers": 8, "n_heads": 8, "p_feature": 0.15, "schedule": "flat-cosine"}
    assert found[0].items() >= usual.items()
    wdbc = dataset == "breast-cancer-wdbc"
    assert {(c["width"], c["lr"]) for c in found} == {(32, 5e-4) if wdbc else (128, 1e-3)}
    seen = suite.endswith("-transductive")
    assert {c.get("transductive", False) for c in found} == {seen}
    assert {c.get("val_in_context", False) for c in found} == {seen}


@pytest.mark.parametrize("suite", TEN)
@pytest.mark.parametrize("dataset", LARGE)
def test_the_large_sets_have_the_settings_of_their_paper(suite, dataset):
    (config,) = points(planned(suite, "paper", "npt", dataset)[1])
    keys = ("width", "batch_size", "steps", "lr", "p_target", "p_feature")
    assert tuple(config[key] for key in keys) == LARGE[dataset]
    assert (config["n_layers"], config["n_heads"]) == (8, 8)
    assert config.get("balanced", False) == (dataset in ("poker-hand", "forest-cover"))
    share = ("polynomial", 0.01) if dataset == "forest-cover" else ("flat-cosine", 0.7)
    assert (config["schedule"], config["schedule_share"]) == share


# Configurations of Table 16 that are equal here: k-nearest neighbours (search algorithm and leaf
# size), the MLP (its schedule does nothing with Adam), random forests for classes (`auto`, `sqrt`).
REPEATED = {"knn": {480: 40, 40: 10}, "mlp-sklearn": {11340: 3780, 270: 90}}


@pytest.mark.parametrize("suite", TEN)
def test_every_method_tries_on_every_set_as_many_configurations_as_table_16_says(suite):
    paper = FOLDER / "npt"
    plan = Plan(suites.load(suite), Options(budget="paper"), {}, {})
    assert len(plan.models) == 9
    tried = Counter()
    for (dataset, method), n in printed_values(paper, "table16").items():
        model = "mlp-sklearn" if method == "mlp" else method
        card = catalog.card(dataset)
        name, space, sampler, n_trials = plan.search(model, card.task, dataset)
        wanted = REPEATED.get(model, {}).get(int(n), int(n))
        if model == "random-forest" and card.task != "regression":
            wanted = 16
        assert (sampler, n_trials, space.size) == ("grid", wanted, wanted), (dataset, model, name)
        tried[model] += 1
    assert tried.pop("knn") == 9 and set(tried.values()) == {10}
    assert registry.unsupported(registry.spec("knn"), "binary", 9_187_500, 28, 2)  # on Higgs


def test_the_two_suites_of_the_ten_differ_in_what_npt_sees_alone():
    inductive, transductive = (suites.load(name).model_dump() for name in TEN)
    assert transductive.pop("transductive") and not inductive.pop("transductive")
    del transductive["budgets"]["variants-reduced"]  # of Table 13, which one suite reproduces
    for name in ("name", "title", "note"):
        assert inductive.pop(name) != transductive.pop(name)
    for budget in transductive["budgets"].values():
        assert budget["model"]["npt"]["fixed"].pop("val_in_context")
    for suite in (inductive, transductive):
        for budget in suite["budgets"].values():
            del budget["note"]
    assert inductive == transductive


def test_a_row_of_an_ablation_means_one_thing_in_every_suite_of_the_paper():
    meant: dict[str, set[str]] = {}
    for name in suites.files_in(FOLDER / "npt"):
        for numbers in suites.load(name).budgets.values():
            for model, search in numbers.model.items():
                if search.of == "npt" and not model.startswith(("npt-layers", "npt-heads")):
                    meant.setdefault(model, set()).add(str(sorted(search.fixed.items())))
    assert {"npt-no-feature-masking", "npt-no-aba"} <= set(meant)
    assert all(len(settings) == 1 for settings in meant.values()), meant


def test_the_base_row_of_table_4_on_protein_is_that_of_five_folds_and_of_table_11():
    """The paper prints 3.41 for both; on each, test rows see the labels of validation rows."""
    (base,) = points(planned("npt-ablations", "paper", "npt", "protein")[1])
    assert points(planned("npt-uci-transductive", "paper", "npt", "protein")[1]) == [base]
    for budget in ("reduced", "paper"):
        five, table_4, table_11 = (
            points(planned(suite, budget, "npt", "protein")[1])
            for suite in ("npt-protein-folds", "npt-ablations", "npt-uci-transductive")
        )
        assert five == table_4 and table_4[0]["val_in_context"] and table_11[0]["val_in_context"]


def test_an_ablation_changes_one_thing_of_the_base_model():
    changed = {}
    suite = suites.load("npt-ablations")
    for model in suite.budgets["paper"].models:
        (config,) = points(planned("npt-ablations", "paper", model, "boston")[1])
        changed[model] = config
    base = changed.pop("npt")
    assert len(changed) == 12 and (base["p_target"], base["steps"]) == (0.15, 20_000)
    for model, config in changed.items():
        names = {k for k in config if config[k] != base.get(k)} - {"tradeoff", "tradeoff_schedule"}
        assert len(names) == {"npt-no-masking": 2, "npt-tradeoff-0-5": 0}.get(model, 1), model
    (protein,) = points(planned("npt-ablations", "paper", "npt", "protein")[1])
    differs = {k for k in protein if protein[k] != base.get(k)}
    assert differs == {"steps", "schedule_share", "batch_size", "eval_every"}


# ---------------------------------------------------------------------- who sees the test rows

TINY = "{steps = 8, width = 4, n_layers = 2, n_heads = 1, lr = 0.03, eval_every = 4}"
SUITE = f"""
name = "tiny"
title = "NPT on iris"
datasets = ["iris"]
[budgets.quick]
models = ["npt", "npt-blind", "knn"]
folds = 1
trials = 1
sampler = "random"
timeout_s = 300
[budgets.quick.model.npt]
fixed = {TINY}
[budgets.quick.model.npt-blind]
of = "npt"
fixed = {{transductive = false}}
"""


def made_of(text: str, folder: Path, **more: Any) -> sweep.Request:
    path = folder / "suite.toml"
    folder.mkdir(exist_ok=True)
    path.write_text(text)
    options = Options(runs=folder / "runs", name="run", workers=0)
    return sweep.Request(suites.load(str(path)), options, **more)


def test_only_a_suite_that_says_so_lets_a_model_see_the_test_rows_and_the_report_says_it(tmp_path):
    wanted = made_of(SUITE.replace("title", "transductive = true\ntitle"), tmp_path)
    sweep.run(wanted)
    rows = load_results(wanted.folder).set_index("model")
    assert (rows["status"] == "done").all()
    assert '"transductive":true' in rows.loc["npt", "config"]
    assert '"transductive":false' in rows.loc["npt-blind", "config"]
    assert "transductive" not in rows.loc["knn", "config"]
    assert rows.loc["npt", "id"] != rows.loc["npt-blind", "id"]
    make_report([wanted.folder], None)
    report = (wanted.folder / "report" / "about.md").read_text()
    assert "Transductive: npt saw the features of validation and test rows" in report


def of_saint() -> dict[str, Any]:
    """The same of SAINT, whose rows see each other within a batch of them."""
    together = {"saint": True, "saint-alone": False}
    fixed = {name: {"fixed": {"batch_prediction": value}} for name, value in together.items()}
    fixed["saint-alone"]["of"] = "saint"
    return suite_of("tiny", ["iris"], [*together], model=fixed)


def test_a_suite_that_says_so_lets_test_rows_see_each_other_and_its_notes_say_it():
    suite = suites.parse({**of_saint(), "transductive": True}, "a test")
    plan = Plan(suite, Options(), {}, {})
    (note,) = plan.notes
    assert note.startswith("Transductive: saint predicts test rows in batches in which they see")
    for model, together in (("saint", True), ("saint-alone", False)):
        space = plan.search(model, "multiclass")[1]
        assert space.params["batch_prediction"].point(0) is together


def test_without_the_key_a_transductive_configuration_is_refused_before_anything_runs(tmp_path):
    text = SUITE.replace("transductive = false", "transductive = true")
    with pytest.raises(PlanError, match="says `transductive = true` at its top"):
        sweep.run(made_of(text, tmp_path))
    plan = Plan(suites.parse(of_saint(), "a test"), Options(), {}, {})
    with pytest.raises(PlanError, match="batch_prediction = true .* says `transductive = true`"):
        plan.search("saint", "multiclass")
    assert plan.notes == [] and plan.search("saint-alone", "multiclass")
    default = Plan(suites.load("npt-small"), Options(models=("npt",)), {}, {})
    assert "transductive" not in default.search("npt", "regression")[1].params
    assert default.notes == []


def test_a_row_of_its_own_stands_for_a_model_under_another_name(tmp_path):
    taken = SUITE.replace("npt-blind", "lightgbm")
    with pytest.raises(PlanError, match="'lightgbm' is a model: call what is to stand for 'npt'"):
        sweep.run(made_of(taken, tmp_path))


def test_as_printed_keys_and_values_read_the_normalised_rows():
    block = Block(8, 2, 0.0, 0.0).eval()
    x = torch.randn(1, 5, 8)
    normed = block.norm_in(x)
    with torch.no_grad():
        of_code, (_, k, v) = block(x), block.heads(normed)
        block.__class__ = PrintedBlock
        _, printed_k, printed_v = block.heads(x)
        (_, whole_k, _), residual = block._heads_and_residual(x)
    torch.testing.assert_close((printed_k, printed_v), (k, v))
    torch.testing.assert_close((whole_k, residual), (k, block.residual(x)))
    assert not torch.allclose(block(x), of_code)
