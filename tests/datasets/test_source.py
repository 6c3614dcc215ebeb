"""Files of datasets arrive whole or not at all, whatever network, mirror and cache do."""

from __future__ import annotations

import gzip
import hashlib
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from local_server import Answer, LocalServer
from tabsweep.datasets import catalog, download, source
from tabsweep.datasets.card import UNKNOWN, Card, SourceFile
from tabsweep.datasets.download import NetworkAccess, Unreachable
from tabsweep.datasets.errors import ChecksumMismatch, DataError, DatasetUnavailable

DATA = b"1.0 2.0 3.0\n" * 500
SHA = hashlib.sha256(DATA).hexdigest()


class Server(LocalServer):
    """It answers with a script of (status, headers, body), then with its files."""

    def __init__(self) -> None:
        super().__init__()
        self.url = self.root
        self.script: list[Answer] = []
        self.files: dict[str, bytes] = {}

    def answer(self, path: str, headers: object) -> Answer:
        if self.script:
            return self.script.pop(0)
        return (200, {}, self.files[path]) if path in self.files else (404, {}, b"no")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "TABSWEEP_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    running = Server()
    yield running
    running.close()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between attempts, recorded and not waited."""
    seen: list[float] = []
    clock = SimpleNamespace(monotonic=download.time.monotonic, sleep=seen.append)
    monkeypatch.setattr(download, "time", clock)
    return seen


def card_at(url: str, **changes: object) -> Card:
    file = SourceFile("data", "data.txt", f"{url}/data.txt", SHA, len(DATA))
    base = catalog.card("concrete")
    return replace(base, name="toy", files=(replace(file, **changes),))  # type: ignore[arg-type]


def get(card: Card, cache: Path, mirror: str | Path = "") -> bytes:
    paths = source.fetch(card, cache=cache, mirror=mirror, network=NetworkAccess())
    return paths["data"].read_bytes()


def left_behind(cache: Path) -> list[str]:
    return sorted(p.name for p in cache.rglob("*") if p.is_file())


def test_a_download_is_kept_and_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    server.files["/data.txt"] = DATA
    assert get(card_at(server.url), tmp_path) == DATA
    assert get(card_at(server.url), tmp_path) == DATA
    assert server.requests == ["/data.txt"]
    assert left_behind(tmp_path) == [f"{SHA[:16]}-data.txt"]


def test_a_file_of_unknown_checksum_is_believed_once_and_held_to_it(
    server: Server, tmp_path: Path
) -> None:
    card = card_at(server.url, sha256=UNKNOWN, bytes=10_000)
    server.files["/data.txt"] = DATA
    with pytest.warns(RuntimeWarning, match=f"data.txt.* sha256 {SHA}"):
        assert get(card, tmp_path) == DATA
    assert get(card, tmp_path) == DATA and server.requests == ["/data.txt"]
    assert left_behind(tmp_path) == [f"{SHA[:16]}-data.txt", "data.txt.sha256"]
    (tmp_path / "toy" / f"{SHA[:16]}-data.txt").unlink()
    server.files["/data.txt"] = DATA + b"4.0"
    with pytest.raises(ChecksumMismatch, match=SHA):
        get(card, tmp_path)
    with pytest.raises(DataError, match=" 100 bytes"):
        get(replace(card, files=(replace(card.files[0], bytes=100),)), tmp_path / "other")
    assert left_behind(tmp_path / "other") == []


@pytest.mark.fault(11)
def test_what_may_pass_is_tried_again_with_growing_waits(
    server: Server, waits: list[float], tmp_path: Path
) -> None:
    server.files["/data.txt"] = DATA
    for number, failure in enumerate(
        (
            (500, {}, b"oops"),
            (503, {}, b""),
            (429, {}, b""),
            (200, {"Content-Length": "6000"}, DATA[:100]),
            (200, {"Content-Length": ""}, DATA[:100]),
        )
    ):
        server.script = [failure] * 3
        server.requests.clear()
        waits.clear()
        assert get(card_at(server.url), tmp_path / str(number)) == DATA
        assert len(server.requests) == 4 and len(waits) == 3, failure
        for k, wait in enumerate(waits):
            assert 0.5 <= wait / (0.25 * 2**k) <= 1.5


@pytest.mark.fault(11)
def test_what_does_not_pass_is_given_up_and_leaves_nothing(
    server: Server, waits: list[float], tmp_path: Path
) -> None:
    for failure in ((500, {}, b""), (200, {"Content-Length": "6000"}, b"1.0")):
        server.script = [failure] * 50
        server.requests.clear()
        with pytest.raises(DatasetUnavailable, match=r"'toy'.*\(5 attempts") as caught:
            get(card_at(server.url), tmp_path)
        assert "\n" not in str(caught.value)
        assert len(server.requests) == download.ATTEMPTS
        assert left_behind(tmp_path) == []


@pytest.mark.fault(11)
def test_retry_after_is_honoured(server: Server, waits: list[float], tmp_path: Path) -> None:
    server.files["/data.txt"] = DATA
    server.script = [(429, {"Retry-After": "3"}, b""), (503, {"Retry-After": "2"}, b"")]
    assert get(card_at(server.url), tmp_path) == DATA
    assert waits == [3.0, 2.0]


def test_a_wait_that_is_too_long_is_not_begun(
    server: Server, waits: list[float], tmp_path: Path
) -> None:
    server.script = [(429, {"Retry-After": "3600"}, b"")] * 9
    with pytest.raises(DatasetUnavailable, match="429.* 3600 s"):
        get(card_at(server.url), tmp_path)
    assert waits == [] and len(server.requests) == 1


def test_retry_after_may_be_a_number_or_a_date() -> None:
    now = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)
    assert download.retry_after_s("7", now) == 7
    assert download.retry_after_s("Tue, 01 Jan 2030 12:00:30 GMT", now) == 30
    assert download.retry_after_s("Tue, 01 Jan 2030 11:00:00 GMT", now) == 0
    assert download.retry_after_s("soon", now) is None
    assert download.retry_after_s(None, now) is None


@pytest.mark.fault(11)
def test_a_redirect_to_a_web_page_is_not_taken_for_data(server: Server, tmp_path: Path) -> None:
    page = b"\n <!DOCTYPE html><html>please log in</html>"
    for kind in ("text/html; charset=utf-8", "text/plain"):
        server.script = [(302, {"Location": "/login"}, b""), (200, {"Content-Type": kind}, page)]
        server.requests.clear()
        with pytest.raises(DatasetUnavailable, match="web page"):
            get(card_at(server.url), tmp_path)
        assert server.requests == ["/data.txt", "/login"]
        assert left_behind(tmp_path) == []


def test_a_redirect_to_another_kind_of_place_or_in_a_circle_is_not_followed(
    server: Server, waits: list[float], tmp_path: Path
) -> None:
    for target in ("file:///etc/hostname", "ftp://127.0.0.1/x", "/data.txt"):
        server.script = [(302, {"Location": target}, b"")] * 90
        with pytest.raises(DatasetUnavailable):
            get(card_at(server.url), tmp_path)
        assert left_behind(tmp_path) == []


def test_a_missing_file_is_asked_for_once(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DatasetUnavailable, match="HTTP 404"):
        get(card_at(server.url), tmp_path)
    assert len(server.requests) == 1


@pytest.mark.fault(10)
def test_other_bytes_are_refused_with_both_hashes_and_the_old_file_stays(
    server: Server, tmp_path: Path
) -> None:
    server.files["/data.txt"] = DATA
    old = source.fetch(card_at(server.url), cache=tmp_path, network=NetworkAccess())["data"]
    other = DATA.replace(b"3", b"4")
    server.files["/data.txt"] = other
    newer = card_at(server.url, sha256="f" * 64)
    with pytest.raises(ChecksumMismatch) as caught:
        get(newer, tmp_path)
    assert "f" * 64 in str(caught.value)
    assert hashlib.sha256(other).hexdigest() in str(caught.value)
    assert "\n" not in str(caught.value)
    assert left_behind(tmp_path) == [old.name] and old.read_bytes() == DATA


def test_a_file_that_grew_is_not_read_to_its_end(server: Server, tmp_path: Path) -> None:
    server.files["/data.txt"] = DATA * 1000
    with pytest.raises(ChecksumMismatch, match=f" {len(DATA)} bytes"):
        get(card_at(server.url), tmp_path)
    assert left_behind(tmp_path) == []


@pytest.mark.fault(10)
def test_a_spoiled_cached_file_is_fetched_again_and_never_used(
    server: Server, tmp_path: Path
) -> None:
    server.files["/data.txt"] = DATA
    place = source.fetch(card_at(server.url), cache=tmp_path, network=NetworkAccess())["data"]
    place.write_bytes(DATA[:-1])
    assert get(card_at(server.url), tmp_path) == DATA
    place.write_bytes(DATA[:-1])
    del server.files["/data.txt"]
    with pytest.raises(ChecksumMismatch, match="cache") as caught:
        get(card_at(server.url), tmp_path)
    assert hashlib.sha256(DATA[:-1]).hexdigest() in str(caught.value)


def test_a_host_that_cannot_be_reached_is_probed_once_for_all_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    probed = []

    def refuse(host: str, port: int, timeout_s: float) -> str:
        probed.append(host)
        return f"{host} cannot be reached"

    monkeypatch.setattr(download, "connects", refuse)
    network = NetworkAccess()
    for k in range(50):
        with pytest.raises(DatasetUnavailable, match="nowhere.invalid"):
            card = replace(card_at("https://nowhere.invalid"), name=f"toy-{k}")
            source.fetch(card, cache=tmp_path, network=network)
    assert probed == ["nowhere.invalid"]


def test_a_closed_port_and_an_unknown_name_are_unreachable(server: Server) -> None:
    port = server.http.server_port
    assert download.connects("127.0.0.1", port, 2.0) == ""
    server.close()
    assert "127.0.0.1" in download.connects("127.0.0.1", port, 2.0)
    assert download.connects("nowhere.invalid", 80, 2.0) != ""


@pytest.mark.parametrize("connecting", [True, False], ids=["silent", "black-hole"])
def test_giving_up_on_everything_takes_at_most_twenty_seconds(
    connecting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    def spend(seconds: float) -> None:
        now[0] += seconds

    def connects(host: str, port: int, timeout_s: float) -> str:
        spend(0.1 if connecting else timeout_s)
        return "" if connecting else "black hole"

    def silence(request: object, timeout: float) -> None:
        spend(timeout)
        raise TimeoutError("timed out")

    monkeypatch.setattr(download, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=spend))
    monkeypatch.setattr(download, "connects", connects)
    network = NetworkAccess()
    network._opener = SimpleNamespace(open=silence)  # type: ignore[assignment]
    for k in range(300):
        with pytest.raises(Unreachable):
            network.get(f"https://host{k % 30}.invalid/{k}", limit=10**5)
    assert 1.0 < now[0] <= 20.0
    before = now[0]
    spend(download.VERDICT_S + 1)
    with pytest.raises(Unreachable):
        network.get("https://host0.invalid/", limit=10**5)
    assert now[0] > before + download.VERDICT_S + 1, "later, the host is asked again"


def test_a_server_that_drips_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server.files["/data.txt"] = DATA
    ticks = iter(range(10**6))
    clock = SimpleNamespace(monotonic=lambda: 3.0 * next(ticks), sleep=lambda s: None)
    monkeypatch.setattr(download, "time", clock)
    monkeypatch.setattr(download, "CHUNK", 100)
    with pytest.raises(DatasetUnavailable, match="slow"):
        get(card_at(server.url), tmp_path)


def test_a_proxy_is_what_gets_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "no_proxy", "NO_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    assert download.endpoint("https://data.example/x") == ("proxy.example", 3128)
    monkeypatch.setenv("no_proxy", "data.example")
    assert download.endpoint("https://data.example/x") == ("data.example", 443)


def make_mirror(root: Path, stored: bytes, *, raw: str = "", path: str = "toy/data.txt") -> Path:
    sha = hashlib.sha256(stored).hexdigest()
    (root / "toy").mkdir(parents=True, exist_ok=True)
    (root / "toy" / "data.txt").write_bytes(stored)
    rows = f"file,bytes,sha256,sha256_of_raw\n{path},{len(stored)},{sha},{raw or sha}\n"
    (root / "MANIFEST.csv").write_text(rows)
    return root


NOWHERE = "https://nowhere.invalid"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TABSWEEP_MIRROR", raising=False)
    monkeypatch.setattr(download, "connects", lambda host, port, timeout_s: f"{host}: offline")


def test_a_mirror_serves_by_checksum_whatever_it_calls_the_file(offline, tmp_path: Path) -> None:
    root = make_mirror(tmp_path / "m", DATA)
    (root / "toy" / "data.txt").rename(root / "renamed")
    (root / "MANIFEST.csv").write_text(
        (root / "MANIFEST.csv").read_text().replace("toy/data.txt", "renamed")
    )
    assert get(card_at(NOWHERE), tmp_path / "c", root) == DATA
    assert get(card_at(NOWHERE), tmp_path / "c") == DATA, "and the cache has it now"


def test_a_mirror_may_keep_files_gzipped(offline, tmp_path: Path) -> None:
    root = make_mirror(tmp_path / "m", gzip.compress(DATA), raw=SHA)
    assert get(card_at(NOWHERE), tmp_path / "c", root) == DATA


def test_a_mirror_may_be_a_base_url_whose_manifest_is_read_once(
    server: Server, tmp_path: Path
) -> None:
    root = make_mirror(tmp_path / "m", DATA)
    server.files["/base/MANIFEST.csv"] = (root / "MANIFEST.csv").read_bytes()
    server.files["/base/toy/data.txt"] = DATA
    network = NetworkAccess()
    for k in range(3):
        card = replace(card_at(NOWHERE), name=f"toy-{k}")
        paths = source.fetch(card, cache=tmp_path, mirror=server.url + "/base/", network=network)
        assert paths["data"].read_bytes() == DATA
    assert server.requests.count("/base/MANIFEST.csv") == 1


def test_the_mirror_of_the_environment_is_used(
    offline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TABSWEEP_MIRROR", str(make_mirror(tmp_path / "m", DATA)))
    monkeypatch.setenv("TABSWEEP_CACHE", str(tmp_path / "c"))
    paths = source.fetch(card_at(NOWHERE), network=NetworkAccess())
    assert paths["data"].is_relative_to(tmp_path / "c")


@pytest.mark.fault(10)
def test_a_changed_byte_in_a_mirror_is_refused(offline, tmp_path: Path) -> None:
    root = make_mirror(tmp_path / "m", DATA)
    (root / "toy" / "data.txt").write_bytes(DATA[:-2] + b"9\n")
    with pytest.raises(ChecksumMismatch, match=SHA):
        get(card_at(NOWHERE), tmp_path / "c", root)
    assert left_behind(tmp_path / "c") == []


SPOILT = {  # how a mirror lacks the file
    "no folder": shutil.rmtree,
    "no manifest": lambda root: (root / "MANIFEST.csv").unlink(),
    "odd manifest": lambda root: (root / "MANIFEST.csv").write_bytes(b"name,size\n\xff,3\n"),
    "another file": lambda root: make_mirror(root, b"something else"),
    "file gone": lambda root: (root / "toy" / "data.txt").unlink(),
    "path outside": lambda root: make_mirror(root, DATA, path="../outside.txt"),
}


def test_a_mirror_without_the_file_is_said_beside_the_url(offline, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_bytes(DATA)
    for name, spoil in SPOILT.items():
        root = make_mirror(tmp_path / name, DATA)
        spoil(root)
        with pytest.raises(DatasetUnavailable) as caught:
            get(card_at(NOWHERE), tmp_path / "c", root)
        assert "mirror" in str(caught.value) and "nowhere.invalid: offline" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_without_a_mirror_the_error_says_that_there_could_be_one(offline, tmp_path: Path) -> None:
    with pytest.raises(DatasetUnavailable, match="TABSWEEP_MIRROR"):
        get(card_at(NOWHERE), tmp_path / "c")


def test_a_cache_that_cannot_be_written_is_done_without(offline, tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a file where the folder should be")
    root = make_mirror(tmp_path / "m", DATA)
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        assert get(card_at(NOWHERE), tmp_path / "c", root) == DATA


def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "x"
    source.write_atomically(place, b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(source.os, "fsync", full)
    with pytest.raises(OSError, match="28"):
        source.write_atomically(place, b"new")
    assert place.read_bytes() == b"old" and left_behind(tmp_path) == ["x"]


def test_two_writers_of_one_file_do_not_disturb_each_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place, flush = tmp_path / "x", source.os.fsync

    def meanwhile(handle: int) -> None:
        monkeypatch.setattr(source.os, "fsync", flush)
        source.write_atomically(place, b"of the other")
        flush(handle)

    monkeypatch.setattr(source.os, "fsync", meanwhile)
    source.write_atomically(place, b"of the first")
    assert place.read_bytes() == b"of the first" and left_behind(tmp_path) == ["x"]


def test_errors_survive_the_way_between_processes() -> None:
    for error in (DatasetUnavailable("a", "b"), ChecksumMismatch("a", "b", "c", "d", "e")):
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
