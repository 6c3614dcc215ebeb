"""Ray is started before the driver's libraries for new runs of suites, and for nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tabsweep.benchmark.errors import SweepError
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.options import Options
from tabsweep.benchmark.running.cpus import available_cpus
from tabsweep.benchmark.running.early_start import early_ray


def asked(tmp_path: Path, **changes: Any) -> Options:
    """The options of `bench sweep`; without workers no Ray is started."""
    return Options(**{"workers": 0, "runs": tmp_path, **changes})


def test_a_new_run_of_a_suite_starts_ray_early(tmp_path):
    smoke = suites.load("smoke")
    with early_ray(smoke, asked(tmp_path)) as ray:
        assert ray is not None and ray.n_workers == 0
    with early_ray(smoke, asked(tmp_path, name="mine", models=("knn",))) as ray:
        assert ray is not None
    assert not list(tmp_path.iterdir())


def test_what_may_need_no_ray_or_be_refused_waits(tmp_path):
    smoke = suites.load("smoke")
    budget = smoke.budget(None)[0]
    (tmp_path / f"smoke-{budget}").mkdir()
    (tmp_path / "there").mkdir()
    for chosen, changes in (
        (smoke, {}),  # the run exists, under the name that it gets by itself
        (smoke, {"name": "there"}),
        (smoke, {"name": "new", "dry_run": True}),
        (smoke, {"name": "new", "address": "host:6379"}),
        (smoke, {"name": "new", "models": ("knn", "knm")}),
        (smoke, {"name": "new", "models": ("mine:Model",)}),
        (smoke, {"name": "new", "space": "dfault"}),  # which no model may have
        (smoke, {"name": "new", "sampler": "grid"}),
        (None, {"name": "new"}),  # a CSV
    ):
        with early_ray(chosen, asked(tmp_path, **changes)) as ray:
            assert ray is None, changes


def test_more_workers_than_a_machine_carries_are_refused_before_anything_starts(tmp_path):
    with pytest.raises(SweepError, match="CPU"):
        with early_ray(
            suites.load("smoke"), asked(tmp_path, workers=16 + 4 * available_cpus() + 1)
        ):
            raise AssertionError("nothing starts")
