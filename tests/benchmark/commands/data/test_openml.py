"""Tasks of OpenML become datasets, through the real command and a server that answers as OpenML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from calls import bench
from openml_server import OpenML, flowers, problem, splits
from small_sweeps import FAST
from tabsweep.datasets import catalog, download
from tabsweep.datasets.added import store
from tabsweep.datasets.openml import suites

pytestmark = pytest.mark.usefixtures("work")

NAME = "openml-59-flowers"
TASK = "/api/v1/json/task/59"
DATA = "/data/v1/download/61/flowers.arff"


@pytest.fixture
def openml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenML]:
    """A server with one dataset and task; its address is in the environment."""
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TABSWEEP_DATA", str(tmp_path / "store"))
    download.network.cache_clear()  # no verdict on a host of another test
    running = OpenML()
    monkeypatch.setenv("TABSWEEP_OPENML", running.url)
    running.add_dataset(61, "flowers", flowers(), row_id_attribute="row")
    running.add_task(59, 61)
    yield running
    running.close()


def refused(*args: object) -> tuple[str, str]:
    """(id, line) of a call that fails with one line."""
    ran = bench("data", "add", *args)
    lines = [line for line in ran.err.splitlines() if line.startswith("error ")]
    assert ran.code != 0 and len(lines) == 1 and len(lines[0]) < 500, ran.err
    assert store.names() == []
    return lines[0].split()[1].rstrip(":"), lines[0]


# ---------------------------------------------------------------------- what is added


def test_a_task_is_added_with_its_target_kinds_and_every_official_fold(openml):
    ran = bench("data", "add", "openml:59", "--json")
    assert ran.code == 0, ran.err
    (one,) = json.loads(ran.out)["added"]
    assert one["name"] == NAME and one["openml"]["version"] == "2"
    table, folds = catalog.load_dataset(NAME), catalog.splits(NAME)
    given = flowers()
    assert list(table.frame) == ["petal length", "width", "colour", "size"]  # "row" is no feature
    assert table.classes == ("virginica", "setosa", "versi color")  # in the order of the file
    assert [table.classes[code] for code in table.target] == given["class"].tolist()
    np.testing.assert_array_equal(table.frame["width"], given["width"])
    assert table.frame["colour"].tolist() == given["colour"].tolist()
    assert table.frame["size"].isna().tolist() == given["size"].isna().tolist()
    assert list(table.frame["size"].cat.categories) == ["small", "middle", "large"]
    assert len(folds) == 6
    for fold in folds:
        part = np.random.default_rng(fold.index // 3).permutation(90) % 3
        np.testing.assert_array_equal(fold.test, np.flatnonzero(part == fold.index % 3))
        assert len(fold.val) == 12 and len(fold.train) == 48


def test_parquet_gives_the_values_of_the_arff_file(openml):
    assert bench("data", "add", "openml:59", "--name", "first").code == 0
    openml.add_dataset(62, "flowers", flowers(), format="Parquet", row_id_attribute="row",
                       md5_checksum="")  # fmt: skip
    openml.add_task(60, 62)
    ran = bench("data", "add", "openml:60", "--name", "second")
    assert ran.code == 0 and "no checksum" in ran.err
    one, other = catalog.load_dataset("first"), catalog.load_dataset("second")
    assert one.kinds == other.kinds
    for name in one.frame:
        assert one.frame[name].astype(object).equals(other.frame[name].astype(object)), name
    labels = [[table.classes[code] for code in table.target] for table in (one, other)]
    assert labels[0] == labels[1]
    for a, b in zip(one.masks, other.masks, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_task_that_is_there_is_not_asked_for_again_and_sweeps_without_a_network(openml):
    assert bench("data", "add", "openml:59").code == 0
    n = len(openml.requests)
    openml.close()
    again = bench("data", "add", "openml:59")
    assert again.code == 0 and "already" in again.err + again.out
    assert len(openml.requests) == n
    models = ("--model", "constant", "--trials", 1, "--folds", 6)
    ran = bench("sweep", "--suite", "smoke", "--dataset", NAME, *models, *FAST, "--name", "run")
    assert ran.code == 0, ran.err
    assert bench("data", "verify", NAME).code == 0


def test_a_stored_file_that_changed_is_fetched_anew_and_a_changed_source_is_refused(openml):
    assert bench("data", "add", "openml:59").code == 0
    (store.folder() / NAME / "data.arff").write_bytes(b"spoiled")
    assert bench("data", "verify", NAME).code == 3
    assert bench("data", "add", "openml:59").code == 0
    assert bench("data", "verify", NAME).code == 0
    (store.folder() / NAME / "data.arff").write_bytes(b"spoiled")
    openml.add_dataset(61, "flowers", flowers(seed=1), row_id_attribute="row")
    ran = bench("data", "add", "openml:59")
    assert ran.code == 2 and "BENCH-E007" in ran.err and "other data" in ran.err


def test_a_regression_and_a_sparse_file_are_read(openml):
    openml.add_dataset(62, "numbers", flowers())
    openml.add_task(60, 62, target="petal length", kind="2")
    sparse = b"@relation s\n@attribute a real\n@attribute b {no,yes}\n@attribute c {p,q}\n@data\n"
    rows = [f"{{0 {i}, 1 yes}}" if i % 2 else f"{{0 {i}, 2 q}}" for i in range(30)]
    openml.add_dataset(63, "sparse", flowers(), md5_checksum="", format="Sparse_ARFF")
    openml.files["/data/v1/download/63/sparse.arff"] = sparse + "\n".join(rows).encode()
    openml.add_task(61, 63, target="c", made=splits(30))
    for task in (60, 61):
        ran = bench("data", "add", f"openml:{task}")
        assert ran.code == 0, ran.err
    numbers, found = map(catalog.load_dataset, ("openml-60-numbers", "openml-61-sparse"))
    np.testing.assert_array_equal(numbers.target, flowers()["petal length"])
    assert found.frame["a"].tolist() == [float(i) for i in range(30)]
    assert found.frame["b"].tolist() == ["yes" if i % 2 else "no" for i in range(30)]
    assert found.target.tolist() == [0 if i % 2 else 1 for i in range(30)]


def test_a_suite_adds_its_tasks_and_names_the_one_that_cannot_be(openml):
    openml.add_task(60, 61)
    openml.add_task(61, 61, kind="5")
    openml.add_suite(99, "mine-1.0", [59, 60, 61])
    openml.add_suite(98, "single", [59])
    ran = bench("data", "add", "openml-suite:mine-1.0", "--json")
    found = json.loads(ran.out)
    assert ran.code == 2 and [one["name"] for one in found["added"]] == [NAME, "openml-60-flowers"]
    assert list(found["refused"]) == ["openml:61"] and "Clustering" in found["refused"]["openml:61"]
    ran = bench("data", "add", "openml-suite:98", "--json")
    assert ran.code == 0 and not json.loads(ran.out)["added"][0]["new"]


def test_the_named_suites_list_tasks_or_studies_that_the_server_is_asked_for(openml):
    tabarena = suites.named()["tabarena"]["tasks"]
    assert len(tabarena) == len(set(tabarena)) == 51 and "cc18" in suites.named()
    openml.add_suite(271, "c", [59])
    openml.add_suite(269, "r", [59])
    ran = bench("data", "add", "openml-suite:amlb", "--json")
    assert ran.code == 0 and len(json.loads(ran.out)["added"]) == 1
    asked = [path.rpartition("/")[2] for path in openml.requests if "study" in path]
    assert asked == ["271", "269"]


# ---------------------------------------------------------------------- what is refused


def test_what_the_server_does_not_know_is_one_line(openml):
    assert refused("openml:7")[0] == "BENCH-E003"
    assert refused("openml-suite:7")[0] == "BENCH-E003"
    openml.add_task(60, 7)
    id, line = refused("openml:60")
    assert id == "BENCH-E003" and "Unknown dataset" in line
    newer = {"title": "Task Not Found", "status": 404, "detail": "No task 8", "code": "151"}
    answer = 404, "application/problem+json", json.dumps(newer).encode()
    openml.trouble["/api/v1/json/task/8"] = [answer]
    assert refused("openml:8")[0] == "BENCH-E003"
    openml.trouble[TASK] = [problem("112", "No access granted")]
    id, line = refused("openml:59")
    assert id == "BENCH-E013" and "No access granted" in line
    error = b"<oml:error><oml:code>151</oml:code><oml:message>Unknown task</oml:message>"
    openml.trouble[TASK] = [(412, "text/xml", error)]
    assert refused("openml:59")[0] == "BENCH-E003"


@pytest.mark.fault(11)
def test_a_gateway_error_is_retried_and_given_up_within_seconds(openml):
    bad = (502, "text/html", b"<html>Bad Gateway</html>")
    openml.trouble[DATA] = [bad, bad]
    assert bench("data", "add", "openml:59", "--name", "late").code == 0
    assert openml.requests.count(DATA) == 3
    assert bench("data", "remove", "late").code == 0
    openml.trouble[TASK] = [bad] * 50
    id, line = refused("openml:59")
    assert id == "BENCH-E013" and "502" in line and "TABSWEEP_OPENML" in line
    assert 2 <= len(openml.trouble[TASK]) < 49


@pytest.mark.fault(10)
def test_a_wrong_md5_a_cut_parquet_and_cut_splits_leave_nothing(openml):
    whole = openml.files[DATA]
    openml.files[DATA] = whole[:-9]
    id, line = refused("openml:59")
    assert id == "BENCH-E014" and "MD5" in line
    openml.files[DATA] = whole
    openml.add_dataset(62, "flowers", flowers(), format="Parquet")
    openml.add_task(60, 62)
    openml.files["/datasets/62.pq"] = openml.files["/datasets/62.pq"][:-100]
    id, line = refused("openml:60")
    assert id == "BENCH-E007" and "cut short" in line
    made = splits()
    for wrong in (made[:-2000], made[:-3], b"@relation x\n@data\n", splits(91), b" ", made[:60]):
        openml.add_task(59, 61, made=wrong)
        assert refused("openml:59")[0] == "BENCH-E007", wrong[-40:]
    for times in (1, 255, 256, 257, 512):  # a count in one byte would be back at one
        again = made + b"TEST,0,0,0\n" * times
        openml.add_task(59, 61, made=again)
        id, line = refused("openml:59")
        assert id == "BENCH-E007" and "row 0 is named twice" in line and "fold 0" in line


def test_text_after_a_closing_quote_is_refused_and_long_lines_are_read_at_once(openml):
    head = b"@relation r\n@attribute t string\n@attribute class {a,b}\n@data\n"
    rows = [b"x,a", b"x, b"] * 44
    long = b"x" + b" " * 300_000 + b"y,a"
    for body, wrong in ((b"x, 'a' b", True), (b"'x'y,a", True), (long, False)):
        openml.add_dataset(61, "flowers", flowers(), md5_checksum="")
        openml.files[DATA] = head + b"\n".join([body, *rows, b"' ', b"])
        if wrong:
            id, line = refused("openml:59")
            assert id == "BENCH-E007" and "line 5" in line
        else:
            assert bench("data", "add", "openml:59").code == 0


def test_a_server_that_cannot_be_reached_or_is_none_is_one_line(openml, monkeypatch):
    openml.trouble[TASK] = [(200, "application/json", b"[]"), (200, "text/plain", b"hello")]
    assert refused("openml:59")[0] == "BENCH-E007"
    assert refused("openml:59")[0] == "BENCH-E007"
    openml.trouble[TASK] = [(200, "application/json", b"[" * 1_000_000)]
    assert refused("openml:59")[0] == "BENCH-E007"
    openml.trouble[TASK] = [(412, "application/json", b"[" * 1_000_000)]
    assert refused("openml:59")[0] == "BENCH-E013"
    openml.close()
    id, line = refused("openml:59")
    assert id == "BENCH-E013" and "TABSWEEP_OPENML" in line and "--openml" not in line
    monkeypatch.setenv("TABSWEEP_OPENML", "ftp://host/api")
    assert refused("openml:59")[0] == "BENCH-E007"


def test_options_that_do_not_belong_together_are_one_line(openml):
    for args in (
        ("openml:iris",),
        ("openml:",),
        ("openml-suite:a b",),
        ("openml:59", "--target", "class"),
        ("openml:59", "--group", "class"),
        ("openml-suite:99", "--name", "mine"),
        ("openml:59", "--name", "Iris!"),
        ("openml:59", "--name", "iris"),
    ):
        assert refused(*args)[0] in ("BENCH-E007", "BENCH-E003"), args
    openml.add_task(60, 61, target="absent")
    assert refused("openml:60")[0] == "BENCH-E007"
    assert openml.requests.count(DATA) == 1
