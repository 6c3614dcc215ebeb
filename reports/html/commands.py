"""The commands that a page offers to copy."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def explain(runs: Sequence[str], dataset: str, model: str) -> str:
    """The command that lists the trials behind a score; "" without a run (another tool's results).

    >>> explain(["runs/a"], "glass", "knn")
    'bench explain scores glass knn --run runs/a'
    """
    if not runs:
        return ""
    named = [word for run in runs for word in ("--run", run)]
    return _joined(["bench", "explain", "scores", dataset, model, *named])


def passport(dataset: str) -> str:
    """The command that prints all of a dataset's passport.

    >>> passport("glass")
    'bench data passport glass'
    """
    return _joined(["bench", "data", "passport", dataset])


def _joined(words: Sequence[str]) -> str:
    """The words as a command of a shell. A word with characters that a reader cannot see, such as
    a line break, is written with their bytes, so that the text shows what it does.

    >>> print(_joined(["bench", "a  b", "a\\nb"]))
    bench 'a  b' $'a\\x0ab'
    """
    return " ".join(shlex.quote(word) if word.isprintable() else _bytes(word) for word in words)


def _bytes(word: str) -> str:
    return f"$'{''.join(map(_sign, word))}'"


def _sign(sign: str) -> str:
    if sign.isprintable():
        return f"\\{sign}" if sign in "\\'" else sign
    of_a_path = "\udc80" <= sign <= "\udcff"  # a byte that is no UTF-8, see os.fsdecode
    data = sign.encode("utf-8", "surrogateescape" if of_a_path else "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in data)
