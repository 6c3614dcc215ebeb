"""`bench models`: the list of models, one with its spaces, and the check of a model's contract."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import click

from ...common.text import one_line
from ..arguments import CHECKPOINTS, named_model
from ..completion import MODELS
from ..console import FAILED, OK, Console, common, count

CHECK = "check"
MADE = "its constructor takes what the space"
NUMBERS = (
    "\n{name} fits and answers numbers without gaps: with numbers_only = True in its class it is "
    "given nothing else (docs/models.md)"
)
CLASSES = "\nfit sets no classes_: the columns of predict_proba are those of the codes in y, sorted"
TASKS = "\n{name} keeps no law of {tasks}: a class for the others alone says so, tasks = {others!r}"


def _asked(
    context: click.Context, parameter: click.Parameter, words: tuple[str, ...]
) -> tuple[bool, str | None]:
    """Whether the contract is asked for, and the name of the model."""
    check = words[:1] == (CHECK,)
    names = words[check:]
    if len(names) > 1 or (check and not names):
        raise click.UsageError("name one model: bench models knn, bench models check knn")
    return check, named_model(context, parameter, names[0]) if names else None


@click.command()
@click.argument("words", nargs=-1, metavar="[[check] NAME]", callback=_asked, shell_complete=MODELS)
@CHECKPOINTS
@common
def models(console: Console, words: tuple[bool, str | None]) -> int:
    """List the models, or show one with its hyperparameters and search spaces; or check one.

    \b
    bench models xgboost
    bench models check mymodel.py:MyModel

    `check` fits a model on three tiny tables, with categories and gaps, and says line by line what
    of the contract (docs/models.md) it keeps; exit code 1 where it breaks some of it.
    """
    from ...models import registry

    check, name = words
    if name is not None:
        return _check(console, name) if check else _one_model(console, name)
    specs = [registry.spec(name) for name in registry.names()]
    if console.json:  # reads the space file of every model
        console.data([_model_data(spec) for spec in specs])
    console.table(
        ["model", "family", "tasks", "threads", "rows up to", "summary"],
        [
            [s.name, s.family, ", ".join(s.tasks), s.threads, s.max_rows or "", s.summary]
            for s in specs
        ],
    )
    return OK


def _check(console: Console, name: str) -> int:
    """Try every law of the contract on every task of a model."""
    from threadpoolctl import threadpool_limits

    from ...models import contract, registry
    from ...sweeps.workers.ray_cluster import one_thread
    from ..planning.own_models import find_model
    from ..running.request import import_folders

    import_folders([name])
    one_thread()
    spec = find_model(name)
    rows: list[dict[str, Any]] = []
    for task in spec.tasks:
        for law, attempt in _attempts(name, task):
            begun, broken = time.perf_counter(), ""
            try:
                with threadpool_limits(spec.threads):  # as a trial's
                    attempt()
            except Exception as error:  # code of the user, which may raise anything
                kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
                broken = kind + (one_line(error) or "no message")
                if console.verbose:
                    traceback.print_exc()
            rows.append({"task": task, "law": law, "broken": broken})
            took = time.perf_counter() - begun
            console.say(f"{'BROKEN' if broken else 'ok':7} {task:10} {took:5.1f} s  {law}")
            if broken:
                console.say(f"{'':27}{broken}")
            if broken and law.startswith(MADE):
                break  # what cannot be made keeps no other law
    n = sum(bool(row["broken"]) for row in rows)
    if n and name not in registry.MODELS and not spec.numbers_only:
        if contract.takes_numbers_alone(contract.Tried(name, spec.tasks[0])):
            console.say(NUMBERS.format(name=spec.name))
    kept = {row["task"] for row in rows if not (row["broken"] or row["law"].startswith(MADE))}
    if name not in registry.MODELS and 0 < len(kept) < len(spec.tasks):
        lost = ", ".join(task for task in spec.tasks if task not in kept)
        others = tuple(task for task in spec.tasks if task in kept)
        console.say(TASKS.format(name=spec.name, tasks=lost, others=others))
    if name not in registry.MODELS and contract.sorted_classes(contract.Tried(name, spec.tasks[0])):
        console.say(CLASSES)
    console.data({"model": spec.name, "checks": rows, "broken": n})
    console.say(f"\n{spec.name}: {count(len(rows), 'check')}, {n} broken")
    return FAILED if n else OK


def _attempts(name: str, task: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """(law in words, what tries it) of a model on a task."""
    from ...models import contract, registry
    from ..planning.own_models import check_constructor

    for space in registry.spaces(name, task) if name not in registry.MODELS else ():
        made = partial(check_constructor, name, task, space, {}, starts_with_default=True)
        yield f"{MADE} {space!r} searches", made
    resource = registry.spec(name).resource
    small = registry.small_fits(name).get("config", {}) if name in registry.MODELS else {}
    tried = contract.Tried(name, task, small, {resource: 6} if resource else {})
    for law in contract.laws(name):
        yield contract.said(law), partial(law, tried)


def _model_data(spec: Any) -> dict[str, Any]:
    from dataclasses import asdict

    from ...models import registry

    data = asdict(spec)
    del data["told"]
    data |= {"title": spec.display_name, "summary": spec.summary, "paper": spec.paper}
    asked = spec.name if spec.name in registry.names() else spec.target
    data["spaces"] = {task: sorted(registry.spaces(asked, task)) for task in spec.tasks}
    return data


def _one_model(console: Console, name: str) -> int:
    from ...models import registry
    from ..planning.own_models import find_model
    from ..running.request import import_folders

    import_folders([name])
    spec = find_model(name)
    defaults = registry.defaults(name)
    spaces = {task: registry.spaces(name, task) for task in spec.tasks}
    console.data({**_model_data(spec), "defaults": defaults, "spaces": spaces})
    console.say(f"{spec.name}: {spec.summary}")
    console.say("; ".join(part for part in (f"class {spec.target}", spec.paper) if part))
    if spec.resource:
        console.say(f"steps: {spec.resource}; a fit can stop and continue from a checkpoint")
    console.say(f"preprocessing: {spec.preprocessing.describe()}\n")
    console.table(["hyperparameter", "default"], [[k, repr(v)] for k, v in defaults.items()])
    same: dict[str, tuple[str, dict[str, Any], list[str]]] = {}  # tasks often share a space
    for task, of_task in spaces.items():
        for space, declared in of_task.items():
            key = f"{space} {declared['params']} {declared['note']} {declared['source']}"
            same.setdefault(key, (space, declared, []))[2].append(task)
    for space, declared, tasks in same.values():
        note = f": {declared['note']}" if declared["note"] else ""
        console.say(f"\nspace {space} ({', '.join(tasks)}){note}")
        if declared["source"]:
            console.say(f"source: {declared['source']}")
        params = [[k, _plainly(v)] for k, v in declared["params"].items()]
        if params:
            console.table(["parameter", "values"], params)
    return OK


def _plainly(param: dict[str, Any]) -> str:
    kind = param["kind"]
    if kind == "fixed":
        return repr(param["value"])
    if kind == "choice":
        return "one of " + ", ".join(map(repr, param["values"]))
    if kind == "variants":
        settings = [", ".join(f"{k}={v!r}" for k, v in one.items()) for one in param["values"]]
        return " | ".join(settings)
    if kind == "optional":
        return f"{param['value']!r} or {_plainly(param['of'])}"
    more = [", log"] if param.get("log") else []
    more += [f", {key} {param[key]:g}" for key in ("step", "shift") if param.get(key)]
    return f"{kind} [{param['low']:g}, {param['high']:g}]{''.join(more)}"
