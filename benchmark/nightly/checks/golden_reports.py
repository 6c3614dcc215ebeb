"""The report of a stored run, compared to the byte with stored checksums.

`python -m tabsweep.benchmark.nightly.checks.golden_reports` compares on its own; with `--accept` it
stores the checksums of what this checkout writes, for a commit that changes reports on purpose.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

from ....common.files import write_atomically
from ..context import NightContext
from ..step_result import OK, REGRESSION, StepResult
from . import child

RUN = Path(__file__).with_name(
    "golden_run.tar.gz"
)  # of `bench sweep --suite smoke`, three datasets
DIGESTS = Path(__file__).with_name("golden_run.toml")
AGAIN = "python -m tabsweep.benchmark.nightly.checks.golden_reports"
LIMIT_S = 300.0
HEAD = f"""\
# SHA-256 of each file that `bench report` writes for the run in {RUN.name} (of scores.parquet:
# of its values as CSV, for its bytes name the version of the library). After a wanted change:
# {AGAIN} --accept
"""


def golden_reports(context: NightContext) -> StepResult:
    """Write the report of the stored run with the checkout's `bench report`.

    Each file must have the stored checksum. A file more, a file less, another byte: a regression
    that names the files."""
    folder = context.night / "golden-reports"
    run = unpack(folder)
    command = child.bench(context, "report", run.relative_to(folder), "--out", "report", "--quiet")
    ended = child.run(context, command, log=folder / "output.txt", limit_s=LIMIT_S, cwd=folder)
    if ended.code != 0:
        headline = f"bench report failed: {ended.how}"
        row = {"subject": "bench report", "verdict": "failed", "message": ended.how}
        return StepResult("golden-reports", REGRESSION, headline, [row])
    stored = stored_digests()
    rows = differences(stored, digests(folder / "report"))
    if rows:
        names = ", ".join(str(row["subject"]) for row in rows[:5])
        more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
        headline = f"{len(rows)} of {len(stored)} files of a stored run's report changed: "
        return StepResult("golden-reports", REGRESSION, headline + names + more, [*rows])
    return StepResult("golden-reports", OK, f"{len(stored)} files equal to the byte")


def unpack(folder: Path) -> Path:
    """Unpack the stored run into a fresh folder; returns the run's own folder below it."""
    shutil.rmtree(folder, ignore_errors=True)  # what a night that was killed has left
    folder.mkdir(parents=True)
    with tarfile.open(RUN) as archive:
        archive.extractall(folder, filter="data")
    return folder / "runs" / "golden"


def stored_digests() -> dict[str, str]:
    """{file of the report: its stored SHA-256}"""
    return dict(tomllib.loads(DIGESTS.read_text(encoding="utf-8"))["sha256"])


def differences(stored: dict[str, str], found: dict[str, str]) -> list[dict[str, str]]:
    """A finding for each file whose checksum differs, or that one of the two lacks."""
    return [
        {
            "subject": name,
            "old": stored.get(name, "")[:12] or "no such file",
            "new": found.get(name, "")[:12] or "no such file",
            "verdict": "other bytes",
            "command": AGAIN,
        }
        for name in sorted(stored.keys() | found.keys())
        if stored.get(name) != found.get(name)
    ]


def digests(report: Path) -> dict[str, str]:
    """{file: SHA-256} of every file of a report; of a Parquet file, of its values as CSV."""
    return {
        path.relative_to(report).as_posix(): hashlib.sha256(_content(path)).hexdigest()
        for path in sorted(report.rglob("*"))
        if path.is_file()
    }


def _content(path: Path) -> bytes:
    if path.suffix != ".parquet":
        return path.read_bytes()
    import pandas as pd

    return pd.read_parquet(path).to_csv(index=False).encode("utf-8")


def accept(report: Path) -> None:
    """Store the checksums of a report."""
    lines = [f'"{name}" = "{digest}"\n' for name, digest in digests(report).items()]
    write_atomically(DIGESTS, (HEAD + "\n[sha256]\n" + "".join(lines)).encode("utf-8"))


def main(words: list[str]) -> int:
    """Compare and print what changed, or with --accept store; 0, or 4 where something changed."""
    with tempfile.TemporaryDirectory() as place:
        here = NightContext(
            root=Path(__file__).parents[3],
            commit="",
            night=Path(place),
            store=Path(place),
            python=Path(sys.executable),
            date="",
        )
        found = golden_reports(here)
        report = Path(place) / "golden-reports" / "report"
        if "--accept" in words and report.is_dir():
            accept(report)
            print(f"stored {len(digests(report))} checksums in {DIGESTS.name}")
            return 0
    print(found.headline)
    for row in found.findings:
        print(" ".join(f"{key} {value}" for key, value in row.items() if key != "command"))
    return 4 if found.red else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
