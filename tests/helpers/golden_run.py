"""The report of a stored run, compared to the byte with stored checksums.

`python tests/helpers/golden_run.py` stores the checksums of what this checkout writes, for a
commit that changes reports on purpose.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

RUN = Path(__file__).parent / "golden" / "golden_run.tar.gz"  # of `bench sweep --suite smoke`
DIGESTS = RUN.with_name("golden_run.toml")
ACCEPT = "python tests/helpers/golden_run.py"
HEAD = f"""\
# SHA-256 of each file that `bench report` writes for the run in {RUN.name}. After a wanted change:
# {ACCEPT}
"""


def unpack(folder: Path) -> Path:
    """Unpack the stored run into a folder; returns the run's own folder below it."""
    with tarfile.open(RUN) as archive:
        archive.extractall(folder, filter="data")
    return folder / "runs" / "golden"


def written(folder: Path) -> dict[str, str]:
    """{file: SHA-256} of the report that `bench report` writes of the stored run."""
    run = unpack(folder).relative_to(folder)
    words = ["report", str(run), "--out", "report", "--quiet"]
    bench = [sys.executable, "-m", "tabsweep.benchmark.cli"]
    subprocess.run([*bench, *words], cwd=folder, check=True)
    return digests(folder / "report")


def stored() -> dict[str, str]:
    """{file of the report: its stored SHA-256}"""
    return dict(tomllib.loads(DIGESTS.read_text(encoding="utf-8"))["sha256"])


def digests(report: Path) -> dict[str, str]:
    """{file: SHA-256} of every file of a report."""
    return {
        path.relative_to(report).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(report.rglob("*"))
        if path.is_file()
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        lines = [f'"{name}" = "{digest}"' for name, digest in written(Path(place)).items()]
    DIGESTS.write_text("\n".join([HEAD, "[sha256]", *lines, ""]), encoding="utf-8")
