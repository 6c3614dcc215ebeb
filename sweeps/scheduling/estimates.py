"""Running estimates of what trials use: seconds by model, memory by dataset and model."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from ..study import Needs, Study
from ..trial import DONE, Limits, Result, Trial

LIMIT_TIMES = 10.0  # the CPU seconds that a trial is expected to use, as its limit
SPARE = 1.25  # factor on the most memory that a trial of the same dataset and model has used


def seconds_of(result: Result) -> float:
    """Seconds that a trial spent on fitting and predicting, CPU seconds of one that failed; 0.0
    where it says nothing."""
    costs = result.costs
    if "fit_s" not in costs:
        return costs.get("cpu_s", 0.0)
    return costs["fit_s"] + costs.get("predict_s", 0.0)


class Estimates:
    """What finished trials used, as a forecast for those to come."""

    def __init__(self) -> None:
        # Of each model: seconds, and the sum of the weights of the studies that they belong to.
        self._seconds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        # Of each (dataset, model): the most CPU seconds of a finished trial, and what it needs.
        self._cpu_s: dict[tuple[str, str], float] = defaultdict(float)
        self._memory: dict[tuple[str, str], Needs] = {}

    def observe(self, trial: Trial, result: Result, study: Study) -> None:
        """Take in the costs of a trial that has ended."""
        seconds = seconds_of(result)
        if result.status == DONE:
            place, cpu_s = (trial.dataset, trial.model), result.costs.get("cpu_s", 0.0)
            self._cpu_s[place] = max(cpu_s / trial.n_fits, self._cpu_s[place])
        if seconds and study.weight:
            self._seconds[trial.model][0] += seconds
            self._seconds[trial.model][1] += study.weight * trial.n_fits
        ram, vram = (SPARE * result.costs.get(f"peak_{kind}_mb", 0.0) for kind in ("ram", "vram"))
        seen = self._memory.get((trial.dataset, trial.model), study.needs)
        # The declared need of a GPU is a guess: the first that is measured replaces it.
        guessed = seen.gpu_mb == study.needs.gpu_mb
        gpu_mb = vram if vram and guessed else max(vram, seen.gpu_mb)
        if study.needs.gpu_mb == 0.0:
            gpu_mb = 0.0
        self._memory[trial.dataset, trial.model] = replace(
            seen, memory_mb=max(ram, seen.memory_mb), gpu_mb=gpu_mb
        )

    def needs(self, study: Study, trial: Trial, *, own_gpu: bool = False) -> Needs:
        """What a trial is given: what its study declares, or more where a trial of the same dataset
        and model has used more. own_gpu: whether it gets a GPU to itself, if any."""
        seen = self._memory.get((trial.dataset, trial.model), study.needs)
        gpu_mb = float("inf") if own_gpu and study.needs.gpu_mb > 0 else seen.gpu_mb
        return replace(study.needs, memory_mb=seen.memory_mb, gpu_mb=gpu_mb)

    def limits(self, study: Study, trial: Trial) -> Limits:
        """The limits of a trial: those of its study, which are for one fit, times the fits of the
        trial. Where the study's time limit comes from an estimate, it is at least ten times what a
        finished fit of the same dataset and model has used."""
        timeout_s = study.limits.timeout_s
        if study.limit_follows:
            timeout_s = max(timeout_s, LIMIT_TIMES * self._cpu_s[trial.dataset, trial.model])
        return replace(study.limits, timeout_s=timeout_s * trial.n_fits)

    def remaining_s(self, study: Study) -> float:
        """Expected seconds of work that are left in a study."""
        total, weight = self._seconds[study.model]
        rate = total / weight if weight else 1.0
        return rate * study.weight * max(1, study.state.n_slots - study.state.n_done)
