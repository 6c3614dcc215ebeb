"""The folder paper/: display names, the order of ranks, and documents that compile to all of it."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from report_cases import HOSTILE, evidence_of, mixed, pdflatex, readable, rows_of, texts
from tabsweep.models.registry_entries import MODELS as REGISTERED
from tabsweep.reports import bibliography, report
from tabsweep.reports.output import escape
from tabsweep.reports.output.curves import Curve, Plot
from tabsweep.reports.output.text_width import TEXT_WIDTH_PT, width
from tabsweep.reports.output.wins import Wins

MODELS = ["catboost", "ft-transformer", "knn", "my.module:Mine"]
LONGEST = "TabTransformer+CheAtt"
NAMES = {"catboost": "CatBoost", "ft-transformer": "FT-Transformer", "my.module:Mine": "Mine"}


def evidence(models=MODELS, n=8):
    families = {name: ["external" if ":" in name else "gbdt", "", ""] for name in models}
    frame = rows_of(mixed(n), models, score=lambda d, j: 0.6 + 0.05 * ((j + len(d)) % len(models)))
    return evidence_of(frame, names=NAMES | {"binary-0": "Adult"}, families=families)


def test_models_have_display_names_in_the_order_of_their_ranks_and_one_s_own_is_marked(tmp_path):
    written = texts(evidence(), tmp_path)
    scores = written["paper/scores-binary.tex"].decode()
    order = [row.split(" & ")[0].strip() for row in written["paper/ranks.tex"].decode().split("\n")]
    ranked = [name for name in order if name in ("CatBoost", "FT-Transformer", "knn", "Mine{*}")]
    assert len(ranked) == 4
    heads = re.findall(r"CatBoost|Transformer|knn|Mine\{\*\}", scores)
    assert heads == [name.removeprefix("FT-") for name in ranked] and "Adult & " in scores
    assert "{*}: our model." in scores and "my.module" not in scores


def test_no_two_models_are_called_alike_and_each_has_its_own_numbers(tmp_path):
    models = ["a.py:Net", "b.py:Net", "dataset", "KNN", "knn", "x" * 40 + "1", "x" * 40 + "2"]
    frame = rows_of(mixed(4), models, score=lambda d, j: 0.5 + 0.01 * j)
    names = {"a.py:Net": "Net", "b.py:Net": "Net", "knn": "k-NN", "KNN": "KNN"}
    written = texts(evidence_of(frame, names=names), tmp_path)
    ranks = written["paper/ranks.tex"].decode().partition("midrule")[2].partition("bottomrule")[0]
    rows = [row.split(" & ") for row in ranks.splitlines() if " & " in row]
    called = [row[0].strip() for row in rows]
    assert called[2:] == ["k-NN", "KNN", "dataset", "b.py:Net", "a.py:Net"]
    assert len(set(called)) == len(models) and "mean rank" not in called
    scores = written["paper/scores-binary.tex"].decode()
    assert all(f".{500 + 10 * j}" in scores for j in range(len(models)))


def test_a_second_number_is_called_what_it_is_where_some_test_parts_overlap(tmp_path):
    frame = rows_of({"binary-0": "binary", "binary-1": "binary"}, ["a", "b"])
    for overlapping, word in ((["binary-0"], "error"), (["binary-0", "binary-1"], "deviation")):
        written = texts(evidence_of(frame, overlapping=overlapping), tmp_path)
        scores = written["paper/scores-binary.tex"].decode()
        assert f"Mean over the folds and its standard {word};" in scores
        assert "The stored test parts overlap" in scores


def test_each_file_holds_one_table_or_figure_and_main_names_all_of_them(tmp_path):
    written = texts(evidence(), tmp_path)
    files = {n: t.decode() for n, t in readable(written).items() if n.startswith("paper/")}
    main = files.pop("paper/main.tex")
    assert set(re.findall(r"\\input\{(.*)\}", main)) == {n[6:-4] for n in files}
    files.pop("paper/references.bib", None)
    assert (
        "paper/profiles.tex" in files
        and "paper/pairwise-wins.tex" in files
        and "paper/rank-against-cost.tex" in files
    )
    assert "paper/critical-difference-binary.tex" in files
    for name, text in files.items():
        assert text.count("\\caption") == (name != "paper/setup.tex"), name


def test_a_narrower_scope_s_diagram_alone_has_its_package(tmp_path):
    of_regression = rows_of({f"regression-{i}": "regression" for i in range(8)}, ["a", "b", "c"])
    binary = rows_of({f"binary-{i}": "binary" for i in range(8)}, ["d", "e", "f"])
    frame = pd.concat([of_regression, binary], ignore_index=True)
    written = texts(evidence_of(frame.assign(id=[str(i) for i in range(len(frame))])), tmp_path)
    main = written["paper/main.tex"].decode()
    assert "\\input{critical-difference-binary}" in main
    assert "\\input{critical-difference}" not in main and "\\usepackage{tikz}" in main


def test_models_and_datasets_with_a_source_are_cited(tmp_path):
    families = {
        "catboost": ["gbdt", "", "Prokhorenkova et al. 2018, arXiv:1706.09516; another"],
        "ft-transformer": ["gbdt", "", "Prokhorenkova et al. 2018, sec. 3"],
        "knn": ["classical", "", "Cover & Hart, no year"],
        "my.module:Mine": ["external", "", "Somebody et al. 2020, a preprint"],
    }
    facts = {
        "binary-0": {"title": "Adult", "citation": "Kohavi {Scaling up} 100 %"},
        "binary-1": {"citation": "R. Kohavi, B. Q: Scaling Up. KDD (1996) 2-9. UCI."},
    }
    written = texts(evidence().knowing(families=families, of_datasets=facts), tmp_path)
    entries = written["paper/references.bib"].decode().split("@")[1:]
    keys = [entry.partition(",")[0].partition("{")[2] for entry in entries]
    assert keys[:2] + keys[3:] == ["prokhorenkova-et-al-2018", "knn", "binary-0", "binary-1"]
    paper, knn, mine, adult, second = entries
    assert paper.startswith("inproceedings{") and "year = {2018}" in paper  # once for two models
    assert "Prokhorenkova, Liudmila and Gusev, Gleb" in paper and "others" not in paper
    assert "title = {{CatBoost: unbiased boosting with categorical features}}" in paper
    assert "note = {Cover \\& Hart, no year}" in knn
    assert "author = {Somebody and others}" in mine and "howpublished = {a preprint}" in mine
    assert "note = {Kohavi \\{Scaling up\\} 100 \\%}" in adult
    assert "author = {R. Kohavi and B. Q}" in second and "title = {{Scaling Up}}" in second
    assert "year = {1996}" in second and "howpublished = {KDD, 2-9. UCI}" in second
    setup = written["paper/setup.tex"].decode()
    assert f"4 models~\\cite{{{','.join(keys[:3])}}}" in setup
    assert "~\\cite{binary-0,binary-1}: binary" in setup
    assert "\\bibliography{references}" in written["paper/main.tex"].decode()


def test_the_papers_of_the_registry_are_whole_entries_with_keys_of_their_own():
    taken: dict[str, str] = {}
    for spec in REGISTERED.values():
        if spec.paper:
            entry = bibliography._of_model(spec.name, spec.display_name, spec.paper, taken).text
            assert "@misc" not in entry and " others" not in entry, entry
            for field in ("author", "title", "year"):
                assert f"  {field} = {{" in entry
            assert re.search(r"  (journal|booktitle|publisher) = \{", entry)
            stated = re.search(r"(?:doi:|arXiv:)([^,; ]+)", spec.paper.partition(";")[0])
            assert stated is None or stated[1] in entry or "doi = {10.1" in entry, entry
    two = [bibliography._entry("misc", name, {"note": name}, taken).key for name in ("A b", "A-b")]
    assert len({key.lower() for key in two}) == 2


def test_profiles_and_wins_are_shares_of_datasets():
    from tabsweep.reports.aggregation.cells import headline_cells, studies
    from tabsweep.reports.aggregation.ranking_matrix import ranking_matrices
    from tabsweep.reports.paper_figures import plots
    from tabsweep.reports.sections.coverage_and_costs import costs

    errors = {"a": [0.1, 0.2], "b": [0.2, 0.2], "c": [0.5, 0.1]}
    frame = rows_of(
        {"binary-0": "binary", "binary-1": "binary"},
        list(errors),
        score=lambda d, j: 1.0 - list(errors.values())[j][int(d[-1])],
    )
    found = evidence_of(frame)
    matrix = ranking_matrices(found, headline_cells(found, studies(found)))[-1]
    drawn = plots(found, matrix, costs(found).frame, {})
    plot, _ = drawn["profiles"]
    curves = {curve.label: dict(zip(curve.x, curve.y, strict=True)) for curve in plot.curves}
    for model, shares in {"a": (0.5, 1.0), "b": (0.0, 1.0), "c": (0.5, 1.0)}.items():
        assert curves[model][1.0] == shares[0] and max(curves[model].values()) == shares[1]
    assert np.isclose(max(curves["a"]), 5.0) and np.isclose(sorted(curves["b"])[1], 2.0)
    assert plot.ticks()[:4] == [1.0, 1.5, 2.0, 3.0]
    for start, end in ((1.0, 1.4), (3.1, 5.5), (120.0, 190.0), (0.0021, 0.0023)):
        curve = Curve("a", np.array([start, end]), np.ones(2), (0, 0))
        ticks = Plot([curve], "", "", "").ticks()
        assert 3 <= len(ticks) <= 8 and start <= ticks[0] <= ticks[-1] <= end + 1e-9
    wins = drawn["pairwise-wins"][0]
    at = [list(wins.models).index(model) for model in errors]
    of = wins.shares[np.ix_(at, at)]
    assert of.tolist() == [[0.5, 0.75, 0.5], [0.25, 0.5, 0.5], [0.5, 0.5, 0.5]]


def test_cells_of_pairwise_wins_leave_room_for_the_widest_name():
    models = ["mymodel.file:MyQuiteLongClassNameHere", *(f"model-{i}" for i in range(11))]
    wins = Wins(models, np.full((12, 12), 0.5))
    cell = float(re.search(r"x=([\d.]+)\\linewidth", wins.pgf()).group(1))
    name = width(f"(1) {escape.label(models[0])}", 7.0)
    assert name < TEXT_WIDTH_PT * (1 - 12 * cell)
    figure = wins._drawn()
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert axes.get_tightbbox().x0 >= 0 and axes.get_window_extent().x1 <= figure.bbox.x1


def test_files_of_an_earlier_report_go(tmp_path):
    assert "paper/critical-difference.tex" in texts(evidence(), tmp_path)
    report.write(evidence(MODELS[:2]), tmp_path, html=False)
    assert not (tmp_path / "paper" / "critical-difference.tex").exists()


@pytest.mark.parametrize("options", ["", "[twocolumn]"])
@pytest.mark.parametrize("models", [[*MODELS, LONGEST], HOSTILE], ids=["usual", "hostile"])
def test_all_files_of_a_report_compile_in_one_document(tmp_path, models, options):
    written = texts(evidence(models, 12), tmp_path)
    own = [n for n in written if n.endswith(".tex") and n != "paper/main.tex"]
    inputs = "".join(f"\\input{{{name}}}\n" for name in own)
    head = (
        f"\\documentclass{options}{{article}}\\usepackage{{booktabs,pgfplots}}\\begin{{document}}\n"
    )
    (tmp_path / "page.tex").write_text(head + inputs + "\\end{document}\n")
    for folder, page in ((tmp_path, "page"), (tmp_path / "paper", "main")):
        log = pdflatex(folder, page)
        if models is not HOSTILE:
            assert "Overfull \\hbox" not in log and "Float too large" not in log


def test_the_datasets_are_a_table_and_scores_on_one_split_have_the_deviation_of_seeds(tmp_path):
    frame = rows_of({"binary-0": "binary"}, ["a", "b"], n_folds=1)
    seeds = [frame.assign(stage="eval", seed=s, index=s, selected=False) for s in range(4)]
    for s, part in enumerate(seeds):
        part["test_roc_auc"] = 0.8 + 0.01 * s
    facts = {"kinds": {"numeric": 3}, "sizes": [70.0, 20.0, 10.0], "classes": {"no": 1, "yes": 2}}
    known = {"of_datasets": {"binary-0": facts}, "rows": {"binary-0": 1100}}
    found = evidence_of(pd.concat([frame, *seeds], ignore_index=True), **known)
    written = texts(found, tmp_path)
    row = "binary-0 & 1,100 & 3 & 0 & 2 & 70 & 20 & 10"
    assert row in written["paper/datasets.tex"].decode()
    scores = written["paper/scores-binary.tex"].decode()
    assert "standard deviation (ddof 0)" in scores and "815" in scores and "011" in scores
