"""Warm start: the studies of a plan begin with a portfolio's configurations of their model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ....common.text import one_line
from ....sweeps.search.json_values import identity
from ....sweeps.search.space import Space
from ....sweeps.trial import canonical
from .portfolio_file import Portfolio

Config = dict[str, Any]
MOST = 6  # configurations that a note names


@dataclass(frozen=True)
class Beginning:
    """How a study begins. `first`: its first configurations; `taken`: those of the portfolio among
    them; `outside`: those that its space does not hold; `late`: those for which it has no trial."""

    first: tuple[Config, ...]
    taken: tuple[Config, ...] = ()
    outside: tuple[Config, ...] = ()
    late: tuple[Config, ...] = ()

    @property
    def own(self) -> tuple[Config, ...]:
        """The first configurations without those of the portfolio."""
        return self.first[: len(self.first) - len(self.taken)]


def beginning(
    portfolio: Portfolio | None,
    model: str,
    dataset: str,
    space: Space,
    first: tuple[Config, ...],
    n_trials: int,
) -> Beginning:
    """The default configuration, where the study begins with it (`first`), then the portfolio's
    that lie in the space, each once."""
    if portfolio is None:
        return Beginning(first)
    known = {identity(config) for config in first}
    taken: list[Config] = []
    outside: list[Config] = []
    late: list[Config] = []
    for config in portfolio.of(model, dataset):
        if identity(config) in known:
            continue
        known.add(identity(config))
        if config not in space:
            outside.append(config)
        elif len(first) + len(taken) >= n_trials:
            late.append(config)
        else:
            taken.append(config)
    return Beginning((*first, *taken), tuple(taken), tuple(outside), tuple(late))


class Planned(Protocol):
    """What is read of a planned study."""

    task: str
    model: str
    space_name: str
    begins: Beginning
    reason: str


def notes(
    portfolio: Portfolio | None, studies: Iterable[Planned], data: Mapping[str, str]
) -> list[str]:
    """What a plan says of its warm start. data: {dataset: sha256}."""
    if portfolio is None:
        return []
    counts: dict[str, set[int]] = {}
    outside: dict[tuple[str, str], dict[str, None]] = {}
    late: set[str] = set()
    for study in (s for s in studies if not s.reason):
        counts.setdefault(study.model, set()).add(len(study.begins.taken))
        late |= {study.model} if study.begins.late else set()
        for config in study.begins.outside:
            where = f"space {study.space_name!r} on {study.task} data"
            outside.setdefault((study.model, where), {})[canonical(config)] = None
    told = [f"{model} {_range(n)}" for model, n in sorted(counts.items()) if max(n)]
    none = [model for model, n in sorted(counts.items()) if not max(n)]
    begins = ", ".join(told) if told else "no model of this run"
    found_notes = [
        f"Warm start: studies begin with configurations of the portfolio {portfolio.name} "
        f"({portfolio.id}), after the default where the budget begins with it, and the sampler "
        f"goes on from there: {begins}" + (f"; none of {', '.join(none)}" if none else "") + "."
    ]
    if late:
        found_notes.append(
            f"Warm start: for {', '.join(sorted(late))} the portfolio has more configurations than "
            "the budget has trials; the last of them are not tried."
        )
    for (model, where), configs in sorted(outside.items()):
        shown = "; ".join(one_line(config, 160) for config in list(configs)[:MOST])
        more = f"; and {len(configs) - MOST} more" if len(configs) > MOST else ""
        found_notes.append(
            f"Warm start leaves out, as outside of the {where} of {model}: {shown}{more}."
        )
    seen = portfolio.seen(data)
    if seen:
        found_notes.append(
            f"Warm start: the portfolio was learned on {', '.join(seen)} as well; a gain there is "
            "no evidence (bench portfolio learn --leave-one-out)."
        )
    return found_notes


def _range(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"
