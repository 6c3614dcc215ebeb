"""Escaping of text from outside for LaTeX, Markdown, CSV and the terminal.

Names of datasets and models, error messages and notes come from files that others wrote. Each
output format has one function through which every such text passes.
"""

from __future__ import annotations

import hashlib
import html
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

LABEL_LIMIT = 32  # characters of a name that a table shows

# Format and control characters (bidirectional marks, zero-width spaces, NUL) have effects that a
# reader cannot see.
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"{\char96}",
    '"': r"{\char34}",  # babel gives the plain sign a meaning in some languages
    "[": "{[}",  # after a line break, a bracket or star would be read as its argument
    "]": "{]}",
    "*": "{*}",
    "\u00a0": "~",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": r"$-$",
    "·": r"$\cdot$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≈": r"$\approx$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "¹": r"$^1$",
    "²": r"$^2$",
    "√": r"$\surd$",
    "\N{WORD JOINER}": "{}",  # keeps two hyphens from joining to a dash
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "’": "'",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "§": r"$\mathsection$",
    "¶": r"$\mathparagraph$",
    "ß": r"\ss{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "œ": r"\oe{}",
    "Œ": r"\OE{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "ı": r"\i{}",
    "µ": r"$\mu$",  # the sign of a millionth
    "ς": r"$\varsigma$",
}
# Greek letters that LaTeX has by name; the others look like Latin ones.
_GREEK = set(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau "
    "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega".split()
)
_LIKE_LATIN = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True))
_ACCENTS = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0327": "c",
}

_MARKDOWN = {**{c: "\\" + c for c in "\\`*_[]#$~|"}, "@": "&#64;"}
# What may begin a tag, an entity or a quotation (at the end of a text: with its neighbour). No
# backslash, which some dialects do not know there: to them, what follows were HTML.
_HTML = re.compile(r"<(?=[A-Za-z/!?]|$)|&(?=[#A-Za-z]|$)|^\s*>")

_FORMULA_STARTS = "=+-@\t\r\n＝＋－＠"


def visible(text: str) -> str:
    """The text in composed form (NFC), with every invisible character written as [U+XXXX]."""
    if text.__class__ is str and text.isascii() and text.isprintable():
        return text  # most names
    composed = unicodedata.normalize("NFC", str(text))
    return "".join(
        f"[U+{ord(c):04X}]" if unicodedata.category(c) in _INVISIBLE else c for c in composed
    )


def one_line(text: str) -> str:
    """The visible text on one line: runs of white space become one space."""
    if text.__class__ is str and text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()  # the space is the only white space that is printable
    return visible(" ".join(str(text).split()))


def cut(text: str, limit: int, middle: str = "…") -> str:
    """The visible text; of a longer one, `middle` stands in place of its middle."""
    shown = visible(text)
    end = limit // 3 + 1
    return (
        shown
        if len(shown) <= limit
        else f"{shown[: limit - end - len(middle)]}{middle}{shown[-end:]}"
    )


@lru_cache(10_000)  # the same names occur in thousands of cells
def label(name: str) -> str:
    """A name as tables show it: visible; of a longer one, four signs that are its own stand in
    place of its middle, so that names that differ there alone have different labels.

    >>> label("package.of.somebody.else.module:Classifier")
    'package.of.some…58ce…:Classifier'
    """
    own = hashlib.blake2s(name.encode("utf-8", "surrogatepass"), digest_size=2).hexdigest()
    return cut(name, LABEL_LIMIT, f"…{own}…")


def told_apart(texts: Mapping[str, str]) -> dict[str, str]:
    """{name: its text, or its label where another name has that text or label}: what different
    names are called where not everyone's text is a name of its own.

    >>> told_apart({"a.py:Net": "Net", "b.py:Net": "Net", "knn": "k-NN"})
    {'a.py:Net': 'a.py:Net', 'b.py:Net': 'b.py:Net', 'knn': 'k-NN'}
    """
    printed = {name: {one_line(text), one_line(label(name))} for name, text in texts.items()}
    taken = Counter(text for own in printed.values() for text in own)
    return {
        name: text if taken[one_line(text)] == 1 else label(name) for name, text in texts.items()
    }


def latex(text: str) -> str:
    """The text as LaTeX source that prints it. Greek letters are those of mathematics; letters of
    other scripts stay as they are, for LuaLaTeX (`paper.main` has the fonts); other characters that
    the fonts lack become [U+XXXX].

    >>> latex(r"a_b & \\input{x}")
    'a\\\\_b \\\\& \\\\textbackslash{}input\\\\{x\\\\}'
    """
    shown = visible(text).replace("--", "-\N{WORD JOINER}-").replace("--", "-\N{WORD JOINER}-")
    return "".join(_latex_character(c) for c in shown)


def _latex_character(c: str) -> str:
    if c in _LATEX:
        return _LATEX[c]
    if " " <= c <= "~":
        return c
    parts = unicodedata.normalize("NFD", c)
    if len(parts) == 2 and parts[0].isascii() and parts[0].isalpha() and parts[1] in _ACCENTS:
        return f"\\{_ACCENTS[parts[1]]}{{{parts[0]}}}"
    if unicodedata.name(c, "").startswith("GREEK "):
        return _greek(parts)
    if unicodedata.category(c)[0] in "LMN":
        return c
    return f"{{[}}U+{ord(c):04X}{{]}}"


def _greek(parts: str) -> str:
    """A Greek letter and its accents. An acute stands for the tonos; breathings are left out."""
    letter = parts[0]
    kind, _, name = unicodedata.name(letter).removeprefix("GREEK ").partition(" LETTER ")
    name = name.replace("LAMDA", "LAMBDA").capitalize() if kind == "CAPITAL" else name.lower()
    name = name.replace("lamda", "lambda")
    if letter not in _LATEX and letter not in _LIKE_LATIN and name not in _GREEK:
        return parts
    plain = _LATEX.get(letter, "").strip("$") or _LIKE_LATIN.get(letter) or f"\\{name}"
    for accent, command in (("\u0301", "acute"), ("\u0308", "ddot")):
        plain = f"\\{command}{{{plain}}}" if accent in parts[1:] else plain
    return f"${plain}$"


def markdown(text: str) -> str:
    """The text as Markdown source that shows it, without links or HTML.

    >>> markdown("p < .01, <b>"), markdown("> R&D & more")
    ('p < .01, &lt;b>', '&gt; R&amp;D & more')
    """
    shown = _HTML.sub(lambda found: html.escape(found[0]), visible(text))
    shown = "".join(_MARKDOWN.get(c, c) for c in shown)
    return shown.replace("://", "&#58;//").replace("www.", "www&#46;").replace("WWW.", "WWW&#46;")


def from_markdown(page: str) -> str:
    r"""What a page of `markdown` shows; the cells of its tables keep their widths.

    >>> from_markdown("| a\\_b | &lt; 3 |")
    '| a_b  | < 3    |'
    """

    def shown(part: str) -> str:
        plain = html.unescape(re.sub(r"\\([^A-Za-z0-9\s])", r"\1", part))
        return plain.rjust(len(part)) if part.startswith("  ") else plain.ljust(len(part))

    lines = page.splitlines()
    return "\n".join(
        "|".join(map(shown, re.split(r"(?<!\\)\|", line)))
        if line[:1] == "|"
        else shown(line).rstrip()
        for line in lines
    )


@lru_cache(10_000)  # the same names occur in thousands of rows
def csv_text(text: str) -> str:
    """The text with a leading ' if a spreadsheet would take it for a formula."""
    shown = visible(text)
    return "'" + shown if shown.lstrip()[:1] and shown.lstrip()[0] in _FORMULA_STARTS else shown
