"""`bench nightly bisect`: the commit that made a model worse."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from ....models import registry
from ....sweeps.store.run_lock import RunLock
from ...console import OK, REGRESSION, Console
from ...nightly.checkout import checkout_of, full_commit, subject
from ...nightly.first_bad import bisect, told
from ...planning.environment import ROOT
from ...planning.own_models import find_model
from .night import context_of


def bisect_command(
    console: Console, model: str, *, good: str | None, bad: str, **given: Any
) -> int:
    """`bench nightly bisect MODEL`: exit code 4 where a commit is found."""
    if model not in registry.names():
        find_model(model)  # raises, with the names that are near
    checkout = checkout_of(ROOT)
    context = context_of(console, checkout, against=None, night=f"bisect-{model}", **given)
    if good is None:
        if context.baseline is None:
            raise ValueError(
                f"{context.baseline_file} does not exist: name a commit at which {model} was good, "
                "--good COMMIT"
            )
        good = str(context.baseline["commit"])
    context.night.mkdir(parents=True, exist_ok=True)
    os.utime(context.night)  # deploy/nightly.sh removes folders that nobody used for long
    with RunLock(context.night, note=console.say), RunLock(context.store, note=console.say):
        first, last = full_commit(checkout.root, good), full_commit(checkout.root, bad)
        found = bisect(context, model, first, last)
    subjects = [subject(checkout.root, commit) for commit in found.candidates]
    console.data({**asdict(found), "subjects": dict(zip(found.candidates, subjects, strict=True))})
    for line in told(found, subjects):
        console.say(line)
    return REGRESSION if found.first else OK
