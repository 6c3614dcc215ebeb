"""Matplotlib with fixed settings, so that the same figure gives the same bytes everywhere.

Matplotlib is imported when a figure is drawn, because the import takes longer than a small report.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@contextmanager
def fixed_style() -> Iterator[None]:
    """Matplotlib's default style while a figure is drawn and saved, whatever the user has set.

    Warnings are silenced: characters that the font lacks are drawn as boxes.
    """
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matplotlib.rcdefaults()
        # Texts stay text; element ids follow from the salt instead of from random numbers.
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tabsweep"})
        yield


def to_svg(figure: Figure, title: str) -> str:
    """The figure as SVG, texts as text, without a date."""
    out = io.BytesIO()
    about = {"Title": title, "Creator": "tabsweep", "Date": None}
    figure.savefig(out, format="svg", metadata=about)
    return out.getvalue().decode("utf-8")


def to_pdf(figure: Figure, title: str) -> bytes:
    """The figure as PDF, without a date."""
    out = io.BytesIO()
    about = {"Title": title, "Creator": "tabsweep", "CreationDate": None}
    figure.savefig(out, format="pdf", metadata=about)
    return out.getvalue()
