"""What the command line may narrow or change in a suite, as a value that a plan keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from .portfolios.portfolio_file import Portfolio


@dataclass(frozen=True)
class Options:
    """What the command line may narrow or change in a suite."""

    budget: str | None = None
    models: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    folds: int | None = None
    trials: int | None = None
    sampler: str | None = None
    space: str | None = None
    seed: int = 0
    device: str = "cpu"
    asynchronous: str | None = None
    study_s: float | None = None
    time_limit_s: float | None = None
    portable: bool = False
    warm_start: Portfolio | None = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Options:
        """From a mapping of options, which may hold more; an absent one has its default."""
        found: dict[str, Any] = {o.name: data[o.name] for o in fields(cls) if o.name in data}
        found |= {name: tuple(found[name]) for name in ("models", "datasets")}
        if isinstance(found.get("warm_start"), Mapping):
            found["warm_start"] = Portfolio.of_data(found["warm_start"])
        return cls(**found)

    def to_data(self) -> dict[str, Any]:
        """The fields by name, lists for tuples: as the plan keeps them. Limits of time that are
        not set and an absent portfolio are left out, as in the plans of older runs."""
        found = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        portfolio = found.pop("warm_start") and self.warm_start
        unset = [k for k in ("study_s", "time_limit_s") if found[k] is None]
        found = {k: v for k, v in found.items() if k not in unset}
        return found | ({"warm_start": portfolio.to_data()} if portfolio else {})
