"""What trials are computed with: fingerprints of source and versions of libraries."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable

from ...models import registry
from ...sweeps.fingerprint import closure, file_of, fingerprint, source_hash, source_of, versions

PACKAGE = __name__.partition(".")[0]
CELL = f"{PACKAGE}.benchmark.cell"
BAG = f"{PACKAGE}.benchmark.bag"
STATES = f"{PACKAGE}.models.persistence.fit_state"


def source_print(target: str, *, stepwise: bool = False) -> dict[str, object]:
    """The fingerprint {source, libraries} of a class in a trial. Where the fit goes through saved
    states, the code that writes them counts too."""
    return dict(fingerprint(target, *_in_every_trial(stepwise, bag=False)))


def source_alone(target: str, *, stepwise: bool = False, bag: bool = False) -> str:
    """The "source" of `source_print`, in a fraction of its time. bag: with that of bags."""
    return source_hash(target, *_in_every_trial(stepwise, bag))


def _in_every_trial(stepwise: bool, bag: bool) -> list[str]:
    return [CELL, *([STATES] if stepwise else []), *([BAG] if bag else [])]


def own_code(target: str) -> dict[str, str]:
    """{"file", "source"} of a class that is not tabsweep's: the file of its code, and a hash.

    The hash covers its module and whatever that imports from its own distribution, but no code of
    tabsweep, which an upgrade changes. Both are "" if the file does not exist. Nothing is imported.
    Raises SyntaxError or ValueError if the file is not Python.
    """
    file = file_of(target)
    if file is None:
        return {"file": "", "source": ""}
    modules, _ = closure([target.partition(":")[0]])
    sha = hashlib.sha256(target.encode())
    for name in sorted(name for name in modules if name.partition(".")[0] != PACKAGE):
        sha.update(f"\n{name}\n{source_of(name, modules[name]).sha256}".encode())
    return {"file": str(file), "source": sha.hexdigest()}


def from_outside(models: Iterable[str]) -> dict[str, str]:
    """{"package.module:Class": registered name} of those of `models` that are not tabsweep's. The
    name is "" for a class that was given by its place. Unknown names are left out. Nothing is
    imported."""
    asked = set(models) - registry.MODELS.keys()
    installed = registry.entry_points() if any(":" not in model for model in asked) else {}
    by_name = {installed[model]: model for model in sorted(asked & installed.keys())}
    return by_name | {model: "" for model in sorted(asked) if ":" in model}


def computes_with(targets: Iterable[str], libraries: Iterable[str]) -> dict[str, str]:
    """{what: version or hash} of Python, the libraries, and every model's source, here.

    A trial's id says what it was computed with; a machine that has something else there must not
    compute it. `targets` are "package.module:Class".
    """
    known = {"python": ".".join(map(str, sys.version_info[:2]))}
    known |= {str(name): str(version) for name, version in versions(tuple(libraries)).items()}
    for target in targets:
        try:
            known[f"the code of {target}"] = source_alone(target)[:12]
        except (ImportError, ValueError, OSError) as error:
            known[f"the code of {target}"] = f"absent ({type(error).__name__})"
    return known
