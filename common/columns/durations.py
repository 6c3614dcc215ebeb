"""Durations in cells of text, as seconds: 38:14:31, 12:51, 3 days 04:00:00, 5h 12m, PT1H30M."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

DURATIONS, IN_MINUTES = "durations", "durations (mm:ss)"
"""The names of the styles: of two numbers between a colon the first are hours, or minutes."""

_SECONDS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_WORDS = {
    "w": r"w|wks?|weeks?|Wochen?",
    "d": r"d|days?|Tage?|jours?",
    "h": r"h|hrs?|hours?|Std|Stunden?|heures?",
    "m": r"m|mins?|minutes?|Minuten?",
    "s": r"s|secs?|seconds?|Sekunden?|Sek",
}
_PARTS = re.compile(
    "".join(
        rf"(?:(?P<{k}>\d+(?:[.,]\d+)?)\s*(?:{words})\.?[\s,]*)?" for k, words in _WORDS.items()
    ),
    re.IGNORECASE,
)
_ISO = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?"
)
_CLOCK = re.compile(
    r"(?P<sign>[-+])?(?:(?P<d>\d+)\s*(?:days?,?|d|Tage?,?)\s*\+?|(?P<dot>\d+)\.(?=\d\d:\d\d:))?"
    r"(?P<first>\d+):(?P<second>[0-5]\d)(?::(?P<third>[0-5]\d)(?P<part>[.,]\d+)?)?"
)
_SHORT = re.compile(r"(?P<m>\d+):(?P<s>[0-5]\d[.,]\d+)|(?P<h>\d+)h(?P<min>[0-5]\d)")


def seconds_of(text: str, *, in_minutes: bool = False) -> float:
    """The seconds of a duration, NaN where a text is none. in_minutes: whether 12:51 is of minutes
    and seconds. A single number with a unit ("5 h") is none: it may be any number's unit.

    >>> seconds_of("38:14:31"), seconds_of("5h 12m"), seconds_of("12:51", in_minutes=True)
    (137671.0, 18720.0, 771.0)
    """
    if found := _CLOCK.fullmatch(text):
        first, second = float(found["first"]), float(found["second"])
        days = float(found["d"] or found["dot"] or 0) * _SECONDS["d"]
        if found["third"] is None and in_minutes:
            clock = 60 * first + second
        else:
            rest = (found["part"] or "").replace(",", ".")
            clock = 3600 * first + 60 * second + float((found["third"] or "0") + rest)
        return (days + clock) * (-1 if found["sign"] == "-" else 1)
    if short := _SHORT.fullmatch(text):  # 1:02.5 and 1h30
        if short["h"]:
            return 3600 * float(short["h"]) + 60 * float(short["min"])
        return 60 * float(short["m"]) + float(short["s"].replace(",", "."))
    words = _ISO.fullmatch(text) or (_PARTS.fullmatch(text) if text[:1].isdigit() else None)
    parts = {k: v for k, v in words.groupdict().items() if v} if words else {}
    if not parts or (len(parts) < 2 and not text.startswith("P")):
        return np.nan
    return sum(float(v.replace(",", ".")) * _SECONDS[k] for k, v in parts.items())


def one_unit(text: str) -> float:
    """The seconds of a single number with a unit of time ("5 h"), NaN for another text."""
    words = _PARTS.fullmatch(text) if text[:1].isdigit() else None
    parts = {k: v for k, v in words.groupdict().items() if v} if words else {}
    if len(parts) != 1:
        return np.nan
    ((unit, number),) = parts.items()
    return float(number.replace(",", ".")) * _SECONDS[unit]


def read_durations(texts: pd.Series, style: str = "") -> tuple[np.ndarray, str]:
    """((N,) seconds, NaN where a text is no duration; the style). style: "" where it is to be
    found: 12:51 is of minutes and seconds beside texts such as 1:02:03."""
    values = texts.str.strip()
    if not style:
        long = values.str.fullmatch(r"\d+:[0-5]\d:[0-5]\d").any()
        short = values.str.fullmatch(r"\d+:[0-5]\d").any()
        style = IN_MINUTES if long and short else DURATIONS
    minutes = style == IN_MINUTES
    every = values.tolist()
    found = np.array([seconds_of(text, in_minutes=minutes) for text in every], dtype=np.float64)
    if not np.isnan(found).all():  # "45m" beside "5h 12m"
        for at in np.flatnonzero(np.isnan(found)):
            found[at] = one_unit(every[at])
    return found, style
