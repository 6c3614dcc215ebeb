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
        yield


def to_pdf(figure: Figure, title: str) -> bytes:
    """The figure as PDF, without a date."""
    out = io.BytesIO()
    about = {"Title": title, "Creator": "tabsweep", "CreationDate": None}
    figure.savefig(out, format="pdf", metadata=about)
    return out.getvalue()
