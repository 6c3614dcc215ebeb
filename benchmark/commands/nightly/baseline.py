"""`bench baseline accept`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ....sweeps.store.run_lock import RunLock
from ...console import OK, Console, count
from ...nightly.baseline import accept
from ...nightly.checkout import SHORT, checkout_of
from ...planning.environment import ROOT
from .night import context_of


def accept_command(console: Console, *, reason: str, **given: Any) -> int:
    """`bench baseline accept`: fit every cell of this commit and write the baseline's file."""
    if not reason.strip():
        raise ValueError("--reason must not be empty: it is what a reviewer reads")
    checkout = checkout_of(ROOT)
    name = f"accepted-{checkout.label}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    context = context_of(console, checkout, against=None, night=name, **given)
    context.night.mkdir(parents=True, exist_ok=True)
    with RunLock(context.night, note=console.say), RunLock(context.store, note=console.say):
        found, path = accept(context, reason.strip()), context.baseline_file
    console.data({"file": str(path), "commit": found["commit"], "cells": len(found["cells"])})
    console.say(
        f"{path}: {count(len(found['cells']), 'cell')} of {count(len(found['models']), 'model')} "
        f"at {found['commit'][:SHORT]}; commit it"
    )
    return OK
