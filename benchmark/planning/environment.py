"""The environment of a run: versions, hardware and the state of the code, as plain data."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from ...common import processor
from ...common.portable import LEVEL, pinned

LIBRARIES = (
    "tabsweep",
    "numpy",
    "pandas",
    "scipy",
    "scikit-learn",
    "torch",
    "xgboost",
    "catboost",
    "lightgbm",
    "optuna",
    "hyperopt",
    "ray",
    "mlflow",
)
ROOT = Path(__file__).resolve().parents[2]
ROOMS = "benchmark", "common", "datasets", "models", "reports", "sweeps"


@cache  # reading what is known of a distribution takes a millisecond or two
def version(name: str) -> str:
    """The installed version of a distribution, "absent" where there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"


def cpu_model() -> str:
    """The kind of processor: its name with family and model, such as "AMD EPYC (family 26, model
    2)". Virtual machines give one name to several generations, for which the libraries choose other
    kernels. Without /proc/cpuinfo, what Python knows of it."""
    facts = processor.described()
    name = facts.get("model name", "")
    if name and {"cpu family", "model"} <= set(facts):
        return f"{name} (family {facts['cpu family']}, model {facts['model']})"
    return name or platform.processor() or platform.machine()


def memory_mb() -> float:
    """The memory of this machine in MB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20


def rooms_sha256(*rooms: str) -> str:
    """A hash of every module in rooms of the package as installed here; an edited checkout
    differs."""
    digest = hashlib.sha256()
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            if "perf" not in path.relative_to(ROOT).parts:  # run from a checkout, never installed
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def code_version() -> str:
    """The commit of a checkout ("-dirty" where files differ from it), that of an image of the
    Dockerfile, or the version installed."""
    if (ROOT / ".git").exists():  # not the one around an environment that tabsweep is installed in
        try:
            run = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
            described = subprocess.run(
                run, capture_output=True, encoding="utf-8", errors="replace", timeout=10, check=True
            )
            return described.stdout.strip()
        except (OSError, subprocess.SubprocessError):
            pass
    return os.environ.get("TABSWEEP_COMMIT") or version("tabsweep")


def lock_sha256() -> str:
    """The SHA-256 of requirements.lock beside the package, "" without one."""
    lock = ROOT / "requirements.lock"
    return hashlib.sha256(lock.read_bytes()).hexdigest() if lock.exists() else ""


def capture() -> dict[str, Any]:
    """{python, libraries, cpu, cores, memory_mb, system, code, lock}: what a report should say;
    "instructions", too, where they are pinned."""
    return {
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
        "cpu": cpu_model(),
        "cores": os.cpu_count() or 1,
        "memory_mb": round(memory_mb()),
        "system": f"{platform.system()} {platform.release()}",
        "code": code_version(),
        "lock": lock_sha256(),
        **({"instructions": f"pinned to {LEVEL}"} if pinned() else {}),
    }


def differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Sentences on the differences of two environments in code, lock file, processor and library
    versions; a library that only one of them has is passed over."""
    texts = [
        f"{part} was {short(was[part])}, is {short(now[part])}"
        for part in ("code", "lock", "cpu")
        if was[part] != now[part]
    ]
    there = sorted(set(was["libraries"]) & set(now["libraries"]))
    pairs = ((name, was["libraries"][name], now["libraries"][name]) for name in there)
    return texts + [f"{name} was {old}, is {new}" for name, old, new in pairs if old != new]


def short(text: str) -> str:
    """A text, or the beginning of a long hash."""
    return text if len(text) < 50 else text[:12]
