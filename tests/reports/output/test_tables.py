"""Tables: their LaTeX without overfull boxes, and names that are harmless in every format."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pandas as pd
import pytest
from report_cases import TASKS, evidence_of, hostile_evidence, pdflatex, readable, rows_of, texts
from tabsweep.reports import report
from tabsweep.reports.output import escape, files, tables

HEAD = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n"


PARTS = ("scores", "leaderboard", "tests", "folds", "coverage", "costs")


def compiled(evidence, folder, parts=PARTS):
    """The log of pdflatex on all tables of the report in a plain article with booktabs."""
    report.write(evidence, folder, html=False)
    inputs = "".join(f"\\input{{{part}}}\n" for part in parts)
    (folder / "page.tex").write_text(HEAD + inputs + "\\end{document}\n")
    return pdflatex(folder)


def test_a_spread_in_powers_of_ten_and_a_mark_stand_in_one_piece_of_mathematics():
    cell = tables.TableCell("0.0003", "3.13e−5", mark="¹")
    table = tables.ReportTable("t", "A title", ("model",), (tables.Panel(((cell,),)),), ())
    assert r"0.0003$_{\mathrm{3.13e-5}}$\textsuperscript{$^1$}" in tables.to_latex([table])


@pytest.mark.parametrize("n_models", [1, 7, 14])
def test_25_datasets_fit_the_page_of_a_plain_article(tmp_path, n_models):
    names = """catboost constant decision-tree extra-trees gaussian-process gradient-boosting
        hist-gradient-boosting knn lightgbm linear mlp-sklearn random-forest svm xgboost""".split()
    datasets = {f"conn-bench-sonar-mines-rock{i:02}": TASKS[i // 11] for i in range(25)}
    rows = rows_of(datasets, names[:n_models], n_folds=3)
    parts = [part for part in PARTS if part != "folds" or n_models > 1]  # it tests two models
    evidence = evidence_of(rows, test_over_train=dict.fromkeys(datasets, 1 / 9))
    log = compiled(evidence, tmp_path, parts)
    assert "Overfull \\hbox" not in log and "Float too large" not in log


def spanning(words):
    rows = (
        (tables.TableCell("conn-bench-sonar"), tables.TableCell("1"), tables.TableCell("2")),
        (tables.TableCell("boston"), tables.TableCell(" ".join(["reason"] * words), span=2)),
    )
    return tables.ReportTable("t", "title", ("dataset", "folds", "p"), (tables.Panel(rows),))


def test_a_long_reason_over_several_columns_is_broken_into_lines():
    assert "\\multicolumn{2}{l}{reason reason}" in tables.to_latex([spanning(2)])
    assert re.search(r"\\multicolumn\{2\}\{p\{\d+pt\}\}", tables.to_latex([spanning(40)]))


def test_a_table_with_a_long_reason_is_no_wider_than_the_page(tmp_path):
    text = HEAD + tables.to_latex([spanning(n) for n in (5, 6, 7, 8, 9, 10, 40)])
    (tmp_path / "page.tex").write_text(text + "\\end{document}\n")
    assert "Overfull \\hbox" not in pdflatex(tmp_path)


@pytest.mark.fault(13)
def test_hostile_names_compile(tmp_path):
    compiled(hostile_evidence(), tmp_path)


def test_a_p_value_beside_five_per_cent_says_on_which_side_it_is():
    found = [tables.p_text(p) for p in (0.0312, 0.04961, 0.05, 0.0504, 0.00052, 0.00001, 0.9999)]
    assert found == [".031", ".0496", ".050", ".0504", ".0005", "<.0001", "1"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("n_notes", [60, 600])
def test_a_table_with_a_deep_heading_and_many_notes_ends(n_notes):
    heading = "aaaa-bbbb-cccc-dddd-eeee-ffffff-gggg-hhhh"
    rows = tuple((tables.TableCell(f"d{i}"), tables.TableCell("1")) for i in range(10))
    notes = tuple(f"note {i}" for i in range(n_notes))
    table = tables.ReportTable("t", "A title", ("dataset", heading), (tables.Panel(rows),), notes)
    text = tables.to_latex([table])
    found = [int(line.split()[0][1:]) for line in text.splitlines() if re.match(r" *d\d", line)]
    assert found == list(range(10)) and text.count("\\begin{tabular}") <= 3


# ---------------------------------------------------------------------- escaping


@pytest.mark.fault(13)
def test_hostile_names_stay_inert_in_latex_markdown_and_csv(tmp_path):
    written = texts(hostile_evidence(), tmp_path)
    for name, data in readable(written).items():
        text = data.decode("utf-8")
        assert not set(text) & {"\x00", "\u202e", "\r", "\t"}, name
        if name.endswith(".tex") and name != "paper/main.tex":  # which holds no name
            assert not re.search(r"\\(input|write18)\b", text) and "\\end{document}" not in text
            assert all(c.isascii() or c.isalnum() for c in text)  # letters of other scripts
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
    lines = files.to_csv(frame).splitlines()
    assert lines == ["text,value", "'-x,-0.12", "' =1,", "'＝1,1e-07", "'-0.5,3"]
