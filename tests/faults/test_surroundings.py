"""Does the product work where its surroundings are poor: no UTF-8, no home, little memory?

Each test runs the command in a process of its own, which first says that the surroundings are as
poor as the test wants them.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.datasets import infer

ROOT = Path(__file__).parents[2]
FAST = ("--workers", "0", "--tracking-uri", "none")
BEGIN = "from tabsweep.benchmark.cli import main; main()"


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def bench(
    *args: str, before: str = "", options: tuple[str, ...] = (), **env: str
) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own, after the lines `before`."""
    return subprocess.run(
        [sys.executable, *options, "-c", f"{before}\n{BEGIN}", *args],
        capture_output=True,
        env={**os.environ, **env},
    )


# ---------------------------------------------------------------------- no UTF-8

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
PROOF = (
    "import json, locale, os, sys\n"
    "print(json.dumps([locale.getencoding(), sys.getfilesystemencoding(), sys.stdout.encoding]),"
    " file=open('proof', 'w'))"
)


def table(path: str) -> None:
    rows = "".join(f"{i * 7 % 11}.5,{'äöü'[i % 3]},{('ja', 'nön')[i % 2]}\n" for i in range(40))
    Path(path).write_text(f"größe,art,preis €\n{rows}", encoding="utf-8")


@pytest.mark.fault(33)
@pytest.mark.parametrize(
    ("env", "encodings"),
    [
        (ASCII, ["ANSI_X3.4-1968", "ascii", "ascii"]),
        ({**ASCII, "PYTHONIOENCODING": "latin-1"}, ["ANSI_X3.4-1968", "ascii", "iso8859-1"]),
    ],
    ids=["C", "latin-1"],
)
def test_without_utf_8_a_sweep_writes_the_same_files_and_its_words_still_come_out(env, encodings):
    table("größe.csv")
    call = ("sweep", "--csv", "größe.csv", "--target", "preis €", "--model", "knn", "--folds", "1")
    plain = bench(*call, "--trials", "2", *FAST, "--name", "plain")
    assert plain.returncode == 0, plain.stderr.decode()
    other = bench(*call, "--trials", "2", *FAST, "--name", "other", before=PROOF, **env)
    assert other.returncode == 0, other.stderr
    assert json.loads(Path("proof").read_text()) == encodings, "the locale was not the one wanted"
    assert b"Traceback" not in other.stderr and b"trials done" in other.stdout
    for path in Path("runs/plain/report").iterdir():
        if path.stem in ("scores", "ranks", "tests"):
            assert path.read_bytes() == Path("runs/other/report", path.name).read_bytes()
    for command in (("status",), ("status", "--json"), ("logs", "--events"), ("models", "knn")):
        assert bench(*command, *["runs/other"] * (command[0] != "models"), **env).returncode == 0
    wrong = bench(*call[:4], "prais €", *FAST, **env)
    assert wrong.returncode == 2 and b"has no column" in wrong.stderr, wrong.stderr
    assert b"Traceback" not in wrong.stderr


@pytest.mark.fault(33)
def test_no_file_is_opened_in_the_encoding_of_the_locale():
    """In text mode every call of ours says which encoding it means."""
    table("t.csv")
    options = ("-X", "warn_default_encoding")
    call = ("sweep", "--csv", "t.csv", "--target", "preis €", "--model", "knn", "--folds", "1")
    found = bench(*call, *FAST, "--name", "r", options=options)
    assert found.returncode == 0
    shown = [*found.stderr.decode().splitlines()]
    for command in ("status", "report", "logs", "fit"):
        shown += bench(command, "runs/r", options=options).stderr.decode().splitlines()
    probe = subprocess.run(
        [sys.executable, *options, "-c", "open('t.csv')"], capture_output=True, text=True
    )
    assert "EncodingWarning" in probe.stderr, "the interpreter does not warn"
    ours = [line for line in shown if "EncodingWarning" in line and str(ROOT) in line]
    # an environment may lie in this folder: matplotlib writes its list of fonts where it has none
    ours = [line for line in ours if "site-packages" not in line]
    # /proc is ASCII, and a change of this module would change the id of every trial
    ours = [line for line in ours if "benchmark/cell.py" not in line]
    assert not ours, "\n".join(ours)


# ---------------------------------------------------------------------- no home


@pytest.mark.fault(34)
def test_a_home_that_cannot_be_written_is_done_without(tmp_path):
    file = tmp_path / "file"
    file.touch()
    home = file / "home"  # not even a superuser can make a folder there
    with pytest.raises(NotADirectoryError):
        home.mkdir()
    env = {"HOME": str(home), "TMPDIR": str(tmp_path)}
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR", "TABSWEEP_CACHE"):
        env[name] = ""
    before = "import os; [os.environ.pop(k) for k in [*os.environ] if not os.environ[k]]"
    call = ("sweep", "--suite", "smoke", "--dataset", "iris", "--model", "knn", "--folds", "1")
    more = ("--trials", "1", "--workers", "0", "--name", "r")  # MLflow's store is in the run
    found = bench(*call, *more, before=before, **env)
    assert found.returncode == 0, found.stderr.decode()
    assert b"Traceback" not in found.stderr
    assert status_of(Path("runs/r")).done == 1 and Path("runs/r/mlflow.db").exists()
    again = bench("report", "runs/r", before=before, **env)
    assert again.returncode == 0, again.stderr.decode()


# ---------------------------------------------------------------------- little memory

LIMIT = """
import os, resource
from tabsweep.benchmark.commands import sweep
from tabsweep.datasets import infer
import pyarrow, sklearn.linear_model
infer.BYTES_PER_BYTE = {factor}
with open("/proc/self/statm") as file:
    used = int(file.read().split()[5]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_DATA, (used + {room}, resource.RLIM_INFINITY))
try:
    bytearray(2 * {room})
except MemoryError:
    open("proof", "w").close()
"""


def large(rows: int = 600_000) -> int:
    with open("large.csv", "w") as file:
        file.write("a,b,c,price\n")
        for i in range(rows):
            file.write(f"{i * 7 % 1009}.25,{'xyz'[i % 3]},{i % 17},{i % 1013}.5\n")
    return Path("large.csv").stat().st_size


@pytest.mark.fault(24)
@pytest.mark.parametrize("factor", [infer.BYTES_PER_BYTE, 0], ids=["foreseen", "not foreseen"])
def test_a_table_larger_than_memory_is_one_line_and_no_traceback(factor):
    size = large()
    room = 5 * size
    before = LIMIT.format(room=room, factor=factor)
    call = ("sweep", "--csv", "large.csv", "--target", "price", "--model", "constant", *FAST)
    found = bench(*call, before=before, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    assert Path("proof").exists(), "there was memory enough"
    said = found.stderr.decode()
    assert found.returncode in (2, 3) and "Traceback" not in said, said
    (line,) = [line for line in said.splitlines() if line.startswith("error ")]
    if factor:
        assert re.search(r"E007: large.csv: \d+ MB need about \d+ MB of memory, \d+ MB are", line)
        assert "use a sample of the rows" in line
    else:
        assert re.search("BENCH-E007: .*memory ran out|BENCH-E016: ", line), line
    assert not Path("runs").exists()


# ---------------------------------------------------------------------- forks beside threads


@pytest.mark.fault(32)
def test_the_product_never_forks_a_process_that_has_threads():
    """A child of a fork inherits locks that threads held, and not the threads that would open them:
    our own processes are started anew or by a server without threads, never forked from one of
    ours. (What a trial forks: test_trials.py.)"""
    calls = 0
    for folder in ("benchmark", "datasets", "models", "reports", "sweeps"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.parent.name == "perf":  # measures, and runs none of the product's work
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom):
                    assert not (node.module or "").startswith("multiprocessing"), path
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "multiprocessing":
                    assert node.attr == "get_context", path
                if isinstance(node, ast.Call):
                    calls += 1
                    name = ast.unparse(node.func)
                    assert name not in ("os.fork", "os.forkpty"), path
                    if name == "multiprocessing.get_context":
                        assert ast.literal_eval(node.args[0]) in ("spawn", "forkserver"), path
                    if name == "ProcessPoolExecutor":
                        assert "mp_context" in [k.arg for k in node.keywords], path
                    assert not any(k.arg == "preexec_fn" for k in node.keywords), path
    assert calls > 1000, "the modules were not found"
