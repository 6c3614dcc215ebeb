"""The folder paper/: one table or figure a file, with display names, and a document of them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from . import bibliography, optional, paper_figures
from .aggregation.rank_tests import why_no_friedman
from .aggregation.ranking_matrix import RankingMatrix, widest
from .evidence import Evidence
from .metrics import METRICS
from .output import escape, footnotes
from .output.curves import Plot
from .output.tables import (
    Panel,
    ReportTable,
    Row,
    Section,
    TableCell,
    fixed,
    to_latex,
    transposed,
)
from .sections import critical_difference, seeds
from .sections.leaderboard import TOO_FEW
from .statistics.tests import ALPHA

FOLDER = "paper/"
COSTS = (
    *("trials", "CPU s", "fit s, median", "peak MiB", "peak GPU MiB", "ms a step"),
    "ms per 1,000 rows",
)
DATASETS = tuple("dataset,rows,num.,cat.,classes,train,val.,test".split(","))
OWN = "*"  # after the name of a model that is not tabsweep's

MAIN = """\
% Every table and figure of this folder, in the order in which a paper would have them.
\\documentclass{article}
\\usepackage{booktabs}
%PACKAGES%\\begin{document}
\\input{setup}
%INPUTS%
%SOURCES%\\end{document}
"""


# A font that is there prints the letters that the one of the text lacks.
LETTERS = """\
% Names have letters that the fonts of pdflatex lack: compile with lualatex.
\\usepackage{fontspec}
\\newcommand\\letters{}
\\newcommand\\lettersof[1]{\\IfFontExistsTF{#1}{\\edef\\letters{\\letters"#1:",}}{}}
%FONTS%\\directlua{luaotfload.add_fallback("letters", {\\letters})}
\\setmainfont{Latin Modern Roman}[RawFeature={fallback=letters}]
""".replace(
    "%FONTS%",
    "".join(
        f"\\lettersof{{{font}}}\n"
        for font in ("CMU Serif", "FreeSerif", "DejaVu Serif", "Noto Serif CJK SC", "FandolSong")
    ),
)


def files(
    evidence: Evidence,
    parts: Sequence[Section],
    matrices: Sequence[RankingMatrix],
    against: Mapping[str, Plot | None] | None = None,
    *,
    missed: list[str],
) -> dict[str, str | bytes]:
    """{paper/<name>.tex: text}: datasets, scores-<task>, ranks, reference, costs,
    critical-difference (for the widest scope, and with its name for each other one) and the figures
    of `paper_figures.plots`, as far as the report has them; the figures also as PDF (of
    critical-difference the widest); references.bib; `setup`, a paragraph on how they were
    computed; `main`, which compiles to all of it.

    A model or dataset is called what the fact `names` says, models stand in the order of their
    mean rank, and one of the user's own is marked. `matrices`: one for each scope; `missed` gets a
    sentence on each figure that could not be drawn.
    """
    whole = widest(matrices)
    names = _Names(evidence, whole)
    tables = {
        table.name: table
        for part in parts
        if part.name in ("scores", "leaderboard", "tests", "costs")
        for table in part.tables
    }
    stds = _over_seeds(parts)
    made = [_scores(evidence, tables[f"scores-{task}"], names, stds) for task in evidence.tasks]
    scope = whole.scope.name.replace(" ", "-")
    if _is_full(tables[f"leaderboard-{scope}"].panels[0]):
        made.append(_ranks(tables[f"leaderboard-{scope}"], whole, names))
    if (tests := tables.get(f"tests-reference-{scope}")) and _is_full(tests.panels[0]):
        made.append(_reference(tests, whole, names))
    made.append(_costs(tables["costs"], names))
    if facts := evidence.facts.of_datasets:
        made.insert(0, _datasets(evidence, facts, names))
    texts = {table.name: to_latex([table]) for table in made}
    pdfs: dict[str, bytes | None] = {}
    for matrix in sorted(matrices, key=lambda matrix: matrix is not whole):
        if why_no_friedman(matrix):
            continue
        drawing = critical_difference.diagram(matrix, named=names)
        name = "critical-difference"
        if matrix is whole:
            pdf = partial(critical_difference.to_pdf, drawing)
            pdfs[name] = optional.made(f"The figure {FOLDER}{name}.pdf", pdf, None, missed)
        else:
            name += f"-{matrix.scope.title.replace(', ', '-').replace(' ', '-')}"
        n = footnotes.count(len(matrix.datasets), "dataset")
        said = (
            f"Mean ranks on {n} ({matrix.scope.title}); a bar joins models that do not differ "
            "significantly (Nemenyi's test, 5 % level)."
        )
        texts[name] = paper_figures.figure(name, critical_difference.to_tikz(drawing), said)
    diagrams = any(name.startswith("critical-difference") for name in texts)
    packages = ["\\usepackage{tikz}\n"] * diagrams
    costs = next(part.frame for part in parts if part.name == "costs")
    plots = partial(paper_figures.plots, evidence, whole, costs, against or {})
    drawn = optional.made(f"The figures of {FOLDER}", plots, {}, missed)
    for name, (plot, caption) in drawn.items():
        pdf = partial(plot.pdf, names)
        pdfs[name] = optional.made(f"The figure {FOLDER}{name}.pdf", pdf, None, missed)
        texts[name] = paper_figures.to_latex(name, plot, caption, names)
    packages += ["\\usepackage{pgfplots}\n\\pgfplotsset{compat=1.16}\n"] * bool(drawn)
    of_models, of_data = bibliography.entries(evidence, evidence.facts.names)
    sources = {entry.key: entry.text for entry in (*of_models.values(), *of_data.values())}
    packages += [LETTERS] * (not all(map(str.isascii, [*texts.values(), *sources.values()])))
    main = MAIN.replace("%PACKAGES%", "".join(packages))
    main = main.replace("%INPUTS%", "\n".join(f"\\input{{{name}}}" for name in texts))
    main = main.replace("%SOURCES%", SOURCES * bool(sources))
    texts |= {"setup": setup(evidence, whole, of_models, of_data), "main": main}
    written: dict[str, str | bytes] = {f"{name}.tex": text for name, text in texts.items()}
    written |= {f"{name}.pdf": pdf for name, pdf in pdfs.items() if pdf is not None}
    if sources:
        written["references.bib"] = "\n".join([bibliography.HEAD, *sources.values()])
    return {f"{FOLDER}{name}": text for name, text in written.items()}


SOURCES = "\\bibliographystyle{plain}\n\\bibliography{references}\n"


class _Names:
    """What a paper calls models and datasets, by name; `model_of` and `dataset_of` lead from the
    labels of the report's tables, which `report.parts_of` holds to be different, back to names."""

    def __init__(self, evidence: Evidence, widest: RankingMatrix) -> None:
        """`order`: the models by mean rank, then those that are not ranked, by name."""
        ranked = [] if widest.why_not else widest.order()[0]
        rest = [model for model in evidence.models if model not in ranked]
        names = evidence.facts.names
        self.order = [*ranked, *rest]
        self.own = set(evidence.own)
        self.model_of, self.dataset_of = (
            {escape.label(name): name for name in found}
            for found in (evidence.models, evidence.datasets())
        )
        self._models, self._datasets = (
            escape.told_apart({n: names.get(n, escape.label(n)) for n in found})
            for found in (evidence.models, evidence.datasets())
        )

    def __call__(self, model: str) -> str:
        """A model's name; the line of a family in a figure keeps its own."""
        return self._models.get(model, model) + OWN * (model in self.own)

    def note(self, models: Sequence[str]) -> tuple[str, ...]:
        """The note that explains the sign of a user's own model; empty if no model has the sign."""
        return (f"{OWN}: our model.",) if self.own & set(models) else ()

    def of_model(self, row: Row) -> Row:
        """The row of a model with what a paper calls it."""
        return (replace(row[0], text=self(self.model_of[row[0].text])), *row[1:])

    def of_dataset(self, row: Row) -> Row:
        """The row of a dataset likewise; that of mean ranks as it is."""
        name = self.dataset_of.get(row[0].text)
        return (replace(row[0], text=self._datasets[name]), *row[1:]) if name else row


def _is_full(panel: Panel) -> bool:
    """Whether the panel has rows of figures, not the reason why there are none."""
    return all(cell.span == 1 for row in panel.rows for cell in row)


def _datasets(
    evidence: Evidence, facts: Mapping[str, Mapping[str, Any]], names: _Names
) -> ReportTable:
    """What was learned: a row a dataset, with the rows of the parts of a fold."""
    rows = []
    for dataset in evidence.datasets():
        known = facts.get(dataset) or {}
        kinds, sizes = known.get("kinds") or {}, known.get("sizes") or [None] * 3
        numbers = [evidence.facts.rows.get(dataset)]
        numbers += [kinds.get(kind, 0) if kinds else None for kind in ("numeric", "categorical")]
        numbers += [len(known.get("classes") or ()) or None, *sizes]
        cells = (TableCell("–" if n is None else f"{n:,.0f}") for n in numbers)
        rows.append((TableCell(escape.label(dataset)), *cells))
    panels = (Panel(tuple(map(names.of_dataset, rows))),)
    notes = (
        "Numeric and categorical features, as the models get them. Training, validation and test "
        "rows of a fold: means over those that ran. A dash: no classes, or not recorded.",
    )
    return ReportTable("datasets", "The datasets.", DATASETS, panels, notes)


def _over_seeds(parts: Sequence[Section]) -> dict[tuple[str, str], float]:
    """{(dataset, model): standard deviation over the evaluation seeds} of the headline metrics, on
    datasets with one split."""
    judged = next((part.frame for part in parts if part.name == seeds.NAME), None)
    if judged is None:
        return {}
    one = judged.groupby("dataset")["fold"].transform("nunique") == 1
    runs = judged[one & judged["headline"] & (judged["kind"] == seeds.SINGLE) & (judged["n"] > 1)]
    return {(r.dataset, r.model): r.std for r in runs.itertuples(index=False)}


def _scores(
    evidence: Evidence, table: ReportTable, names: _Names, stds: Mapping[tuple[str, str], float]
) -> ReportTable:
    """The scores of a task. stds: see `_over_seeds`."""
    task = table.name.removeprefix("scores-")
    metric = evidence.headline(task)

    def with_std(row: Row) -> Row:
        dataset = names.dataset_of.get(row[0].text, "")
        made = [row[0]]
        for label, cell in zip(table.header[1:], row[1:], strict=True):
            std = stds.get((dataset, names.model_of[label]))
            if std is not None and not cell.sub:
                decimals = len(cell.text.partition(".")[2])
                std *= METRICS[metric].factor
                text = fixed(std, decimals)
                cell = replace(cell, sub=text if float(text) or not std else seeds.truncated(std))
            made.append(cell)
        return tuple(made)

    panels = tuple(replace(p, rows=tuple(map(with_std, p.rows))) for p in table.panels)
    table = replace(table, panels=panels)
    column_of = {names.model_of[label]: c for c, label in enumerate(table.header) if c}
    models = [model for model in names.order if model in column_of]
    columns = [0, *(column_of[model] for model in models)]
    panels = tuple(
        Panel(tuple(names.of_dataset([row[c] for c in columns]) for row in panel.rows), panel.title)
        for panel in table.panels
    )
    all_overlap = evidence.overlapping.issuperset(evidence.datasets(task))  # others are marked
    spread = "standard deviation" if all_overlap else "standard error"
    folds = f"Mean over the folds and its {spread}"
    on_seeds = {dataset for dataset, _ in stds}.intersection(evidence.datasets(task))
    if on_seeds:
        said = "Mean over the evaluation seeds of one split and their standard deviation (ddof 0)"
        more = set(evidence.datasets(task)) - on_seeds
        folds = f"{said}; on {footnotes.join(sorted(more))}: {folds.lower()}" if more else said
    notes = (
        f"{folds}; {METRICS[metric].better} is better.",
        *_marks(table),
        *names.note(models),
    )
    title = f"Test {footnotes.metric_title(metric)} on {footnotes.TASK_TITLES[task]}."
    header = ("dataset", *map(names, models))
    made = ReportTable(table.name, title, header, panels, notes, best="dataset")
    return transposed(made) if len(models) > len(table.panels[0].rows) else made


def _marks(table: ReportTable) -> tuple[str, ...]:
    """The notes that explain signs of the table: dagger, double dagger, words such as n/s."""
    cells = [cell for panel in table.panels for row in panel.rows for cell in row]
    signs = {sign for cell in cells for sign in (*cell.mark, cell.text)} & {
        *"†‡§",
        *("fail", "open", "n/s", "undef", "–"),
    }
    return tuple(note for note in table.notes if note.startswith(tuple(signs)))


def _ranks(table: ReportTable, matrix: RankingMatrix, names: _Names) -> ReportTable:
    rows = tuple(map(names.of_model, table.panels[0].rows))
    n = footnotes.count(len(matrix.datasets), "dataset")
    notes = (
        f"{n} on which every model has a complete score. Elo: Bradley-Terry, mean 1000; norm.: 1 "
        "for the best and 0 for the worst model of a dataset; improv.: 1 − best error / own error.",
        *names.note(matrix.models),
    )
    kept = [c for c, cells in enumerate(table.columns) if {x.text for x in cells} != {TOO_FEW}]
    made = replace(
        table, name="ranks", title=f"Ranks over {n}.", panels=(Panel(rows),), notes=notes
    )
    return made.only(kept)


def _reference(table: ReportTable, matrix: RankingMatrix, names: _Names) -> ReportTable:
    panel = table.panels[0]
    reference = names.model_of[panel.title.rpartition("reference: ")[2]]
    rows = tuple(map(names.of_model, panel.rows))
    notes = (
        f"Datasets on which the model is better or worse than {names(reference)}; Wilcoxon's "
        f"signed-rank test, Holm's correction. Bold: p ≤ {ALPHA:g} after it.",
        *names.note(matrix.models),
    )
    n = footnotes.count(len(matrix.datasets), "dataset")
    title = f"Every model against {names(reference)} on {n}."
    return ReportTable("reference", title, table.header, (Panel(rows),), notes)


def _costs(table: ReportTable, names: _Names) -> ReportTable:
    row_of = {names.model_of[row[0].text]: row for panel in table.panels for row in panel.rows}
    rows = tuple(names.of_model(row_of[model]) for model in names.order if model in row_of)
    notes = (
        "CPU seconds of all trials, the largest memory, and the median time to predict 1,000 rows. "
        "Costs compare on the same hardware only.",
    )
    kept = [0, *(table.header.index(head) for head in COSTS if head in table.header)]
    made = ReportTable("costs", "Cost of the sweep.", table.header, (Panel(rows),), notes)
    return made.only(kept)


def setup(
    evidence: Evidence,
    matrix: RankingMatrix,
    models: Mapping[str, bibliography.Entry],
    datasets: Mapping[str, bibliography.Entry],
) -> str:
    """A paragraph on how the numbers were computed, for an author to adapt. models, datasets: those
    that have an entry in the bibliography."""
    n = len(evidence.datasets())
    metrics = footnotes.headlines(evidence, evidence.tasks)
    of_models, of_data = (bibliography.cited(found.values()) for found in (models, datasets))
    compared = (
        f"We compare {footnotes.count(len(evidence.models), 'model')}{of_models} on "
        f"{footnotes.count(n, 'dataset')}{of_data}: {escape.latex(metrics)}."
    )
    said = [
        *(line for line in footnotes.setting(evidence) if line.startswith("Setting:")),
        *footnotes.protocols(evidence, evidence.datasets()),
        "Of each study the configuration with the best validation score counts; its test score is "
        "averaged over the folds, and every dataset counts once.",
    ]
    if not why_no_friedman(matrix):
        said.append(f"Ranks are tested by Friedman's test and Nemenyi's at {ALPHA:g}.")
    text = "\n".join([compared, *(escape.latex(escape.one_line(line)) for line in said)])
    return f"% How the numbers were computed: adapt it.\n\\paragraph{{Setup.}}\n{text}\n"
