"""The commands of README.md and docs/: all are parsed, and run at a small size where they can.

A command is run with the options of the first rule in `SHRINK` that it matches, or is named in
`CANNOT` with the reason why it cannot run here. A new command that neither knows fails a test.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
from repo import DOCUMENTS, FENCE, ROOT, blocks
from tabsweep.benchmark.cli import main

ONE = "--folds 1 --trials 1 --workers 0 --tracking-uri none"

SHRINK: list[tuple[str, str]] = [
    (r"bench sweep .*--dry-run", ""),
    (r"bench sweep .*--minutes ", "--model linear --workers 0 --tracking-uri none"),
    (r"bench sweep .*--csv .*--sizes ", f"--sizes 20,40 --model linear {ONE}"),
    (r"bench sweep .*--csv ", f"--model knn --model linear {ONE}"),
    (r"bench sweep .*--name more-models", f"--dataset iris {ONE}"),
    (r"bench sweep .*--suite uci-small", f"--model knn --dataset iris {ONE}"),
    (r"bench sweep .*--suite smoke", f"--dataset iris {ONE}"),
    (r"bench sweep .*--suite mine\.toml", ONE),
    (r"bench sweep .*--suite (rtdl|npt-uci|cheatt) ", f"--model random-forest {ONE}"),
    (r"bench (resume|retry) ", "--workers 0 --tracking-uri none"),
    (r"bench reproduce .*--model mymodel.*--from", ONE),
    (r"bench reproduce .*--(from|list|no-run|dry-run)\b", ""),
    (r"bench reproduce cheatt-table-2", f"--model random-forest {ONE}"),
    (
        r"bench reproduce npt-table-11 --budget reduced",
        f"--model knn --model catboost --dataset yacht {ONE}",
    ),
    (r"bench reproduce npt-table-11", f"--model knn --dataset yacht {ONE}"),
    (r"bench experiment ", "--size tiny --device cpu --threads 1"),
    (
        r"bench (status|logs|report|explain|compare|analyse|fit|predict|suites|models|runs|verify)",
        "",
    ),
    (
        r"bench (data (inspect|add|list|remove|passport)|beside|clean|export|publish) ?",
        "",
    ),
]
"""(pattern, options that are appended): the first that matches counts."""

CANNOT: list[tuple[str, str]] = [
    (r"(make|source) ", "sets .venv up from a package index; the tests run inside of it"),
    (
        r"export TABSWEEP_TABICL",
        "a file of the reader: tests/models/in_context/test_checkpoints.py",
    ),
    (r"bench .*--model tab(icl|pfn)", "a pretrained model: tests/models/in_context/"),
    (r"bench .*openml\W", "needs OpenML: tests/benchmark/commands/data/test_openml.py"),
    (r"export .*(RAY_AUTH|MLFLOW)", "a secret that the reader fills in"),
    (r"ray start ", "opens a head to the network: tests/faults start one on the loopback"),
    (r"bench .*--address (auto|http)", "needs a cluster: tests/faults/test_hosts.py"),
    (r"docker |export COMPOSE_FILE", "needs docker: tests/faults/outside/test_containers.py"),
    (
        r"deploy/(secrets|backup|restore)\.sh",
        "needs docker: tests/faults/outside/test_containers.py",
    ),
    (r"kubectl ", "needs Kubernetes: tests/repository/test_kubernetes.py"),
    (r"cp (\.env|~)", "files of an installation: tests/repository/test_deployment.py"),
    (r"sbatch ", "needs SLURM: tests/faults/outside/test_outages.py"),
    (r"bench .*--tracking-uri https", "needs an MLflow server: tests/benchmark/tracking/"),
    (r"bench ui ", "serves until Ctrl-C: tests/benchmark/tracking/test_interface.py"),
    (r"bench (nightly|baseline)", "minutes for each cell: tests/benchmark/nightly/"),
    (r"git (add|commit|clone|bisect)", "changes a repository"),
    (
        r"(bench .*by-size-reference|bench sweep --suite by-size|python docs/)",
        "large tables of the mirror and hours: tests/benchmark/results/test_reference.py",
    ),
    (r"bench merge runs/mine /mnt", "the disk of another machine: tests/faults/test_merge.py"),
    (
        r"bench data add (\S+tar\.gz|talent|tabred)",
        "an archive of gigabytes: tests/datasets/added/",
    ),
    (r"bench data remove weather", "added by a command above that cannot run"),
]
"""(pattern, reason)."""

CODES = {r"bench (retry|logs .*--failed)": (0, 5)}  # nothing failed: nothing to run or show
IRIS = "--suite smoke --dataset iris --folds 1 --trials 3"
RUNS: dict[str, str] = {
    "uci-small-quick": "--suite uci-small --dataset iris --dataset glass --model knn "
    "--model catboost --folds 2 --trials 2",
    "smoke-quick": f"{IRIS} --model knn",
    "rtdl-defaults": "--suite rtdl --dataset california-housing --model random-forest --folds 1 "
    "--trials 1",
    "npt-small-paper": "--suite npt-small --budget paper --dataset yacht --model catboost "
    "--folds 1 --trials 1",
    "uci-small-standard": "--suite uci-small --budget standard --dataset iris --dataset wine "
    "--model knn --folds 1 --trials 2",
    **dict.fromkeys(("first", "second", "monday", "tuesday"), f"{IRIS} --model knn"),
}
"""{run that commands read: the sweep that makes it}."""


@dataclass(frozen=True)
class Command:
    """A line of a shell block. words: as a shell splits them, without the comment."""

    document: str
    line: int
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """The words as one line."""
        return " ".join(self.words)

    def __str__(self) -> str:
        return f"{self.document}:{self.line}: {self.text}"


def commands() -> list[Command]:
    """Every command of every document, in their order."""
    found = []
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for block in FENCE.finditer(text):
            if block[2] not in ("sh", "console", "bash"):
                continue
            first = text[: block.start(3)].count("\n") + 1
            for i, line in enumerate(block[3].replace("\\\n", "  ").splitlines()):
                words = shlex.split(line.lstrip().removeprefix("$ "), comments=True)
                if words:
                    name = path.relative_to(ROOT).as_posix()
                    found.append(Command(name, first + i, tuple(words)))
    return found


def mentioned() -> list[tuple[str, list[str]]]:
    """(document, words after `bench`) of the commands that stand in running text."""
    found = []
    for path in DOCUMENTS:
        text = FENCE.sub("", path.read_text(encoding="utf-8"))
        for words in re.findall(r"`bench ([^-`][^`]*)`", text):
            found.append((path.relative_to(ROOT).as_posix(), shlex.split(words, comments=True)))
    return found


def reason(command: Command) -> str | None:
    """Why a command cannot run here; None for one that can."""
    return next((why for pattern, why in CANNOT if re.match(pattern, command.text)), None)


def appended(command: Command) -> list[str] | None:
    """The options that make a command small; None for one that no rule knows."""
    return next(
        (options.split() for pattern, options in SHRINK if re.match(pattern, command.text)), None
    )


def codes(command: Command) -> tuple[int, ...]:
    """The exit codes that are right."""
    return next((c for pattern, c in CODES.items() if re.match(pattern, command.text)), (0,))


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


WITH_COMMANDS = sorted({c.document for c in commands() if reason(c) is None})


@pytest.mark.nightly
@pytest.mark.parametrize("document", WITH_COMMANDS)
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
    files = [*blocks("README.md", "python"), *blocks(MODEL, "python")]
    for name, text in zip(("mine.py", "mymodel.py", "net.py"), files, strict=True):
        (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    "document",
    ["docs/quick-start.md", *(pytest.param(d, marks=pytest.mark.nightly) for d in LONGER)],
)
def test_the_python_of_a_document_runs(document: str, tmp_path: Path, mirror: str) -> None:
    for i, block in enumerate(blocks(document, "python")):
        (tmp_path / f"block_{i}.py").write_text(block, encoding="utf-8")
        done = call([sys.executable, f"block_{i}.py"], tmp_path, mirror)
        assert done.returncode == 0, f"{document}, block {i}: {done.stderr}"
