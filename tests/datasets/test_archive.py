"""Archives: the wanted member comes out whole, hostile archives are refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from tabsweep.datasets import catalog, source
from tabsweep.datasets.archive import unpack
from tabsweep.datasets.card import SourceFile
from tabsweep.datasets.errors import DataError

GOOD = b"1,2\n" * 1000
LIMIT = len(GOOD)


def zipped(members: dict[str, bytes], *, link: str = "") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            if name == link:
                info.external_attr = 0o120777 << 16
            archive.writestr(info, content)
    return stream.getvalue()


def test_the_member_wanted_comes_out_whole() -> None:
    for how, data in (
        ("gzip", gzip.compress(GOOD)),
        ("zip", zipped({"readme": b"x", "d/x.csv": GOOD})),
    ):
        assert unpack(data, how, member="d/x.csv", limit=LIMIT) == GOOD


@pytest.mark.fault(12)
def test_a_path_that_leads_outside_spoils_the_whole_archive() -> None:
    for name in ("../x", "d/../../x", "/etc/passwd", "C:\\x", "..\\x"):
        members = {"x.csv": GOOD, name: b"evil"}
        with pytest.raises(DataError, match="outside"):
            unpack(zipped(members), "zip", member="x.csv", limit=LIMIT)


@pytest.mark.fault(12)
def test_links_spoil_the_whole_archive() -> None:
    with pytest.raises(DataError, match="link"):
        unpack(zipped({"x.csv": GOOD, "l": b"/etc"}, link="l"), "zip", member="x.csv", limit=LIMIT)


@pytest.mark.fault(12)
def test_a_bomb_is_not_unpacked_beyond_the_limit() -> None:
    bomb = b"\0" * 30_000_000
    for how, data in (("gzip", gzip.compress(bomb)), ("zip", zipped({"x.csv": bomb}))):
        with pytest.raises(DataError, match=r"more than the \d+ bytes"):
            unpack(data, how, member="x.csv", limit=LIMIT)


@pytest.mark.fault(12)
def test_what_is_no_archive_or_part_of_one_is_one_clear_error() -> None:
    whole = {"gzip": gzip.compress(GOOD), "zip": zipped({"x": GOOD})}
    for how, archive in whole.items():
        for data in (b"", b"<html>", archive[: len(archive) // 3]):
            with pytest.raises(DataError) as caught:
                unpack(data, how, member="x", limit=LIMIT)
            assert "\n" not in str(caught.value)


def test_an_absent_member_is_named() -> None:
    with pytest.raises(DataError, match="'x'"):
        unpack(zipped({"y": GOOD}), "zip", member="x", limit=LIMIT)


def test_a_card_with_an_archive_gives_the_file_inside(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("TABSWEEP_MIRROR", raising=False)
    data = zipped({"d/x.csv": GOOD})
    sha = hashlib.sha256(data).hexdigest()
    file = SourceFile(
        "data", "x.zip", "https://nowhere.invalid/x.zip", sha, len(data), "zip", "d/x.csv", LIMIT
    )
    card = replace(catalog.card("concrete"), name="toy", files=(file,))
    place = tmp_path / "c" / "toy" / f"{sha[:16]}-x.zip"
    place.parent.mkdir(parents=True)
    source.write_atomically(place, data)
    path = source.fetch(card, cache=tmp_path / "c")["data"]
    assert path.read_bytes() == GOOD
    path.write_bytes(b"spoiled")
    assert source.fetch(card, cache=tmp_path / "c")["data"].read_bytes() == GOOD
