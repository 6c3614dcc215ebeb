"""The type checker sees the checkout as the package `tabsweep`, across its rooms."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from repo import ROOT

PLANTED = [  # (a line of a module in another room, what mypy says of it)
    ("from ..common import text", ""),
    ("from ..errrors import X", "import-not-found"),
    ("from ..common.text import no_such_name", "attr-defined"),
    ("text.no_such_function()", "attr-defined"),
    ("text.one_line('', limit='long')", "arg-type"),
    ("n: int = text.slug('a')", "assignment"),
    ("import no_such_library", "import-not-found"),
    ("text.one_line('', limit=3)", ""),
]


def test_make_check_finds_wrong_imports_calls_and_attributes_between_rooms(tmp_path):
    """Its command, with the settings of the repository, in a package of two rooms."""
    package = tmp_path / "src" / "tabsweep"
    for folder in ("benchmark", "common"):
        (package / folder).mkdir(parents=True)
    (package / "__init__.py").touch()
    shutil.copy(ROOT / "common" / "text.py", package / "common")
    (package / "benchmark" / "planted.py").write_text("\n".join(line for line, _ in PLANTED))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    dry = ["make", "--dry-run", "check", f"BIN={Path(sys.executable).parent}"]
    recipe = subprocess.run(dry, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    (command,) = (line.split() for line in recipe.splitlines() if "/mypy" in line)
    env = {**os.environ, "MYPYPATH": str(package.parent)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    found = re.findall(r"^(\S+):(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    planted = package.relative_to(tmp_path) / "benchmark" / "planted.py"
    assert done.returncode == 1, done.stdout + done.stderr
    assert found == [
        (str(planted), str(at), code) for at, (_, code) in enumerate(PLANTED, 1) if code
    ]


def test_type_checkers_and_editors_find_the_package_by_the_import_path_alone():
    spec = PathFinder.find_spec("tabsweep")
    assert spec is not None and spec.origin is not None
    assert (Path(spec.origin).parent / "py.typed").is_file()
