"""Lock files, and an interpreter that has the libraries which a lock file pins."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from ...common.errors import ENVIRONMENT, Error
from ...common.files import write_atomically

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;#]+)(\s*;.*)?$")


class NoEnvironment(Error, OSError):
    """The libraries of a lock file could not be installed."""

    id = "BENCH-E016"
    exit_code = ENVIRONMENT


def pins(lock: str) -> dict[str, tuple[str, str]]:
    """{library: (version, the line that pins it)} of the text of a lock file.

    >>> pins("# exact\\nFlask_WTF==1.3.0\\n")
    {'flask-wtf': ('1.3.0', 'Flask_WTF==1.3.0')}
    """
    found = {}
    for line in lock.splitlines():
        if match := _PIN.match(line.strip()):
            found[_plain(match[1])] = (match[2], line.strip())
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> dict[str, str]:
    """{library: version} of this interpreter's environment."""
    found: dict[str, str] = {}
    for one in metadata.distributions():
        name = one.metadata["Name"]
        if name:  # the first on the path is the one that is imported
            found.setdefault(_plain(name), one.version)
    return found


def differing(lock: str, here: Mapping[str, str], known: str) -> dict[str, str]:
    """{library: its line in the lock} of libraries whose installed version is not the pinned one.

    A local build (2.13.0+cpu) satisfies the pin of its release. A missing library counts only if
    the lock of the running checkout (`known`) does not name it: this environment leaves out a
    library of its own lock on purpose, such as a GPU's.
    """
    left_out = set(pins(known)) - set(here)
    found = {}
    for name, (version, line) in pins(lock).items():
        if name in left_out or name == "tabsweep":
            continue
        if here.get(name, "").partition("+")[0] != version.partition("+")[0]:
            found[name] = line
    return found


def interpreter(lock: str, known: str, store: Path) -> tuple[Path, dict[str, str]]:
    """(an interpreter with the libraries that a lock pins, {library: line} of what it adds).

    The running interpreter where it has them already. Else an environment in the store, made once
    for each difference: the pinned versions in front of everything that is installed here. Raises
    NoEnvironment where they cannot be installed.
    """
    here = installed()
    wanted = differing(lock, here, known)
    if not wanted:
        return Path(sys.executable), {}
    what = json.dumps([sorted(wanted.values()), sys.version, sys.prefix, sorted(here.items())])
    folder = store / "environments" / hashlib.sha256(what.encode()).hexdigest()[:16]
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _make(folder, sorted(wanted.values()))
    return python, wanted


def _make(folder: Path, lines: list[str]) -> None:
    if importlib.util.find_spec("pip") is None:
        raise NoEnvironment(
            f"{', '.join(lines)}: not installed here, and {sys.executable} has no pip to install "
            "them beside; install pip, or the pinned versions"
        )
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    target = folder / "lib" / version / "site-packages"
    shared = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    # addsitedir also reads the .pth files there: an editable installation stays importable.
    text = "import site; " + "; ".join(f"site.addsitedir({p!r})" for p in dict.fromkeys(shared))
    write_atomically(target / "shared.pth", text.encode() + b"\n")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--no-input", "--no-deps", "--target", str(target), *lines])
    write_atomically(folder / "complete", "\n".join(lines).encode())


def _run(words: list[str]) -> None:
    run = subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace")
    if run.returncode:
        said = [line for line in run.stderr.splitlines() if line.strip()] or ["no message"]
        raise NoEnvironment(f"{' '.join(words[1:4])} failed: {said[-1].strip()}")
