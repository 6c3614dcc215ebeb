"""Escaping: hostile names stay harmless in LaTeX, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pandas as pd
import pytest
from report_cases import (
    hostile_evidence,
    readable,
    texts,
)
from tabsweep.reports.output import escape, tables


@pytest.mark.fault(13)
def test_hostile_names_stay_inert_in_latex_markdown_and_csv(tmp_path):
    written = texts(hostile_evidence(), tmp_path)
    for name, data in readable(written).items():
        text = data.decode("utf-8")
        assert not set(text) & {"\x00", "\u202e", "\r", "\t"}, name
        if name.endswith(".tex") and name != "paper/main.tex":  # which holds no name
            assert not re.search(r"\\(input|write18)\b", text) and "\\end{document}" not in text
            assert text.isascii()
            body = re.sub(r"^%.*$", "", text, flags=re.M)
            assert not re.search(r"(?<!\\)[#]", body) and not re.search(r"\\\\\s*[\[*]", body)
        if name.endswith(".md"):
            assert not re.search(r"<(script|/script|img|b)\b", text), name
            assert "http://" not in text and "www.evil" not in text
            for line in text.splitlines():
                if line.startswith("| "):
                    assert line.endswith(" |")
        if name.endswith(".csv"):
            for row in csv.reader(io.StringIO(text)):
                for field in row:
                    assert not re.match(r"[=@+]", field) and (field[:1] != "-" or float(field))


def test_every_markdown_table_has_as_many_cells_in_each_row(tmp_path):
    for name, data in texts(hostile_evidence(), tmp_path).items():
        if not name.endswith(".md"):
            continue
        for block in re.findall(r"(?:^\|.*\n)+", data.decode(), flags=re.M):
            counts = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
            assert len(counts) == 1, (name, block)


def test_names_that_differ_only_at_the_end_stay_apart():
    assert escape.label("n" * 300 + "1") != escape.label("n" * 300 + "2")
    assert len(escape.label("n" * 300)) <= escape.LABEL_LIMIT


@pytest.mark.fault(13)
def test_a_number_is_never_taken_for_a_formula():
    frame = pd.DataFrame(
        {"text": ["-x", " =1", "＝1", "-0.5"], "value": [-0.12, np.nan, 1e-7, 3.0]}
    )
    lines = tables.to_csv(frame).splitlines()
    assert lines == ["text,value", "'-x,-0.12", "' =1,", "'＝1,1e-07", "'-0.5,3"]
