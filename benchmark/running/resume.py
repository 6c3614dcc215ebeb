"""Resuming and extending a run: settings that must not change, plans kept, trials run again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ...common.text import first_few
from ...sweeps.fingerprint import file_of, is_there
from ...sweeps.store.ledger import Ledger, Record
from ..errors import SweepError
from ..planning.code_identity import from_outside, own_code
from ..planning.options import BOTH, KEPT, LARGER, SAME, STAYS, Options
from ..planning.plan import Plan
from ..planning.plan_record import RunPlan, last_plan, search_key
from ..results.run_status import status_in
from .request import Request


def merge_with(old: RunPlan | None, request: Request) -> Options:
    """The request's options joined with those of the plan `old` of a run started again."""
    options, suite = request.options, request.suite
    if old is None:
        return options
    before = old.options
    budget = suite.budget(options.budget)[1]
    united: dict[str, Any] = {}
    for option in KEPT:
        name, how = option.name, option.metadata["kept"]
        was, new = getattr(before, name), getattr(options, name)
        usual: Any = getattr(budget, name, None) or getattr(suite, name, None)
        if how == STAYS:
            united[name] = was if new in (None, ()) else new
        elif how == LARGER and (was is not None or new is not None):
            united[name] = max(usual if one is None else one for one in (was, new))
        elif how == BOTH:
            united[name] = _both(was, new, usual)
    return replace(options, **united)


def _both(was: tuple[str, ...], new: tuple[str, ...], usual: Iterable[str]) -> tuple[str, ...]:
    """All names of two lists; an empty list stands for the suite's names (`usual`)."""
    if was and new:
        return tuple(dict.fromkeys([*was, *new]))
    extra = [name for name in [*was, *new] if name not in usual]
    return (*usual, *extra) if extra else ()


AS_BEFORE = (
    "Start it as before (more folds, trials, models and datasets are fine), or start another run "
    "with bench sweep --name NAME"
)


def check_same(
    old: RunPlan | None, plan: Plan, whose: str = "this run was", way_out: str = AS_BEFORE
) -> None:
    """Refuse a plan whose results cannot share a table with the run's. Raises SweepError, which
    names each difference between `plan` and the run's plan `old`."""
    if old is None:
        return
    differences = []
    if old.suite.name != plan.suite.name:
        differences.append(f"suite was {old.suite.name!r}, is {plan.suite.name!r}")
    for (
        name,
        data,
    ) in plan.data.items():  # no trial's id depends on costs, but the choice among trials does
        now = data.description.get("csv", {}).get("costs", [])
        was = old.datasets[name].csv.get("costs", []) if name in old.datasets else now
        if was != now:
            differences.append(f"costs of {name} were {was}, are {now}")
    for name in (option.name for option in KEPT if option.metadata["kept"] == SAME):
        was, is_now = getattr(old.options, name), getattr(plan.options.on(plan.suite), name)
        if was != is_now:
            differences.append(f"{name} was {was!r}, is {is_now!r}")
    for part in ("metric", "protocol", "space", "sampler"):
        before, now = old.identity[part], plan.identity[part]
        changes: dict[str, list[str]] = {}
        pairs = _searches(old, plan) if part in ("space", "sampler") else {who: who for who in now}
        for who, earlier in sorted(pairs.items()):
            if earlier in before and before[earlier] != now[who]:
                # the plan keeps of a space its hash alone
                how = f"was {before[earlier]!r}, is {now[who]!r}"
                how = "has changed" if part == "space" else how
                changes.setdefault(how, []).append(who)
        for how, those in changes.items():
            differences.append(f"{part} of {first_few(those, 3)} {how}")
    differences += _fewer_trials(old, plan)
    if differences:
        raise SweepError(f"{whose} started differently: {'; '.join(differences)}. {way_out}")


def dropped(old: RunPlan | None, plan: Plan) -> str:
    """Names of the studies that lose trials in `plan`, since the suite was edited after `old`; ""
    for none."""
    if old is None:
        return ""
    now = {study.name: study.shape.bounds for study in plan.studies}
    was = {study.name: study.shape.bounds for study in old.studies}
    studies = [
        study
        for study, bounds in was.items()
        if any(bound > now.get(study, {}).get(stage, 0) for stage, bound in bounds.items())
    ]
    return first_few(studies, 3)


def _searches(old: RunPlan, plan: Plan) -> dict[str, str]:
    """{name of a search in the plan's identity: its name in the old plan}. The names differ if a
    dataset got settings of its own since, or lost them."""
    known = {(study.dataset, study.model) for study in old.studies}
    searches = {}
    for study in plan.studies:
        key, earlier = (search_key(identity, study) for identity in (plan.identity, old.identity))
        if key == earlier or (study.dataset, study.model) in known:
            searches[key] = earlier
    return searches


def _fewer_trials(old: RunPlan, plan: Plan) -> list[str]:
    """Sentences on models that would lose trials: --trials is below the number that the suite sets
    for the model itself."""
    if plan.options.trials is None:
        return []
    was = {study.name: study.n_trials for study in old.studies}
    less = {
        study.model: (was[study.name], study.n_trials)
        for study in plan.studies
        if study.n_trials < was.get(study.name, 0) and not study.reason
    }
    return [f"trials of {model} were {n}, are {now}" for model, (n, now) in less.items()][:3]


def code_that_runs(plan: RunPlan, models: Iterable[str], *, allow_code_change: bool) -> list[str]:
    """One line for each of `models` from outside tabsweep: the file whose code will run.

    Nothing is imported yet, because a run may come from somebody else. Raises SweepError if the
    class now comes from another file with other code, unless `allow_code_change`. If the same file
    was edited, the ids of its trials decide.
    """
    lines = []
    began = {code.get("name") or target: code for target, code in plan.own_code.items()}
    for target, name in sorted(from_outside(models).items()):
        if not is_there(target):
            continue  # its import says what is missing
        try:
            here = own_code(target)
        except (SyntaxError, ValueError) as error:
            raise SweepError(
                f"{file_of(target)} ({target}) is no valid Python: {error}. None of it was run: "
                "correct it, then resume"
            ) from None
        first = began.get(name or target)
        same = first is not None and first["source"] == here["source"]
        if first and not same and first["file"] != here["file"] and not allow_code_change:
            raise SweepError(
                f"{name or target} is {target} in {here['file'] or 'a file without source'} here, "
                f"whose code is not the one that the run began with ({first['file']}). None of it "
                "was run: bring that one back, or give --allow-code-change"
            )
        how = "the source that the run began with" if same else "another source than at the start"
        lines.append(f"runs the code of {here['file']} ({target}): {how}")
    return lines


def with_first_code(plan: RunPlan, old: RunPlan | None) -> RunPlan:
    """The plan with, for each class of the user, the code that the class had when it first entered
    the run."""
    return replace(plan, own_code={**plan.own_code, **old.own_code}) if old else plan


def runs_again(request: Request, plan: Plan, record: Record) -> bool:
    """Whether a recorded trial runs again: by request, or since its limit has grown."""
    name = {"timeout": "timeout_s", "oom": "memory_mb"}.get(record["cause"], "")
    now, was = plan.limits.to_data(), record.get("limits") or {}
    if name == "timeout_s":  # that of a bag is for all of its fits
        now[name] *= (record.get("fidelity") or {}).get("bag", 1)
    return request.retry(record) or (name in was and now[name] > was[name])


def all_ended(ledger: Ledger) -> bool:
    """Whether no slot of the plan in force is left: a resume then most likely runs nothing."""
    return last_plan(ledger) is not None and status_in(ledger).finished
