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
