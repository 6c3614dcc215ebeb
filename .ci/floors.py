"""Prints the lowest versions that pyproject.toml allows, as requirements for pip.

What has no lowest version there (tools of the tests) has the one of requirements.lock.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
locked = {name.lower(): line for line in lock.splitlines() if (name := line.partition("==")[0])}

for line in sum(project["optional-dependencies"].values(), project["dependencies"]):
    name, lowest = re.fullmatch(r"([\w.-]+(?:\[[\w,]+\])?)(?:>=([\d.]+))?.*", line).groups()
    print(f"{name}=={lowest}" if lowest else locked[name.lower().replace("_", "-")])
print(locked["setuptools"], locked["wheel"], sep="\n")
