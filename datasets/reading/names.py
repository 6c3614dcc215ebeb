"""The names of columns: on one line, with one blank between words, and not too long."""

from __future__ import annotations

import hashlib

from ...common.columns.notations import INVISIBLE

LONGEST = 200  # letters
_KEPT = 180  # of a longer name, before a hash of the whole


def clean_name(name: str) -> str:
    """A name of a column as tables have it: white space of any kind is one blank, characters that
    are not seen are none, and what is longer than LONGEST is cut, with a hash of the whole.

    >>> clean_name(" floor\u00a0area\\n(sqm)\u200b"), len(clean_name("a" * 300))
    ('floor area (sqm)', 189)
    """
    plain = " ".join(name.translate(dict.fromkeys(map(ord, INVISIBLE))).split())
    if len(plain) <= LONGEST:
        return plain
    return f"{plain[:_KEPT].rstrip()}-{hashlib.sha256(plain.encode()).hexdigest()[:8]}"
