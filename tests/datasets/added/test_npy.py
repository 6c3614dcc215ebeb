"""Arrays of strangers: plain ones are mapped, pickles of text are read, no code in them runs."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest
from tabsweep.datasets.added.npy import read_array
from tabsweep.datasets.errors import DataError


def objects(path: Path, payload: bytes, shape: tuple[int, ...] = (2,)) -> Path:
    """A file whose header says "objects" and whose pickle is `payload`."""
    stream = io.BytesIO()
    header = {"descr": "|O", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    path.write_bytes(stream.getvalue() + payload)
    return path


PLAIN = [
    np.arange(6.0).reshape(3, 2),
    np.asfortranarray(np.arange(6.0).reshape(3, 2)),
    np.array([["a", "größe"], ["", "nan"]]),
    np.arange(4, dtype=">i4"),
    np.array([True, False]),
    np.empty((0, 3), dtype=np.float32),
]


def test_a_plain_array_comes_back_equal(tmp_path):
    for array in PLAIN:
        np.save(tmp_path / "x.npy", array)
        found = read_array(tmp_path / "x.npy")
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


def test_a_large_array_is_not_read_but_mapped(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((1000, 10)))
    assert isinstance(read_array(tmp_path / "x.npy"), np.memmap)


def test_pickled_text_numbers_and_none_are_read_in_every_protocol(tmp_path):
    array = np.array([["a", None], [1.5, True], [np.nan, 7], ["x" * 300, b"y"]], dtype=object)
    for order in "CF":
        for protocol in range(6):
            payload = pickle.dumps(np.array(array, order=order), protocol=protocol)
            if protocol == 5 and order == "C":
                np.save(tmp_path / "x.npy", array, allow_pickle=True)  # as numpy itself writes it
            else:
                objects(tmp_path / "x.npy", payload, array.shape)
            found = read_array(tmp_path / "x.npy")
            assert found.shape == (4, 2) and found.dtype == object
            assert found[0].tolist() == ["a", None] and found[1].tolist() == [1.5, True]
            assert np.isnan(found[2, 0]) and found[2, 1] == 7
            assert found[3].tolist() == ["x" * 300, b"y"]


def test_numpy_scalars_inside_are_plain_values(tmp_path):
    array = np.array([np.str_("grün"), np.float64(0.5), np.int64(3), np.bool_(True)], dtype=object)
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    assert read_array(tmp_path / "x.npy").tolist() == ["grün", 0.5, 3, True]


def test_numpy_numbers_of_every_size_are_read_and_other_scalars_named(tmp_path):
    numbers = [np.dtype(code).type(1.0) for code in "bBhHiIlLqQefd?"]
    np.save(tmp_path / "x.npy", np.array(numbers, dtype=object), allow_pickle=True)
    assert read_array(tmp_path / "x.npy").tolist() == [1] * len(numbers)
    dates = np.array([np.datetime64("2024-01-01"), "a"], dtype=object)
    np.save(tmp_path / "x.npy", dates, allow_pickle=True)
    with pytest.raises(DataError, match="a value of type numpy.scalar"):
        read_array(tmp_path / "x.npy")


class Shell:
    """Runs a command when it is unpickled in the usual way."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


@pytest.mark.fault(19)
def test_a_pickle_with_code_is_refused_in_one_line_and_does_not_run(tmp_path):
    touched = tmp_path / "touched"
    array = np.array(["a", Shell(touched)], dtype=object)
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    with pytest.raises(DataError, match="could run code") as caught:
        read_array(tmp_path / "x.npy", "toy/C_train.npy")
    assert "\n" not in str(caught.value) and "toy/C_train.npy" in str(caught.value)
    assert not touched.exists()
    np.load(tmp_path / "x.npy", allow_pickle=True)
    assert touched.exists(), "the code does run where it is allowed to"


@pytest.mark.fault(19)
def test_pickles_that_misuse_what_arrays_need_are_refused(tmp_path):
    payloads = {
        "a function of numpy": b"cnumpy\nload\n(S'x'\ntR.",
        "an attribute of an allowed module": b"cnumpy.core.multiarray\nfromfile\n(S'x'\ntR.",
        "another array type": pickle.dumps(np.arange(2.0)),
        "a list": pickle.dumps(["a", "b"]),
        "fewer values than the header": pickle.dumps(np.array(["a"], dtype=object)),
        "an array inside": pickle.dumps(np.array([np.arange(2), "b"], dtype=object)),
        "a dictionary inside": pickle.dumps(np.array([{"a": 1}, "b"], dtype=object)),
        "encode with another codec": b"c_codecs\nencode\n(Vx\nVhex\ntR.",
        "an array without state": b"cnumpy.core.multiarray\n_reconstruct\n(tR.",
        "nothing": b"",
        "rubbish": b"\xff\xfe\x00",
        "a persistent id": b"Px\n.",
    }
    for what, payload in payloads.items():
        path = objects(tmp_path / "x.npy", payload)
        with pytest.raises(DataError, match=r"^x\.npy ") as caught:
            read_array(path)
        assert "\n" not in str(caught.value), what


@pytest.mark.fault(19)
def test_a_pickle_that_would_take_half_a_gigabyte_is_refused_before_it_is_read(tmp_path):
    for payload in (b"\x80\x02Nr\xff\xff\xff\x01.", b"Np33554431\n."):
        path = objects(tmp_path / "x.npy", payload)
        with pytest.raises(DataError, match="remembered value number 33554431 in 1"):
            read_array(path)


def test_what_is_no_array_or_cut_short_is_refused_in_one_line(tmp_path):
    np.save(tmp_path / "whole.npy", np.arange(1000.0))
    whole = (tmp_path / "whole.npy").read_bytes()
    np.savez(tmp_path / "z.npz", a=np.arange(3))
    np.save(tmp_path / "one.npy", np.float64(3.0))
    np.save(tmp_path / "records.npy", np.zeros(3, dtype=[("a", "f8"), ("b", "i4")]))
    cases = {
        "cut short": whole[:-8],
        "only a header": whole[:128],
        "half a header": whole[:60],
        "empty": b"",
        "text": b"1,2,3\n",
        "pickle": pickle.dumps([1, 2]),
        "npz": (tmp_path / "z.npz").read_bytes(),
        "a single value": (tmp_path / "one.npy").read_bytes(),
        "records": (tmp_path / "records.npy").read_bytes(),
        "huge": whole[:128].replace(b"(1000,)", b"(9" + b"0" * 15 + b",)")[:128] + b"x",
    }
    for what, data in cases.items():
        (tmp_path / "x.npy").write_bytes(data)
        with pytest.raises(DataError, match=r"^x\.npy ") as caught:
            read_array(tmp_path / "x.npy")
        assert "\n" not in str(caught.value), what
    with pytest.raises(DataError, match="cannot be read"):
        read_array(tmp_path / "absent.npy")
