"""Retry rules: which ends of a job are final, and which give the trial another attempt."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..trial import DOUBTFUL, MAX_ATTEMPTS, Limits, Result, Trial, failure
from ..workers.pool import JobOutcome


@dataclass(frozen=True)
class Verdict:
    """What follows from the outcome of a job.

    result: the trial's final result; None: it runs again.
    death: the cause of a death that counts as an attempt; None where none counts (a lost node).
    output: what the trial printed before that death.
    """

    result: Result | None
    death: str | None = None
    output: str = ""


def said_of(death: str, times: int, limits: Limits, reason: str = "") -> str:
    """The message of a trial under which `times` workers died. reason: whose memory ran out."""
    limit = f"{limits.memory_mb:g} MB"
    if death != "oom":
        return f"the worker process died {times} times under this trial"
    if reason:
        return f"{reason}, {times} times; the trial's own limit is {limit}"
    return f"the worker used more than {limit}, {times} times"


class Attempts:
    """Deaths of workers by trial and cause, and what is allowed after them (`MAX_ATTEMPTS`)."""

    def __init__(self, deaths: dict[str, Counter[str]]) -> None:
        self._deaths = deaths
        # Trials that ran out of a shared GPU's memory, in an earlier driver, too.
        self._alone = {trial for trial, causes in deaths.items() if causes["gpu_oom"]}

    def number(self, trial: Trial) -> int:
        """The number of the trial's next attempt, from 1."""
        return self._deaths[trial.id].total() + 1

    def next_may_be_last(self, trial: Trial) -> bool:
        """Whether there is a cause of which one more death is final."""
        deaths = self._deaths[trial.id]
        return any(deaths[cause] + 1 >= most for cause, most in MAX_ATTEMPTS.items())

    def needs_own_gpu(self, trial: Trial) -> bool:
        """Whether the trial ran out of memory on a GPU that it shared."""
        return trial.id in self._alone

    def judge(self, outcome: JobOutcome) -> Verdict:
        """Decide on a job that ended, and count the death where it was one.

        A result with a cause of DOUBTFUL counts as a death the first time. A job that was lost
        with its node counts nothing.
        """
        job, trial = outcome.job, outcome.job.trial
        result, death, output = outcome.result, outcome.death or "lost", outcome.output
        deaths = self._deaths[trial.id]
        if result is not None and result.cause in DOUBTFUL:
            if deaths[result.cause] + 1 < MAX_ATTEMPTS[result.cause]:
                death, output, result = result.cause, output or result.output, None
                # One that was given no GPU (its model took one unasked) asks for none now: where
                # no machine has any, it would wait for ever.
                if death == "gpu_oom" and job.needs.gpu_mb > 0:
                    self._alone.add(trial.id)
        if result is not None or death == "lost":
            return Verdict(result)
        deaths[death] += 1
        if deaths[death] < MAX_ATTEMPTS[death]:
            return Verdict(None, death, output)
        message = said_of(death, deaths[death], job.limits, outcome.reason)
        return Verdict(failure(death, message, output=outcome.output), death)

    def close(self, trial: Trial) -> None:
        """Forget a trial that has its final result."""
        self._deaths.pop(trial.id, None)
        self._alone.discard(trial.id)
