"""`bench publish`: runs as a static site with a leaderboard, their history and the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...console import ENVIRONMENT, OK, Console, count
from .site import publish


def publish_command(
    console: Console, runs: Sequence[Path], out: Path, beside: Sequence[str], **how: Any
) -> int:
    """Write the site; exit code 3 where a run is damaged. Raises what `publish` raises."""
    named = [name for given in beside for name in given.split(",") if name]
    files, damage = publish(runs, out, beside=named, **how)
    page = out / "index.html"
    size = sum(path.stat().st_size for path in files)
    console.say(f"{count(len(files), 'file')}, {size / 1e6:.1f} MB, in {out}")
    console.say(f"page: {page}   open it in a browser: {page.resolve().as_uri()}")
    console.say("put the folder on any static host; it asks for nothing from outside")
    for text in damage:
        console.tell(f"damaged: {text}")
    console.data({"files": [str(path) for path in files], "page": str(page), "damage": damage})
    return ENVIRONMENT if damage else OK
