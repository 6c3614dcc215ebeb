"""Trials, their ids, limits and results, and the causes of failures with their retry rules."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

# The closed set of reasons why a trial has no score. MAX_ATTEMPTS says after which of them the
# engine itself runs the trial again, and how often.
CAUSES: dict[str, str] = {
    "oom": "used more memory than its limit",
    "gpu_oom": "used more GPU memory than there was",
    "gpu_error": "met a CUDA error that makes its process's GPU unusable",
    "timeout": "ran longer than its limit",
    "killed": "its worker died under it three times",
    "nonfinite": "predicted NaN or infinity",
    "invalid_config": "the model refused the configuration",
    "unsupported": "the model does not apply to this data (planned absence, not a failure)",
    "error": "the model raised an error",
}
MAX_ATTEMPTS: dict[str, int] = {"killed": 3, "oom": 2, "gpu_oom": 2, "gpu_error": 2}
# Causes that a trial itself reports, though another one, in its process or beside it, may be to
# blame: it is run once more in a fresh process.
DOUBTFUL = ("oom", "gpu_oom", "gpu_error")

DONE, FAILED, UNSUPPORTED = "done", "failed", "unsupported"


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> str:
    """The canonical JSON text of a value: sorted keys, no blanks, no NaN, exact floats.

    >>> canonical({"b": 0.1, "a": [1, None]})
    '{"a":[1,null],"b":0.1}'
    """
    return _ENCODER.encode(value)


def digest(value: Any, *, length: int = 32) -> str:
    """The first `length` hexadecimal digits of the SHA-256 of a JSON-able value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:length]


def derive_seed(*parts: Any) -> int:
    """A 32-bit seed that depends on every part and on nothing else."""
    return int(digest(list(parts), length=8), 16)


@dataclass(frozen=True)
class Trial:
    """One fit: (dataset, fold, model, config, seed, fidelity).

    `identity` holds what else the outcome depends on: hashes of the data, the split and the source,
    library versions, device, precision and threads. The names of dataset, fold and model are for
    people; the id is a hash of contents alone. `fidelity` of a fit with a schedule says its length
    and where it stops, in steps; that of a bag how many members it has ("bag") and what parts of
    the rows they were fitted without; None is one fit in one piece.
    """

    dataset: str
    fold: int
    model: str
    config: Mapping[str, Any]
    seed: int
    identity: Mapping[str, Any]
    fidelity: Mapping[str, Any] | None = None

    @cached_property
    def id(self) -> str:
        """32 hexadecimal digits that depend on all that the outcome depends on."""
        return self._hash(dict(self.fidelity) if self.fidelity is not None else None)

    @property
    def n_fits(self) -> int:
        """How many fits it is made of: the members of a bag, else 1."""
        return int((self.fidelity or {}).get("bag", 1))

    @property
    def place(self) -> str:
        """ "dataset/fold/model", for people."""
        return f"{self.dataset}/{self.fold}/{self.model}"

    @property
    def chain(self) -> str:
        """The key of the checkpoints that all rungs of one configuration share: a hash like `id`,
        without the step at which the trial stops."""
        return self._hash({k: v for k, v in (self.fidelity or {}).items() if k != "stop"})

    def _hash(self, fidelity: Mapping[str, Any] | None) -> str:
        return digest(
            {
                "config": dict(self.config),
                "fidelity": fidelity,
                "identity": dict(self.identity),
                "seed": self.seed,
            }
        )


@dataclass(frozen=True)
class Limits:
    """Limits of one trial, enforced from outside; at least ten times what it is expected to use.

    timeout_s: CPU seconds of its process. Ten times as many seconds on the clock end a trial that
        only waits.
    """

    timeout_s: float = 3600.0
    memory_mb: float = 8192.0

    @property
    def wall_s(self) -> float:
        """Seconds on the clock that end a trial which uses no CPU."""
        return 10.0 * self.timeout_s

    def to_data(self) -> dict[str, float]:
        """The limits, as in a record."""
        return {"timeout_s": self.timeout_s, "memory_mb": self.memory_mb}


@dataclass(frozen=True)
class Result:
    """How a trial ended: scores, predictions and costs, or a failure with its cause.

    `val` and `test` map metric names to a value, or to None where the metric is undefined;
    `predictions` maps "val" and "test" to arrays (n, C) of probabilities or (n,) of values; `costs`
    are `fit_s`, `predict_s`, `cpu_s` in seconds, `peak_ram_mb`, `peak_vram_mb` and, of networks,
    `step_s`, the seconds of a training step. `log` is a failure's traceback; `output` is what the
    trial printed, for the run's logs alone.
    """

    status: str
    cause: str | None = None
    message: str = ""
    val: Mapping[str, float | None] = field(default_factory=dict)
    test: Mapping[str, float | None] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)
    predictions: Mapping[str, Any] = field(default_factory=dict)
    log: str = ""
    output: str = ""

    def __post_init__(self) -> None:
        if self.status not in (DONE, FAILED, UNSUPPORTED):
            raise ValueError(f"unknown status {self.status!r}; known: done, failed, unsupported")
        if (self.cause is None) != (self.status == DONE):
            raise ValueError(f"a {self.status} result cannot have the cause {self.cause!r}")
        if self.cause is not None and self.cause not in CAUSES:
            raise ValueError(f"unknown cause {self.cause!r}; known: {', '.join(sorted(CAUSES))}")


def failure(cause: str, message: str, **more: Any) -> Result:
    """A result without a score: "unsupported" (planned) or "failed" (every other cause)."""
    status = UNSUPPORTED if cause == "unsupported" else FAILED
    return Result(status=status, cause=cause, message=message, **more)
