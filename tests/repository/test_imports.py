"""Import graph of the package: no cycle anywhere, and arrows between and inside the rooms."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest
from repo import ROOT, tree
from tabsweep.models import registry
from tabsweep.sweeps.fingerprint import imported_names

PACKAGE = "tabsweep"

# Room -> the other rooms that it may import.
ROOMS: dict[str, tuple[str, ...]] = {
    "common": (),
    "datasets": ("common",),
    "models": ("common",),
    "sweeps": ("common",),
    "reports": ("common",),
    "benchmark": ("common", "datasets", "models", "sweeps", "reports"),
}

# Room -> its layers, top first. A layer is a set of folders and files; each imports what stands in
# the layers below it. Neighbours in a layer may import each other in one direction.
LAYERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "benchmark": (
        ("cli", "perf"),
        ("commands",),
        ("nightly", "papers"),
        ("library",),
        ("outcome",),
        ("running", "tracking"),
        ("results",),
        ("planning",),
        ("arguments", "gpu_check"),
        ("completion", "console", "errors", "toml_file"),
        ("bag", "bag_members"),
        ("cell", "column_encoding", "prediction_time"),
    ),
    "sweeps": (
        ("ray_tune",),
        ("engine",),
        ("scheduling",),
        ("workers",),
        ("store",),
        ("events",),
        ("study",),
        ("study_state",),
        ("search",),
        ("trial", "fingerprint", "machine"),
    ),
    "reports": (
        ("report", "explain"),
        ("paper",),
        ("paper_figures", "bibliography"),
        ("alarms", "analyses", "sections", "html", "regression", "reproduction"),
        ("output", "aggregation"),
        (
            "evidence",
            "facts",
        ),
        ("statistics", "metrics", "optional"),
    ),
}

SCRIPTS = "benchmark.perf"  # run from a checkout, never installed; may use the package's front door


# ---------------------------------------------------------------------- reading the graph


class Import(NamedTuple):
    """An import of one module by another; dotted names without the package's."""

    importer: str
    imported: str

    def __str__(self) -> str:
        return " -> ".join(self)


def modules_of(room: str) -> dict[str, Path]:
    """{dotted name: path} of every module of a room."""
    paths = sorted((ROOT / room).rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}


@cache
def graph() -> list[Import]:
    """Every import of a module of the rooms by a module of the rooms, wherever it stands."""
    known = {name: path for room in ROOMS for name, path in modules_of(room).items()}
    found = set()
    for module, path in known.items():
        names = imported_names(tree(path), module=f"{PACKAGE}.{module}", is_package=False)
        found |= {Import(module, name.removeprefix(f"{PACKAGE}.")) for name in names}
    return sorted(arrow for arrow in found if arrow.imported in known)


def check_no_cycle(arrows: Iterable[tuple[str, str]]) -> None:
    """Raises CycleError, which names a cycle."""
    after: dict[str, set[str]] = defaultdict(set)
    for importer, imported in arrows:
        after[importer].add(imported)
    TopologicalSorter(after).prepare()


def room_and_unit(module: str) -> tuple[str, str]:
    """("reports", "sections") of "reports.sections.ranks": a room and a folder or file in it."""
    parts = module.split(".")
    return parts[0], parts[1] if parts[1:] else ""


def layer_of(room: str, unit: str) -> int:
    """How deep a unit stands in its room, 0 on top; -1 where no layer names it."""
    return next((depth for depth, names in enumerate(LAYERS[room]) if unit in names), -1)


def absent(room: str, unit: str) -> bool:
    """Whether a room has no folder and no file of this name."""
    return not (ROOT / room / unit).is_dir() and not (ROOT / room / f"{unit}.py").is_file()


# ---------------------------------------------------------------------- the laws


def test_there_is_no_import_cycle() -> None:
    assert len(graph()) > 500, "the modules were not found"
    check_no_cycle(graph())


def test_rooms_import_only_the_rooms_below_them() -> None:
    wrong = []
    for arrow in graph():
        (room, _), (other, _) = map(room_and_unit, arrow)
        if not room or room == other or arrow.importer.startswith(SCRIPTS):
            continue
        if other not in ROOMS[room]:
            wrong.append(f"{arrow}; {room} may import {', '.join(ROOMS[room]) or 'no other room'}")
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize("room", LAYERS)
def test_inside_a_room_imports_lead_down_the_layers(room: str) -> None:
    inside = [i for i in graph() if all(room_and_unit(end)[0] == room for end in i)]
    wrong = []
    for arrow in inside:
        unit, other = (room_and_unit(end)[1] for end in arrow)
        depth, below = layer_of(room, unit), layer_of(room, other)
        if unit != other and -1 not in (depth, below) and below < depth:
            above = ", ".join(LAYERS[room][below])
            wrong.append(f"{arrow}; {unit} stands below {above}")
    homeless = {
        unit for module in modules_of(room) if layer_of(room, unit := room_and_unit(module)[1]) < 0
    }
    wrong += [f"{room}/{unit} stands in no layer of LAYERS" for unit in sorted(homeless)]
    named = [unit for names in LAYERS[room] for unit in names]
    wrong += [f"{room}/{unit} of LAYERS does not exist" for unit in named if absent(room, unit)]
    between = {tuple(room_and_unit(end)[1] for end in arrow) for arrow in inside}
    assert not wrong, "\n" + "\n".join(wrong)
    check_no_cycle((a, b) for a, b in between if a != b)


def test_no_module_of_models_imports_a_registered_model() -> None:
    """What models share stands in modules of its own; a model's files are imported by no other."""
    targets = [spec.target.partition(":")[0] for spec in registry.MODELS.values()]
    homes = {room_and_unit(target.partition(".")[2])[1] for target in targets}
    assert {"knn", "npt"} <= homes
    wrong = []
    for arrow in graph():
        (room, unit), (other_room, other) = map(room_and_unit, arrow)
        if room == other_room == "models" and unit != other and other in homes:
            wrong.append(f"{arrow}; {other} is a registered model")
    assert not wrong, "\n" + "\n".join(wrong)


def test_the_library_stands_beside_the_command_line() -> None:
    wrong = [
        str(arrow)
        for arrow in graph()
        if arrow.importer.startswith("benchmark.library.") and arrow.imported == "benchmark.console"
    ]
    assert not wrong, "\n" + "\n".join(wrong)


# What a fresh process runs, and the libraries that it has not loaded by then.
LIGHT = {
    "import tabsweep": "numpy click",
    "import tabsweep.benchmark.tracking.follower": "mlflow pandas torch ray sqlalchemy",
    "import tabsweep.reports.report, tabsweep.reports.html.write": "scipy.stats",
    "import tabsweep.sweeps.search.samplers, tabsweep.sweeps.search.optuna_tpe,"
    " tabsweep.sweeps.search.hyperopt_tpe": "numpy optuna hyperopt pandas ray scipy",
    "from tabsweep.datasets import catalog; [catalog.card(name) for name in catalog.names()]": (
        "numpy pandas sklearn"
    ),
    "from tabsweep.models import registry;"
    "[registry.load_class(spec.target) for spec in registry.MODELS.values()]": (
        "ray mlflow optuna hyperopt xgboost catboost lightgbm"
    ),
}


WITHOUT_SWEEP = """
import sys
from tabsweep.benchmark.errors import SWEEP_LIBRARIES
sys.modules.update(dict.fromkeys(SWEEP_LIBRARIES))  # as if they were not installed
import tabsweep
from tabsweep.benchmark.cli import main
table, fold = tabsweep.load_dataset("iris"), tabsweep.splits("iris")[0]
for name in ("knn", "lightgbm", "mlp"):
    model = tabsweep.make_model(name, task=table.task)
    model.fit(table.rows(fold.train), table.target[fold.train])
rows = ["method,dataset,split,seed,metric,value"]
for k, model in enumerate("ab"):
    rows += [f"{model},{name},{fold},0,accuracy,.{7 + k}{fold}" for name in "xyz" for fold in "01"]
open("r.csv", "w").write("\\n".join(rows) + "\\n")
codes = []
for words in (["report", "--from", "r.csv"], ["sweep", "--suite", "smoke", "--workers", "0"]):
    try:
        codes.append(main(words))
    except SystemExit as ended:
        codes.append(ended.code)
print("codes", codes)
"""


def test_models_and_reports_need_no_library_of_sweeps(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_SWEEP]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "codes [0, 3]" in done.stdout, done.stderr
    assert "BENCH-E026: not installed: hyperopt, mlflow, optuna, ray, sqlalchemy" in done.stderr
    assert (tmp_path / "report" / "html" / "index.html").is_file(), sorted(tmp_path.iterdir())


@pytest.mark.parametrize("program", LIGHT)
def test_no_heavy_library_is_loaded_before_it_is_needed(program: str) -> None:
    command = [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "tabsweep" in loaded and not loaded & set(LIGHT[program].split())
