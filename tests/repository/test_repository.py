"""Promises of the repository: libraries, packaging, the lock file, documents, make."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from repo import DOCUMENTS, ROOMS, ROOT, blocks, errors, tree

DATA = (".toml", ".json", ".csv", ".gz", ".css", ".js", ".j2", ".pyi")  # lie beside the code
SCRIPTS = ("benchmark/perf",)  # run from a checkout, never installed
BARE = {"ray", "mlflow", "optuna", "hyperopt"}  # what models and datasets must do without
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def modules(folder: str) -> list[Path]:
    return sorted(
        path
        for path in (ROOT / folder).rglob("*.py")
        if not any(path.is_relative_to(ROOT / scripts) for scripts in SCRIPTS)
    )


def source_files() -> Iterator[Path]:
    """Every file of the source tree: no hidden folder, no cache, no build, no result."""
    skip = {"__pycache__", "build", "dist", "runs", "mlruns", "catboost_info", "node_modules"}
    for folder, names, files in os.walk(ROOT):
        names[:] = [
            n
            for n in sorted(names)
            if n not in skip and not n.endswith(".egg-info") and (n == ".ci" or n[0] != ".")
        ]
        yield from (Path(folder) / name for name in sorted(files))


def libraries_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line, top-level name) of each absolute import, late ones included."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.lineno, (node.module or "").partition(".")[0]


# ---------------------------------------------------------------------- libraries


def test_no_module_for_bare_machines_names_a_library_of_the_cluster() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {top}"
        for path in (*modules("datasets"), *modules("models"))
        for line, top in libraries_of(path)
        if top in BARE
    ]
    assert not wrong


def test_common_needs_nothing_but_the_standard_library_and_its_columns_pandas() -> None:
    tables = {"numpy", "pandas", "pyarrow", "sklearn", "threadpoolctl"}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {top}"
        for path in modules("common")
        for line, top in libraries_of(path)
        if top not in sys.stdlib_module_names
        and not (path.parent.name == "columns" and top in tables)
    ]
    assert not wrong


# ---------------------------------------------------------------------- packaging


def test_the_root_is_the_package_and_its_folders_have_no_init() -> None:
    assert [path.name for path in ROOT.glob("*.py")] == ["__init__.py"]
    assert not [path for folder in ROOMS for path in (ROOT / folder).rglob("__init__.py")]


def test_a_wheel_holds_every_module_and_every_data_file(tmp_path: Path) -> None:
    import zipfile

    source = tmp_path / "source"
    skip = shutil.ignore_patterns(
        ".*", "__pycache__", "build", "dist", "runs", "*.egg-info", "tests"
    )
    shutil.copytree(ROOT, source, ignore=skip)
    held = set(zipfile.ZipFile(built("build_wheel", source)).namelist())
    wanted = {
        f"tabsweep/{path.relative_to(ROOT).as_posix()}"
        for folder in ROOMS
        for path in (*modules(folder), *data_files(folder))
    }
    assert wanted | {"tabsweep/__init__.py", "tabsweep/py.typed"} == {
        n for n in held if n.startswith("tabsweep/")
    }


def test_a_source_archive_holds_the_whole_checkout(tmp_path: Path) -> None:
    """With it a distributor runs the tests and makes the pages and the locked environment."""
    import tarfile

    hidden = {".dockerignore", ".env.example", ".gitignore"}
    wanted = {
        path.relative_to(ROOT).as_posix()
        for path in (*source_files(), *ROOT.glob(".github/**/*.yml"))
        if path.parent != ROOT or path.name[0] != "." or path.name in hidden
    }
    for name in wanted:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    with tarfile.open(built("build_sdist", tmp_path)) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert wanted <= held


def built(how: str, source: Path) -> Path:
    """The file that setuptools makes of a source tree, in this tree."""
    program = f"import setuptools.build_meta as b; print(b.{how}('.'))"
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=source)
    assert done.returncode == 0, done.stderr
    return source / done.stdout.split()[-1]


def data_files(folder: str) -> list[Path]:
    """What lies beside the code and is read by it."""
    scripts = [ROOT / folder for folder in SCRIPTS]
    return [
        path
        for path in (ROOT / folder).rglob("*")
        if path.suffix in DATA and not any(path.is_relative_to(script) for script in scripts)
    ]


def test_only_python_and_known_data_lie_in_the_folders() -> None:
    odd = [
        path
        for path in source_files()
        if path.relative_to(ROOT).parts[0] in ROOMS
        and not any(path.is_relative_to(ROOT / scripts) for scripts in SCRIPTS)
        and path.suffix not in (".py", *DATA)
    ]
    assert not odd


# ---------------------------------------------------------------------- the lock file


def pins() -> dict[str, str]:
    """{name: version} of requirements.lock."""
    found = {}
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, version = line.partition(";")[0].strip().partition("==")
            assert name not in found, f"{name} is pinned twice"
            found[name] = version
    return found


def test_the_lock_holds_exact_pins_and_names_no_index() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pin = re.compile(r"[a-z0-9][a-z0-9-]*==[0-9][0-9a-z.]*( ; [a-z_]+ == \"[A-Za-z]+\")?")
    wrong = [line for line in lines if not line.startswith("#") and not pin.fullmatch(line)]
    assert not wrong
    assert "://" not in "\n".join(lines)
    assert sorted(pins()) == list(pins())


def test_the_lock_satisfies_pyproject() -> None:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = PYPROJECT["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(line for lines in extras for line in lines)]
    locked = pins()
    assert {"setuptools", "wheel"} <= set(locked)  # the build is not isolated
    for requirement in map(Requirement, [*wanted, *PYPROJECT["build-system"]["requires"]]):
        version = locked.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not in requirements.lock"
        assert requirement.specifier.contains(version), f"{requirement} is locked at {version}"


def test_the_floors_are_the_lowest_versions_that_pyproject_allows() -> None:
    from packaging.requirements import Requirement

    program = [sys.executable, str(ROOT / ".ci" / "floors.py")]
    printed = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    floors = {floor.name: floor for floor in map(Requirement, printed.split())}
    project = PYPROJECT["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    assert len(floors) == len(project["dependencies"]) + len(extras) + len({"setuptools", "wheel"})
    for asked in map(
        Requirement, project["dependencies"] + project["optional-dependencies"]["sweep"]
    ):
        floor = floors[asked.name]
        assert floor.extras == asked.extras
        assert str(floor.specifier) in {str(each).replace(">=", "==") for each in asked.specifier}


def test_no_dependency_is_imported_that_pyproject_does_not_name() -> None:
    from importlib import metadata

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["sweep"], *extras["dkl"]]
    named = {canonicalize_name(Requirement(line).name) for line in needed}
    owners = metadata.packages_distributions()
    own = {*sys.stdlib_module_names, "tabsweep"}
    unnamed = {
        f"{path.relative_to(ROOT)}: {top}"
        for folder in ROOMS
        for path in modules(folder)
        for _, top in libraries_of(path)
        if top not in own and not named & set(map(canonicalize_name, owners.get(top, [])))
    }
    assert not unnamed


# ---------------------------------------------------------------------- what must not be in it


def test_no_path_of_a_machine_and_no_secret_is_in_the_repository() -> None:
    here = re.escape(str(ROOT.parent)) if len(ROOT.parent.parts) > 2 else None
    patterns = [
        r"/(?:home|Users)/(?!tabsweep\b)[a-z]\w*/",
        r"/root/\w",
        r"BEGIN [A-Z ]*PRIVATE KEY",
        *([here] if here else []),
    ]
    wrong = []
    for path in source_files():
        if path.name == Path(__file__).name:
            continue
        text = path.read_bytes().decode("utf-8", errors="replace")
        wrong += [
            f"{path.relative_to(ROOT)}: {m[0]}" for p in patterns for m in re.finditer(p, text)
        ]
    assert not wrong


# ---------------------------------------------------------------------- doctests


def test_the_examples_in_docstrings_are_true() -> None:
    import doctest
    import importlib

    marks = (">>> ", "\n    example = ")  # the second: an example that the class writes itself
    sources = {path: path.read_text() for folder in ROOMS for path in modules(folder)}
    paths = [path for path, text in sources.items() if any(mark in text for mark in marks)]
    inner = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    for name in ["tabsweep", *(f"tabsweep.{module}" for module in inner)]:
        results = doctest.testmod(importlib.import_module(name))
        assert results.attempted and not results.failed, name


# ---------------------------------------------------------------------- documents


def test_every_relative_link_in_a_document_leads_somewhere() -> None:
    gone = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for link, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
            target = document.parent / link if link else document
            if "://" in link:
                continue
            if not target.exists() or (anchor and anchor not in headings(target)):
                gone.append(f"{document}: {link}#{anchor}")
    assert not gone


def headings(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in found}


def test_every_path_in_the_contributors_guide_exists() -> None:
    """The answers to "where is what"; `<paper>` stands for any, `mine` for what is to be added."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = "|".join([*ROOMS, "tests", "docs"])
    named = set(re.findall(rf"`((?:{rooms})/[\w./<>-]*)`", text))
    gone = [
        path
        for path in sorted(named)
        if "mine" not in path and not any(ROOT.glob(re.sub(r"<\w+>", "*", path).rstrip("/")))
    ]
    assert len(named) > 25 and not gone


def test_the_code_has_the_names_of_the_glossary() -> None:
    """A file, a class or a function for each name in the glossary's last column."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    last = [line.split("|")[-2] for line in text.splitlines() if line.startswith("| ")][2:]
    sources = {path: path.read_text("utf-8") for folder in ROOMS for path in modules(folder)}
    gone = []
    for name in (name for cell in last for name in re.findall(r"`([^`]+)`", cell)):
        place, _, kind = name.rpartition(": ")
        if kind.startswith("runs/"):
            continue
        if "/" in kind:
            place, kind = kind, ""
        found = any(ROOT.glob(re.sub(r"<\w+>", "*", place).rstrip("/"))) if place else True
        if re.fullmatch(r"[A-Z]\w+", kind):
            pattern = re.compile(rf"^class {kind}\b", flags=re.MULTILINE)
            found = found and any(
                pattern.search(code) for path, code in sources.items() if place in str(path)
            )
        if not found:
            gone.append(name)
    assert len(last) > 35 and not gone


def test_every_make_target_in_a_document_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, flags=re.MULTILINE))
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        named = re.findall(r"^make ([a-z]+)|`make ([a-z]+)", text, flags=re.MULTILINE)
        assert {a or b for a, b in named} <= targets, document


def test_the_suite_in_the_documents_is_a_suite() -> None:
    from tabsweep.benchmark.planning.suite import parse
    from tabsweep.models import registry

    text, *pieces = blocks("docs/suites.md", "toml")
    head = 'name = "mine"\ntitle = "What stands above"\ndatasets = ["wine"]\n'
    for piece in pieces:
        assert parse(tomllib.loads(head + piece), "docs/suites.md", head + piece).budgets
    suite = parse(tomllib.loads(text), "docs/suites.md", text)
    for budget in suite.budgets.values():
        for model, search in budget.model.items():
            assert set(search.fixed) <= set(
                registry.spaces(model, "binary")[budget.space]["params"]
            )


def test_the_documents_explain_every_key_of_a_budget() -> None:
    from tabsweep.benchmark.planning.suite import Budget, Search

    text = (ROOT / "docs" / "suites.md").read_text(encoding="utf-8")
    assert [k for k in (*Budget.model_fields, *Search.model_fields) if k not in text] == []


def test_the_documents_explain_every_error_id_and_cause() -> None:
    from tabsweep.sweeps.trial import CAUSES

    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    row = r"^\| (BENCH-E\d{3}) \| (\d+) \| (?:`(\w+)` )?\|"
    explained = {id: (int(code), name) for id, code, name in re.findall(row, text, re.MULTILINE)}
    builtin = {"BENCH-E000": (1, ""), "BENCH-E016": (3, "OSError"), "BENCH-E017": (2, "ValueError")}
    own = {cls.id: (cls.exit_code, cls.__name__) for cls in errors() if "id" in vars(cls)}
    assert explained == own | builtin
    assert [cause for cause in CAUSES if f"| `{cause}` |" not in text] == []


def test_the_changelog_names_the_version() -> None:
    import tabsweep

    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{tabsweep.__version__}] - " in text
    kinds = {kind["directory"] for kind in PYPROJECT["tool"]["towncrier"]["type"]}
    fragments = [path.name for path in (ROOT / "changes").glob("*.md")]
    assert [name for name in fragments if name.split(".")[-2] not in kinds] == []


# ---------------------------------------------------------------------- make and CI


def test_a_made_environment_is_not_made_again(tmp_path: Path) -> None:
    """Without network, and without even looking for the interpreter that it was made with."""
    (tmp_path / "bin").mkdir()
    bench = tmp_path / "bin" / "bench"
    bench.write_text("")
    bench.chmod(0o755)
    parts = [(ROOT / name).read_bytes() for name in ("requirements.lock", "pyproject.toml")]
    stamp = tmp_path / ".made-from"
    stamp.write_bytes(b"".join(parts))
    environment = {**os.environ, "VENV": str(tmp_path), "PYTHON": "false"}
    run = [str(ROOT / ".ci" / "setup")]
    assert subprocess.run(run, env=environment, capture_output=True).returncode == 0
    stamp.write_bytes(parts[0] + b"# another pyproject.toml\n" + parts[1])
    done = subprocess.run(run, env=environment, capture_output=True, text=True)
    assert done.returncode == 3 and "3.11" in done.stderr


def test_every_variable_that_the_product_reads_is_explained():
    """In docs/environment-variables.md, or in CONTRIBUTING.md where tests alone read it."""
    named = re.compile(r"TABSWEEP_[A-Z][A-Z_]*[A-Z]")

    def read_in(*folders: str) -> set[str]:
        files = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.is_file()]
        files = [p for p in files if "perf" not in p.parts]
        texts = (p.read_text(encoding="utf-8") for p in files if p.suffix in (".py", ".sh", ".yml"))
        return {name for text in texts for name in named.findall(text)}

    explained = set(named.findall((ROOT / "docs/environment-variables.md").read_text("utf-8")))
    of_tests = set(named.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8")))
    assert read_in(*ROOMS, "deploy", "docs/examples") - explained <= {"TABSWEEP_TABICL"}
    assert read_in("tests") - explained - of_tests <= {"TABSWEEP_TABICL", "TABSWEEP_TEST_NODE"}
