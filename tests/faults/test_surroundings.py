"""The product in poor surroundings: no UTF-8, no home folder, little memory, no file locks, forks.

Each test runs the command in a process of its own, which first says that the surroundings are as
poor as the test wants them.
"""

from __future__ import annotations

import ast
import errno
import fcntl
import gzip
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from chaos import wait_for
from pyarrow import parquet
from repo import ROOT, dotted, modules, tree
from tabsweep.benchmark.results.run_status import status_of
from tabsweep.datasets.reading import files
from tabsweep.sweeps.store.ledger import Ledger
from tabsweep.sweeps.store.run_folder import is_run
from tabsweep.sweeps.store.run_lock import RunLock

pytestmark = pytest.mark.usefixtures("work")

FAST = ("--workers", "0", "--tracking-uri", "none")
BEGIN = """
import sys
from tabsweep.benchmark.cli import main

words = sys.argv[1:]
while words:
    end = words.index("//")
    sys.argv[1:], words = words[:end], words[end + 1 :]
    code = 0
    try:
        main()
    except SystemExit as error:
        code = error.code
    for stream in (sys.stdout, sys.stderr):
        print(f"// {code}", file=stream, flush=True)
"""


class Ran(NamedTuple):
    code: int
    out: bytes
    err: bytes


def bench(
    *calls: tuple[str, ...], before: str = "", options: tuple[str, ...] = (), **env: str
) -> list[Ran]:
    """Calls of the command, one after the other in one process of their own, after the lines
    `before`."""
    words = [word for call in calls for word in (*call, "//")]
    done = subprocess.run(
        [sys.executable, *options, "-c", f"{before}\n{BEGIN}", *words],
        capture_output=True,
        env={**os.environ, **env},
    )
    parts = [re.split(rb"// (\d+)\n", text) for text in (done.stdout, done.stderr)]
    assert len(parts[0]) == len(parts[1]) == 2 * len(calls) + 1, done.stderr.decode(
        errors="replace"
    )
    return [
        Ran(int(parts[0][i + 1]), parts[0][i], parts[1][i]) for i in range(0, 2 * len(calls), 2)
    ]


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
def test_without_utf_8_a_sweep_writes_the_same_files_and_its_words_still_come_out():
    table("größe.csv")
    call = ("sweep", "--csv", "größe.csv", "--target", "preis €", "--model", "knn", "--folds", "1")
    (plain,) = bench((*call, "--trials", "2", *FAST, "--name", "plain"))
    assert plain.code == 0, plain.err.decode()
    for name, env, encodings in (
        ("C", ASCII, ["ANSI_X3.4-1968", "ascii", "ascii"]),
        (
            "latin-1",
            {**ASCII, "PYTHONIOENCODING": "latin-1"},
            ["ANSI_X3.4-1968", "ascii", "iso8859-1"],
        ),
    ):
        run = f"runs/{name}"
        other, *looks, wrong = bench(
            (*call, "--trials", "2", *FAST, "--name", name),
            ("status", run),
            ("status", "--json", run),
            ("logs", "--events", run),
            ("models", "knn"),
            (*call[:4], "prais €", *FAST),
            before=PROOF,
            **env,
        )
        assert json.loads(Path("proof").read_text()) == encodings, "not the locale wanted"
        assert other.code == 0, other.err
        assert b"trials done" in other.out
        for path in Path("runs/plain/report").iterdir():
            if path.stem in ("scores", "leaderboard", "tests"):
                assert path.read_bytes() == Path(run, "report", path.name).read_bytes()
        assert [look.code for look in looks] == [0] * 4 and all(look.out for look in looks)
        assert wrong.code == 2 and b"error BENCH-E007" in wrong.err, wrong
        assert b"Traceback" not in other.err + wrong.err


@pytest.mark.fault(33)
def test_no_file_is_opened_in_the_encoding_of_the_locale():
    """In text mode every call of ours says which encoding it means."""
    table("t.csv")
    call = ("sweep", "--csv", "t.csv", "--target", "preis €", "--model", "knn", "--folds", "1")
    more = (("status", "runs/r"), ("report", "runs/r"), ("logs", "--events", "runs/r"))
    more += (("fit", "runs/r", "--model", "knn", "--dataset", "t"),)
    found = bench(
        (*call, *FAST, "--name", "r"),
        *more,
        before="open('t.csv')",
        options=("-X", "warn_default_encoding"),
    )
    assert [ran.code for ran in found] == [0] * 5, found
    shown = [line for ran in found for line in ran.err.decode().splitlines()]
    assert any("EncodingWarning" in line for line in shown), "the interpreter does not warn"
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
    env["TABSWEEP_TRACKING_URI"] = ""
    before = "import os; [os.environ.pop(k) for k in [*os.environ] if not os.environ[k]]"
    call = ("sweep", "--suite", "smoke", "--dataset", "iris", "--model", "knn", "--folds", "1")
    more = ("--trials", "1", "--workers", "0", "--name", "r")  # MLflow's store is in the run
    for found in bench((*call, *more), ("report", "runs/r"), before=before, **env):
        assert found.code == 0, found.err.decode()
        assert b"Traceback" not in found.err
    assert status_of(Path("runs/r")).done == 1 and Path("runs/r/mlflow.db").exists()


# ---------------------------------------------------------------------- no streams


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_hindrance_and_get_nothing_of_a_run(closed: str):
    call = ["sweep", "--suite", "smoke", "--dataset", "iris", "--model", "knn", "--folds", "1"]
    words = [*call, "--trials", "2", *FAST, "--name", "r"]
    program = "from tabsweep.benchmark.cli import main; main()"
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", program, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert status_of(Path("runs/r")).done == 2
    assert bench(("verify", "runs/r"))[0].code == 0


# ---------------------------------------------------------------------- little memory

LIMIT = """
import os, resource
from tabsweep.benchmark.commands import sweep
from tabsweep.datasets.reading import files
import pyarrow, sklearn.linear_model
files.BYTES_PER_BYTE = {factor}
with open("/proc/self/statm") as file:
    used = int(file.read().split()[5]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_DATA, (used + {room}, resource.RLIM_INFINITY))
try:
    bytearray(2 * {room})
except MemoryError:
    open("proof", "w").close()
"""


FACTORS = (files.BYTES_PER_BYTE, 0)


def large(rows: int = 600_000) -> int:
    with open("large.csv", "w") as file:
        file.write("a,b,c,price\n")
        for i in range(rows):
            file.write(f"{i * 7 % 1009}.25,{'xyz'[i % 3]},{i % 17},{i % 1013}.5\n")
    return Path("large.csv").stat().st_size


def error_under_limit(name: str, room: int, factor: float = files.BYTES_PER_BYTE) -> str:
    """The one line with which a sweep of a file ends where there is so much memory, in bytes."""
    call = ("sweep", "--csv", name, "--target", "price", "--model", "constant", *FAST)
    before = LIMIT.format(room=room, factor=factor)
    (found,) = bench(call, before=before, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    assert Path("proof").exists(), "there was memory enough"
    said = found.err.decode()
    assert found.code in (2, 3) and "Traceback" not in said, said
    assert not Path("runs").exists()
    (line,) = [line for line in said.splitlines() if line.startswith("error ")]
    return line


@pytest.mark.fault(24)
def test_a_table_larger_than_memory_is_one_line_and_no_traceback():
    room = 5 * large()
    foreseen, not_foreseen = (error_under_limit("large.csv", room, f) for f in FACTORS)
    words = r"E007: large.csv: \d+ MB need about \d+ MB of memory, \d+ MB are"
    assert re.search(words, foreseen), foreseen
    assert re.search("BENCH-E007: .*memory ran out|BENCH-E016: ", not_foreseen), not_foreseen


@pytest.mark.fault(24)
@pytest.mark.parametrize(
    "name", ["bomb.parquet", pytest.param("bomb.csv.gz", marks=pytest.mark.nightly)]
)
def test_a_small_file_with_a_table_larger_than_memory_is_refused_before_it_is_read(name):
    rows = 3_000_000  # of a constant: a few KB in the file
    if name.endswith(".parquet"):
        table = {"a": np.zeros(rows), "b": ["x" * 20] * rows, "price": np.ones(rows)}
        parquet.write_table(pa.table(table), name)
        del table
    else:
        with gzip.open(name, "wt", compresslevel=1) as file:
            file.write("a,b,price\n")
            for _ in range(rows // 1000):
                file.write(f"0.0,{'x' * 20},1.0\n" * 1000)
    line = error_under_limit(name, 2 * 10**8)
    assert "BENCH-E007" in line and name in line and "memory" in line, line


# ---------------------------------------------------------------------- forks beside threads


FORKS = [
    ROOT / place for place in ("benchmark/running/watched.py", "sweeps/workers/process_worker.py")
]
BEFORE_THE_FORK = """
import sys, threading
from tabsweep.benchmark.cli import main
from tabsweep.benchmark.running import watched

def look(say):
    print(threading.active_count(), sum(name in sys.modules for name in ("numpy", "ray", "torch")))
    raise KeyboardInterrupt

watched.watched = look
sys.argv[1:] = ["sweep", "--suite", "smoke"]
main()
"""


@pytest.mark.fault(32)
def test_the_product_never_forks_a_process_that_has_threads():
    """A child of a fork inherits locks that threads held, and not the threads that would open them:
    our own processes are started anew or by a server without threads, never forked from one of
    ours. (What a trial forks: test_trials.py.) Two places fork: the watcher, while there are no
    threads and no library that may have any, and the fork server (test_process_workers.py)."""
    done = subprocess.run(
        [sys.executable, "-c", BEFORE_THE_FORK], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["1", "0"], done.stderr
    calls = 0
    for path in modules():
        # perf measures, and runs none of the product's work
        if path.is_relative_to(ROOT / "benchmark" / "perf"):
            continue
        for node in ast.walk(tree(path)):
            where = f"{path}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.ImportFrom):
                connects = node.module == "multiprocessing.connection"
                assert connects or not (node.module or "").startswith("multiprocessing"), where
            if isinstance(node, ast.Attribute) and dotted(node.value) == "multiprocessing":
                assert node.attr == "get_context", where
            if isinstance(node, ast.Call):
                calls += 1
                name, words = dotted(node.func), [word.arg for word in node.keywords]
                assert name != "os.forkpty", where
                assert name != "os.fork" or path in FORKS, where
                if name == "multiprocessing.get_context":
                    assert ast.literal_eval(node.args[0]) in ("spawn", "forkserver"), where
                if name == "ProcessPoolExecutor":
                    assert "mp_context" in words, where
                assert "preexec_fn" not in words, where
    assert calls > 1000, "the modules were not found"


# ---------------------------------------------------------------------- no locks

SLOW = """
import time
from tabsweep.models.linear import Linear


class Slow(Linear):
    def _fit(self, x, y, val):
        time.sleep(0.2)
        super()._fit(x, y, val)

    @classmethod
    def spaces(cls):
        strength = {"kind": "log-uniform", "low": 0.01, "high": 1e3}
        search = {"strategy": "random", "n_configs": 10}
        return {"default": {"search": search, "params": {"C": strength}}}
"""
# A driver on a file system without locks.
UNLOCKED = """
import errno, fcntl, sys
def refuse(*_):
    raise OSError(errno.ENOLCK, "No locks available")
fcntl.flock = refuse
from tabsweep.benchmark.cli import main
sys.argv[0] = "bench"
main()
"""


def files_of(run: Path) -> dict[str, bytes]:
    """What a run's folder holds, without the lease itself."""
    found = (path for path in run.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in found if "owner." not in path.name}


@pytest.mark.fault(29)
def test_a_driver_that_wakes_up_after_its_lease_was_taken_leaves_the_folder_untouched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    words = ["sweep", "--suite", "smoke", "--dataset", "iris", "--model", "slow.py:Slow"]
    words += ["--folds", "2", "--trials", "10", "--workers", "0", "--tracking-uri", "none"]
    driver = subprocess.Popen(
        [sys.executable, "-c", UNLOCKED, *words, "--runs", "runs", "--name", "shared"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    run = tmp_path / "runs" / "shared"
    try:
        wait_for(lambda: is_run(run) and len(list(Ledger(run).records("result"))) > 2, "results")
        driver.send_signal(signal.SIGSTOP)

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(fcntl, "flock", refuse)
        with RunLock(run, stale_s=1.0):
            before = files_of(run)
            driver.send_signal(signal.SIGCONT)
            said, _ = driver.communicate(timeout=120)
            assert driver.returncode == 3, said
            assert "BENCH-E010" in said and "nothing more is written here" in said
            assert files_of(run) == before
    finally:
        driver.kill()
        driver.communicate()
