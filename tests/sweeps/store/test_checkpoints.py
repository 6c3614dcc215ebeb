"""Checkpoints: the bytes that were put, or none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tabsweep.sweeps.store.checkpoints import CheckpointFolder, frame, parse

KEY = "0123456789abcdef" * 2
OTHER = "f" * 32


@pytest.fixture
def store(tmp_path: Path) -> CheckpointFolder:
    return CheckpointFolder(tmp_path / "checkpoints")


def file_of(store: CheckpointFolder) -> Path:
    (file,) = store.path.iterdir()
    return file


@given(step=st.integers(0, 999_999_999), state=st.binary(max_size=300))
def test_what_is_framed_is_parsed(step, state):
    assert parse(frame(step, state)) == (step, state)


@pytest.mark.fault(6, 19)
@given(data=st.data(), state=st.binary(max_size=40))
def test_no_changed_or_cut_file_is_a_checkpoint(data, state):
    whole = frame(12, state)
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[at] ^= data.draw(st.integers(1, 255))
    assert parse(bytes(changed)) is None
    assert parse(whole[:at]) is None
    assert parse(whole + b"x") is None


def test_the_last_put_is_what_is_got(store):
    assert store.get(KEY) is None and not store.path.exists()  # reading makes nothing
    store.put(KEY, 4, b"four")
    store.put(KEY, 8, b"eight")
    store.put(OTHER, 2, b"")
    assert store.get(KEY) == (8, b"eight") and store.get(OTHER) == (2, b"")
    assert CheckpointFolder(store.path).get(KEY) == (8, b"eight")
    assert len(list(store.path.iterdir())) == 2


def test_a_dropped_key_leaves_no_file(store):
    store.put(KEY, 4, b"four")
    torn = store.path / f".{file_of(store).name}.99999.tmp"  # as a killed writer leaves it
    torn.write_bytes(b"half")
    store.drop(KEY)
    store.drop(KEY)
    assert store.get(KEY) is None and list(store.path.iterdir()) == [torn]
    store.put(OTHER, 4, b"four")
    store.remove_torn()
    assert not torn.exists() and store.get(OTHER) == (4, b"four")


CUTS = [0, 5, 60, -1]


@pytest.mark.fault(6)
def test_a_torn_file_counts_as_none_and_is_removed(store):
    for size in CUTS:
        store.put(KEY, 4, b"four")
        file = file_of(store)
        file.write_bytes(file.read_bytes()[:size])
        assert parse(file.read_bytes()) is None  # the fault is there
        assert store.get(KEY) is None and not file.exists()
        store.put(KEY, 8, b"eight")
        assert store.get(KEY) == (8, b"eight")


@pytest.mark.fault(5)
def test_a_write_that_fails_leaves_the_last_checkpoint(store, monkeypatch):
    store.put(KEY, 4, b"four")
    failed = []

    def full(descriptor: int) -> None:
        failed.append(descriptor)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        store.put(KEY, 8, b"eight")
    monkeypatch.undo()
    assert failed
    assert store.get(KEY) == (4, b"four") and os.listdir(store.path) == [file_of(store).name]


BAD_KEYS = ["", "abc", "../" + KEY, KEY.upper(), KEY + "/x", "g" * 32]


def test_a_key_that_is_not_plain_hexadecimal_is_refused(store):
    for key in BAD_KEYS:
        for call in (store.get, store.drop, lambda k: store.put(k, 1, b"")):
            with pytest.raises(ValueError, match="hexadecimal"):
                call(key)
        assert not store.path.exists()
