"""Making and running a Tuner of Ray Tune: points, scheduler, resources, and no output."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import random
import re
import shutil
import sys
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ray
from ray import tune
from ray.tune.schedulers import (
    AsyncHyperBandScheduler,
    PopulationBasedTraining,
)

from ..store.checkpoints import CheckpointFolder
from ..study import Study
from ..trial import MAX_ATTEMPTS, derive_seed
from ..workers.pool import ClusterLost
from ..workers.ray_actors import start_keeper
from ..workers.ray_calls import RayCalls
from ..workers.ray_cluster import nodes, on_node
from ..workers.ray_thread import ANSWER_S, RAY
from .callbacks import LedgerCallback, NotPickled, Stopper
from .pbt import perturb
from .search_records import SearchRecords, Settings
from .trainable import AT, LOSS, NO_LOSS, Shared, StepTrial
from .trial_state import Track

SEES_S = 60.0  # for another machine to start a process and to answer
# No printing, no log files, no snapshots of the Tuner, and no signal handlers of Tune.
SETTINGS = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_THRESHOLD_S": "60",
}


@contextlib.contextmanager
def keeping(checkpoints: CheckpointFolder) -> Iterator[Any]:
    """An actor that keeps checkpoints, on the driver's own machine."""
    calls = RayCalls()
    keeper = start_keeper(calls, checkpoints.path, calls.here())
    try:
        yield keeper
    finally:
        with contextlib.suppress(ClusterLost):
            calls.kill(keeper)


def name_of(trial: Any) -> str:
    """Tune's name of a trial: the index of the configuration that it began with."""
    return str(trial.config["point"]["index"])


class Explore(NotPickled):
    """PBT's perturbation of a configuration that it copies, as Tune calls it."""

    def __init__(self, study: Study, seed: int) -> None:
        self._study, self._rng = study, random.Random(seed)

    def __call__(self, config: dict[str, Any]) -> dict[str, Any]:
        point = config["point"]
        space = self._study.sampler.space  # type: ignore[attr-defined]
        perturbed = perturb(space, point["config"], self._rng, unchanged=self._study.length_of)
        return {
            **config,
            "point": {**point, "config": perturbed},
        }


def resources_of(study: Study, slots: int | None) -> dict[str, float]:
    """The resources of a trial, no more than the largest machine has. GPUs are not shared."""
    needs, there = study.needs, list(nodes().values())
    resources: dict[str, float] = {}
    if needs.gpu_mb:
        there = [node for node in there if node.gpus]
        resources["GPU"] = 1
    if not there:
        raise ClusterLost(f"{study.name} needs a GPU, and no machine of the cluster has one")
    most = max(node.cpus for node in there)
    resources["CPU"] = max(1, min(needs.threads, most if slots is None else min(most, slots)))
    if needs.memory_mb:
        resources["memory"] = int(2**20 * min(needs.memory_mb, max(n.memory_mb for n in there)))
    return resources


def sees(node_id: str, path: Path) -> bool:
    """Whether a machine of the cluster sees a file. Raises ClusterLost where it gives no answer."""

    def asked() -> bool:
        remote: Any = ray.remote(num_cpus=0)(os.path.exists)
        seen = remote.options(scheduling_strategy=on_node(node_id)).remote(str(path))
        return ray.get(seen, timeout=SEES_S)

    return RAY.ask(asked, SEES_S + ANSWER_S)


def check_shared(folder: Path) -> None:
    """PBT hands states from trial to trial through the run's folder. Raises ClusterLost where a
    machine of the cluster does not see it."""
    there = nodes()
    if len(there) < 2:
        return
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder / f".{uuid.uuid4().hex}"
    marker.touch()
    try:
        for node in there.values():
            if not sees(node.id, marker.resolve()):
                raise ClusterLost(
                    f"{node.host} does not see {folder}: PBT on several machines needs a --runs "
                    "folder that all of them share"
                )
    finally:
        marker.unlink()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Tune's settings, and nothing of Tune on standard output."""
    before = {name: os.environ.get(name) for name in SETTINGS}
    os.environ.update(SETTINGS)
    logger = logging.getLogger("ray.tune")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def fit(
    records: SearchRecords, settings: Settings, study: Study, left: list[int], keeper: Any
) -> None:
    """Run one Tuner for the configurations that are left, in a folder of its own.

    `keeper` is the actor of `keeping`. Raises ClusterLost where Tune itself fails, and what the
    ledger raised while a row was written.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", study.name.lower()).strip("-")[:60]
    name = f"{slug}-{hashlib.sha256(study.name.encode()).hexdigest()[:8]}"
    shutil.rmtree(records.folder / name, ignore_errors=True)
    resources = resources_of(study, settings.slots)
    if records.how == "pbt":
        check_shared(records.folder)
    if study.data_key and study.data_key not in settings.data:
        settings.data[study.data_key] = RayCalls().put(settings.load(study.data_key))
    tracks = {index: records.track(study, index) for index in left}
    callback = LedgerCallback(records, settings.stop, study, f"tune-{os.getpid()}-{time.time_ns()}")
    shared = Shared(
        run_trial=settings.run_trial,
        data=[settings.data[study.data_key]] if study.data_key else [],
        paths=settings.paths,
        common=settings.common,
        expected=dict(settings.common()) if settings.common else {},
        template=replace(records.lease(study, left[0]), config={}),
        limits=study.limits,
        loss_of=study.loss_of,
        keeper=keeper,
        keys={index: records.lease(study, index).chain for index in left},
        session=callback.session,
        eta=study.halving.eta if study.halving else 2,
        population=records.how == "pbt",
        gpu="GPU" in resources,
    )
    concurrent = None
    if settings.slots is not None and records.how == "asha":
        concurrent = max(1, settings.slots // int(resources["CPU"]))
    points = [point_of(study, track) for track in tracks.values()]
    with quiet():
        trainable = tune.with_parameters(StepTrial, shared=shared)
        tuner = tune.Tuner(
            tune.with_resources(trainable, tune.PlacementGroupFactory([resources])),
            param_space={"point": tune.grid_search(points)},
            tune_config=tune.TuneConfig(
                scheduler=scheduler_of(records, study, tracks),
                reuse_actors=True,
                max_concurrent_trials=concurrent,
                trial_name_creator=name_of,
                trial_dirname_creator=name_of,
            ),
            run_config=tune.RunConfig(
                name=name,
                storage_path=str(records.folder.resolve()),
                verbose=0,
                callbacks=[callback],
                stop=Stopper(callback),
                failure_config=tune.FailureConfig(max_failures=MAX_ATTEMPTS["killed"] - 1),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            ),
        )
        try:
            RAY.look_on(tuner.fit, nodes)
        except Exception as error:  # Tune makes text of what was raised
            if callback.error is not None:
                raise callback.error from None
            if RAY.lost:
                raise
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise ClusterLost(f"Ray Tune ended: {lines[-1][:300]}") from error
    shutil.rmtree(records.folder / name, ignore_errors=True)


def scheduler_of(records: SearchRecords, study: Study, tracks: Mapping[int, Track]) -> Any:
    """Tune's scheduler for ASHA or PBT; ASHA is told the losses of its rungs in earlier Tuners."""
    assert study.halving is not None
    if records.how == "pbt":
        return PopulationBasedTraining(
            time_attr=AT,
            metric=LOSS,
            mode="min",
            perturbation_interval=1,
            custom_explore_fn=Explore(
                study, derive_seed(records.run_id, study.name, time.time_ns())
            ),
            log_config=False,
        )
    eta = study.halving.eta
    scheduler = AsyncHyperBandScheduler(
        time_attr=AT,
        metric=LOSS,
        mode="min",
        max_t=eta ** (study.halving.rungs - 1),
        reduction_factor=eta,
    )
    # The losses of earlier Tuners; the last boundary of a track is reported once more.
    none: Any = None
    seen = [(ended.config, ended.curve) for ended in records.ended[study.name].values()]
    seen += [(track.config, track.curve[:-1]) for track in tracks.values()]
    for number, (config, curve) in enumerate(seen):
        stops = [rung["stop"] for rung in study.fidelities(config)]
        trial: Any = SimpleNamespace(trial_id=f"before-{number}")
        scheduler.on_trial_add(none, trial)
        for step, loss in curve:
            if step in stops:
                at = {AT: eta ** stops.index(step), LOSS: NO_LOSS if loss is None else loss}
                scheduler.on_trial_result(none, trial, at)
    return scheduler


def point_of(study: Study, track: Track) -> dict[str, Any]:
    """The part of Tune's configuration that a trial reads (see `StepTrial`)."""
    return {
        "index": track.index,
        "config": track.config,
        "length": track.length,
        "every": track.every,
        "rungs": [rung["stop"] for rung in study.fidelities(track.config)],
    }
