"""`bench data add openml:TASK` and `openml-suite:ID`: tasks of OpenML, stored with their folds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...console import ENVIRONMENT, OK, USAGE, Console, count
from ...planning.plan_record import by_reason
from .catalog import added_data, added_line

if TYPE_CHECKING:
    from ....datasets.added.importing import Added
    from ....datasets.openml.api import Server

ADDRESS = re.compile(r"(openml|openml-suite):(.*)", re.DOTALL)


def openml_command(console: Console, wanted: str, name: str | None) -> int:
    """Add a task, or every task of a suite. Returns the exit code."""
    from ....datasets.download import network
    from ....datasets.errors import DataError
    from ....datasets.openml.api import Server, address
    from ....datasets.openml.suites import tasks_of

    server = Server(address(), network())
    kind, _, value = wanted.partition(":")
    if kind == "openml":
        if not re.fullmatch(r"[1-9]\d{0,8}", value):
            raise DataError(
                f"{wanted[:80]!r} names no task of OpenML: give its number, such as openml:59; "
                "a suite is openml-suite:tabarena"
            )
        return _add(console, server, (int(value),), name)
    if name:
        raise DataError(
            "--name is for one task; the tasks of a suite are named after their datasets"
        )
    tasks = tasks_of(value, server)
    console.say(f"{wanted}: {count(len(tasks), 'task')}")
    return _add(console, server, tasks, None, several=True)


def _add(
    console: Console,
    server: Server,
    tasks: tuple[int, ...],
    name: str | None,
    *,
    several: bool = False,
) -> int:
    """Add each task; of a suite, one that is refused is named with the reason and the others are
    added."""
    from ....datasets import catalog
    from ....datasets.errors import DataError, DatasetUnavailable
    from ....datasets.openml import importing

    built_in = set(catalog.built_in())
    added: list[Added] = []
    refused: dict[str, str] = {}
    unavailable = False
    for task in tasks:
        try:
            one, warnings = importing.add(task, server, name, built_in)
        except DataError as error:
            if not several:
                raise
            unavailable |= isinstance(error, DatasetUnavailable)
            reason = error.reason if isinstance(error, DatasetUnavailable) else str(error)
            refused[f"openml:{task}"] = reason.removeprefix(f"openml:{task}: ")
            continue
        added.append(one)
        for warning in warnings:
            console.warn(warning)
        card, kinds = one.card, list(one.card.kinds.values())
        features = f"{kinds.count('numeric')} numeric, {kinds.count('categorical')} categorical"
        of = f"dataset {card.options['dataset']} version {card.options['version']}"
        words = f"{features} features, {of}, licence {card.licence}"
        console.say(added_line(one, f"{card.n_rows:,}", words, "not asked for again"))
    for line in by_reason(refused):
        console.warn(f"refused: {line}")
    if not several:
        console.say(f"card: {added_data(added[0])['card']}")
    if added:
        names = ", ".join(f'"{one.card.name}"' for one in added)
        console.say(f"in a suite file: datasets = [{names}]")
    documents = [added_data(one, openml=dict(one.card.options)) for one in added]
    console.data({"added": documents, "refused": refused})
    if refused:
        return ENVIRONMENT if unavailable else USAGE
    return OK
