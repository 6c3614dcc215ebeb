"""Import graph of the package: no cycle anywhere, and arrows between and inside the rooms."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from repo import ROOT, tree
from tabsweep.models import registry

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
        ("nightly",),
        ("library",),
        ("outcome",),
        ("papers", "running", "tracking"),
        ("results",),
        ("planning",),
        ("arguments", "gpu_check"),
        ("completion", "console", "errors", "cell", "column_encoding", "prediction_time"),
    ),
    "sweeps": (
        ("ray_tune",),
        ("engine",),
        ("scheduling",),
        ("workers",),
        ("store",),
        ("study",),
        ("study_state",),
        ("search",),
        ("trial", "fingerprint"),
    ),
    "reports": (
        ("report", "explain"),
        ("paper",),
        ("analyses", "sections", "html", "regression", "reproduction"),
        ("output", "aggregation"),
        ("evidence",),
        ("statistics", "metrics"),
    ),
}

SCRIPTS = "benchmark.perf"  # run from a checkout, never installed; may use the package's front door


# ---------------------------------------------------------------------- reading the graph


@dataclass(frozen=True, order=True)
class Import:
    """An import of one module by another; dotted names without the package's, "" is the package."""

    importer: str
    imported: str
    file: str  # of the importer, relative to the package's root
    line: int

    @property
    def ends(self) -> tuple[str, str]:
        """(importer, imported)."""
        return self.importer, self.imported

    def __str__(self) -> str:
        importer, imported = (name or PACKAGE for name in self.ends)
        return f"{self.file}:{self.line}: {importer} -> {imported}"


def modules_of(root: Path, folders: tuple[str, ...]) -> dict[str, Path]:
    """{dotted name: path} of every module of a package."""
    paths = [root / "__init__.py", *(p for name in folders for p in (root / name).rglob("*.py"))]
    found = {}
    for path in sorted(path for path in paths if path.exists()):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def absolute(target: str, dots: int, module: str, is_package: bool) -> str:
    """The dotted name, without the package's, that `dots` and `target` mean in `module`."""
    parts = module.split(".") if module else []
    base = parts[: len(parts) - dots + is_package]
    return ".".join([*base, *([target] if target else [])])


def named(node: ast.AST, module: str, is_package: bool) -> Iterator[tuple[str, str]]:
    """(module, name or "") of the package that a syntax node imports.

    Read are `import a.b`, `from a import b`, relative and absolute, wherever they stand (inside
    functions, under TYPE_CHECKING), and `import_module("a.b")` with a literal.
    """
    own = f"{PACKAGE}."
    if isinstance(node, ast.Import):
        for alias in node.names:
            if f"{alias.name}.".startswith(own):
                yield alias.name[len(own) :], ""
    elif isinstance(node, ast.ImportFrom):
        target = node.module or ""
        if node.level:
            target = absolute(target, node.level, module, is_package)
        elif f"{target}.".startswith(own):
            target = target[len(own) :]
        else:
            return
        for alias in node.names:
            yield target, alias.name
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        target = node.args[0].value
        if name not in ("import_module", "__import__") or not isinstance(target, str):
            return
        rest = target.lstrip(".")
        if rest != target:
            yield absolute(rest, len(target) - len(rest), module, is_package), ""
        elif target.startswith(own):
            yield target[len(own) :], ""


def imports_of(root: Path, folders: tuple[str, ...]) -> list[Import]:
    """Every import of a module of the package by a module of the package."""
    known = modules_of(root, folders)
    found = set()
    for module, path in known.items():
        place = path.relative_to(root).as_posix()
        for node in ast.walk(tree(path)):
            for target, name in named(node, module, path.name == "__init__.py"):
                deeper = f"{target}.{name}" if target else name
                imported = deeper if name and deeper in known else target
                if imported in known:
                    found.add(Import(module, imported, place, getattr(node, "lineno", 0)))
    return sorted(found)


def cycles(edges: set[tuple[str, str]]) -> list[list[str]]:
    """A shortest cycle through each node that lies on one; equal ones once."""
    after: dict[str, list[str]] = {}
    for importer, imported in sorted(edges):
        after.setdefault(importer, []).append(imported)
    found: dict[frozenset[str], list[str]] = {}
    for start in sorted(after):
        paths, seen = [[start]], set()
        while paths:
            path = paths.pop(0)
            following = after.get(path[-1], [])
            if start in following:
                found.setdefault(frozenset(path), [*path, start])
                break
            paths += [[*path, node] for node in following if node not in seen]
            seen.update(following)
    return list(found.values())


def told(ways: list[list[str]], imports: list[Import], unit: dict[str, str]) -> str:
    """Cycles as text: each arrow with one file and line where it is drawn."""
    lines = []
    for way in ways:
        lines.append(" -> ".join(name or PACKAGE for name in way))
        for arrow in zip(way, way[1:], strict=False):
            drawn = (i for i in imports if (unit[i.importer], unit[i.imported]) == arrow)
            lines.append(f"    {next(drawn)}")
    return "\n".join(lines)


@cache
def graph() -> list[Import]:
    """The import graph of this package."""
    return imports_of(ROOT, tuple(ROOMS))


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


def bound(parsed: ast.Module) -> set[str]:
    """The names that a module binds at its top level, in branches and `try` blocks as well."""
    found: set[str] = set()
    todo: list[ast.stmt] = list(parsed.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        else:
            children = list(ast.iter_child_nodes(node))
            todo += [child for child in children if isinstance(child, ast.stmt)]
            todo += [s for c in children if isinstance(c, ast.ExceptHandler) for s in c.body]
            names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
            found |= {n.id for n in names if isinstance(n.ctx, ast.Store)}
    return found


# ---------------------------------------------------------------------- the laws


def test_every_name_that_is_imported_from_the_package_exists() -> None:
    """Types are checked within a room; across rooms, relative imports lead out of mypy's sight."""
    known = modules_of(ROOT, tuple(ROOMS))
    trees = {name: tree(path) for name, path in known.items()}
    names = {name: bound(tree) for name, tree in trees.items()}
    sources = [(name, path, trees[name]) for name, path in known.items()]
    for path in sorted((ROOT / "tests").rglob("*.py")):
        sources.append(("", path, tree(path)))
    wrong = []
    for module, path, parsed in sources:
        for node in ast.walk(parsed):
            if module == "" and isinstance(node, ast.ImportFrom) and node.level:
                continue  # tests import each other by name
            for target, name in named(node, module, path.name == "__init__.py"):
                deeper = f"{target}.{name}" if target else name
                folder = (ROOT / deeper.replace(".", "/")).is_dir()
                if not name and (target in known or (ROOT / target.replace(".", "/")).is_dir()):
                    continue
                if deeper in known or folder or name in names.get(target, ()):
                    continue
                if target == "" and name in import_module(PACKAGE).__all__:
                    continue
                place = path.relative_to(ROOT).as_posix()
                line = getattr(node, "lineno", 0)
                wrong.append(f"{place}:{line}: no {name or target} in {target}")
    assert not wrong, "\n" + "\n".join(wrong)


def test_there_is_no_import_cycle() -> None:
    found = cycles({arrow.ends for arrow in graph()})
    modules = {name: name for arrow in graph() for name in arrow.ends}
    assert not found, "\n" + told(found, graph(), modules)


def test_rooms_import_only_the_rooms_below_them() -> None:
    wrong = []
    for arrow in graph():
        (room, _), (other, _) = map(room_and_unit, arrow.ends)
        if not room or room == other or arrow.importer.startswith(SCRIPTS):
            continue
        if other not in ROOMS[room]:
            wrong.append(f"{arrow}; {room} may import {', '.join(ROOMS[room]) or 'no other room'}")
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize("room", LAYERS)
def test_inside_a_room_imports_lead_down_the_layers(room: str) -> None:
    inside = [i for i in graph() if all(room_and_unit(end)[0] == room for end in i.ends)]
    wrong = []
    for arrow in inside:
        unit, other = (room_and_unit(end)[1] for end in arrow.ends)
        depth, below = layer_of(room, unit), layer_of(room, other)
        if unit != other and -1 not in (depth, below) and below < depth:
            above = ", ".join(LAYERS[room][below])
            wrong.append(f"{arrow}; {unit} stands below {above}")
    homeless = {
        unit
        for module in modules_of(ROOT, (room,))
        if module and layer_of(room, unit := room_and_unit(module)[1]) < 0
    }
    wrong += [f"{room}/{unit} stands in no layer of LAYERS" for unit in sorted(homeless)]
    named = [unit for names in LAYERS[room] for unit in names]
    wrong += [f"{room}/{unit} of LAYERS does not exist" for unit in named if absent(room, unit)]
    units = {end: room_and_unit(end)[1] for arrow in inside for end in arrow.ends}
    between = {(units[i.importer], units[i.imported]) for i in inside}
    around = cycles({(a, b) for a, b in between if a != b})
    assert not wrong and not around, "\n" + "\n".join([*wrong, told(around, inside, units)])


def test_no_module_of_models_imports_a_registered_model() -> None:
    """What models share stands in modules of its own; a model's files are imported by no other."""
    targets = [spec.target.partition(":")[0] for spec in registry.MODELS.values()]
    homes = {room_and_unit(target.partition(".")[2])[1] for target in targets}
    assert {"knn", "npt"} <= homes
    wrong = []
    for arrow in graph():
        (room, unit), (other_room, other) = map(room_and_unit, arrow.ends)
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


def test_common_needs_nothing_but_the_standard_library_and_its_columns_pandas() -> None:
    wrong = []
    tables = {"numpy", "pandas", "sklearn", "threadpoolctl"}
    for path in sorted((ROOT / "common").rglob("*.py")):
        for node in ast.walk(tree(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names.append(node.module or "")
            wrong += [
                f"{path.relative_to(ROOT)}:{node.lineno} imports {name}"
                for name in names
                if name.partition(".")[0] not in sys.stdlib_module_names
                and not (path.parent.name == "columns" and name.partition(".")[0] in tables)
            ]
    assert not wrong
