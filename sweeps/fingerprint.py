"""Fingerprint of a class: a hash of the source it depends on, and its libraries' versions.

The hash covers the syntax trees, without docstrings, of the static import closure: the class's own
module, and every module that it imports (late imports too), if that module lies in tabsweep or in
the class's own distribution (for a module outside of any package: its folder). A text that names a
class there ("package.module:Class", as in a registry) counts as an import; an import for type
checkers only does not. Other libraries enter with the version of their installed distribution.
Nothing is run: modules are found as files.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

PACKAGE = __name__.partition(".")[0]
_TYPE_CHECKING = ("TYPE_CHECKING", "typing.TYPE_CHECKING", "t.TYPE_CHECKING")
_TARGET = re.compile(r"([A-Za-z_][\w.]*):[A-Za-z_]\w*")
_BODIES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def strip_docstrings(tree: ast.AST) -> ast.AST:
    """The same tree, changed in place, without docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, _BODIES) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                if isinstance(first.value.value, str):
                    node.body = node.body[1:] or [ast.Pass()]
    return tree


@cache
def _spec(name: str) -> ModuleSpec | None:
    """How a module would be imported, found without importing it or its packages."""
    parent = name.rpartition(".")[0]
    try:
        if not parent:
            return importlib.util.find_spec(name)
        folders = _folders(parent)
        return PathFinder.find_spec(name, folders) if folders else None
    except (ImportError, AttributeError, ValueError, KeyError):
        return None  # KeyError: a namespace package below one that was not imported


@cache
def _folders(name: str) -> list[str]:
    """The folders in which the modules of a package are looked for; empty for no package.

    A namespace package's own list needs every package above it imported; its folders are found here
    without, as the answer must not depend on what this process has imported so far.
    """
    spec = _spec(name)
    parent, _, tail = name.rpartition(".")
    if spec is not None and (spec.origin is not None or not parent):
        return list(spec.submodule_search_locations or ())
    if not parent:
        return []
    return [str(Path(folder, tail)) for folder in _folders(parent) if Path(folder, tail).is_dir()]


@cache
def _module_file(name: str) -> Path | None:
    """The source file of a module, or None where it has none."""
    spec = _spec(name)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin).resolve()


def file_of(target: str) -> Path | None:
    """The source file of "package.module:Class", found without importing it; None for none."""
    return _module_file(target.partition(":")[0])


def is_there(target: str) -> bool:
    """Whether an import finds the module of "package.module:Class", from source or without any
    (.so, .pyc); nothing is imported."""
    return _spec(target.partition(":")[0]) is not None


def _nodes_that_run(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those below `if TYPE_CHECKING:`."""
    todo = [tree]
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test) in _TYPE_CHECKING:
            todo.extend(node.orelse)
        else:
            todo.extend(ast.iter_child_nodes(node))


def imported_names(tree: ast.AST, *, module: str, is_package: bool) -> Iterator[str]:
    """Every absolute module name that a tree may import; `from a import b` gives `a` and `a.b`."""
    for node in _nodes_that_run(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _lazy_homes() if alias.name == PACKAGE else [alias.name]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                keep = len(parts) - node.level + (1 if is_package else 0)
                base = ".".join(parts[:keep] + ([node.module] if node.module else []))
            if base:
                yield base
            for alias in node.names:
                if base == PACKAGE:
                    yield from _lazy_homes(None if alias.name == "*" else alias.name)
                yield f"{base}.{alias.name}" if base else alias.name


def _lazy_homes(name: str | None = None) -> list[str]:
    """The modules behind a name that the root of the package imports on first use; None: all."""
    root = sys.modules[PACKAGE]
    homes: dict[str, str] = getattr(root, "_HOMES", {})
    asked = [home for lazy, home in homes.items() if name in (None, lazy)]
    kinds: tuple[str, ...] = getattr(root, "_KINDS", ())
    if kinds and (name is None or name.endswith(kinds)):  # a model's class
        asked.append(root._CLASSES)
    return asked


def named_targets(tree: ast.AST, *, package: str) -> Iterator[str]:
    """Modules that texts like "package.module:Class" or "module:Class" may name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = _TARGET.fullmatch(node.value)
            if match:
                yield match[1]
                if package:
                    yield f"{package}.{match[1]}"


@dataclass(frozen=True)
class Source:
    """A source file: the sha256 of its syntax tree, its imports, the modules in its texts."""

    sha256: str
    imports: tuple[str, ...]
    targets: tuple[str, ...]


def source_of(module: str, file: Path) -> Source:
    """A module's source, docstrings and comments aside."""
    return _source(file.read_bytes(), module, file.name == "__init__.py")


@cache  # files are read again every time, but parsed once
def _source(text: bytes, module: str, is_package: bool) -> Source:
    tree = strip_docstrings(ast.parse(text, filename=module))
    package = module if is_package else module.rpartition(".")[0]
    return Source(
        sha256=hashlib.sha256(ast.dump(tree, include_attributes=False).encode()).hexdigest(),
        imports=tuple(imported_names(tree, module=module, is_package=is_package)),
        targets=tuple(named_targets(tree, package=package)),
    )


def _home(module: str, file: Path) -> Path:
    """The folder that counts as the module's own distribution."""
    top = module.partition(".")[0]
    if top == module:
        return file.parent  # a lone module: its siblings are its distribution
    top_file = _module_file(top)
    if top_file is not None:
        return top_file.parent
    return file.parents[module.count(".") - 1]  # a namespace package has no file of its own


def _inside(file: Path, home: Path, *, lone: bool) -> bool:
    if not file.is_relative_to(home):
        return False
    # Installed packages do not belong to this one because their environment (.venv) is inside it.
    below = file.parts if lone else file.relative_to(home).parts
    return not {"site-packages", "dist-packages"} & set(below)


def closure(modules: Iterable[str]) -> tuple[dict[str, Path], set[str]]:
    """({module: file} of the static import closure, top-level names imported from elsewhere)."""
    todo = list(modules)
    homes: list[tuple[Path, bool]] = []
    own = _module_file(PACKAGE)
    if own is not None:
        homes.append((own.parent, False))
    for name in todo:
        file = _module_file(name)
        if file is None:
            raise ValueError(
                f"no source file for module {name!r}: put the class into a file of its own"
            )
        if name.partition(".")[0] != PACKAGE:
            homes.append((_home(name, file), "." not in name))
    files: dict[str, Path] = {}
    foreign: set[str] = set()
    while todo:
        name = todo.pop()
        if name in files or name == PACKAGE:  # the root holds lazy names and the version alone
            continue
        file = _module_file(name)
        if file is None:
            top = name.partition(".")[0]
            if _module_file(top) is None or not _any_inside(_module_file(top), homes):
                foreign.add(top)
            continue
        if not _any_inside(file, homes):
            foreign.add(name.partition(".")[0])
            continue
        files[name] = file
        parent = name.rpartition(".")[0]
        if parent:
            todo.append(parent)  # importing a module runs its package
        source = source_of(name, file)
        todo.extend(source.imports)
        todo.extend(name for name in source.targets if _any_inside(_module_file(name), homes))
    return files, {top for top in foreign if top not in sys.stdlib_module_names} - {PACKAGE, ""}


def _any_inside(file: Path | None, homes: list[tuple[Path, bool]]) -> bool:
    return file is not None and any(_inside(file, home, lone=lone) for home, lone in homes)


@cache
def _distributions() -> dict[str, list[str]]:
    return {name: sorted(set(dists)) for name, dists in metadata.packages_distributions().items()}


def versions(names: Iterable[str]) -> dict[str, str]:
    """{distribution: version} for distributions or top-level import names.

    The version of one that is not installed is "absent": an import of it may be optional. A build
    ("2.13.0+cpu") is left out: the machine that plans a trial may have another than a GPU's worker.
    """
    known: dict[str, str] = {}
    for name in names:
        for dist in _distributions().get(name, [name]):
            try:
                release = metadata.version(dist).partition("+")[0]
                known[dist.lower().replace("_", "-")] = release
            except metadata.PackageNotFoundError:
                known[dist.lower().replace("_", "-")] = "absent"
    return dict(sorted(known.items()))


def fingerprint(target: str, *shared: str) -> dict[str, object]:
    """What the outcome of `target` ("package.module:Class") depends on, as JSON-able data.

    `shared` names further modules that take part in every trial (the cell itself). Returns
    {"source": sha256 of the closure, "libraries": {distribution: version}}. Raises ValueError for a
    class without a source file.
    """
    modules, foreign = closure([target.partition(":")[0], *shared])
    return {"source": _hash_of(target, modules), "libraries": versions(foreign)}


def source_hash(target: str, *shared: str) -> str:
    """The "source" of `fingerprint` alone: no distribution is asked for its version, which takes
    most of the time."""
    return _hash_of(target, closure([target.partition(":")[0], *shared])[0])


def _hash_of(target: str, modules: Mapping[str, Path]) -> str:
    sha = hashlib.sha256(target.encode())
    for name in sorted(modules):
        sha.update(f"\n{name}\n{source_of(name, modules[name]).sha256}".encode())
    return sha.hexdigest()
