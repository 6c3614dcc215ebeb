"""A small paper's folder outside of the package: one table from a suite, one from an experiment."""

from __future__ import annotations

from pathlib import Path

PAPER = """
title = "A toy paper"
reference = "nobody 2026"

[models]
neighbours = "knn"

[datasets]
flowers = "iris"

[table.toy-table-1]
title = "Toy, Table 1"
published = "table1.csv"
suite = "toy-small"
budget = "tiny"
metrics.accuracy = { ours = "accuracy", unit = 100.0 }

[table.toy-table-2]
title = "Toy, Table 2"
published = "table2.csv"
experiment = "toy"

[table.toy-table-3]
title = "Toy, Table 3"
published = "table2.csv"
experiment = "toy"

[table.toy-table-4]
title = "Toy, Table 4"
published = "table2.csv"
why = "it says nothing of a model"

[table.toy-table-5]
title = "Toy, Table 5: what was searched"
command = "bench models knn"

[figure.toy-figure-1]
title = "Toy, Figure 1: a line"
experiment = "toy"
shows = ["line", "scores"]

[figure.toy-figure-2]
title = "Toy, Figure 2: two bars"
suite = 'toy-small'
budget = 'tiny'

[figure.toy-figure-3]
title = "Toy, Figure 3: the idea"
why = "a drawing"

[experiment.toy]
title = "A toy & its table"
source = "nobody 2026"
run = "study:run"
reduced = "at once"
full = "at once, too"
"""
HEADER = "paper,table,dataset,method,metric,direction,value,spread,spread_kind,n_repeats,note\n"
TABLE_1 = """\
toy,1,flowers,neighbours,accuracy,max,96.0,1.0,sem,10,unit=percent
toy,1,flowers,linear,accuracy,max,95.0,1.5,sem,10,unit=percent
toy,1,wine,linear,accuracy,max,97.0,,none,1,unit=percent
"""
TABLE_2 = "toy,2,flowers,a_b,score,max,0.5,,none,1,\n"
SUITE = """
name = "toy-small"
title = "Two bundled tables"
datasets = ["iris", "wine"]
default_budget = "tiny"
[metric]
multiclass = "accuracy"
[budgets.tiny]
models = ["knn", "linear"]
folds = 2
trials = 1
sampler = "random"
"""
STUDY = '''
"""An experiment of one table, one figure and one remark."""

from __future__ import annotations

from pathlib import Path

from ..experiment_files import new_figure, save_figure
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import printed_values
from .helper import ROWS


def run(setting: Setting) -> ExperimentResult:
    setting.say("half of it is done")
    figure, axes = new_figure()
    axes[0, 0].plot([0, 1], [0, setting.seed])
    printed = printed_values(Path(__file__).parent, "table2")
    tables = [
        ExperimentTable("scores", "Scores of methods", ROWS, note="higher is better"),
        ExperimentTable("toy-table-3", "Printed", [{"score": v} for v in printed.values()]),
    ]
    return ExperimentResult(
        tables=tables,
        figures=[save_figure(figure, setting.out / "line.png")],
        remarks=[f"threads: {setting.threads}"],
        facts={"step_ms": 1.5},
    )
'''
HELPER = """ROWS = [
    {"method": "a_b", "kind": "x", "score": 0.123456, "n": 7},
    {"method": "=c", "kind": "y", "n": 1000000},
]
"""


def write_paper(folder: Path) -> Path:
    """The folder of a paper, made anew."""
    files = {
        "paper.toml": PAPER,
        "published/table1.csv": HEADER + TABLE_1,
        "published/table2.csv": HEADER + TABLE_2,
        "suites/toy-small.toml": SUITE,
        "study.py": STUDY,
        "helper.py": HELPER,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
