"""Folders and tars of arrays become datasets with their own split; malformed ones are refused."""

from __future__ import annotations

import json
import shutil
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from array_folders import PARTS, info_of, tarred, values, write_parts, write_whole
from tabsweep.datasets import catalog
from tabsweep.datasets.added import importing, store
from tabsweep.datasets.added.layout import folders_in, read_folder
from tabsweep.datasets.added.tar import unpack_arrays
from tabsweep.datasets.errors import ChecksumMismatch, DataError, UnknownDataset
from tabsweep.datasets.reading import files

pytestmark = pytest.mark.usefixtures("own_store")


def added(folder: Path, name: str | None = None, origin: str = "here") -> importing.Added:
    found = read_folder(folder, folder.name)
    return importing.add(found, importing.name_of(found, name, False, catalog.built_in()), origin)


def rows_of(name: str) -> dict[str, list[int]]:
    """{part: the row numbers that the first feature tells}."""
    table, (fold,) = catalog.load_dataset(name), catalog.splits(name)
    numbers = table.frame["num_0"].to_numpy()
    return {part: numbers[getattr(fold, part)].astype(int).tolist() for part in PARTS}


OFFICIAL = {"train": list(range(60)), "val": list(range(60, 80)), "test": list(range(80, 104))}

# ---------------------------------------------------------------------- what is read


@pytest.mark.parametrize("form", ["rtdl", "talent", "tabr", "tabred"])
def test_each_form_keeps_the_values_the_kinds_the_gaps_and_the_split(form, tmp_path):
    if form == "tabred":
        folder = write_whole(tmp_path / "toy", task="binclass")
    else:
        texts = object if form == "talent" else str
        folder = write_parts(tmp_path / "toy", names="X" if form == "tabr" else "NCy", texts=texts)
    card = added(folder).card
    assert (card.name, card.protocol, card.task) == ("toy", "official", "binary")
    shutil.rmtree(folder)  # offline from now on
    table = catalog.load_dataset("toy")
    assert rows_of("toy") == OFFICIAL
    whole = {what: np.concatenate([values()[part][what] for part in PARTS]) for what in "NCy"}
    for j in range(3):
        np.testing.assert_array_equal(table.frame[f"num_{j}"], whole["N"][:, j].astype(float))
    assert table.frame["num_2"].isna().sum() == np.isnan(whole["N"]).sum() > 0
    for j in range(2):
        column = table.frame[f"cat_{j}"]
        assert list(column.cat.categories) == ["10", "9", "red"]
        texts = np.where(column.isna(), "nan", column.astype(object))
        assert texts.tolist() == whole["C"][:, j].tolist()
    assert table.target.tolist() == whole["y"].tolist() and table.classes == ("0", "1")
    assert table.categorical == (["bin_0"] if form == "tabred" else []) + ["cat_0", "cat_1"]
    if form == "tabred":
        assert list(table.frame["bin_0"].cat.categories) == ["0", "1"]
        assert "4 rows are in no part" in card.notes


def test_arrays_for_which_there_is_no_memory_are_refused_before_they_are_read(
    tmp_path, monkeypatch
):
    folder = write_parts(tmp_path / "large")
    size = sum(file.stat().st_size for file in folder.glob("*.npy"))
    monkeypatch.setattr(files, "free_memory", lambda: 4 * size)
    read_folder(folder, "large")
    monkeypatch.setattr(files, "free_memory", lambda: 4 * size - 1)
    with pytest.raises(DataError, match="large: .* MB of memory"):
        read_folder(folder, "large")


def test_a_part_of_the_features_may_be_absent_and_a_column_may_have_one_dimension(tmp_path):
    for absent in "NC":
        folder = write_parts(tmp_path / f"without-{absent.lower()}")
        for part in PARTS:
            (folder / f"{absent}_{part}.npy").unlink()
            if absent == "C":
                one = np.load(folder / f"N_{part}.npy")[:, 0]
                np.save(folder / f"N_{part}.npy", one)
        (folder / "info.json").write_text(json.dumps({"task_type": "binclass"}))
        table = catalog.load_dataset(added(folder).card.name)
        assert table.n_features == (2 if absent == "N" else 1)


def test_regression_targets_and_text_labels_come_through(tmp_path):
    card = added(write_parts(tmp_path / "houses", task="regression")).card
    assert card.task == "regression" and catalog.load_dataset("houses").target.dtype == np.float64
    folder = write_parts(tmp_path / "colours", task="multiclass")
    for part in PARTS:
        labels = np.array(["blue", "red", "green"])[np.load(folder / f"y_{part}.npy")]
        np.save(folder / f"y_{part}.npy", labels[:, None])
    table = catalog.load_dataset(added(folder).card.name)
    assert table.classes == ("blue", "green", "red") and table.target[:3].tolist() == [0, 2, 1]


def test_infinite_numbers_count_as_missing_and_a_warning_says_so(tmp_path):
    folder = write_parts(tmp_path / "toy")
    numbers = np.load(folder / "N_train.npy")
    numbers[3, 1] = np.inf
    np.save(folder / "N_train.npy", numbers)
    added(folder)
    table = catalog.load_dataset("toy")
    assert np.isnan(table.frame["num_1"][3])
    assert table.warnings == ("1 infinite values count as missing",)


def test_a_mark_of_ones_own_is_missing_too(tmp_path):
    folder = write_parts(tmp_path / "toy")
    importing.add(read_folder(folder, "toy"), "toy", "here", ["red"])
    assert list(catalog.load_dataset("toy").frame["cat_0"].cat.categories) == ["10", "9"][::-1]


def test_categories_of_whole_numbers_stay_apart_and_are_ordered_by_value(tmp_path):
    values_ = [np.array([2**60 + 1, 2**60, 9, 10])]
    codes, levels, _ = importing.encode(values_, ())
    assert levels == ["9", "10", str(2**60), str(2**60 + 1)] and codes.tolist() == [3, 2, 0, 1]


def test_parts_of_different_kinds_share_their_levels_and_classes(tmp_path):
    folder = write_parts(tmp_path / "toy")
    for part, kind in zip(PARTS, (float, str, str), strict=True):
        rows = np.arange(len(values()[part]["y"]))
        codes = np.stack([rows % 3, rows % 2], axis=1).astype(int).astype(kind)
        edit(f"C_{part}.npy", lambda _, codes=codes: codes)(folder)
        edit(f"y_{part}.npy", lambda y, kind=kind: y.astype(kind))(folder)
    added(folder)
    table = catalog.load_dataset("toy")
    assert list(table.frame["cat_0"].cat.categories) == ["0", "1", "2"]
    assert table.classes == ("0", "1")
    edit("C_val.npy", lambda c: np.full(c.shape, "é"))(folder)
    edit("C_train.npy", lambda c: np.full(c.shape, "é".encode()))(folder)
    edit("C_test.npy", lambda c: np.full(c.shape, "é"))(folder)
    added(folder, "bytes")
    assert list(catalog.load_dataset("bytes").frame["cat_0"].cat.categories) == ["é"]


def test_texts_that_read_as_no_number_leave_the_levels_in_one_order(tmp_path):
    """float("NAN") is a number that has no place among others: the order must not be chance."""
    levels = importing.encode([np.array(["NAN", "1", "2", "3", "Nan"])], ())[1]
    assert levels == ["1", "2", "3", "NAN", "Nan"]


# ---------------------------------------------------------------------- identity


def test_the_same_data_has_the_same_identity_wherever_it_came_from(tmp_path, monkeypatch):
    folder = write_parts(tmp_path / "toy")
    assert added(folder).new
    first = catalog.load_dataset("toy").sha256
    assert not added(folder, origin="elsewhere").new
    monkeypatch.setenv("TABSWEEP_DATA", str(tmp_path / "other store"))
    archive = tarred(folder, tmp_path / "x.tar.gz")
    (tmp_path / "out").mkdir()
    unpack_arrays(archive, tmp_path / "out")
    (found,) = folders_in(tmp_path / "out")
    shutil.rmtree(folder)
    assert added(found, origin="a tar").new
    assert catalog.load_dataset("toy").sha256 == first


def test_two_that_add_the_same_data_at_once_both_succeed(tmp_path):
    folder = write_parts(tmp_path / "twice")
    for turn in range(10):
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(added, [folder] * 2, [f"twice-{turn}"] * 2))
        assert sorted(one.new for one in found) == [False, True]


def test_another_split_or_value_is_another_identity(tmp_path):
    folder = write_parts(tmp_path / "toy")
    added(folder)
    first = catalog.load_dataset("toy").sha256
    for what in "NCy":
        train, val = (np.load(folder / f"{what}_{part}.npy") for part in ("train", "val"))
        np.save(folder / f"{what}_train.npy", np.concatenate([train, val[:1]]))
        np.save(folder / f"{what}_val.npy", val[1:])
    made = json.loads((folder / "info.json").read_text())
    (folder / "info.json").write_text(json.dumps({**made, "train_size": 61, "val_size": 19}))
    with pytest.raises(DataError, match="other data"):
        added(folder)
    store.remove("toy")
    added(folder)
    assert catalog.load_dataset("toy").sha256 != first


def test_a_stored_file_that_changes_is_refused(tmp_path):
    added(write_parts(tmp_path / "toy"))
    place = store.folder() / "toy" / "target.npy"
    data = bytearray(place.read_bytes())
    data[-8] ^= 1
    place.write_bytes(data)
    with pytest.raises(ChecksumMismatch):
        catalog.load_dataset("toy")


@pytest.mark.parametrize("harm", ["numbers.npy", "target.npy", "card.toml"])
def test_adding_again_repairs_a_dataset_whose_file_is_gone_or_changed(harm, tmp_path):
    folder = write_parts(tmp_path / "toy")
    added(folder)
    first = catalog.load_dataset("toy").sha256
    place = store.folder() / "toy" / harm
    if harm == "target.npy":
        place.write_bytes(b"changed")
    else:
        place.unlink()
    assert added(folder).new
    assert catalog.load_dataset("toy").sha256 == first
    assert [path.name for path in store.folder().iterdir()] == ["toy"]
    (place.parent / "card.toml").write_text("damaged")
    with pytest.raises(DataError, match="damaged dataset .*bench data remove toy"):
        added(folder)


def test_an_added_dataset_is_listed_and_a_removed_one_is_unknown(tmp_path):
    added(write_parts(tmp_path / "toy"))
    assert "toy" in catalog.names() and "toy" not in catalog.built_in()
    assert store.remove("toy") > 1000
    assert "toy" not in catalog.names() and list(store.folder().iterdir()) == []
    with pytest.raises(UnknownDataset):
        catalog.load_dataset("toy")


def test_names_are_slugs_and_no_built_in_one_is_taken(tmp_path):
    found = read_folder(write_parts(tmp_path / "My_Data (2)"), "x")
    assert importing.name_of(found, None, False, []) == "my-data-2"
    assert importing.name_of(found, "talent", True, []) == "talent-my-data-2"
    assert importing.name_of(found, "mine", False, []) == "mine"
    for wrong in ("../x", "A", "-x", "x" * 65):
        with pytest.raises(DataError, match="no name of a dataset"):
            importing.name_of(found, wrong, False, [])
    with pytest.raises(DataError, match="built-in"):
        importing.name_of(found, "adult", False, catalog.built_in())


# ---------------------------------------------------------------------- what is refused


def edit(name: str, change):
    """Replaces one file of the folder by what `change` makes of its array."""

    def apply(folder: Path) -> None:
        np.save(folder / name, change(np.load(folder / name)), allow_pickle=True)

    return apply


def state(**changes):
    """Changes keys of info.json; None removes one."""

    def apply(folder: Path) -> None:
        (folder / "info.json").write_text(json.dumps(info_of(values(), **changes)))

    return apply


def with_nan(array):
    array = array.astype(float)
    array[2] = np.nan
    return array


def without_columns(folder: Path) -> None:
    for part in PARTS:
        for stem in "NC":
            edit(f"{stem}_{part}.npy", lambda array: array[:, :0])(folder)
    state(n_num_features=0, n_cat_features=0)(folder)


MALFORMED = [
    (lambda f: (f / "N_val.npy").unlink(), "N_val.npy is missing"),
    (lambda f: (f / "y_test.npy").unlink(), "y_test.npy is missing"),
    (lambda f: [(f / f"y_{p}.npy").unlink() for p in PARTS], "no target"),
    (lambda f: (f / "info.json").unlink(), "info.json is missing"),
    (lambda f: (f / "info.json").write_text("{"), "info.json cannot be read"),
    (lambda f: (f / "info.json").write_text("[]"), "no task_type"),
    (lambda f: (f / "info.json").write_text('{"task_type": ["x"]}'), "unknown task_type"),
    (state(task_type=None), "no task_type"),
    (state(task_type="binclas"), "unknown task_type 'binclas'.*'binclass'"),
    (state(train_size=61), "train_size is 61, the arrays have 60"),
    (state(n_num_features=4), "n_num_features is 4, the arrays have 3"),
    (state(n_cat_features=0), "n_cat_features is 0, the arrays have 2"),
    (state(task_type="multiclass", n_classes=5), "n_classes is 5, the arrays have 2"),
    (state(task_type="multiclass", n_classes="2"), "n_classes is '2', the arrays have 2"),
    (state(n_classes=3), "n_classes is 3, the arrays have 2"),
    (edit("N_train.npy", lambda a: a[:-1]), "N_train has 59 rows, y_train 60"),
    (edit("N_val.npy", lambda a: a[:, :2]), "shapes"),
    (edit("C_test.npy", lambda a: a[:, :, None]), "shapes"),
    (edit("N_train.npy", lambda a: a.astype(str)), "dtype <U"),
    (edit("N_train.npy", lambda a: a.astype(complex)), "dtype complex"),
    (edit("C_train.npy", lambda a: np.zeros(a.shape, "M8[s]")), "dtype datetime"),
    (edit("y_train.npy", lambda a: a.astype("M8[s]")), "target's train part is of dtype datetime"),
    (edit("y_val.npy", lambda a: a + 1j), "target's val part is of dtype complex"),
    (edit("C_val.npy", lambda a: np.full(a.shape, "x\ud800")), r"'x\\ud800' is no text"),
    (without_columns, "has no features: its arrays have no column"),
    (edit("y_train.npy", with_nan), r"missing value \(row 2\)"),
    (edit("y_val.npy", lambda a: a + 5), "4 classes, 2 are due"),
    (edit("y_train.npy", lambda a: np.zeros((60, 2))), "shape"),
    (edit("y_test.npy", lambda a: a[:0]), "test part has no row"),
    (lambda f: shutil.copy(f / "N_train.npy", f / "X_num_train.npy"), "has both"),
    (
        lambda f: (f / "N_test.npy").write_bytes((f / "N_test.npy").read_bytes()[:-4]),
        "N_test.npy is damaged or cut short",
    ),
]


def test_a_regression_target_must_be_finite(tmp_path):
    folder = write_parts(tmp_path / "toy", task="regression")
    edit("y_train.npy", with_nan)(folder)
    with pytest.raises(DataError, match=r"missing or infinite value \(row 2\)"):
        added(folder)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda y: y * 1e300, "at most 1e\\+30 in size"),
        (lambda y: y * 1e-40, "spread of at least 1e-30"),
        (lambda y: y * 0.0, "one value in all rows"),
    ],
)
def test_a_regression_target_has_a_range_that_models_can_fit(change, named, tmp_path):
    folder = write_parts(tmp_path / "toy", task="regression")
    for part in PARTS:
        edit(f"y_{part}.npy", change)(folder)
    with pytest.raises(DataError, match=named):
        added(folder)


def row_numbers(folder: Path) -> np.ndarray:
    return np.load(folder / "split-default" / "train_idx.npy")


def split_of(part: str, change):
    return edit(f"split-default/{part}_idx.npy", change)


NO_SPLIT = [
    (lambda f: (f / "split-default" / "val_idx.npy").unlink(), "val_idx.npy is missing"),
    (split_of("val", lambda a: a + 1000), "of 108 rows"),
    (split_of("val", lambda a: -a - 1), "of 108 rows"),
    (split_of("val", lambda a: np.repeat(a[:1], 20)), "names a row twice"),
    (split_of("val", lambda a: a.astype(float)), "no list of row numbers"),
    (lambda f: split_of("val", lambda a: row_numbers(f)[:20])(f), "two parts"),
    (edit("X_num.npy", lambda a: a[:-1]), "X_num.npy has 107 rows, Y.npy 108"),
    (edit("X_bin.npy", lambda a: np.arange(len(a))[:, None]), "at most 2 are due"),
]


@pytest.mark.parametrize(
    ("write", "spoil", "named"),
    [(write_parts, *case) for case in MALFORMED] + [(write_whole, *case) for case in NO_SPLIT],
)
def test_a_malformed_folder_is_refused_in_one_line_and_leaves_nothing(
    write, spoil, named, tmp_path
):
    folder = write(tmp_path / "toy")
    spoil(folder)
    with pytest.raises(DataError, match=named) as caught:
        added(folder)
    assert "\n" not in str(caught.value)
    assert not store.folder().exists() or list(store.folder().iterdir()) == []


def hostile(path: Path, member: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w") as archive:
        archive.addfile(member)
    return path


@pytest.mark.fault(12)
def test_a_tar_that_leads_outside_or_links_is_refused_whole(tmp_path):
    out = tmp_path / "deep" / "out"
    out.mkdir(parents=True)
    for name in ("../x.npy", "/tmp/x.npy", "a/../../../x.npy", "C:\\x.npy"):
        with pytest.raises(DataError, match="outside"):
            unpack_arrays(hostile(tmp_path / "x.tar", tarfile.TarInfo(name)), out)
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
        member = tarfile.TarInfo("N_train.npy")
        member.type, member.linkname = kind, "/etc/passwd"
        with pytest.raises(DataError, match="link or device"):
            unpack_arrays(hostile(tmp_path / "x.tar", member), out)
    assert list(out.iterdir()) == [] and not (tmp_path / "x.npy").exists()


@pytest.mark.parametrize(
    ("names", "named"),
    [
        (["a/y_val.npy"] * 2, "'a/y_val.npy' is there twice"),
        (["a/info.json", "a/info.json/y_val.npy"], "y_val.npy' is there twice"),
        (["a/" + "x" * 300 + ".npy"], "too long a name"),
        (["a/" * 3000 + "y_val.npy"], "too long a name"),
    ],
)
def test_a_member_that_cannot_be_a_file_of_its_own_is_refused_by_its_name(names, named, tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError, match=named) as caught:
        unpack_arrays(tmp_path / "x.tar", tmp_path / "out")
    assert str(tmp_path) not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.fault(12)
def test_a_tar_that_claims_more_than_the_disk_has_is_refused_before_it_is_written(tmp_path):
    member = tarfile.TarInfo("N_train.npy")
    member.size = 1 << 60
    (tmp_path / "x.tar").write_bytes(member.tobuf(tarfile.PAX_FORMAT) + b"\0" * 10_240)
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError, match="more room than the disk"):
        unpack_arrays(tmp_path / "x.tar", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_tar_that_is_cut_short_or_none_is_refused_and_shadow_files_are_left(tmp_path):
    folder = write_parts(tmp_path / "toy")
    (folder / "._N_train.npy").write_bytes(b"shadow")
    (folder / "README.md").write_text("text")
    whole = tarred(folder, tmp_path / "x.tar.gz").read_bytes()
    (tmp_path / "out").mkdir()
    unpack_arrays(tmp_path / "x.tar.gz", tmp_path / "out")
    assert not list((tmp_path / "out").rglob("._*")) and not list((tmp_path / "out").rglob("*.md"))
    for what, data in {
        "cut": whole[: len(whole) // 2],
        "text": b"no tar" * 100,
        "empty": b"",
    }.items():
        (tmp_path / "y.tar.gz").write_bytes(data)
        (tmp_path / what).mkdir()
        with pytest.raises(DataError, match="not a readable tar") as caught:
            unpack_arrays(tmp_path / "y.tar.gz", tmp_path / what)
        assert "\n" not in str(caught.value)
