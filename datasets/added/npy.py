"""Arrays from files of NumPy's format that nobody vouches for; no code in them is ever run."""

from __future__ import annotations

import math
import pickle
import pickletools
import struct
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from ...common.text import one_line
from ..errors import DataError

MAGIC = b"\x93NUMPY"
PLAIN = (str, bytes, float, int, bool, type(None))
# What numpy's pickles of arrays and scalars name; everything else is refused.
MODULES = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray")
PARTS = ("ndarray", "dtype", "scalar", "_reconstruct")
# numpy's code of a number's type: its bytes, as `struct` names them
NUMBERS = {"f8": "<d", "f4": "<f", "f2": "<e", "b1": "<?", "i8": "<q", "i4": "<i", "i2": "<h"}
NUMBERS |= {"i1": "<b", "u8": "<Q", "u4": "<I", "u2": "<H", "u1": "<B"}
MADE = {"_reconstruct": "ndarray", "dtype": "dtype", "scalar": "scalar"}


class Unsafe(ValueError):
    """A pickle that names anything but arrays of plain values."""


class _Inert:
    """What a pickle names or makes, as data: its kind, the arguments and the state."""

    __slots__ = ("kind", "args", "state")

    def __init__(self, kind: str, args: tuple[Any, ...] = ()) -> None:
        self.kind = kind
        self.args = args
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Name:
    """A name that a pickle may call; what it returns is inert."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any) -> Any:
        if self.name == "encode":  # of `_codecs`: bytes in the pickles of Python 2
            text, how = args
            if not isinstance(text, str) or how != "latin1":
                raise Unsafe("a call of encode that numpy does not write")
            return text.encode("latin1")
        if self.name not in MADE:
            raise Unsafe(f"a call of numpy.{self.name}")
        return _Inert(MADE[self.name], args)


class _Reader(pickle.Unpickler):
    """Reads the pickle of an object array without numpy: every name becomes an inert value, made
    anew for each occurrence, so that nothing in the pickle reaches this program."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode") or (module in MODULES and name in PARTS):
            return _Name(name)
        raise Unsafe(f"it names {one_line(f'{module}.{name}', 80)}")


def _text_of_dtype(dtype: Any) -> str:
    """The type's code, such as "O8" or "U3", of an inert dtype."""
    if isinstance(dtype, _Inert) and dtype.kind == "dtype" and dtype.args:
        return str(dtype.args[0])
    raise Unsafe("an array without a type")


def _value(item: Any) -> Any:
    """A plain value, or a scalar of numpy as one."""
    if isinstance(item, PLAIN):
        return item
    if isinstance(item, _Inert) and item.kind == "scalar" and len(item.args) == 2:
        code, data = _text_of_dtype(item.args[0]), item.args[1]
        if isinstance(data, bytes):
            if code[:1] == "U":
                return data.decode("utf-32-le").rstrip("\0")
            if code in NUMBERS and len(data) == struct.calcsize(NUMBERS[code]):
                return struct.unpack(NUMBERS[code], data)[0]
    kind = f"numpy.{item.kind}" if isinstance(item, _Inert) else type(item).__name__
    raise Unsafe(f"a value of type {kind}")


def _check_memo(file: BinaryIO, size: int) -> None:
    """Unsafe for a pickle that numbers a remembered value beyond its own size in bytes: the reader
    takes memory by the largest such number before it reads on."""
    for code, number, _ in pickletools.genops(file):
        if code.name in ("PUT", "LONG_BINPUT") and int(number or 0) > size:
            raise Unsafe(f"remembered value number {number} in {size} bytes")


def _from_pickle(path: Path, start: int, shape: tuple[int, ...]) -> np.ndarray:
    """The object array of `shape` whose pickle begins at byte `start`."""
    with open(path, "rb") as file:
        file.seek(start)
        _check_memo(file, path.stat().st_size)
        file.seek(start)
        found = _Reader(file).load()
    if not isinstance(found, _Inert) or found.kind != "ndarray" or found.state is None:
        raise Unsafe("no array")
    _, stored, dtype, _, values = found.state
    if _text_of_dtype(dtype)[:1] != "O" or not isinstance(values, list):
        raise Unsafe("an array of another type than its header says")
    if tuple(stored) != shape or len(values) != math.prod(shape):
        raise Unsafe(f"{len(values)} values where the header says {shape}")
    flat = np.empty(len(values), dtype=object)
    flat[:] = [_value(item) for item in values]
    return flat.reshape(shape)  # the list is in C order, whatever the array's own was


def read_array(path: Path, shown: str | None = None) -> np.ndarray:
    """The array in the file `path`, of at least one dimension, mapped into memory where it can be.

    An array of objects is a pickle, which could run code. It is read by a reader that knows plain
    values alone (text, numbers, None) and makes nothing else. `shown` is the file's name in errors:
    DataError for a file that is no array, is cut short, or holds a pickle of anything else.
    """
    name = shown or path.name
    try:
        with open(path, "rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise DataError(f"{name} is no file of NumPy's format (.npy)")
            file.seek(0)
            version = np.lib.format.read_magic(file)
            header = np.lib.format.read_array_header_1_0
            if version != (1, 0):
                header = np.lib.format.read_array_header_2_0
            shape, fortran, dtype = header(file)
            start = file.tell()
        if dtype == np.dtype(object):
            found = _from_pickle(path, start, shape)
        elif dtype.hasobject or dtype.names is not None:
            raise DataError(f"{name} holds records ({dtype}); arrays of one type are read")
        elif math.prod(shape) == 0:
            found = np.empty(shape, dtype)
        else:
            how: Literal["C", "F"] = "F" if fortran else "C"
            found = np.memmap(path, dtype, "r", offset=start, shape=shape, order=how)
    except Unsafe as error:
        raise DataError(
            f"{name} is a pickle that could run code ({error}); refused. Save it as an array of "
            "text or numbers (dtype U or float)"
        ) from None
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{name} cannot be read: {one_line(error)}") from None
    except Exception as error:  # numpy and pickle raise many types for damaged bytes
        raise DataError(f"{name} is damaged or cut short: {one_line(error)}") from None
    if found.ndim == 0:
        raise DataError(f"{name} holds a single value; an array with rows is needed")
    return found
