"""Cards: each is complete and true of its data; a wrong card is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tabsweep.datasets import catalog
from tabsweep.datasets.card import FAULTS, UNKNOWN, parse_card, read_card
from tabsweep.datasets.errors import DataError, UnknownDataset

BUNDLED = ["breast-cancer-wdbc", "diabetes", "digits", "iris", "wine"]
LARGE = [name for name in catalog.names() if catalog.card(name).n_rows > 2000]
UNPINNED = {  # addresses without a commit: UCI's own, and the one that scikit-learn pins
    "https://archive.ics.uci.edu/ml/machine-learning-databases/poker/poker-hand-testing.data",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/00280/HIGGS.csv.gz",
    "https://ndownloader.figshare.com/files/5976039",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/00203/YearPredictionMSD.txt.zip",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/00199/MiniBooNE_PID.txt",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/00464/superconduct.zip",
}
NOT_THERE = (
    "poker-hand",
    "forest-cover",
    "higgs",
    "covtype",
    "year",
    "miniboone",
    *(name for name in catalog.names() if catalog.card(name).archive),
    "superconductivity",
)  # in no mirror that the tests know

GOOD = """
name = "toy"
title = "A toy"
task = "binary"
target = "which"
n_rows = 3
n_features = 2
n_classes = 2
protocol = "official"
licence = "none"
citation = "nobody"
parser = "coded"
columns = ["a", "b"]
categorical = ["b"]
""" + "".join(
    f"""
[[files]]
role = "{role}"
name = "{role}.dat"
url = "https://example.org/{role}.dat"
sha256 = "{"0" * 64}"
bytes = 10
"""
    for role in ("features", "labels", "test_masks", "val_masks")
)


def test_each_card_is_complete_and_speaks_of_known_datasets() -> None:
    for name in catalog.names():
        card = catalog.card(name)
        assert card.title and card.citation and card.licence and card.target, name
        assert set(card.overlaps) <= set(catalog.names()) - {name}
        for other in card.overlaps:
            assert name in catalog.card(other).overlaps, "an overlap is mutual"
        assert set(card.faults) <= set(FAULTS)
        for file in card.files:
            if file.url in UNPINNED:
                continue
            assert file.sha256 != UNKNOWN, name
            commit = file.url.split("/")[5]
            assert len(commit) == 40 and int(commit, 16) >= 0, "a URL names a commit, not a branch"


def test_a_bundled_set_needs_neither_file_nor_mirror_nor_network(tmp_path) -> None:
    for name in BUNDLED:
        table = catalog.load_dataset(name, cache=tmp_path)
        card = catalog.card(name)
        assert (table.n_rows, table.n_features) == (card.n_rows, card.n_features), name
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", ["small", "large"])
def test_each_dataset_of_the_mirror_is_what_its_card_says(size: str, mirror: str, tmp_path) -> None:
    names = [name for name in catalog.names() if name not in NOT_THERE]
    chosen = [name for name in names if (name in LARGE) == (size == "large")]
    assert len(chosen) >= 15
    for name in chosen:
        card = catalog.card(name)
        table = catalog.load_dataset(name, mirror=mirror, cache=tmp_path)
        assert (table.n_rows, table.n_features) == (card.n_rows, card.n_features), name
        assert (table.task, table.n_classes) == (card.task, card.n_classes), name
        gaps = "missing" in card.options and not card.options.get("complete")
        assert table.frame.isna().any().any() == gaps, name
        assert np.isfinite(table.target).all(), name
        if card.columns:
            assert table.kinds == card.kinds, name
        if card.task != "regression":
            assert set(table.target) == set(range(table.n_classes)), name
        assert catalog.load_dataset(name, cache=tmp_path).sha256 == table.sha256, name
        fixed = "test_rows" in card.options or any(file.role == "test" for file in card.files)
        assert bool(table.masks) == (fixed or card.protocol == "official"), name


def test_no_large_dataset_is_fetched_unless_it_is_named() -> None:
    assert catalog.card("higgs").large and not catalog.card("forest-cover").large
    assert [name for name in LARGE if catalog.card(name).large] == [
        "higgs", "miniboone", "year",
    ]  # fmt: skip


def test_the_kinds_follow_the_papers_where_they_say_something(mirror: str) -> None:
    boston = catalog.load_dataset("boston", mirror=mirror)
    assert boston.categorical == ["chas", "rad"]
    assert [len(boston.frame[c].cat.categories) for c in boston.categorical] == [2, 9]
    yacht = catalog.load_dataset("yacht", mirror=mirror)
    assert yacht.numeric == []
    froude = [float(c) for c in yacht.frame["froude_number"].cat.categories]
    assert froude == sorted(froude) and froude[0] == 0.125


def test_ranking_within_parts_gives_the_rule_of_the_second_monks_problem(mirror: str) -> None:
    table = catalog.load_dataset("monks-2", mirror=mirror)
    codes = np.column_stack([table.frame[c].cat.codes for c in table.frame])
    np.testing.assert_array_equal(((codes == 0).sum(axis=1) == 2).astype(int), table.target)
    assert [len(table.frame[c].cat.categories) for c in table.frame] == [3, 3, 2, 3, 4, 2]


def test_an_unknown_dataset_is_named_with_the_nearest_known_one() -> None:
    with pytest.raises(UnknownDataset, match="'glas'.*'glass'"):
        catalog.load_dataset("glas")
    for name in ("../../etc/passwd", "a\nb", "x" * 400, ""):
        with pytest.raises(UnknownDataset) as caught:
            catalog.card(name)
        assert "\n" not in str(caught.value)


WRONG = [  # text of the good card, text in its place, what the error must name
    ('title = "A toy"', 'titel = "A toy"', "'titel'.*'title'"),
    ('title = "A toy"\n', "", "'title' is missing"),
    ("n_rows = 3", 'n_rows = "3"', "n_rows = '3'.* int"),
    ("n_rows = 3", "n_rows = true", "n_rows = True.* int"),
    ('"binary"', '"binry"', "'binry'.*'binary'"),
    ('parser = "coded"', 'parser = "cod"', "'cod'.*'coded'"),
    ('parser = "coded"', 'parser = "whitespace"', "'whitespace'"),
    ('"labels"', '"features"', "roles"),
    ('"official"', '"offical"', "protocol 'offical'"),
    ('categorical = ["b"]', 'categorical = ["c"]', "column 'c'"),
    ('columns = ["a", "b"]', 'columns = ["a"]\n', "column 'b'"),
    ("n_features = 2", "n_features = 3", "2 .*n_features = 3"),
    ('["a", "b"]', '["b", "b"]', "columns"),
    ("n_classes = 2", "n_classes = 0", "'binary'.* n_classes = 0"),
    ("0" * 64, "0" * 63, "sha256.* 64"),
    ("https://", "file://", "http"),
    ("bytes = 10", "bytes = 0", "bytes = 0"),
    ("bytes = 10", "bytes = 10\nsize = 3", r"files\[0\].*'size'"),
    ('name = "features.dat"', 'name = "../x"', "name = '../x'"),
    ("columns =", "options = { part = 1 }\ncolumns =", "option 'part'"),
    ("columns =", 'options = "x"\ncolumns =', "options = 'x'"),
    ("columns =", 'faults = ["odd"]\ncolumns =', "fault 'odd'"),
    ("bytes = 10", 'bytes = 10\nunpack = "zip"', "member_bytes"),
    ('name = "toy"', "name = ", "TOML"),
]


def test_a_wrong_card_is_refused_in_one_line_that_names_what_is_wrong() -> None:
    for old, new, named in WRONG:
        assert old in GOOD
        with pytest.raises(DataError, match=named) as caught:
            parse_card(GOOD.replace(old, new, 1), "toy.toml")
        assert str(caught.value).startswith("toy.toml") and "\n" not in str(caught.value)


def test_a_card_is_called_like_its_file(tmp_path) -> None:
    path = tmp_path / "other.toml"
    path.write_text(GOOD)
    with pytest.raises(DataError, match="'toy'.*'other'"):
        read_card(path)


def test_what_a_card_means_is_hashed_and_what_it_tells_people_is_not() -> None:
    card = parse_card(GOOD, "toy.toml")
    for change in ({"title": "?"}, {"licence": "?"}, {"citation": "?"}, {"notes": "?"}):
        assert replace(card, **change).meaning_sha256 == card.meaning_sha256
    for change in ({"categorical": ()}, {"task": "multiclass"}, {"options": {"part_from_row": 1}}):
        assert replace(card, **change).meaning_sha256 != card.meaning_sha256
