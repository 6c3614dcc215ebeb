"""Shell completion in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tabsweep.benchmark import completion
from tabsweep.benchmark.planning import suite as suites
from tabsweep.models import registry

SCRIPT = """
eval "$(_BENCH_COMPLETE=bash_source bench)"
for typed in "$@"; do
  COMP_WORDS=($typed); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
  _bench_completion bench
  echo "${COMPREPLY[*]}"
done
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_verbs_suites_models_and_datasets():
    completed = {
        "bench sw": "sweep",
        "bench sweep --suite npt-small": "npt-small npt-small-transductive",
        "bench sweep --model catb": "catboost",
        "bench data passport breast-cancer-": "breast-cancer-wdbc",
    }
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    words = ["bash", "-c", SCRIPT, "bash", *completed]
    found = subprocess.run(words, env=env, capture_output=True, text=True)
    assert found.stdout.splitlines() == [*completed.values()], found


def test_the_words_are_those_of_the_registry_and_the_suites():
    assert sorted(completion.models()) == sorted(registry.MODELS)
    assert sorted(completion.suites()) == sorted(suites.files())
