"""Numbers for texts: equal texts share one, in any chunks, with or without the shortcut."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tabsweep.reports.statistics.string_codes import all_differ, numbers


def addresses(n: int, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    return [random.bytes(16).hex() for _ in range(n)]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_distinct_addresses_are_found_distinct_in_any_chunks(kind):
    ids = addresses(200)
    whole = pa.array(["x", *ids], type=kind)
    column = pa.chunked_array([whole[1:50], whole[50:50], whole[50:]])
    assert all_differ(column) and numbers(column).tolist() == list(range(200))
    assert not all_differ(pa.chunked_array([whole]))  # one is too short to be looked at


@pytest.mark.parametrize("others", [[""], ["ab"], ["é" * 16], ["z" * 64], [None]])
def test_other_texts_are_left_to_the_hash_table(others):
    ids = addresses(3)
    column = pa.chunked_array([[*ids, *others, *ids]])
    assert not all_differ(column)
    if others != [None]:
        found = numbers(column)
        assert (found[:, None] == found).tolist() == [[a == b for b in column] for a in column]


def test_equal_addresses_share_a_number_wherever_they_stand():
    ids = addresses(50)
    column = pa.chunked_array([ids, ids[:1]])
    assert not all_differ(column)
    assert numbers(column).tolist() == [*range(50), 0]


def test_different_texts_of_one_hash_keep_different_numbers():
    pair = ["4283fefc63f0cd0e873a0000c6d07ef7", "Lw/b7fsqz,V;e}|t873a0000c6d07ef7"]
    column = pa.chunked_array([[*addresses(20), *pair]])
    assert not all_differ(column)  # the two have the same 64 bits, so nothing is known of them
    assert numbers(column).tolist() == list(range(22))


def test_a_column_of_pandas_and_an_empty_one():
    ids = addresses(5)
    for kind in ("str", object):
        column = pd.Series([*ids, ids[2]], dtype=kind)
        assert numbers(pa.chunked_array(column)).tolist() == [0, 1, 2, 3, 4, 2]
    nothing = pa.chunked_array([], type=pa.string())
    assert all_differ(nothing) and not len(numbers(nothing))
