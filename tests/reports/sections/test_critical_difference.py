"""Critical-difference diagrams: layout, byte stability and escaping of names."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from matrices import evidence, matrices
from report_cases import pdflatex
from tabsweep.reports.output.text_width import TEXT_WIDTH_PT, widest
from tabsweep.reports.sections import critical_difference
from tabsweep.reports.statistics import tests as stats

NAMES = [
    "a_b",
    "</text><script>alert(1)</script>",
    r"\input{/etc/passwd}",
    "$x_",
    "n" * 200,
    "日本",
]


def scores(k=6, n=9):
    rng = np.random.default_rng(2)
    return 0.6 + 0.03 * np.arange(k) + 0.03 * rng.normal(size=(n, k))


def drawn(k=6, names=None):
    return matrices(evidence(scores(k), names))[0]


def test_every_model_hangs_at_its_mean_rank_in_order():
    matrix = drawn()
    drawing = critical_difference.diagram(matrix)
    mean = matrix.ranks().mean(axis=0)
    axis = [line for line in drawing.lines if line.width == 0.8][0]
    feet = [line for line in drawing.lines if line.x1 == line.x2 and line.y1 == axis.y1]
    hung = sorted(1 + 5 * (line.x1 - axis.x1) / (axis.x2 - axis.x1) for line in feet)
    assert hung == pytest.approx(sorted(mean))
    labels = [t.text for t in drawing.texts if " " in t.text and t.anchor != "center"]
    assert sorted(labels) == sorted(f"m{j} {r:.2f}" for j, r in enumerate(mean))


def test_bars_join_exactly_the_groups_and_the_difference_is_drawn_to_scale():
    matrix = drawn()
    drawing = critical_difference.diagram(matrix)
    mean = sorted(matrix.ranks().mean(axis=0))
    cd = stats.critical_difference(6, 9)
    axis = [line for line in drawing.lines if line.width == 0.8][0]
    unit = (axis.x2 - axis.x1) / 5
    bars = [line for line in drawing.lines if line.width == 2.4]
    want = [(mean[a], mean[b]) for a, b in stats.groups(mean, cd)]
    got = [(1 + (b.x1 + 2 - axis.x1) / unit, 1 + (b.x2 - 2 - axis.x1) / unit) for b in bars]
    assert np.array(got) == pytest.approx(np.array(want)) and len(got) == len(want)
    (span,) = [line for line in drawing.lines if line.width == 1.0]
    assert (span.x2 - span.x1) / unit == pytest.approx(cd)


def test_nothing_leaves_the_sheet_and_no_two_labels_of_a_side_meet():
    for k in (3, 4, 13, 30):
        drawing = critical_difference.diagram(drawn(k))
        for line in drawing.lines:
            assert 0 <= min(line.x1, line.x2) and max(line.x1, line.x2) <= drawing.width, k
            assert 0 <= min(line.y1, line.y2) and max(line.y1, line.y2) <= drawing.height, k
        for text in drawing.texts:
            start, end = extent(text)
            assert -1e-9 <= start and end <= drawing.width + 1e-9, k
        for side in ("left", "right"):
            heights = sorted(t.y for t in drawing.texts if t.anchor == side)
            assert (np.diff(heights) >= critical_difference.ROW - 1e-9).all(), k


def test_the_axis_of_many_models_takes_most_of_the_width():
    """Though their mean ranks lie close together in its middle."""
    noise = np.random.default_rng(2).normal(0.6, 0.03, size=(9, 38))
    noise[:, -1] = 0.1
    names = [f"boosting-{j}" for j in range(38)]
    drawing = critical_difference.diagram(matrices(evidence(noise, names))[0])
    axis = [line for line in drawing.lines if line.width == 0.8][0]
    assert axis.x2 - axis.x1 > 0.7 * drawing.width and drawing.width <= TEXT_WIDTH_PT


def extent(text):
    """Where the text begins and ends, pt from the left."""
    width = widest(text.text)
    start = text.x - {"left": 0.0, "center": 0.5, "right": 1.0}[text.anchor] * width
    return start, start + width


def test_no_line_runs_through_a_name():
    for k, name in itertools.product([3, 12, 30], ["m", "tabtransformer-cheatt-"]):
        drawing = critical_difference.diagram(drawn(k, [f"{name}{j}" for j in range(k)]))
        for text in (t for t in drawing.texts if t.anchor != "center"):
            start, end = extent(text)
            for line in (one for one in drawing.lines if one.x1 == one.x2):
                beside = not start < line.x1 < end
                assert beside or not min(line.y1, line.y2) < text.y < max(line.y1, line.y2), (
                    k,
                    name,
                )


def test_the_users_own_plot_settings_change_nothing():
    import matplotlib

    matrix = drawn()
    plain = critical_difference.to_pdf(critical_difference.diagram(matrix))
    with matplotlib.rc_context({"font.size": 30, "text.color": "red"}):
        assert critical_difference.to_pdf(critical_difference.diagram(matrix)) == plain


@pytest.mark.fault(13)
def test_hostile_names_stay_inert_in_the_diagrams():
    matrix = drawn(6, NAMES)
    tikz = critical_difference.to_tikz(critical_difference.diagram(matrix))
    assert all(c.isascii() or c.isalpha() for c in tikz) and not re.search(
        r"\\(input|write18)\b", tikz
    )


@pytest.mark.fault(13)
def test_the_tikz_of_hostile_names_compiles_within_the_width_of_an_article(tmp_path):
    matrix = drawn(6, NAMES)
    tikz = critical_difference.to_tikz(critical_difference.diagram(matrix))
    (tmp_path / "cd.tex").write_text(tikz)
    page = "\\documentclass{article}\\usepackage{tikz}\\begin{document}\\noindent\\input{cd}\n"
    (tmp_path / "page.tex").write_text(page + "\\end{document}\n")
    assert "Overfull" not in pdflatex(tmp_path)
