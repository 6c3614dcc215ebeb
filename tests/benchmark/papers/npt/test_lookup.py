"""NPT's lookup task, its baselines, and its training at a toy size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tabsweep.benchmark.papers.experiment_result import Setting
from tabsweep.benchmark.papers.npt import lookup as npt_lookup
from tabsweep.benchmark.papers.npt import lookup_network
from tabsweep.benchmark.papers.npt import lookup_task as lookup
from tabsweep.benchmark.papers.npt.batched_tables import Tables, numeric_columns
from tabsweep.models.deep.trainer import computing, seeded
from tabsweep.models.npt.network import NPTNetwork

VARIANTS = {v.name: v for v in lookup.VARIANTS}
TINY = lookup.TINY


@pytest.fixture(autouse=True)
def one_thread():
    with computing(1):
        yield


def setting(folder: Path) -> Setting:
    return Setting("reduced", 0, "cpu", 1, folder, lambda text: None)


def tables(name: str, n_tables: int = 50, rows: int = 6) -> lookup.Doubled:
    g = torch.Generator().manual_seed(0)
    source = lookup.Fresh(rows, 7)
    return lookup.doubled(*source.draw(n_tables, lookup.TEST, g), VARIANTS[name], g)


# ---------------------------------------------------------------------- the task


def test_originals_are_hidden_and_duplicates_show_the_same_rows():
    found = tables("original")
    cells = found.cells
    hidden = cells.hidden.view(50, 12, 8)
    assert not hidden[:, :6].any() and not hidden[:, 6:, :7].any() and hidden[:, 6:, 7].all()
    assert torch.equal(found.features[:, :6], found.features[:, 6:])
    assert torch.equal(found.shown, found.truth)
    values = cells.values.view(50, 12, 8)
    assert torch.equal(values[:, :6, 7], found.truth)
    assert not values[:, 6:, 7].any()  # the truth is nowhere in what the network is given


def test_random_features_are_drawn_anew_for_both_copies_around_one():
    found = tables("random-features", 400)
    same, noise = found.features[..., :4], found.features[..., 4:]
    assert torch.equal(same[:, :6], same[:, 6:])
    a, b = noise[:, :6].flatten(), noise[:, 6:].flatten()
    assert abs(float(noise.mean()) - 1) < 0.05 and abs(float(noise.std()) - 1) < 0.05
    assert abs(lookup.correlation(a, b)) < 0.05
    assert torch.equal(found.shown, found.truth)


def test_add_one_adds_one_deviation_to_what_duplicates_show():
    found = tables("add-one")
    assert torch.equal(found.shown, found.truth + 1)
    assert torch.equal(found.features[:, :6], found.features[:, 6:])


def test_a_step_s_tables_depend_on_seed_and_step_alone():
    def task(seed: int) -> lookup.LookupTask:
        return lookup.LookupTask(
            lookup.Fresh(6, 7), VARIANTS["original"], TINY, seed=seed, device="cpu"
        )

    a, b = task(1), task(1)
    a.loss(0)
    assert torch.equal(a.loss(5), b.loss(5))
    assert not torch.equal(a.loss(5), a.loss(6)) and not torch.equal(a.loss(5), task(2).loss(5))


def test_stored_tables_hold_rows_of_their_part_alone():
    parts = tuple(
        (torch.full((n, 2), float(i)), torch.arange(n) + 100.0 * i) for i, n in enumerate((9, 5, 7))
    )
    source = lookup.Stored(6, parts)
    for part, n in ((lookup.TRAIN, 6), (lookup.VAL, 5), (lookup.TEST, 6)):
        x, y = source.draw(3, part, torch.Generator().manual_seed(0))
        assert x.shape == (3, n, 2) and (x == part - 1).all()
        assert all(len(set(row.tolist())) == n for row in y)
        assert ((y // 100) == part - 1).all()


def test_several_tables_at_once_are_each_read_as_if_alone():
    source, columns = lookup.Fresh(5, 3), numeric_columns(3)
    g = torch.Generator().manual_seed(0)
    found = lookup.doubled(*source.draw(4, lookup.TEST, g), VARIANTS["original"], g)
    with seeded(0):
        many = Tables(columns, width=4, n_layers=2, n_heads=2).double()
    alone = NPTNetwork(columns, width=4, n_layers=2, n_heads=2).double()
    alone.load_state_dict(many.state_dict())
    cells = replace(found.cells, values=found.cells.values.double())
    many.rows = 10
    whole = many(cells)
    for i in range(4):
        rows = slice(10 * i, 10 * i + 10)
        assert torch.allclose(whole[rows], alone(cells[rows]), atol=1e-12)


def test_the_masked_features_of_the_full_size_are_learnt_beside_the_targets():
    source = lookup.Fresh(6, 7)
    settings = replace(TINY, dropout=0.1, p_feature=0.15)
    task = lookup.LookupTask(source, VARIANTS["original"], settings, seed=0, device="cpu")
    task.loss(0).backward()
    weight = task.module.decoder.weight.grad
    assert weight is not None and weight[:7].abs().sum() > 0 and weight[7].abs().sum() == 0
    task.module.zero_grad()
    task.loss(settings.steps - 1).backward()  # by now the targets weigh
    weight = task.module.decoder.weight.grad
    assert weight is not None and weight[7].abs().sum() > 0


# ---------------------------------------------------------------------- the baselines


def test_the_nearest_duplicate_is_the_row_itself_and_more_neighbours_are_worse():
    found = tables("original")
    assert torch.equal(npt_lookup.neighbours(found, 1), found.truth)
    assert npt_lookup.best_neighbours(found) == 1
    assert lookup.rmse(npt_lookup.neighbours(found, 3), found.truth) > 0.3


def test_neighbours_agree_with_scikit_learn():
    from sklearn.neighbors import KNeighborsRegressor

    found = tables("random-features", 3)
    for table in range(3):
        model = KNeighborsRegressor(3).fit(found.features[table, :6], found.shown[table])
        expected = model.predict(found.features[table, 6:].numpy())
        assert np.allclose(npt_lookup.neighbours(found, 3)[table], expected, atol=1e-6)


# ---------------------------------------------------------------------- the experiments


def test_the_line_through_predictions_has_their_slope_and_error():
    values = np.linspace(-2, 2, 5)
    slope, r, error = lookup_network.line(np.stack([0.5 * values, 0.5 * values]), values)
    assert (slope, r) == pytest.approx((0.5, 1)) and error == pytest.approx(0.5 * 2**0.5)


def test_a_perfect_lookup_follows_every_intervention():
    class Perfect:
        def predict(self, found: lookup.Doubled) -> torch.Tensor:
            return npt_lookup.neighbours(found, 1)

    task, found = Perfect(), tables("original", 4, rows=20)
    followed, others = lookup_network.curves(task, found)  # type: ignore[arg-type]
    assert followed.shape == (64, len(lookup_network.VALUES))
    assert np.allclose(followed, lookup_network.VALUES) and not others.any()


# ---------------------------------------------------------------------- attention maps


def test_a_head_that_looks_up_gives_all_to_the_duplicate_and_an_even_one_a_row_s_share():
    n = 6
    sharp = torch.cat([torch.eye(n), torch.zeros(n, n)], dim=1).repeat(2, 1)
    itself = torch.eye(2 * n)
    even = torch.full((2 * n, 2 * n), 1 / (2 * n))
    maps = {1: torch.stack([sharp, itself, even]).repeat(3, 1, 1, 1)}  # of three tables
    heads = [list(head.values()) for head in lookup_network.shares(maps)]
    assert heads[0] == [1, 1, 1.0, 1.0, 1.0, 0.0, 1.0]
    assert heads[1] == [1, 2, 0.0, 0.0, 0.0, 1.0, 1.0]
    assert heads[2] == pytest.approx([1, 3, 1 / 12, 1.0, 0.5, 1 / 12, 1 / 12])


def test_the_maps_of_a_table_are_those_of_its_rows_alone():
    source = lookup.Fresh(TINY.rows, 7)
    task = lookup.LookupTask(source, VARIANTS["original"], TINY, seed=0, device="cpu")
    task.module.eval()
    found = task.drawn(lookup.TEST, 0, 3)
    maps = lookup_network.attention(task, found)
    n = 2 * TINY.rows
    assert list(maps) == [1] and maps[1].shape == (3, 1, n, n)
    assert torch.allclose(maps[1].sum(dim=-1), torch.ones(()), atol=1e-5)
    alone = lookup.Doubled(found.features[1:2], found.shown[1:2], found.truth[1:2])
    assert torch.allclose(lookup_network.attention(task, alone)[1][0], maps[1][1], atol=1e-6)


# ---------------------------------------------------------------------- nightly


@pytest.mark.nightly
@pytest.mark.parametrize("name", list(VARIANTS)[1:])
def test_npt_learns_to_look_up_the_target_of_the_duplicate(name, tmp_path):
    here = setting(tmp_path)
    source = lookup.source_of(here, lookup.REDUCED)
    task = lookup.learn(source, VARIANTS[name], lookup.REDUCED, here)
    new = task.drawn(lookup.TEST, 0, lookup.REDUCED.test_tables)
    with torch.no_grad():
        assert lookup.correlation(task.predict(new), new.truth) > 0.98


@pytest.mark.nightly
def test_predictions_follow_an_intervention_and_some_head_looks_at_the_duplicate(tmp_path):
    found = npt_lookup.run(setting(tmp_path), settings=lookup.REDUCED, variants=lookup.VARIANTS[:1])
    tables = {table.name: table.rows for table in found.tables}
    assert tables["npt-lookup"][0]["r"] > 0.99  # of NPT on the original task
    for row in tables["npt-interventions"][:2]:  # up to four standard deviations
        assert row["r"] > 0.99 and abs(row["slope"] - 1) < 0.05
    heads = tables["npt-lookup-maps"]
    assert len(heads) == 8
    assert max(row["to its duplicate"] for row in heads) > 0.5
    assert max(row["duplicate first"] for row in heads) > 0.9
