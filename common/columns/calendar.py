"""Dates that can be read one way only, as ISO 8601: with months by name, quarters, weeks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date

MONTH, QUARTER, WEEK, NAMED = "month and year", "quarter", "week", "day and month by name"
NO_YEAR = "day and month without a year"
NOTATIONS = (NAMED, MONTH, QUARTER, WEEK, NO_YEAR)
"""The notations besides ISO 8601 and the forms of strptime; a style of a column."""

_MONTHS = (
    "january jan januar janvier janv enero ene gennaio gen janeiro januari stycznia sty "
    "jänner jän января янв",
    "february feb februar février fevrier févr fevr febrero febbraio fevereiro fev "
    "februari lutego lut февраля фев",
    "march mar märz maerz mär mrz mars marzo março maart mrt marca marzec марта мар",
    "april apr avril avr abril abr aprile kwietnia kwi апреля апр",
    "may mai mayo maggio mag maio mei maja мая май",
    "june jun juni juin junio giugno giu junho czerwca cze июня июн",
    "july jul juli juillet juil julio luglio lug julho lipca lip июля июл",
    "august aug août aout agosto ago augustus sierpnia sie августа авг",
    "september sep sept septembre septiembre settembre set setembro września wrz сентября сен",
    "october oct oktober okt octobre octubre ottobre ott outubro out października paź октября окт",
    "november nov novembre noviembre novembro listopada lis ноября ноя",
    "december dec dezember dez décembre decembre déc diciembre dic dicembre dezembro "
    "grudnia gru декабря дек",
)
MONTHS = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_DAYS = (
    "monday mon montag lundi lunes lunedì lunedi maandag poniedziałek mo lun lu tuesday "
    "tue tues dienstag"
    "mardi martes martedì martedi dinsdag wtorek di mar wednesday wed mittwoch mercredi "
    "miércoles"
    "miercoles mercoledì mercoledi woensdag środa mi mer mié thursday thu thur thurs "
    "donnerstag jeudi"
    "jueves giovedì giovedi donderdag czwartek do jeu jue gio friday fri freitag vendredi "
    "viernes"
    "venerdì venerdi vrijdag piątek fr ven vie saturday sat samstag sonnabend samedi "
    "sábado sabado sabato"
    "zaterdag sobota sa sam sab sunday sun sonntag dimanche domingo domenica zondag "
    "niedziela so dim dom"
)
_WEEKDAY = re.compile(
    rf"({'|'.join(sorted(_DAYS.split(), key=len, reverse=True))})\.?,?\s+(?=\S)", re.IGNORECASE
)
_ZONES = {
    **dict.fromkeys(("Z", "UTC", "GMT", "UT", "WET"), "+00:00"),
    **dict.fromkeys(("CET", "MEZ", "BST", "WEST"), "+01:00"),
    **dict.fromkeys(("CEST", "MESZ", "EET"), "+02:00"),
    **{"EEST": "+03:00", "MSK": "+03:00", "IST": "+05:30", "JST": "+09:00", "AEST": "+10:00"},
    **{"EST": "-05:00", "EDT": "-04:00", "CST": "-06:00", "CDT": "-05:00"},
    **{"MST": "-07:00", "MDT": "-06:00", "PST": "-08:00", "PDT": "-07:00"},
}
OFFSET = re.compile(
    rf"(:\d\d(?:[.,]\d+)?(?: [AP]M)?|[Tt]\d{{4}}(?:\d\d)?)\s*({'|'.join(_ZONES)}|[zZ]"
    r"|[-+]\d\d(?::?\d\d)?)\s*(?:\([A-Z]+\))?$"
)
"""(the end of a time, its offset to UTC) at the end of a text."""

_TIME = (
    r"(?:(?:\s*,\s*|[ Tt:]|\s+(?:at|um|à|a las)\s+)\s*(?P<h>\d{1,2})(?:[:.](?P<mi>\d\d))"
    r"(?:[:.](?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?)?(?:\s*Uhr)?\s*(?P<half>[AaPp]\.?[Mm]\.?)?)?"
    rf"\s*(?P<zone>{'|'.join(_ZONES)}|[zZ]|[-+]\d\d(?::?\d\d)?)?\s*(?:\([A-Z]+\))?"
)
_NAME = r"(?P<name>[^\W\d_]{3,12})\.?"
_DAY = r"(?P<d>\d{1,2})(?:st|nd|rd|th|\.|er|º)?"
_YEAR = r"(?P<y>\d{4})"
_SEP = r"[-/., ]\s*"


def _month_of(groups: Mapping[str, str]) -> str:
    """The year and the month of a match, "" where its word is no month; without a year it is a leap
    year, 2000."""
    month = int(groups["m"]) if groups.get("m") else MONTHS.get(groups["name"].lower(), 0)
    year = _year(groups.get("y", "2000"))
    return f"{year}-{month:02}" if 1 <= month <= 12 else ""


def _year(digits: str) -> str:
    """A year of two digits as strptime takes it: 69 to 99 are of the last century."""
    return digits if len(digits) == 4 else f"{19 if int(digits) >= 69 else 20}{digits}"


def _of_month(found: re.Match[str]) -> str:
    month = _month_of(found.groupdict())
    return month and f"{month}-01"


def _of_day(found: re.Match[str]) -> str:
    groups = found.groupdict()
    month = _month_of(groups)
    day = f"{month}-{int(groups['d']):02}"
    if not month or groups.get("h") is None:
        return day if month and not groups.get("zone") else ""
    hour = int(groups["h"])
    if half := groups["half"]:
        if hour > 12:  # 15:05 PM
            half = ""
        elif half[0] in "pP":
            hour = hour % 12 + 12
        else:
            hour %= 12
    clock = f"{hour:02}:{groups['mi']}:{groups['s'] or '00'}"
    clock += f".{groups['f'][:6]}" if groups["f"] else ""
    zone = groups["zone"] or ""
    return f"{day}T{clock}{_ZONES.get(zone.upper(), zone)}"


def _of_quarter(found: re.Match[str]) -> str:
    return f"{_year(found['y'])}-{3 * int(found['q']) - 2:02}-01"


def _of_half(found: re.Match[str]) -> str:
    return f"{found['y']}-{6 * int(found['half']) - 5:02}-01"


def _of_week(found: re.Match[str]) -> str:
    try:
        return date.fromisocalendar(
            int(found["y"]), int(found["w"]), int(found["wd"] or 1)
        ).isoformat()
    except ValueError:
        return ""


def _basic(found: re.Match[str]) -> str:
    zone = found["zone"] or ""
    day = f"{found['y']}-{found['m']}-{found['d']}"
    return f"{day}T{found['h']}:{found['mi']}:{found['s'] or '00'}{_ZONES.get(zone.upper(), zone)}"


GRAMMAR: tuple[tuple[str, str, Callable[[re.Match[str]], str]], ...] = (
    ("", rf"{_YEAR}(?P<sep>[-./])(?P<m>\d{{1,2}})(?P=sep)(?P<d>\d{{1,2}}){_TIME}", _of_day),
    (
        "",
        r"(?P<y>\d{4})(?P<m>\d\d)(?P<d>\d\d)[Tt ](?P<h>\d\d):?(?P<mi>\d\d):?(?P<s>\d\d)?"
        r"(?:\.\d+)?(?P<zone>[zZ]|[-+]\d\d(?::?\d\d)?)?",
        _basic,
    ),
    (NAMED, rf"{_YEAR}[年년] ?(?P<m>\d{{1,2}})[月월] ?(?P<d>\d{{1,2}})[日일]{_TIME}", _of_day),
    (NAMED, rf"{_DAY}(?:{_SEP}|\s*)(?:de )?{_NAME}(?:{_SEP})?(?:de )?{_YEAR}{_TIME}", _of_day),
    (NAMED, rf"{_DAY}(?P<sep>[-/ ]?){_NAME}(?P=sep)(?P<y>\d\d){_TIME}", _of_day),
    (NAMED, rf"{_NAME}{_SEP}{_DAY}{_SEP}{_YEAR}{_TIME}", _of_day),
    (NAMED, rf"{_YEAR}{_SEP}{_NAME}{_SEP}{_DAY}{_TIME}", _of_day),
    (
        NAMED,  # Wed Sep 06 12:35:00 +0000 2023
        rf"{_NAME} +{_DAY} (?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?P<f>)(?P<half>)"
        rf"(?: (?P<zone>[A-Z]{{2,4}}|[-+]\d{{4}}))? {_YEAR}",
        _of_day,
    ),
    (MONTH, rf"{_NAME}(?:{_SEP}|\s*)(?:de )?{_YEAR}", _of_month),
    (MONTH, rf"{_NAME}(?:-|/| ?['\u2019])(?P<y>\d\d)", _of_month),
    (MONTH, rf"{_YEAR}(?:{_SEP}){_NAME}", _of_month),
    (MONTH, r"(?P<m>0?[1-9]|1[0-2])[/-](?P<y>(?:1[6-9]|20|21)\d\d)", _of_month),
    (MONTH, r"(?P<y>\d{4})(?:/|-|M|m)(?P<m>0?[1-9]|1[0-2])", _of_month),
    (NO_YEAR, rf"{_DAY}(?:[-/. ]|\s)\s*(?:de )?{_NAME}", _of_day),
    (NO_YEAR, rf"{_NAME}\s+{_DAY}", _of_day),
    (QUARTER, r"(?P<y>\d{4})[-/. ]?[Qq](?P<q>[1-4])", _of_quarter),
    (QUARTER, r"[Qq](?P<q>[1-4])[-/. ]{0,2}(?P<y>\d{4})", _of_quarter),
    (QUARTER, r"[Qq](?P<q>[1-4])(?:[-/. ]| ?['\u2019])(?P<y>\d\d)", _of_quarter),
    (
        QUARTER,
        r"(?P<q>[1-4])\.? ?(?:[Qq]|Quartal|quarter|trimestre)[-/. ]{0,2}(?P<y>\d{4})",
        _of_quarter,
    ),
    (QUARTER, r"(?P<y>\d{4})[-/. ]?[Hh](?P<half>[12])", _of_half),
    (QUARTER, r"[Hh](?P<half>[12])[-/. ]{0,2}(?P<y>\d{4})", _of_half),
    (WEEK, r"(?:W|KW ?)(?P<w>\d\d?)(?P<wd>)[-/. ]{1,2}(?P<y>\d{4})", _of_week),
    (WEEK, r"(?P<y>\d{4})[- ]?(?:W|KW ?)(?P<w>\d\d?)(?:-?(?P<wd>[1-7]))?", _of_week),
)
"""(notation, what it matches, how it is ISO 8601) of each way to write one date."""
_COMPILED = tuple((name, re.compile(shape), make) for name, shape, make in GRAMMAR)
_BLANKS = re.compile(r"\s+")
_TIME_OF_DIGITS = re.compile(r"(?<=\d)\s*,\s+(?=\d{1,2}:\d\d)")
_PLACE = re.compile(r"(?<=[\dzZ])\s*(\[[A-Z]\w+(/\w+)*\]|[A-Z][a-z]+/[A-Z]\w+)$")  # of a zone
_HALF = re.compile(r"(?<=\d)\s*([AaPp])\.?[Mm]\.?$")


def plain_date(text: str) -> str:
    """A text without the name of a weekday, with one blank between words and one before AM.

    >>> plain_date("Sunday,  24.12.2023, 3:05p.m.")
    '24.12.2023 3:05 PM'
    """
    plain = _BLANKS.sub(" ", text.strip())
    if found := _WEEKDAY.match(plain):
        rest = plain[found.end() :]
        if found[1].lower() not in MONTHS or any(map(str.isalpha, rest)):  # mar 16 is in March
            plain = rest
    plain = _PLACE.sub("", _TIME_OF_DIGITS.sub(" ", plain))
    return _HALF.sub(lambda found: f" {found[1].upper()}M", plain)


def iso_of(text: str) -> tuple[str, str]:
    """(the notation, "" for a kind of ISO 8601; the date as ISO 8601, "" for none) of a text that
    can be one date only. Whether the day exists is not looked at.

    >>> iso_of("Dec-2015"), iso_of("2021.3.1"), iso_of("Tue, 05 Sep 2023 12:35 GMT")[1]
    (('month and year', '2015-12-01'), ('', '2021-03-01'), '2023-09-05T12:35:00+00:00')
    """
    plain = plain_date(text)
    if not any(map(str.isdigit, plain[:12])):
        return "", ""
    for name, shape, make in _COMPILED:
        if (found := shape.fullmatch(plain)) and (iso := make(found)):
            return name, iso
    return "", ""
