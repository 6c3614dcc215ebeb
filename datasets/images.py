"""Image datasets (MNIST, CIFAR-10, digits), and readers that do not trust their files.

MNIST is read in the idx format, CIFAR-10 in its binary version (the pickled one is never opened);
scikit-learn's digits need no file. Files come from a folder, or as those of the tables do from
cache, mirror or pinned URL, checked by sha256.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..common.text import one_line, suggest
from .archive import unpack
from .card import Card, SourceFile
from .errors import DataError, DatasetUnavailable, UnknownDataset
from .source import fetch, read_if_there

FOLDER = "TABSWEEP_IMAGES"  # environment: a folder that holds the files
MAX_IDX = 64 << 20  # bytes of an unpacked idx file
CIFAR_SIDE, CIFAR_CHANNELS = 32, 3
CIFAR_RECORD = 1 + CIFAR_CHANNELS * CIFAR_SIDE**2
CIFAR_FILES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
CIFAR_INSIDE = "cifar-10-batches-bin"
MAX_CIFAR_FILE = 100_000 * CIFAR_RECORD
MAX_CIFAR = 256 << 20  # bytes of the unpacked archive
MNIST_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
N_CLASSES = 10


@dataclass(frozen=True, eq=False)
class Images:
    """Images and their classes.

    pixels: (N, channels, height, width) uint8. labels: (N,) 0..9. n_test: the last `n_test` rows
    are the test part; 0 where none is fixed. val_share: share of the other rows that validates.
    """

    name: str
    pixels: np.ndarray
    labels: np.ndarray
    n_test: int = 0
    val_share: float = 0.125

    def parts(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row numbers (ascending) of training, validation and test part.

        A test part that is not fixed is a fifth of the rows. What is drawn is stratified.
        """
        from sklearn.model_selection import train_test_split

        rows = np.arange(len(self.labels))
        if self.n_test:
            rest, test = rows[: -self.n_test], rows[-self.n_test :]
        else:
            rest, test = train_test_split(
                rows, test_size=0.2, stratify=self.labels, random_state=seed
            )
        train, val = train_test_split(
            rest, test_size=self.val_share, stratify=self.labels[rest], random_state=seed
        )
        return np.sort(train), np.sort(val), np.sort(test)


# -- formats --------------------------------------------------------------------------------------


def read_idx(data: bytes, what: str = "the file") -> np.ndarray:
    """The array of unsigned bytes in an idx file: two zero bytes, the type 8, the number of
    dimensions, their sizes (big-endian, 4 bytes each), the values in C order.

    DataError where the bytes are not exactly that; the sizes in the header are checked before
    anything is allocated.
    """
    if len(data) < 4 or data[:3] != b"\0\0\x08" or not 1 <= data[3] <= 4:
        raise DataError(f"{what} is no idx file of unsigned bytes: it begins with {data[:4]!r}")
    start = 4 + 4 * data[3]
    shape = [int.from_bytes(data[i : i + 4], "big") for i in range(4, start, 4)]
    if len(data) < start or math.prod(shape) != len(data) - start:
        raise DataError(
            f"{what}: its header says {' x '.join(map(str, shape))} values, the file has "
            f"{len(data)} bytes"
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def read_cifar(data: bytes, what: str = "the file") -> tuple[np.ndarray, np.ndarray]:
    """(pixels (N, 3, 32, 32), labels (N,)) of a binary CIFAR-10 file.

    A record is one byte of label, then the red, green and blue plane, 3,072 bytes. DataError where
    the size is no multiple of a record's or a label is not in 0..9.
    """
    if not data or len(data) % CIFAR_RECORD:
        raise DataError(f"{what} has {len(data)} bytes, no whole number of {CIFAR_RECORD}")
    records = np.frombuffer(data, np.uint8).reshape(-1, CIFAR_RECORD)
    shape = (-1, CIFAR_CHANNELS, CIFAR_SIDE, CIFAR_SIDE)
    return records[:, 1:].reshape(shape), _labels(records[:, 0], what)


def _labels(values: np.ndarray, what: str) -> np.ndarray:
    if values.ndim != 1 or (len(values) and values.max() >= N_CLASSES):
        raise DataError(f"{what} holds no labels from 0 to {N_CLASSES - 1}")
    return values.astype(np.int64)


# -- the sets -------------------------------------------------------------------------------------

Read = Callable[[str], bytes]  # file name -> unpacked bytes


def _digits() -> Images:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = bunch.images.astype(np.uint8)[:, None]
    return Images("digits", pixels, bunch.target.astype(np.int64))


def _mnist(read: Read) -> Images:
    pixels, labels = [], []
    for name_x, name_y in (MNIST_FILES[:2], MNIST_FILES[2:]):
        x, y = read_idx(read(name_x), name_x), _labels(read_idx(read(name_y), name_y), name_y)
        if x.ndim != 3 or len(x) != len(y) or not len(x):
            raise DataError(f"{name_x} has shape {x.shape} for {len(y)} labels")
        pixels.append(x[:, None])
        labels.append(y)
    return _whole("mnist", pixels, labels, len(labels[1]), 0.125)


def _cifar(read: Read) -> Images:
    pairs = [read_cifar(read(name), name) for name in CIFAR_FILES]
    pixels, labels = [p for p, _ in pairs], [y for _, y in pairs]
    return _whole("cifar-10", pixels, labels, len(labels[-1]), 0.1)


def _whole(
    name: str,
    pixels: Sequence[np.ndarray],
    labels: Sequence[np.ndarray],
    n_test: int,
    val_share: float,
) -> Images:
    if len({p.shape[1:] for p in pixels}) > 1:
        raise DataError(f"{name}: images of several sizes: {[p.shape[1:] for p in pixels]}")
    return Images(name, np.concatenate(pixels), np.concatenate(labels), n_test, val_share)


def _mnist_file(name: str, sha256: str, size: int) -> SourceFile:
    url = f"https://storage.googleapis.com/cvdf-datasets/mnist/{name}.gz"
    return SourceFile(name, f"{name}.gz", url, sha256, size, "gzip", member_bytes=MAX_IDX)


MNIST = Card(
    name="mnist",
    title="MNIST handwritten digits",
    task="multiclass",
    target="digit",
    parser="idx",
    n_rows=70_000,
    n_features=784,
    n_classes=N_CLASSES,
    protocol="official",
    licence="CC BY-SA 3.0 (Y. LeCun, C. Cortes)",
    citation="Y. LeCun, C. Cortes, C. Burges: The MNIST database of handwritten digits (1998).",
    files=(
        _mnist_file(
            MNIST_FILES[0],
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            9_912_422,
        ),
        _mnist_file(
            MNIST_FILES[1],
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            28_881,
        ),
        _mnist_file(
            MNIST_FILES[2],
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            1_648_877,
        ),
        _mnist_file(
            MNIST_FILES[3],
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            4_542,
        ),
    ),
)
CIFAR_10 = Card(
    name="cifar-10",
    title="CIFAR-10",
    task="multiclass",
    target="class",
    parser="cifar-binary",
    n_rows=60_000,
    n_features=CIFAR_RECORD - 1,
    n_classes=N_CLASSES,
    protocol="official",
    licence="not stated by its authors; MIT according to Kossen et al. 2021",
    citation="A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images (2009).",
    files=(
        SourceFile(
            "archive",
            "cifar-10-binary.tar.gz",
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            170_052_171,
        ),
    ),
)
CARDS = {"mnist": MNIST, "cifar-10": CIFAR_10}
NAMES = ("digits", *CARDS)


def load_images(
    name: str,
    *,
    folder: str | Path | None = None,
    mirror: str | Path | None = None,
    cache: str | Path | None = None,
) -> Images:
    """The images of `digits`, `mnist` or `cifar-10`.

    folder: where the dataset's own files are (idx or idx.gz; .bin), default TABSWEEP_IMAGES. Files
    that are not in that default come from cache, mirror or pinned URL, as those of the tables do.
    Errors: UnknownDataset, DatasetUnavailable, ChecksumMismatch, DataError.

    >>> load_images("digits").pixels.shape
    (1797, 1, 8, 8)
    """
    if name not in NAMES:
        raise UnknownDataset(f"unknown images {one_line(name)!r}; {suggest(name, NAMES)}")
    if name == "digits":
        return _digits()
    wanted = folder or os.environ.get(FOLDER)
    read = _in_folder(name, Path(wanted).expanduser()) if wanted else None
    if read is None:
        if folder:
            raise DatasetUnavailable(name, f"{folder} does not hold its files")
        read = _fetched(name, mirror, cache)
    return _mnist(read) if name == "mnist" else _cifar(read)


def _in_folder(name: str, folder: Path) -> Read | None:
    """A reader of the dataset's files below a folder; None where one is missing."""
    names, inside, limit = (
        (MNIST_FILES, ("", "MNIST/raw", "mnist"), MAX_IDX)
        if name == "mnist"
        else (CIFAR_FILES, ("", CIFAR_INSIDE), MAX_CIFAR_FILE)
    )
    for place in (folder / part for part in inside):
        found = {}
        for file in names:
            zipped = place / f"{file}.gz"
            path = zipped if name == "mnist" and zipped.is_file() else place / file
            if path.is_file():
                found[file] = path
        if len(found) == len(names):
            return lambda file, found=found: _bytes_of(found[file], limit)  # type: ignore[misc]
    return None


def _bytes_of(path: Path, limit: int) -> bytes:
    data = read_if_there(path, limit) or b""
    if len(data) > limit:
        raise DataError(f"{path} has more than {limit} bytes; refused")
    return unpack(data, "gzip", member="", limit=limit) if path.suffix == ".gz" else data


def _fetched(name: str, mirror: str | Path | None, cache: str | Path | None) -> Read:
    paths = fetch(CARDS[name], mirror=mirror, cache=cache)
    if name == "mnist":
        return lambda file: paths[file].read_bytes()
    plain = unpack(paths["archive"].read_bytes(), "gzip", member="", limit=MAX_CIFAR)
    return lambda file: unpack(plain, "tar", member=f"{CIFAR_INSIDE}/{file}", limit=MAX_CIFAR_FILE)
