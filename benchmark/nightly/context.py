"""What every step of a night gets: checkout, folders, sizes and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .checkout import Checkout


@dataclass(frozen=True)
class NightContext:
    """One night's circumstances, the same for all its steps.

    checkout: what is judged. night: the folder of this night (its runs in runs/). store: what
    nights share (environments, worktrees); it may be deleted at any time. workers: as of `bench
    sweep`. baseline: the content of baseline.json, None without one; baseline_file: where it is.
    against: a tag or commit to judge against instead. suite: name or file. models: only these, ()
    for all of the suite. say: prints a line for people.
    """

    checkout: Checkout
    night: Path
    store: Path
    baseline_file: Path
    workers: int = 0
    baseline: Mapping[str, Any] | None = None
    against: str | None = None
    suite: str = "nightly"
    models: tuple[str, ...] = ()
    say: Callable[[str], None] = field(default=print)

    @property
    def accepted(self) -> str:
        """The name of what is judged against: `against`, the baseline's commit, or ""."""
        return self.against or str((self.baseline or {}).get("commit", ""))

    @property
    def runs(self) -> Path:
        """The folder of this night's runs."""
        return self.night / "runs"
