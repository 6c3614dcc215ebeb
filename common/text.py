"""Short pieces of text for messages: suggestions for misspelt names, text on one line, words of
commands to copy."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from difflib import get_close_matches

MANY = 20  # known names that are not all listed beside a suggestion


def nearest(name: object, known: Iterable[object]) -> str:
    """The known name closest to `name`, or "" if none is close. A name that differs only in case
    comes first.

    >>> nearest("Id", ["ID", "I", "price"]), nearest("pirce", ["ID", "price"])
    ('ID', 'price')
    """
    names = {str(k): str(k).casefold() for k in known}
    same = [known for known, folded in names.items() if folded == str(name).casefold()]
    return next(iter(same or get_close_matches(str(name), list(names), n=1)), "")


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """ " (did you mean 'x'?)" where a known name is close to `name`, else "".

    >>> did_you_mean("catbost", ["catboost", "xgboost"])
    " (did you mean 'catboost'?)"
    """
    close = nearest(name, known)
    return f" (did you mean {close!r}?)" if close else ""


def suggest(name: object, known: Iterable[object]) -> str:
    """The nearest known name where one is close, and all known names unless they are many.

    >>> suggest("glas", ["wine", "glass"])
    "did you mean 'glass'? known: glass, wine"
    """
    names = sorted(str(k) for k in known)
    close = nearest(name, names)
    if close and len(names) > MANY:
        return f"did you mean {close!r}?"
    hint = f"did you mean {close!r}? " if close else ""
    return f"{hint}known: {', '.join(names)}"


def one_line(value: object, limit: int = 300) -> str:
    r"""`value` as text without line breaks or control characters, cut at `limit` characters.

    >>> one_line("two\nlines")
    'two lines'
    """
    text = " ".join("".join(c if c.isprintable() else " " for c in str(value)).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def first_few(parts: Iterable[str], most: int, between: str = ", ") -> str:
    """The first `most` parts, joined for a sentence, and the number of the others.

    >>> first_few("abcd", 2), first_few("ab", 2)
    ('a, b and 2 more', 'a, b')
    """
    shown = list(parts)
    return between.join(shown[:most]) + (f" and {len(shown) - most} more" if shown[most:] else "")


def slug(text: str) -> str:
    """A text as a name: lower-case letters, digits and hyphens, at most 64 of them.

    >>> slug("Higgs_Small"), slug("California-Housing (2)")
    ('higgs-small', 'california-housing-2')
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:64].strip("-")


def shell_word(value: object) -> str:
    """`value` as one word of a command that is to be copied into a shell.

    >>> shell_word("runs/mine"), shell_word("my runs/mine")
    ('runs/mine', "'my runs/mine'")
    """
    return shlex.quote(str(value))


def toml_string(text: str) -> str:
    """A basic string of TOML, with every letter kept: a JSON string is one, but for DEL, which JSON
    leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
