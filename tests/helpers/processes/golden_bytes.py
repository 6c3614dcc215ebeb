"""Prints a hash of what each registered model predicts after a small fit, as JSON.

python golden_bytes.py [--portable] [MODEL...]

A process of its own, for instruction sets are chosen when the libraries are imported.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path


def main(arguments: list[str]) -> None:
    """Fit, predict, hash, print."""
    from tabsweep.common import portable

    pinned = "--portable" in arguments
    if pinned:
        portable.pin()
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cases"))
    import numpy as np
    import torch
    from small_tables import TINY, answers, table
    from tabsweep.benchmark.planning.environment import cpu_model, version
    from tabsweep.models.registry import MODELS, make_model

    wanted = [word for word in arguments if not word.startswith("-")] or list(MODELS)
    hashes: dict[str, dict[str, str]] = {}
    absent: dict[str, str] = {}
    libraries: set[str] = {"numpy"}
    for name in wanted:
        found = {}
        try:
            for task in MODELS[name].tasks:
                frame, y = table(task)
                model = make_model(name, task=task, seed=7, threads=1, **TINY[name])
                values = np.ascontiguousarray(answers(model.fit(frame, y), frame))
                found[task] = hashlib.sha256(values.tobytes()).hexdigest()[:16]
        except ImportError as error:  # an extra that is not installed
            absent[name] = str(error).splitlines()[0]
            continue
        hashes[name] = found
        libraries |= set(MODELS[name].libraries)
    document = {
        "processor": cpu_model(),
        "portable": pinned,
        "torch": torch.backends.cpu.get_cpu_capability(),
        "libraries": {name: version(name) for name in sorted(libraries)},
        "hashes": hashes,
        "absent": absent,
    }
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
