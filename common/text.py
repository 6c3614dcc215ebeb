"""Which known name may somebody have meant? What an error message adds to the wrong one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question in brackets with a blank before it, where something is close, else nothing.

    >>> did_you_mean("catbost", ["catboost", "xgboost"])
    " (did you mean 'catboost'?)"
    """
    close = get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
