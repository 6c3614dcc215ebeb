"""Numbers of things in words."""

from __future__ import annotations


def count(n: int, word: str) -> str:
    """A number of things, the word in its plural where there is not one.

    >>> count(1, "dataset"), count(3, "dataset"), count(2, "study"), count(2, "array")
    ('1 dataset', '3 datasets', '2 studies', '2 arrays')
    """
    if n == 1:
        return f"1 {word}"
    ies = word.endswith("y") and word[-2] not in "aeiou"
    return f"{n} {word[:-1]}ies" if ies else f"{n} {word}s"


def ordinal(n: int) -> str:
    """A place in words.

    >>> ordinal(1), ordinal(2), ordinal(13), ordinal(21)
    ('1st', '2nd', '13th', '21st')
    """
    ending = {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{'th' if n % 100 in (11, 12, 13) else ending}"
