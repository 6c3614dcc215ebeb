"""Estimated widths of texts in figures, without running TeX or Matplotlib."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

TEXT_WIDTH_PT = 345.0  # of an article at 10pt, the narrowest common single column

# Widths of Computer Modern at 10pt in em, by character; at small sizes its letters are wider.
_EM = {
    **dict.fromkeys("il.,:;'|![]", 0.28),
    **dict.fromkeys("fjrst-()/ ", 0.39),
    **dict.fromkeys("cez", 0.44),
    **dict.fromkeys("abdghknopquvxy0123456789", 0.53),
    **dict.fromkeys("mwMW…±%@<>+−", 0.84),
}
_WIDE = set("ЖМШЩЪЫЮФжмшщъыюф")
_CUT = {9.0: 1.03, 8.0: 1.06, 7.0: 1.14, 5.0: 1.36}


def width(text: str, points: float) -> float:
    """Width in pt of the text in Computer Modern, overestimated rather than underestimated."""
    return _em(text) * points * _CUT[points]


def widest(text: str) -> float:
    """Width in pt in the wider of Computer Modern of 8 pt and DejaVu Sans of 7 pt; signs that they
    lack are printed as [U+1F600], letters as they are."""
    shown = "".join(c if ord(c) < 0x250 or c == "…" or c.isalpha() else "[U+0000]" for c in text)
    return max(1.06 * width(shown, 8.0), 0.6 * 7.0 * len(shown))


@lru_cache(10_000)
def _em(text: str) -> float:
    digits = sum(c.isdigit() for c in text)
    return sum(_EM.get(c) or _em_of(c) for c in text) - 0.03 * digits


def _em_of(c: str) -> float:
    """The width of a character beyond Latin in em; characters of East Asia are square."""
    return 1.0 if unicodedata.east_asian_width(c) in "WF" else 0.95 if c in _WIDE else 0.75
