"""`bench publish`: runs as a static site with a leaderboard, their history and the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...console import ENVIRONMENT, OK, Console, count, size, split_names
from .site import publish


def publish_command(
    console: Console, runs: Sequence[Path], out: Path, beside: Sequence[str], **how: Any
) -> int:
    """Write the site; exit code 3 where a run is damaged. Raises what `publish` raises."""
    files, damage = publish(runs, out, beside=split_names(beside), **how)
    page = out / "index.html"
    n_bytes = sum(path.stat().st_size for path in files)
    console.say(f"{count(len(files), 'file')}, {size(n_bytes)}, in {out}")
    console.say_page([page])
    console.say("put the folder on any static host; it asks for nothing from outside")
    for text in damage:
        console.tell(f"damaged: {text}")
    console.data({"files": [str(path) for path in files], "page": str(page), "damage": damage})
    return ENVIRONMENT if damage else OK
