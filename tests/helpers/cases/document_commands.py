"""Every shell command of README.md and docs/, and how each is run at a small size.

A command is run with the options of the first rule in `SHRINK` that it matches, or is named in
`CANNOT` with the reason why it cannot run here. A new command that neither knows fails a test.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from repo import ROOT

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", flags=re.DOTALL | re.MULTILINE)

ONE = "--folds 1 --trials 1 --workers 0 --tracking-uri none"

SHRINK: list[tuple[str, str]] = [
    (r"bench sweep .*--dry-run", ""),
    (r"bench sweep .*--csv ", f"--model knn --model linear {ONE}"),
    (r"bench sweep .*--name more-models", f"--dataset iris {ONE}"),
    (r"bench sweep .*--suite uci-small", f"--model knn --dataset iris {ONE}"),
    (r"bench sweep .*--suite smoke", f"--dataset iris {ONE}"),
    (r"bench sweep .*--suite mine\.toml", ONE),
    (r"bench sweep .*--suite (rtdl|npt-uci|cheatt) ", f"--model random-forest {ONE}"),
    (r"bench (resume|retry) ", "--workers 0 --tracking-uri none"),
    (r"bench reproduce .*--(from|list|no-run)\b", ""),
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
    (r"bench (data (inspect|add|list|remove|passport)|beside|clean|export|publish) ?", ""),
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


def python_blocks(document: str) -> list[str]:
    """The Python examples of a document."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [block[3] for block in FENCE.finditer(text) if block[2] == "python"]
