"""Running a search with Tuners of Ray Tune: points, scheduler, resources, and no output."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import ray
from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler, PopulationBasedTraining

from ..study import Study
from ..trial import derive_seed, digest
from ..workers.actors import Sender
from ..workers.placement import Placement, Shape
from ..workers.pool import ClusterLost
from ..workers.ray_calls import RayCalls
from ..workers.ray_cluster import nodes, on_node
from ..workers.ray_thread import ANSWER_S, RAY
from .async_search import Asynchronous
from .callbacks import LedgerCallback, NotPickled
from .pbt import perturb
from .trainable import AT, LOSS, NO_LOSS, Shared, StepTrial
from .trial_state import Track

MAX_EMPTY_TUNERS = 3  # in a row that end without one result
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


def name_of(trial: Any) -> str:
    """Tune's name of a trial: the index of the configuration that it began with."""
    return str(trial.config["point"]["index"])


class Explore(NotPickled):
    """PBT's perturbation of a configuration that it copies, as Tune calls it."""

    def __init__(self, study: Study, seed: int) -> None:
        self._study, self._rng = study, np.random.default_rng(seed)

    def __call__(self, config: dict[str, Any]) -> dict[str, Any]:
        point, study = config["point"], self._study
        space = study.sampler.space
        perturbed = perturb(space, point["config"], self._rng, unchanged=study.length_of)
        return {**config, "point": {**point, "config": perturbed}}


def shape_of(study: Study, slots: int | None) -> Shape:
    """What a trial holds of its machine, by the rules of the engine; a GPU is not shared."""
    shape = Placement(nodes(), slots).shape(study.needs)
    if shape is None:
        raise ClusterLost(f"{study.name} needs a GPU, and no machine of the cluster has one")
    return shape


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
    os.environ.update(SETTINGS)
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def scheduler_of(search: Asynchronous, study: Study, tracks: Mapping[int, Track]) -> Any:
    """Tune's scheduler for ASHA or PBT; ASHA is told the losses of its rungs in earlier Tuners."""
    assert study.halving is not None
    common: dict[str, Any] = {"time_attr": AT, "metric": LOSS, "mode": "min"}
    if search.how == "pbt":
        seed = derive_seed(search.run_id, study.name, time.time_ns())
        return PopulationBasedTraining(
            **common,
            perturbation_interval=1,
            custom_explore_fn=Explore(study, seed),
            log_config=False,
        )
    eta = study.halving.eta
    scheduler = AsyncHyperBandScheduler(
        **common, max_t=eta ** (study.halving.rungs - 1), reduction_factor=eta
    )
    # The losses of earlier Tuners; the last boundary of a track is reported once more.
    none: Any = None
    seen = [(ended.config, ended.curve) for ended in search.ended[study.name].values()]
    seen += [(track.config, track.curve[:-1]) for track in tracks.values()]
    for number, (config, curve) in enumerate(seen):
        trial: Any = SimpleNamespace(trial_id=f"before-{number}")
        scheduler.on_trial_add(none, trial)
        for step, loss in curve:
            rung = study.halving.rung_at(study.length_of(config), step)
            if rung is not None:
                at = {AT: eta**rung, LOSS: NO_LOSS if loss is None else loss}
                scheduler.on_trial_result(none, trial, at)
    return scheduler


def fit(search: Asynchronous, study: Study, left: list[int], sender: Sender) -> None:
    """Run one Tuner for the configurations that are left, in a folder of its own.

    Raises ClusterLost where Tune itself fails, and what the ledger raised while a row was written.
    """
    assert study.halving is not None
    name = digest(study.name)
    shutil.rmtree(search.folder / name, ignore_errors=True)
    shape = shape_of(study, search.slots)
    if search.how == "pbt":
        check_shared(search.folder)
    search.trouble = ""
    session = f"tune-{os.getpid()}-{time.time_ns()}"
    tracks = {index: search.track(study, index) for index in left}
    elapsed = {index: track.elapsed_s for index, track in tracks.items()}
    callback = LedgerCallback(search, study, session, elapsed)
    shared = Shared(
        run_trial=search.run_trial,
        data=sender.data(study.data_key),
        paths=list(search.paths),
        common=search.common,
        expected=dict(search.common()) if search.common else {},
        leases={index: search.lease(study, index) for index in left},
        limits=study.limits,
        loss_of=study.loss_of,
        keeper=sender.keeper(),
        session=session,
        halving=study.halving,
        population=search.how == "pbt",
        gpu=shape.gpus > 0,
    )
    resources = {"cpu": shape.threads, "gpu": shape.gpus, "memory": int(shape.memory_mb * 2**20)}
    concurrent = None
    if search.slots is not None and search.how == "asha":
        concurrent = max(1, search.slots // shape.threads)
    points = [{"index": index, "config": track.config} for index, track in tracks.items()]
    with quiet():
        trainable = tune.with_parameters(StepTrial, shared=shared)
        tuner = tune.Tuner(
            tune.with_resources(trainable, resources),
            param_space={"point": tune.grid_search(points)},
            tune_config=tune.TuneConfig(
                scheduler=scheduler_of(search, study, tracks),
                reuse_actors=True,
                max_concurrent_trials=concurrent,
                trial_name_creator=name_of,
                trial_dirname_creator=name_of,
            ),
            run_config=tune.RunConfig(
                name=name,
                storage_path=str(search.folder.resolve()),
                verbose=0,
                callbacks=[callback],
                stop=callback,
                failure_config=tune.FailureConfig(max_failures=1),  # see `LedgerCallback`
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
    shutil.rmtree(search.folder / name, ignore_errors=True)


def run(search: Asynchronous) -> None:
    """Run every search to its end, one Tuner after another; Ray must be up. Ends early, with
    `interrupted` in the tally, when asked to stop; what was running then goes on from its last
    boundary another time."""
    search.replay()
    sender = Sender(RayCalls(), search.load, search.checkpoints.path)
    try:
        for study in search.studies.values():
            _run_study(search, study, sender)
    finally:
        sender.close()
    search.tally.interrupted = not search.finished


def _run_study(search: Asynchronous, study: Study, sender: Sender) -> None:
    empty = 0
    while (left := search.left(study)) and not (search.stop.soon or search.stop.now):
        fit(search, study, left, sender)
        now = search.left(study)
        empty = empty + 1 if len(now) == len(left) else 0
        if empty == MAX_EMPTY_TUNERS:
            raise ClusterLost(f"no trial of {study.name} comes to an end: {search.trouble}")
        if not now:
            search.end(study)
