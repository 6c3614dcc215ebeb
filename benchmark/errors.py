"""Exit codes, error ids, exceptions and light checks of the command line."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from ..common.errors import ENVIRONMENT, USAGE, Error
from ..common.text import one_line
from ..sweeps.store.run_folder import is_run, runs_below

# Exit codes. FAILED: some trials failed, or an unexpected error; NOTHING: there was nothing to do;
# BEHIND: the sweep is done, and MLflow lacks some of it.
OK, FAILED, REGRESSION, NOTHING, BEHIND = 0, 1, 4, 5, 6
INTERRUPTED = 130

NO_RAY = "none"  # as an address: trials run in processes of this machine, without Ray

OS_ERROR = "BENCH-E016", ENVIRONMENT

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class SweepError(Error):
    """A sweep that cannot start as asked; nothing was changed."""

    id = "BENCH-E005"


class NoRun(Error):
    """A folder that is not the folder of a run."""

    id = "BENCH-E020"


class FitError(Error):
    """A model cannot be fitted or applied with these arguments; the message names a way."""

    id = "BENCH-E009"


class UnknownExperiment(Error):
    """A name that no experiment has."""

    id = "BENCH-E022"


class NoGpu(Error):
    """--device cuda where torch sees no GPU, or no machine of the cluster has one."""

    id = "BENCH-E023"
    exit_code = ENVIRONMENT


class NotInstalled(Error):
    """A library of the extra `sweep` is missing."""

    id = "BENCH-E026"
    exit_code = ENVIRONMENT

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(
            f"not installed: {', '.join(names)}. Sweeps and their records need the extra `sweep`: "
            "pip install 'tabsweep[sweep]', or in a checkout pip install '.[sweep]'"
        )


SWEEP_LIBRARIES = ("hyperopt", "mlflow", "optuna", "ray", "sqlalchemy")  # of the extra `sweep`


def check_sweep_libraries() -> None:
    """Raises NotInstalled where a library of the extra `sweep` is missing."""
    if missing := [name for name in SWEEP_LIBRARIES if find_spec(name) is None]:
        raise NotInstalled(missing)


def command_on(run: Path, command: str, *words: str) -> str:
    """A command of `bench` on a run, to be copied from a message into a shell.

    >>> command_on(Path("my runs/a"), "resume", "--address", "none")
    "bench resume 'my runs/a' --address none"
    >>> command_on(Path("runs/a"), "track sync")
    'bench track sync runs/a'
    """
    return shlex.join(["bench", *command.split(), str(run), *words])


def resume_with(run: Path, *words: str) -> str:
    """What to do about a sweep that ended early.

    >>> resume_with(Path("runs/a"))
    'finished trials are kept; resume with: bench resume runs/a'
    """
    return f"finished trials are kept; resume with: {command_on(run, 'resume', *words)}"


def way_out(run: Path | None) -> str:
    """What to do where Ray does not start, also before there is a run to resume."""
    if run is None:
        return "Try `bench doctor`, or the same command with --address none, which needs no Ray"
    without = command_on(run, "resume", "--address", "none")
    return f"Try `bench doctor`, or run without Ray: {without}"


def check_name(name: str, option: str = "--name") -> str:
    """The name of a run, which becomes a folder: no path, no hidden file. Raises SweepError."""
    if not NAME.fullmatch(name):
        raise SweepError(
            f"{option} {name[:120]!r} must be 1 to 100 letters, digits, '.', '_' or '-', "
            "beginning with a letter or digit"
        )
    return name


def file_to_replace(out: Path) -> Path:
    """The file that `out` names, or that a link there leads to. Raises FitError where it cannot be
    replaced by another: a folder, a device such as /dev/stdout, no folder around it."""
    if out.exists() and not out.is_file():
        what = "a folder" if out.is_dir() else "a device or a pipe"
        raise FitError(f"--out {one_line(out)} is {what}: name a file")
    path = Path(os.path.realpath(out)) if out.is_symlink() else out
    if not path.parent.is_dir():
        raise FitError(f"--out {one_line(out)}: there is no folder {one_line(path.parent)}")
    return path


def check_address_form(address: str | None) -> None:
    """Refuse an address that is not "none", "local", "auto" or HOST:PORT, without connecting to it.

    Ray's client (ray://) would keep the driver outside the cluster: every break of the connection
    would part the ledger from the workers. Raises SweepError.
    """
    named = "--address"
    if address == "auto" and "://" in os.environ.get("RAY_ADDRESS", ""):
        named, address = "RAY_ADDRESS", os.environ["RAY_ADDRESS"]
    if address in (None, NO_RAY, "local", "auto"):
        return
    host, _, port = address.rpartition(":")
    if "://" in address:
        raise SweepError(
            f"{named} {address[:120]!r}: a sweep runs on a machine of the cluster, where its "
            "address is auto or HOST:PORT. From anywhere else: "
            "bench submit --address http://HEAD:8265"
        )
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise SweepError(f"{named} {address[:120]!r} must be none, local, auto, or HOST:PORT")


def check_gpu(device: str, models: Iterable[str] = ()) -> None:
    """Raises NoGpu, which names the models, where `device` is a GPU and torch sees none."""
    if device == "cpu":
        return
    import torch

    if not torch.cuda.is_available():
        wanting = f" for {', '.join(models)}" if models else ""
        raise NoGpu(
            f"--device {device}: torch sees no GPU on this machine{wanting}; use --device cpu"
        )


def check_run(folder: Path) -> None:
    """Raises NoRun, with the names of runs nearby, where `folder` is not the folder of a run."""
    if is_run(folder):
        return
    near = runs_below(folder) or runs_below(folder.parent)
    here = f"runs here: {', '.join(map(str, near[:8]))}"
    hint = here if near else "give the one that a sweep named, such as runs/uci-small-quick"
    raise NoRun(f"{folder} is not the folder of a run; {hint}")


def lookup(error: BaseException) -> tuple[str, int] | None:
    """(error id, exit code) of an exception; None if unexpected."""
    out = ("space left", "can't start new thread")
    if any(words in str(error) for words in out) or isinstance(error, MemoryError):
        return OS_ERROR
    if isinstance(error, Error):
        return error.id, error.exit_code
    if isinstance(error, OSError):
        return OS_ERROR
    return (Error.id, USAGE) if isinstance(error, ValueError) else None
