"""Every table and figure is listed with what stands behind it; tables are set beside a run."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter

import click
import pytest
from calls import bench
from tabsweep.benchmark.cli import main
from tabsweep.benchmark.commands import sweep
from tabsweep.benchmark.papers import catalog
from tabsweep.benchmark.papers.catalog import entries, find_entry
from tabsweep.benchmark.papers.published_values import load
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.options import Options
from tabsweep.benchmark.planning.settings import Settings
from tabsweep.datasets import catalog as datasets
from tabsweep.models import registry
from tabsweep.models.registry import make_model
from tabsweep.sweeps.search.samplers import make_sampler

KEY = ["dataset", "method", "metric", "factor", "level", "configuration", "ensemble_size"]


def test_every_stored_table_loads_with_unique_rows_and_stands_in_its_papers_file():
    for paper in catalog.papers():
        stored = {path.name for path in (paper.folder / "published").iterdir()}
        printed = {name: t.published for name, t in paper.file.table.items() if t.published}
        assert stored == set(printed.values())
        for name in printed:
            rows = load(paper.folder, paper.published_file(name).stem)
            assert len(rows) and not rows.duplicated([c for c in KEY if c in rows]).any(), name
            if "value" in rows:
                assert rows["value"].dtype == float


def test_the_list_has_every_table_and_figure_once_with_a_command_or_a_reason():
    found = json.loads(bench("reproduce", "--list", "--json").out)
    wanted = [name for paper in catalog.papers() for name in paper.file.entries]
    assert sorted(source["name"] for source in found) == sorted(wanted)
    for source in found:
        assert bool(source.get("command")) != bool(source.get("why"))
        assert source["kind"] in ("table", "figure") and source["title"]
        stored = source["kind"] == "table" and find_entry(source["name"]).entry.published
        assert ("cells" in source) == bool(stored)


@pytest.mark.parametrize(
    ("words", "models"),
    [
        ("rtdl-table-17", ["autoint", "ft-transformer-no-feature-bias", "ft-transformer"]),
        ("rtdl-table-17 --model autoint", ["autoint"]),
        ("rtdl-table-2 --budget reduced", []),
    ],
)
def test_a_row_that_runs_for_its_table_alone_is_run_with_the_tables_others(
    words, models, monkeypatch
):
    asked = []
    monkeypatch.setattr(
        sweep, "run_and_report", lambda _, request, **how: asked.append(request) or 2
    )
    assert bench("reproduce", *words.split()).code == 2
    assert list(asked[0].options.models) == models
    settings = Settings(asked[0].suite, asked[0].options)  # the sweep itself takes hours
    assert list(settings.models) == (models or asked[0].suite.budget("reduced")[1].models)


def test_a_table_of_figures_over_datasets_takes_any_dataset_of_its_suite(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("hopular-table-1", "--budget", "quick", "--dataset", "ecoli", "--model", "adaboost")
    found = bench("reproduce", *words, "--dry-run")
    assert found.code == 0 and "1 dataset, 1 model" in found.out + found.err, found.err


FIGURES = [(paper, t) for paper, tables in {
    "npt": ("table14", "table15"), "cheatt": ("table6",), "hopular": ("tableA.3", "tableA.4"),
}.items() for t in tables]  # fmt: skip


@pytest.mark.parametrize(("name", "table"), FIGURES)
def test_a_set_with_other_columns_than_its_paper_prints_carries_a_mark(name, table):
    paper = next(paper for paper in catalog.papers() if paper.name == name)
    marked = (paper.folder / "paper.toml").read_text(encoding="utf-8").replace("\n#", "")
    for row in load(paper.folder, table).itertuples(index=False):
        card = datasets.card(paper.file.datasets.get(row.dataset, row.dataset))
        ours = Counter(card.kinds.values())
        numbers, categories = int(row.n_continuous), int(row.n_categorical)
        if not ours or (ours["numeric"], ours["categorical"]) == (numbers, categories):
            continue
        if name == "hopular":
            counts = f"{numbers}/{categories}, {ours['numeric']}/{ours['categorical']}"
            assert f"{row.dataset} {counts}" in marked
        elif ours.total() + 1 != numbers + categories:  # NPT counts some targets
            assert "DIFF(" in card.notes and "Table" in card.notes, card.name


# tables and figures of each paper, as its text numbers them
NUMBERS = {
    "cheatt": {"table-": range(1, 12), "figure-": range(1, 5)},
    "hopular": {
        **{"table-": range(1, 3), "table-a": range(3, 9)},
        **{"figure-": range(1, 3), "figure-a": range(3, 7)},
    },
    "npt": {"table-": range(1, 26), "figure-": range(1, 5), "figure-b": range(1, 4)},
    "rtdl": {"main-table-": range(1, 7), "table-": range(1, 20), "figure-": range(1, 4)},
}


def test_no_table_and_no_figure_of_a_paper_is_missing():
    for paper in catalog.papers():
        known = list(paper.file.entries)
        wanted = [f"{kind}{n}" for kind, those in NUMBERS[paper.name].items() for n in those]
        for number in wanted:
            parts = [n for n in known if re.fullmatch(rf"{paper.name}-{number}[a-z]*", n)]
            assert parts, f"{paper.name}-{number}"


def test_the_printed_list_has_a_block_for_each_paper():
    lines = bench("reproduce", "--list").out.splitlines()
    assert bench("reproduce").out.splitlines() == lines
    for paper in catalog.papers():
        assert paper.file.reference in lines
        for name in paper.file.entries:
            assert sum(line.split(" ")[0] == name for line in lines) == 1, name


def test_each_command_of_the_list_is_one_that_the_command_line_has():
    """Its options parse, and what it names exists; nothing is run."""
    for source in entries():
        if not source.command:
            continue
        program, verb, *arguments = shlex.split(source.command)
        assert program == "bench"
        command = main.get_command(click.Context(main), verb)
        with command.make_context(verb, [*arguments, "--json"]) as context:
            given = context.params
        if verb == "reproduce":
            assert find_entry(given["table"]).is_reproduced, source.name
        elif verb == "experiment":
            assert callable(catalog.find_experiment(given["name"]).function("tiny")), source.name
        elif verb == "models":
            assert arguments[0] in registry.MODELS, source.name
        elif verb == "suites":
            assert arguments[0] in suites.files(), source.name
        else:
            assert verb == "sweep" and given["budget"] in suites.load(given["suite"]).budgets


def test_every_dataset_and_method_of_a_table_is_one_of_its_suite():
    """The reduced budgets lack some untuned rows."""
    for name, table in catalog.published_tables().items():
        found = catalog.find_entry(name)
        suite, methods = catalog.suite_of(found), set(table.model_names())
        if table.shape != "medians":  # those are over datasets that the paper does not name
            assert set(table.dataset_names()) <= set(suite.datasets), name
        for budget in (found.entry.budget, "reduced"):
            numbers = suite.budgets[budget]
            lacking = methods - {*numbers.models, *numbers.model}
            assert all(m.endswith("-default") and budget == "reduced" for m in lacking), name


@pytest.mark.parametrize("name", suites.files())
def test_every_configuration_of_a_suite_is_one_that_its_model_takes(name):
    """Of lists and small grids all, else the first that is drawn."""
    suite = suites.load(name)
    cards = [datasets.card(dataset) for dataset in (*suite.datasets, *suite.offline)]
    for budget, numbers in suite.budgets.items():
        options = Options(budget=budget, models=(*numbers.models, *numbers.model))
        settings = Settings(suite, options)
        for model, spec in settings.specs.items():
            seen = set()
            for card in (card for card in cards if card.task in spec.tasks):
                _, space, sampler, _ = settings.search(model, card.task, card.name)
                configs = [make_sampler(sampler, space, seed=0).ask(0)]
                assert configs[0] in space, (budget, model, card.name)
                if space.size and space.size <= 16:
                    configs = [space.grid_point(i) for i in range(space.size)]
                for config in configs:
                    key = (card.task, json.dumps(config, sort_keys=True))
                    if key not in seen:
                        make_model(spec.target, task=card.task, **config)  # raises for a bad value
                    seen.add(key)


def test_the_name_of_a_table_begins_with_its_papers_and_every_suite_of_a_paper_is_known():
    for paper in catalog.papers():
        names = [*paper.file.entries, *paper.file.experiment]
        assert all(name.startswith(f"{paper.name}-") for name in names)
        assert set(suites.files_in(paper.folder)) <= set(suites.files())
        for name, table in paper.file.table.items():
            if table.suite:
                suite = catalog.suite_of(catalog.find_entry(name))
                assert table.budget in suite.budgets, name
