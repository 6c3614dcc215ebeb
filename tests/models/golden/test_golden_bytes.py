"""Bytes of predictions with pinned instruction sets, against those of the processor that made them.

New ones, from the root of a checkout:
python tests/helpers/processes/golden_bytes.py --portable > tests/models/golden/portable.json
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from repo import ROOT

PROGRAM = ROOT / "tests" / "helpers" / "processes" / "golden_bytes.py"
GOLDEN = json.loads((ROOT / "tests/models/golden/portable.json").read_text(encoding="utf-8"))


def computed(*models: str) -> dict:
    """What the program prints in a process of its own; skips a processor that cannot be pinned."""
    words = [sys.executable, "-W", "ignore", str(PROGRAM), "--portable", *models]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1800, env=os.environ)
    if "NotPortable" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def same_libraries(found: dict) -> None:
    """Skip where other versions are installed than those that made the bytes."""
    other = {
        name: version
        for name, version in found["libraries"].items()
        if GOLDEN["libraries"].get(name, version) != version
    }
    if other:
        pytest.skip(f"the bytes were made with other versions than {other}")


def judge(found: dict) -> None:
    """Fail where a model has other bytes on the kind of processor that made the golden ones; an
    expected failure that names the models on another kind."""
    same_libraries(found)
    differ = [
        f"{model} ({task})"
        for model, tasks in found["hashes"].items()
        for task, value in tasks.items()
        if GOLDEN["hashes"].get(model, {}).get(task, value) != value
    ]
    here, there = found["processor"], GOLDEN["processor"]
    if not differ:
        print(f"equal: {len(found['hashes'])} models on {here} as on {there}")
        return
    text = f"other bytes on {here} than on {there}: {', '.join(differ)}"
    if here != there:
        pytest.xfail(text)
    pytest.fail(text)


def test_pinned_libraries_give_the_golden_bytes_of_three_models() -> None:
    found = computed("knn", "linear", "lightgbm")
    assert found["portable"] and found["torch"] == "AVX2"
    judge(found)


@pytest.mark.nightly
def test_pinned_libraries_give_the_golden_bytes_of_every_model() -> None:
    found = computed()
    new = sorted({*found["hashes"]} - {*GOLDEN["hashes"]})
    assert not new, f"no golden bytes of {new}: see the head of this file"
    judge(found)
