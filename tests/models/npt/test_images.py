"""NPT on pictures, and the files that pictures are read from."""

from __future__ import annotations

import gzip
import io
import itertools
import struct
import tarfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from tabsweep.benchmark.papers.experiment_result import Setting
from tabsweep.benchmark.papers.npt import images
from tabsweep.datasets import images as source
from tabsweep.datasets.errors import DataError, DatasetUnavailable, UnknownDataset
from tabsweep.datasets.images import load_images, read_cifar, read_idx
from tabsweep.models.deep.cells import Cells, Columns
from tabsweep.models.deep.trainer import computing
from tabsweep.models.npt.image_estimators import NPTPatches, NPTResNet
from tabsweep.models.npt.images import (
    PatchNetwork,
    PictureNetwork,
    augmented,
    from_patches,
    resnet18,
    to_patches,
)

SIDE, GRID, C = 8, 2, 3  # side of a picture, patches a side, channels
CLASSES = 4


@pytest.fixture(autouse=True)
def _one_thread():
    with computing(1):
        yield


def columns_of(n_pixels, n_classes=CLASSES):
    return Columns((*[1] * n_pixels, n_classes), (*[False] * n_pixels, True), (n_pixels,))


def patch_network(**options):
    torch.manual_seed(0)
    given = {"n_channels": C, "n_patches": GRID**2, "width": 8, "n_layers": 4, "n_heads": 2}
    return PatchNetwork(columns_of(C * SIDE**2), **{**given, **options}).double().eval()


def pictures(n, seed=0, hidden_share=0.2):
    g = torch.Generator().manual_seed(seed)
    n_pixels = C * SIDE**2
    return Cells(
        torch.randn(n, n_pixels, generator=g, dtype=torch.float64),
        torch.randint(0, CLASSES, (n, 1), generator=g),
        torch.rand(n, n_pixels + 1, generator=g) < hidden_share,
    )


# -- patches ---------------------------------------------------------------------------------------


def test_a_pixel_reaches_the_token_of_its_own_square_and_no_other():
    embedding = patch_network().embedding
    cells = pictures(1, hidden_share=0.0)
    before = embedding(cells)
    for channel, y, x in [(0, 0, 0), (1, 3, 4), (2, 4, 3), (0, 7, 7), (1, 0, 7)]:
        values = cells.values.clone()
        values[0, channel * SIDE**2 + y * SIDE + x] += 1.0
        changed = (embedding(replace(cells, values=values)) != before).any(dim=2)[0]
        square = (y // 4) * GRID + x // 4
        assert torch.nonzero(changed).flatten().tolist() == [square]


def test_patches_are_put_back_where_they_were():
    x = torch.arange(2 * C * SIDE**2).reshape(2, C, SIDE, SIDE)
    assert torch.equal(from_patches(to_patches(x, 4), C), x)
    assert to_patches(x, 2)[0, 1, :5].tolist() == [4, 5, 6, 7, 12]


@pytest.mark.parametrize("aba", [True, False])
def test_states_outputs_and_parameter_counts_are_those_of_the_sheet(aba):
    network = patch_network(aba=aba)
    state = network(pictures(6))
    e, d, area = 8, GRID**2 + 1, (SIDE // GRID) ** 2
    assert state.shape == (6, d, e)
    decoded = network.decode(state)
    assert decoded.values.shape == (6, C * SIDE**2)
    assert decoded.of(C * SIDE**2).shape == (6, CLASSES)
    assert network.decode(state, network.columns.targets).values.shape == (6, 0)
    blocks = 2 * (13 * (d * e) ** 2 + 14 * d * e) + aba * 2 * (13 * e**2 + 14 * e)
    ends = 2 * C * area * e + (CLASSES + 2) * e + d * e + (e + 1) * (C * area + CLASSES)
    assert sum(p.numel() for p in network.parameters()) == blocks + ends


def test_a_pixel_is_predicted_by_the_token_of_its_own_square():
    network = patch_network()
    state = network(pictures(1)).detach().requires_grad_()
    values = network.decode(state).values
    (grad,) = torch.autograd.grad(values[0, 2 * SIDE**2 + 5 * SIDE + 1], state)
    assert torch.nonzero(grad.abs().sum(dim=2)[0]).flatten().tolist() == [2]


def test_what_lies_under_a_masked_pixel_or_class_changes_no_bit():
    network, cells = patch_network(), pictures(6, hidden_share=0.3)
    other = pictures(6, seed=9)
    n = C * SIDE**2
    hidden = cells.hidden
    changed = replace(
        cells,
        values=torch.where(hidden[:, :n], other.values * 1e3, cells.values),
        codes=torch.where(hidden[:, n:], other.codes, cells.codes),
    )
    assert torch.equal(network(changed), network(cells))
    assert not torch.equal(network(replace(cells, codes=other.codes)), network(cells))


@pytest.mark.parametrize("options, said", [({"n_patches": 5}, "square"), ({"n_patches": 9}, "8")])
def test_pictures_that_cannot_be_cut_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        patch_network(**options)


# -- ResNet-18 -------------------------------------------------------------------------------------


def test_the_encoder_is_resnet_18_with_the_stem_for_small_pictures():
    """11,173,962 weights with ten classes, as published implementations have it."""
    encoder = resnet18(3, 64, 10)
    assert sum(p.numel() for p in encoder.parameters()) == 11_173_962
    small = resnet18(1, 4, 128).eval()
    assert small(torch.zeros(2, 1, 8, 8)).shape == (2, 128)
    assert small[:7](torch.zeros(2, 1, 32, 32)).shape == (2, 8, 16, 16)


def test_pictures_attend_to_each_other_and_their_order_does_not_matter():
    torch.manual_seed(0)
    network = PictureNetwork(5, n_channels=1, base=4, width=16, n_blocks=2, n_heads=2)
    network = network.double().eval()
    x = torch.randn(6, 1, 8, 8, dtype=torch.float64)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    answers = network(x)
    assert torch.allclose(network(x[order]), answers[order], rtol=0, atol=1e-10)
    other = x.clone()
    other[5] = 0.0
    assert not torch.allclose(network(other)[:5], answers[:5], rtol=0, atol=1e-6)


# -- augmentation ----------------------------------------------------------------------------------


def test_augmentation_is_a_function_of_its_seed_and_only_shifts_and_mirrors():
    x = torch.randn(40, 2, 8, 8, generator=torch.Generator().manual_seed(0))
    fill = torch.tensor([7.0, -7.0])
    found = augmented(x, 2, fill, 3)
    assert torch.equal(found, augmented(x, 2, fill, 3))
    assert not torch.equal(found, augmented(x, 2, fill, 4))
    padded = fill[:, None, None].expand(2, 12, 12).repeat(40, 1, 1, 1)
    padded[:, :, 2:10, 2:10] = x
    seen = set()
    for i in range(40):
        ways = set()
        for dy, dx in itertools.product(range(5), range(5)):
            cut = padded[i, :, dy : dy + 8, dx : dx + 8]
            ways |= {(dy, dx, False)} if torch.equal(found[i], cut) else set()
            ways |= {(dy, dx, True)} if torch.equal(found[i], cut.flip(2)) else set()
        assert len(ways) == 1
        seen |= ways
    assert {w[0] for w in seen} == {w[1] for w in seen} == set(range(5))
    assert {w[2] for w in seen} == {False, True}


def test_training_pictures_alone_are_augmented():
    digits = load_images("digits")
    x, y = digits.pixels[:60].reshape(60, -1), digits.labels[:60]
    model = NPTPatches(task="multiclass", n_patches=4, augment=True, padding=1, transductive=True)
    model.set_params(steps=1, width=4, n_layers=2, n_heads=1)
    with model._others(x[40:50], x[50:]):
        train = model._prepare(x[:40], y[:40])
        task = model._task(train, model._validation(x[40:50], y[40:50]))
    first, parts = task.rows(0)
    assert parts.tolist() == [0] * 40 + [1] * 10 + [2] * 10
    moved = (first.values != task.cells.values).any(dim=1)
    assert moved[:40].sum() > 30 and not moved[40:].any()
    assert torch.equal(first.values, task.rows(0)[0].values)
    assert not torch.equal(first.values, task.rows(1)[0].values)
    low = task.cells.values.min()  # black, standardised: what comes in at the sides
    assert torch.equal(first.values.min(), low)


# -- learning --------------------------------------------------------------------------------------


def small(kind, **options):
    if kind == "resnet":
        given = {"base": 4, "width": 32, "n_heads": 2, "n_channels": 1, "steps": 60}
        return NPTResNet(**{**given, "lr": 1e-2, "eval_every": 20, **options})
    given = {"n_patches": 4, "width": 16, "n_layers": 2, "n_heads": 1, "p_target": 0.5}
    given |= {"tradeoff": 0.3, "lr": 3e-2, "steps": 100, "eval_every": 50, "batch_size": 256}
    return NPTPatches(task="multiclass", **{**given, **options})


@pytest.fixture(scope="module")
def digits():
    made = load_images("digits")
    train, val, test = made.parts()
    x, y = made.pixels.reshape(len(made.labels), -1), made.labels
    return x[train], y[train], x[val], y[val], x[test], y[test]


@pytest.mark.parametrize("kind", ["patches", "resnet"])
def test_it_learns_digits_and_no_test_picture_changes_the_answer_to_another(kind, digits):
    *given, x, y = digits
    model = small(kind).fit(*given)
    answers = model.predict_proba(x)
    assert np.mean(answers.argmax(axis=1) == y) > 0.8
    other = x.copy()
    other[1:] = 16 - other[1:]
    assert np.array_equal(model.predict_proba(other)[0], answers[0])
    assert np.allclose(model.predict_proba(x[:3]), answers[:3], rtol=0, atol=1e-6)
    blind = images.corrupted(model, 0)
    assert not np.array_equal(blind.predict_proba(x), answers)
    assert np.array_equal(model.predict_proba(x), answers)


def test_parameters_are_checked_and_cloned_whole():
    from sklearn.base import clone

    model = clone(small("patches", seed=3, aba=False))
    assert model.get_params()["n_patches"] == 4 and model.seed == 3 and not model.aba
    with pytest.raises(ValueError, match="n_channels"):
        model.set_params(n_channels=0).check()
    with pytest.raises(ValueError, match="3 channels of a square picture"):
        small("patches", n_channels=3).fit(np.eye(64)[:8], np.arange(8) % 2)


# -- files -----------------------------------------------------------------------------------------


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def mnist_folder(folder: Path, zipped=True, **changed):
    rng = np.random.default_rng(0)
    arrays = {}
    for part, n in (("train", 30), ("t10k", 10)):
        arrays[f"{part}-images-idx3-ubyte"] = rng.integers(0, 256, (n, 4, 4), dtype=np.uint8)
        arrays[f"{part}-labels-idx1-ubyte"] = np.arange(n, dtype=np.uint8) % 2
    for name, array in arrays.items():
        data = changed.get(name.replace("-", "_"), idx(array))
        (folder / (f"{name}.gz" if zipped else name)).write_bytes(
            gzip.compress(data) if zipped else data
        )
    return arrays


def cifar_bytes(n, seed):
    rng = np.random.default_rng(seed)
    records = rng.integers(0, 256, (n, 3073), dtype=np.uint8)
    records[:, 0] = np.arange(n) % 2
    return records


@pytest.mark.parametrize("zipped", [True, False])
def test_mnist_files_give_the_pictures_written_into_them(tmp_path, zipped, monkeypatch):
    arrays = mnist_folder(tmp_path, zipped)
    made = load_images("mnist", folder=tmp_path)
    assert made.pixels.shape == (40, 1, 4, 4) and made.n_test == 10
    assert np.array_equal(made.pixels[:30, 0], arrays["train-images-idx3-ubyte"])
    assert np.array_equal(made.labels[30:], arrays["t10k-labels-idx1-ubyte"])
    train, val, test = made.parts()
    assert test.tolist() == list(range(30, 40)) and len(val) == 4
    assert sorted([*train, *val, *test]) == list(range(40))
    monkeypatch.setenv("TABSWEEP_IMAGES", str(tmp_path))
    assert np.array_equal(load_images("mnist").pixels, made.pixels)


def test_cifar_files_give_planes_of_red_green_and_blue(tmp_path):
    written = [cifar_bytes(10, i) for i in range(6)]
    for name, records in zip(source.CIFAR_FILES, written, strict=True):
        (tmp_path / name).write_bytes(records.tobytes())
    made = load_images("cifar-10", folder=tmp_path)
    assert made.pixels.shape == (60, 3, 32, 32) and made.n_test == 10
    assert made.pixels[51, 2, 3, 4] == written[5][1, 1 + 2 * 1024 + 3 * 32 + 4]
    assert np.array_equal(made.labels[:10], written[0][:, 0])
    assert [len(part) for part in made.parts()] == [45, 5, 10]


def test_the_pinned_archive_is_read_through_a_mirror_and_by_its_checksum(tmp_path, monkeypatch):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for i, name in enumerate(source.CIFAR_FILES):
            data = cifar_bytes(10, i).tobytes()
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    data = buffer.getvalue()
    digest = source.CIFAR_10.files[0].sha256
    mirror, cache = tmp_path / "mirror", tmp_path / "cache"
    mirror.mkdir()
    (mirror / "a.tar.gz").write_bytes(data)
    line = f"a.tar.gz,{digest},{len(data)}\n"
    (mirror / "MANIFEST.csv").write_text(f"file,sha256,bytes\n{line}")
    with pytest.raises(DataError, match="refused"):  # other bytes than the pinned ones
        load_images("cifar-10", mirror=mirror, cache=cache)

    file = replace(source.CIFAR_10.files[0], sha256=sha256(data).hexdigest(), bytes=len(data))
    monkeypatch.setitem(source.CARDS, "cifar-10", replace(source.CIFAR_10, files=(file,)))
    (mirror / "MANIFEST.csv").write_text(f"file,sha256,bytes\na.tar.gz,{file.sha256},{len(data)}\n")
    made = load_images("cifar-10", mirror=mirror, cache=cache)
    assert np.array_equal(made.pixels[:10].reshape(10, -1), cifar_bytes(10, 0)[:, 1:])


HUGE = struct.pack(">BBBB3I", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1)
GOOD = idx(np.zeros((2, 3, 3), np.uint8))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\x08",
        GOOD[:9],
        GOOD[:-1],
        GOOD + b"\0",
        HUGE,
        HUGE + b"\0" * 100,
        b"\0\0\x0d" + GOOD[3:],  # floats
        b"\0\0\x08\xff" + GOOD[4:],  # 255 dimensions
        b"\x80\x04\x95" + GOOD,  # a pickle
    ],
)
def test_an_idx_file_that_is_cut_or_lies_is_refused(data):
    with pytest.raises(DataError):
        read_idx(data)


@pytest.mark.parametrize("data", [b"", b"\0" * 3072, b"\0" * 3074, b"\x0a" + b"\0" * 3072])
def test_a_cifar_file_that_is_cut_or_holds_no_labels_is_refused(data):
    with pytest.raises(DataError):
        read_cifar(data)


@pytest.mark.parametrize(
    "changed",
    [
        {"train_labels_idx1_ubyte": idx(np.zeros(29, np.uint8))},
        {"train_labels_idx1_ubyte": idx(np.full(30, 10, np.uint8))},
        {"train_labels_idx1_ubyte": idx(np.zeros((30, 1), np.uint8))},
        {"t10k_images_idx3_ubyte": idx(np.zeros((10, 5, 5), np.uint8))},
        {"t10k_images_idx3_ubyte": idx(np.zeros(160, np.uint8))},
    ],
)
def test_parts_that_do_not_fit_together_are_refused(tmp_path, changed):
    mnist_folder(tmp_path, **changed)
    with pytest.raises(DataError):
        load_images("mnist", folder=tmp_path)


def test_a_file_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    mnist_folder(tmp_path)
    monkeypatch.setattr(source, "MAX_IDX", 1000)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"\0" * 100_000))
    with pytest.raises(DataError, match="more than the 1000 bytes"):
        load_images("mnist", folder=tmp_path)


def test_names_and_folders_that_are_not_there_are_said(tmp_path):
    with pytest.raises(UnknownDataset, match="did you mean 'mnist'"):
        load_images("mnist2")
    with pytest.raises(DatasetUnavailable, match="does not hold"):
        load_images("mnist", folder=tmp_path)


# -- the experiment --------------------------------------------------------------------------------


def test_the_full_size_is_the_papers():
    sizes = {
        (c.data, c.model, c.options.get("n_blocks", 4)): c.options for c in images.CASES["full"]
    }
    mnist, cifar = sizes["mnist", "patches", 4], sizes["cifar-10", "patches", 4]
    assert (mnist["width"], mnist["steps"], mnist["p_target"]) == (16, 500_000, 0.15)
    assert (cifar["width"], cifar["steps"], cifar["p_target"]) == (64, 1_000_000, 1.0)
    assert (mnist["schedule_share"], cifar["schedule_share"]) == (0.3, 0.7)
    resnet = NPTResNet(**sizes["cifar-10", "resnet", 4])
    resnet.check()
    assert (resnet.batch_size, resnet.context, resnet.n_blocks, resnet.n_heads) == (128, 480, 4, 8)
    assert resnet.steps == 100 * -(-45_000 // resnet.batch_size) and resnet.base == 64


@pytest.mark.nightly
def test_the_reduced_experiment_reaches_its_accuracies(tmp_path):
    setting = Setting("reduced", 0, "cpu", 1, tmp_path, lambda text: None)
    (table,) = images.run(setting).tables
    assert all(row[3] > 90 for row in table.rows)
