"""`bench models`, `suites` and `data`: lists of what there is, and checks of datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..console import ENVIRONMENT, OK, Console, count

if TYPE_CHECKING:
    from ...datasets.card import Card


def models_command(console: Console, name: str | None) -> int:
    """`bench models [NAME]`."""
    from ...models import registry

    if name is not None:
        return _one_model(console, name)
    specs = [registry.spec(name) for name in registry.names()]
    console.data([_model_data(spec) for spec in specs])
    console.table(
        ["model", "family", "tasks", "threads", "rows up to", "summary"],
        [
            [s.name, s.family, ", ".join(s.tasks), s.threads, s.max_rows or "", s.summary]
            for s in specs
        ],
    )
    return OK


def _model_data(spec: Any) -> dict[str, Any]:
    from dataclasses import asdict

    from ...models import registry

    data = asdict(spec)
    asked = spec.name if spec.name in registry.names() else spec.target
    data["spaces"] = {task: sorted(registry.spaces(asked, task)) for task in spec.tasks}
    return data


def _one_model(console: Console, name: str) -> int:
    from dataclasses import asdict

    from ...models import registry
    from ..planning.plan import find_model
    from ..running.request import import_folders

    import_folders([name])
    spec = find_model(name)
    defaults = registry.defaults(name)
    spaces = {task: registry.spaces(name, task) for task in spec.tasks}
    console.data({**_model_data(spec), "defaults": defaults, "spaces": spaces})
    console.say(f"{spec.name}: {spec.summary}")
    console.say("; ".join(part for part in (f"class {spec.target}", spec.paper) if part))
    policy = ", ".join(f"{part}: {how}" for part, how in asdict(spec.preprocessing).items())
    if spec.resource:
        console.say(f"steps: {spec.resource}; a fit can stop and continue from a checkpoint")
    console.say(f"preprocessing: {policy}\n")
    console.table(["hyperparameter", "default"], [[k, repr(v)] for k, v in defaults.items()])
    same: dict[str, tuple[str, dict[str, Any], list[str]]] = {}  # tasks often share a space
    for task, found in spaces.items():
        for space, declared in found.items():
            key = f"{space} {declared['params']} {declared['note']}"
            same.setdefault(key, (space, declared, []))[2].append(task)
    for space, declared, tasks in same.values():
        note = f": {declared['note']}" if declared["note"] else ""
        console.say(f"\nspace {space} ({', '.join(tasks)}){note}")
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
    return f"{kind} [{param['low']:g}, {param['high']:g}]"


def suites_command(console: Console, name: str | None, paper: Path | None = None) -> int:
    """`bench suites [NAME]`. paper: the folder of a paper, instead of the built-in suites."""
    from ..planning import suite as suites

    files = suites.files() if paper is None else suites.files_in(paper)
    if name is not None:
        found = suites.load(str(files.get(name, name)))
        console.data(found.model_dump(mode="json"))
        console.say(f"{found.name}: {found.title}\n{found.note.strip()}\n")
        console.say(f"datasets ({len(found.datasets)}): {', '.join(found.datasets)}")
        console.table(
            ["budget", "models", "folds", "configurations", "seeds", "sampler", "space"],
            [
                [b, len(v.models), v.folds, v.trials, v.seeds, v.sampler, v.space]
                for b, v in found.budgets.items()
            ],
        )
        return OK
    all_suites = [suites.load(str(path)) for path in files.values()]
    console.data(
        [
            {
                "name": s.name,
                "title": s.title,
                "datasets": len(s.datasets),
                "budgets": list(s.budgets),
                "default_budget": s.default_budget,
            }
            for s in all_suites
        ]
    )
    console.table(
        ["suite", "datasets", "budgets", "title"],
        [[s.name, len(s.datasets), ", ".join(s.budgets), s.title] for s in all_suites],
    )
    return OK


def datasets_command(console: Console) -> int:
    """`bench data list`."""
    from dataclasses import asdict

    from ...datasets import catalog

    cards = [catalog.card(name) for name in catalog.names()]
    console.data([asdict(card) for card in cards])
    console.table(
        ["dataset", "task", "rows", "features", "protocol", "source", "faults"],
        [
            [
                c.name,
                c.task,
                c.n_rows,
                c.n_features,
                c.protocol,
                "download" if c.files else "scikit-learn",
                ", ".join(c.faults),
            ]
            for c in cards
        ],
    )
    return OK


def fetch_command(console: Console, names: tuple[str, ...], suite: str | None, **given: Any) -> int:
    """`bench data fetch`."""
    from ...datasets import catalog
    from ...datasets.source import fetch
    from ..planning import suite as suites

    asked = list(names) + (suites.load(suite).datasets if suite else [])
    # an unknown name is refused first
    cards = [catalog.card(name) for name in dict.fromkeys(asked)] if asked else _not_large(console)

    def look(card: Card) -> str:
        files = fetch(card, **given)
        return count(len(files), "file") if files else "ships with scikit-learn"

    return _each(console, cards, look)


def verify_command(console: Console, names: tuple[str, ...], **given: Any) -> int:
    """`bench data verify`: bytes against checksums, shapes against cards."""
    from ...datasets import catalog

    cards = [catalog.card(name) for name in names] if names else _not_large(console)

    def look(card: Card) -> str:
        table = catalog.load_dataset(card.name, **given)
        return f"ok: {table.n_rows} rows, {table.n_features} features"

    return _each(console, cards, look)


def _not_large(console: Console) -> list[Card]:
    """Every card but those of large datasets, which are listed."""
    from ...datasets import catalog

    cards = [catalog.card(name) for name in catalog.names()]
    left = [f"{c.name} ({sum(f.bytes for f in c.files) / 1e9:.1f} GB)" for c in cards if c.large]
    if left:
        console.say(f"large datasets are left out unless named: {', '.join(left)}")
    return [card for card in cards if not card.large]


def _each(console: Console, cards: Iterable[Card], look: Callable[[Card], str]) -> int:
    """Print what `look` returns for each dataset, with those that are missing or wrong; returns the
    exit code."""
    from ...datasets.errors import DataError, DatasetUnavailable

    results: dict[str, str] = {}
    wrong = 0
    for card in cards:
        try:
            results[card.name] = look(card)
        except DatasetUnavailable as error:
            results[card.name] = f"not available: {error.reason}"
            wrong += 1
        except DataError as error:
            results[card.name] = f"WRONG: {error}"
            wrong += 1
    console.data(results)
    console.table(["dataset", "result"], [[k, v] for k, v in results.items()])
    return ENVIRONMENT if wrong else OK


def passport_command(
    console: Console, name: str, target: str | None, is_csv: bool, **given: Any
) -> int:
    """`bench data passport`."""
    from ...datasets import catalog
    from ...datasets.errors import DatasetUnavailable
    from ...datasets.infer import table_from_csv
    from ...datasets.passport import passport
    from ...datasets.protocols import make_folds
    from ..errors import SweepError

    others = []
    if is_csv:
        if target is None:
            raise SweepError("--csv needs --target COLUMN, the column to predict")
        table = table_from_csv(name, target)
        folds = make_folds(table, "kfold")
    else:
        if target is not None:
            raise SweepError("--target goes with --csv")
        card = catalog.card(name)
        table = catalog.load_dataset(name, **given)
        folds = make_folds(table, card.protocol)
        for other in card.overlaps:
            try:
                others.append(catalog.load_dataset(other, **given))
            except DatasetUnavailable:
                console.warn(f"{other}, which shares rows with {name}, is not here to compare with")
    found = passport(table, folds, others=others)
    console.data(found)
    console.say(
        f"{found['name']}: {found['task']}, {found['n_rows']} rows, "
        f"{found['n_features']} features, sha256 {found['sha256'][:16]}..."
    )
    if not found["flags"]:
        console.say("no problems were found")
    for flag in found["flags"]:
        console.say(f"{flag['severity']:8}{flag['id']}: {flag['detail']}")
    return OK
