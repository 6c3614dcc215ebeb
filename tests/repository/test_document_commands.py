"""The commands of README.md and docs/: all are parsed, and run at a small size where they can."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
from document_commands import (
    CANNOT,
    RUNS,
    appended,
    codes,
    commands,
    mentioned,
    python_blocks,
    reason,
)
from repo import ROOT
from tabsweep.benchmark.cli import main

BENCH = Path(sys.executable).with_name("bench")
MODEL = "docs/how-to/own-model.md"
LONGER = ["docs/library.md", MODEL]


def test_every_command_is_run_or_named_with_the_reason_why_not() -> None:
    found = commands()
    assert len(found) > 80
    assert [str(c) for c in found if reason(c) is None and appended(c) is None] == []
    idle = [p for p, _ in CANNOT if not any(re.match(p, c.text) for c in found)]
    assert not idle, "reasons for commands that no document has any more"
    tests = {name for _, why in CANNOT for name in re.findall(r"tests/[\w./]+", why)}
    assert [name for name in sorted(tests) if not (ROOT / name).exists()] == []


def test_every_command_of_the_program_is_parsed_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    wrong = []
    for command in commands():
        if command.words[0] != "bench":
            continue
        try:
            parse(list(command.words[1:]) + (appended(command) or []))
        except click.ClickException as error:
            wrong.append(f"{command}: {error.format_message()}")
    assert not wrong


def command_of(words: list[str]) -> tuple[click.Command, click.Context | None, list[str]]:
    """(the command that words name, its parent's context, the other words)."""
    found: click.Command = main
    parent: click.Context | None = None
    while isinstance(found, click.Group):
        if found is not main and (not words or words[0].startswith("-")):
            break  # a group that runs a default
        parent = click.Context(found, info_name="bench", parent=parent)
        name, *words = words
        child = found.get_command(parent, name)
        if child is None:
            raise click.UsageError(f"no such command {name!r}")
        found = child
    return found, parent, words


def parse(words: list[str]) -> None:
    """What click does before a command begins: groups, options, types, callbacks."""
    command, parent, rest = command_of(words)
    if not isinstance(command, click.Group):
        command.make_context("bench", rest, parent=parent).close()


def test_every_command_in_running_text_exists_with_its_options() -> None:
    found = mentioned()
    assert len(found) > 50
    for place, words in found:
        command, _, rest = command_of(words)
        commands_ = [command] + [main.commands["sweep"]] * (command.name == "submit")
        known = {name for one in commands_ for p in one.params for name in p.opts}
        unknown = {word.partition("=")[0] for word in rest if word.startswith("-")} - known
        assert unknown <= {"--", "--help", "--version"}, f"{place}: {' '.join(words)}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, mirror: str):
    """Makes a run that commands read, once: a function from its name to its folder."""
    folder = tmp_path_factory.mktemp("document-runs")

    def made(name: str) -> Path:
        run = folder / name / "runs" / name
        if not run.exists():
            run.parent.mkdir(parents=True)
            words = ["bench", "sweep", *RUNS[name].split(), "--name", name]
            words += ["--workers", "0", "--tracking-uri", "none"]
            done = call(words, folder / name, mirror)
            assert done.returncode == 0, done.stdout + done.stderr
        return run

    return made


def call(words: list[str], folder: Path, mirror: str) -> subprocess.CompletedProcess[str]:
    own = {"TABSWEEP_MIRROR": mirror, "TABSWEEP_DATA": str(folder / "added"), "NO_COLOR": "1"}
    words = [str(BENCH) if word == "bench" else word for word in words]
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=600, env={**os.environ, **own}
    )


DOCUMENTS = sorted({c.document for c in commands() if reason(c) is None})


@pytest.mark.nightly
@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_commands_of_a_document_run_from_top_to_bottom(
    document: str, tmp_path: Path, mirror: str, runs
) -> None:
    here = [c for c in commands() if c.document == document and reason(c) is None]
    write_files(tmp_path)
    for name in sorted({n for c in here for n in re.findall(r"runs/([\w-]+)", c.text)} & {*RUNS}):
        shutil.copytree(runs(name), tmp_path / "runs" / name)
    failed = []
    for command in here:
        done = call([*command.words, *(appended(command) or [])], tmp_path, mirror)
        if done.returncode not in codes(command):
            last = (done.stdout + done.stderr).strip().splitlines()[-3:]
            failed.append(f"{command}: exit code {done.returncode}: {' | '.join(last)}")
    assert not failed


def write_files(folder: Path) -> None:
    """The files that commands name: a table, newer rows, results of another tool, a model."""
    chance = np.random.default_rng(0)
    n = 90
    houses = pd.DataFrame(
        {
            "id": np.arange(n) + 5000,
            "area": chance.uniform(40, 200, n).round(1),
            "rooms": chance.integers(1, 7, n),
            "heating": chance.choice(["gas", "oil", "heat pump", "unknown"], n),
        }
    )
    houses["price"] = (houses["area"] * 2500 + houses["rooms"] * 8000).round(-2) + chance.integers(
        0, 20000, n
    )
    houses.to_csv(folder / "houses.csv", index=False)
    houses.to_parquet(folder / "flats.parquet", index=False)
    houses.drop(columns="price").tail(5).to_csv(folder / "new_houses.csv", index=False)
    rows = ["method,dataset,split,seed,metric,value"]
    rows += [
        f"{method},{dataset},0,{seed},{metric},{value + seed / 1000}"
        for method, gain in (("catboost", 0.0), ("ft_transformer", 0.01))
        for dataset, metric, value in (
            ("adult", "accuracy", 0.87 - gain),
            ("california_housing", "rmse", 0.43 + gain),
        )
        for seed in range(3)
    ]
    (folder / "results.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "mine.toml").write_text(
        'name = "mine"\ntitle = "Two tables"\ndatasets = ["houses", "wine"]\n\n'
        '[budgets.quick]\nmodels = ["linear", "knn"]\nfolds = 1\ntrials = 1\n',
        encoding="utf-8",
    )
    (folder / "mymodel.py").write_text(python_blocks(MODEL)[0], encoding="utf-8")


@pytest.mark.parametrize(
    "document",
    ["docs/quick-start.md", *(pytest.param(d, marks=pytest.mark.nightly) for d in LONGER)],
)
def test_the_python_of_a_document_runs(document: str, tmp_path: Path, mirror: str) -> None:
    for i, block in enumerate(python_blocks(document)):
        (tmp_path / f"block_{i}.py").write_text(block, encoding="utf-8")
        done = call([sys.executable, f"block_{i}.py"], tmp_path, mirror)
        assert done.returncode == 0, f"{document}, block {i}: {done.stderr}"
