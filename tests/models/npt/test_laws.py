"""Laws of NPT's network: what may depend on what, how much is masked, what is counted.

Network, masking and batches alone; `test_estimator.py` holds the laws of fitted models.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from looped import each
from scipy.special import ndtr
from tabsweep.models.deep.cells import FARTHEST, Cells, Columns, cells_of, generator, hide, without
from tabsweep.models.npt.batches import Batches, strata_of
from tabsweep.models.npt.masking import RANDOM_SHARE, select
from tabsweep.models.npt.network import NPTNetwork

MIXED = Columns((1, 3, 1, 2, 5, 2), (False, True, False, True, True, True), (5,))
N = 14
KINDS = {
    "base": {},
    "no aba": {"aba": False},
    "one head": {"n_heads": 1},
}


def network(columns=MIXED, seed=0, **given) -> NPTNetwork:
    """In float64, every parameter drawn (layer norms and biases too), in evaluation mode."""
    how = {"width": 8, "n_layers": 4, "n_heads": 2, **given}
    module = NPTNetwork(columns, **how).double().eval()
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, generator=g, dtype=p.dtype) * (0.5 / p.shape[-1] ** 0.5))
            if p.dim() == 1:
                p.add_(0.5)
    return module


def table(columns=MIXED, n=N, seed=0, gaps=0.2) -> Cells:
    rng = np.random.default_rng(seed)
    x = np.column_stack(
        [
            rng.integers(0, size, n).astype(float) if c else rng.normal(size=n)
            for size, c in zip(columns.sizes, columns.categorical, strict=True)
        ]
    )
    x[rng.random(x.shape) < gaps] = np.nan
    return cells_of(x, columns, torch.double)


def outputs(module, cells, seed=None):
    with torch.no_grad():
        return module(cells, seed)


@pytest.fixture(params=KINDS)
def module(request):
    return network(**KINDS[request.param])


# -- the equations --------------------------------------------------------------------------------


def slow(module: NPTNetwork, cells: Cells) -> dict[int, np.ndarray]:
    """Outputs of each column, from the equations of Kossen et al. 2021 (secs. 2.2 to 2.5) one row
    and head after the other; it shares no code with the network but its weights."""
    p, columns = {n: t.numpy() for n, t in module.state_dict().items()}, module.columns

    def linear(x, name):
        return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]

    def norm(x, name):
        centred = x - x.mean(axis=1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12)
        return centred / deviation * p[f"{name}.weight"] + p[f"{name}.bias"]

    def block(x, i):  # (T, W)
        name, h = f"blocks.{i}", module.blocks[i].n_heads
        q = linear(norm(x, f"{name}.norm_in"), f"{name}.query")
        k, v = (linear(x, f"{name}.{part}") for part in ("key", "value"))
        heads = []
        for at in np.split(np.arange(x.shape[1]), h):
            weights = np.exp(q[:, at] @ k[:, at].T / np.sqrt(x.shape[1]))
            heads.append(weights / weights.sum(axis=1, keepdims=True) @ v[:, at])
        r = linear(np.hstack(heads), f"{name}.mix") + linear(x, f"{name}.residual")
        wide = linear(norm(r, f"{name}.norm_ff"), f"{name}.widen")
        return r + linear(wide * ndtr(wide), f"{name}.narrow")

    starts = np.cumsum([0, *(size + 1 for size in columns.sizes)])
    x = np.zeros((len(cells), columns.n, module.width))
    for i, j in np.ndindex(x.shape[:2]):
        channels = np.zeros(columns.sizes[j] + 1)
        if cells.hidden[i, j]:
            channels[-1] = 1.0
        elif columns.categorical[j]:
            channels[cells.codes[i, columns.categories_at.index(j)]] = 1.0
        else:
            channels[0] = cells.values[i, columns.numeric_at.index(j)]
        x[i, j] = channels @ p["embedding.weight"][starts[j] : starts[j + 1]]
        x[i, j] += p["embedding.bias"][j] + p["embedding.index"][j]
        x[i, j] += p["embedding.kind"][int(columns.categorical[j])]
    for i, kind in enumerate(module.kinds):
        if kind == "abd":
            x = block(x.reshape(len(x), -1), i).reshape(x.shape)
        else:
            x = np.stack([block(row, i) for row in x])
    ends = np.cumsum([0, *columns.sizes])
    return {
        j: x[:, j] @ p["decoder.weight"][a:b].T + p["decoder.bias"][a:b]
        for j, (a, b) in enumerate(pairwise(ends))
    }


def test_the_network_computes_its_equations(module):
    cells = table()
    with torch.no_grad():
        decoded = module.decode(module(cells))
    for j, wanted in slow(module, cells).items():
        ours = decoded.of(j).numpy()
        ours = ours[:, : MIXED.sizes[j]] if MIXED.categorical[j] else ours[:, None]
        np.testing.assert_allclose(ours, wanted, rtol=1e-9, atol=1e-9)


# -- what depends on what -------------------------------------------------------------------------


def scrambled(cells: Cells, columns=MIXED, seed=5) -> Cells:
    """Other values and categories in every hidden cell."""
    rng = np.random.default_rng(seed)
    values, codes = cells.values.clone(), cells.codes.clone()
    at = cells.hidden[:, columns.numeric_at]
    values[at] = torch.tensor(rng.choice([1e30, -5.0, np.nan, np.inf], int(at.sum())))
    at = cells.hidden[:, columns.categories_at]
    codes[at] = torch.tensor(rng.integers(-9, 10**9, int(at.sum())))
    return replace(cells, values=values, codes=codes)


def test_what_lies_under_a_hidden_cell_changes_no_bit(module):
    cells = table(gaps=0.4)
    assert torch.equal(outputs(module, scrambled(cells)), outputs(module, cells))
    seed = (3, 4)  # with dropout too
    assert torch.equal(outputs(module, scrambled(cells), seed), outputs(module, cells, seed))
    context = module.context(scrambled(cells))
    for ours, theirs in zip(context, module.context(cells), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_rows_that_ask_see_the_context_and_themselves_as_a_dense_softmax_says(module):
    known, asked = table(seed=1), table(n=5, seed=2)
    found = module.ask(asked, module.context(known))
    x, y = module.embedding(known), module.embedding(asked)
    for kind, block in zip(module.kinds, module.blocks, strict=True):
        if kind == "abd":
            a, b = x.reshape(1, N, -1), y.reshape(1, 5, -1)
            both = torch.cat([a, b], dim=1)
            q, k, v = block.heads(both)
            logits = q @ k.transpose(-1, -2) * both.shape[-1] ** -0.5
            there = torch.eye(N + 5, dtype=torch.bool)
            there[:, :N] = True
            weights = torch.softmax(logits.masked_fill(~there, -torch.inf), dim=-1)
            out = block.after(both, weights @ v, None)
            x, y = out[0, :N].view_as(x), out[0, N:].view_as(y)
        else:
            x, y = block(x), block(y)
    assert float((found - y).detach().abs().max()) < 1e-12
    # a single asked row is a table with one row more, but for what that row tells the others
    alone = module.ask(asked[slice(0, 1)], module.context(known))
    assert float((alone - found[:1]).detach().abs().max()) < 1e-12


def test_dropout_comes_with_a_seed_alone_and_zero_shares_drop_nothing():
    cells, module = table(), network()
    assert torch.equal(module(cells, (1, 2)), module(cells, (1, 2)))
    assert not torch.equal(module(cells, (1, 2)), module(cells, (1, 3)))
    assert not torch.equal(module(cells, (1, 2)), module(cells))
    without_any = network(p=0.0, p_weights=0.0)
    assert torch.equal(without_any(cells, (1, 2)), without_any(cells))


# -- parameters -----------------------------------------------------------------------------------

BOSTON = Columns(
    tuple({3: 2, 8: 9}.get(j, 1) for j in range(14)), tuple(j in (3, 8) for j in range(14)), (13,)
)
WDBC = Columns((2, *[1] * 30), (True, *[False] * 30), (0,))
PROTEIN, CONCRETE = (Columns((1,) * d, (False,) * d, (0,)) for d in (10, 9))


@each(
    ("columns", "width", "n_layers", "count"),
    [
        (BOSTON, 32, 8, 10_519_639),
        (BOSTON, 64, 8, 42_018_967),
        (BOSTON, 128, 8, 167_956_759),
        (BOSTON, 128, 16, 335_901_975),
        (WDBC, 32, 8, 51_287_040),
        (WDBC, 64, 8, 205_023_200),
        (WDBC, 128, 8, 819_842_976),
        (PROTEIN, 64, 8, 21_554_826),
        (PROTEIN, 128, 8, 86_134_026),
        (CONCRETE, 128, 8, 69_938_825),
    ],
)
def test_the_number_of_parameters_is_the_published_one(columns, width, n_layers, count):
    for n_heads in (8, 16):
        with torch.device("meta"):
            made = NPTNetwork(columns, width=width, n_layers=n_layers, n_heads=n_heads)
        assert sum(p.numel() for p in made.parameters()) == count


# -- masking --------------------------------------------------------------------------------------


@each("p", [0.05, 0.15, 0.5])
def test_masks_select_their_share_and_randomise_a_tenth_of_it(p):
    rng = np.random.default_rng(0)
    candidates = torch.from_numpy(rng.random((60, 12)) < 0.7)
    n, counts = int(candidates.sum()), []
    for seed in range(300):
        hidden, randomised = select(candidates, p, generator(seed))
        assert not (hidden & randomised).any() and not ((hidden | randomised) & ~candidates).any()
        chosen = int(hidden.sum() + randomised.sum())
        assert int(randomised.sum()) == round(RANDOM_SHARE * chosen)
        counts.append(chosen)
    sigma = np.sqrt(n * p * (1 - p))
    assert abs(np.mean(counts) - n * p) < 4 * sigma / np.sqrt(300)
    assert 0.8 * sigma < np.std(counts) < 1.2 * sigma


def test_the_ends_of_masking_hide_all_or_nothing():
    candidates = torch.rand(9, 4, generator=generator(0)) < 0.5
    hidden, randomised = select(candidates, 1.0, generator(1))
    assert torch.equal(hidden, candidates) and not randomised.any()
    assert not any(m.any() for m in select(candidates, 0.0, generator(1)))


def test_random_cells_are_open_and_hold_noise_or_any_category_alike():
    columns = Columns((1, 4), (False, True), (1,))
    cells = cells_of(np.full((4000, 2), 2.0), columns, torch.double)
    everywhere = torch.ones(4000, 2, dtype=torch.bool)
    nowhere = ~everywhere
    shown = hide(cells, columns, nowhere, everywhere, generator(3))
    assert not shown.hidden.any()
    noise = shown.values[:, 0]
    assert abs(float(noise.mean())) < 5 / 4000**0.5 and abs(float(noise.std()) - 1) < 0.06
    counts = torch.bincount(shown.codes[:, 0], minlength=4)
    assert (
        len(counts) == 4 and float((counts / 4000 - 0.25).abs().max()) < 5 * (3 / 16 / 4000) ** 0.5
    )
    kept = hide(cells, columns, everywhere, nowhere, generator(3))
    assert kept.hidden.all() and torch.equal(kept.values, cells.values)
    assert without(cells, everywhere).hidden.all() and not cells.hidden.any()


def test_cells_hide_what_is_missing_unknown_or_out_of_range_and_bound_what_is_far():
    columns = Columns((1, 3), (False, True), (1,))
    x = np.array([[np.nan, 0.0], [1e30, 2.0], [-1e30, 3.0], [0.5, -1.0], [0.0, np.nan]])
    cells = cells_of(x, columns)
    assert cells.hidden.tolist() == [[True, False], [False, False], *[[False, True]] * 3]
    assert cells.values[:, 0].tolist() == [0.0, FARTHEST, -FARTHEST, 0.5, 0.0]
    single = NPTNetwork(columns, width=8, n_layers=4, n_heads=2)
    assert torch.isfinite(single(cells)).all()


# -- batches --------------------------------------------------------------------------------------


def test_an_epoch_deals_every_row_once_in_batches_that_look_like_the_table():
    rng = np.random.default_rng(0)
    parts = rng.choice(3, 203, p=[0.7, 0.1, 0.2])
    classes = rng.choice(3, 203, p=[0.8, 0.15, 0.05])
    strata = strata_of(parts, classes)
    batches = Batches(strata, 40, seed=1)
    assert batches.n_batches == 6
    epochs = [[batches.at(6 * e + i) for i in range(6)] for e in range(3)]
    for epoch in epochs:
        assert sorted(np.concatenate(epoch)) == list(range(203))
        assert {len(b) for b in epoch} <= {33, 34}
        for stratum in np.unique(strata):
            held = [int((strata[b] == stratum).sum()) for b in epoch]
            assert max(held) - min(held) <= 1
        for part in (1, 2):
            held = [int((parts[b] == part).sum()) for b in epoch]
            assert max(held) - min(held) <= 1
    assert not np.array_equal(epochs[0][0], epochs[1][0])
    again = Batches(strata, 40, seed=1)  # out of order, elsewhere
    assert np.array_equal(again.at(13), epochs[2][1])
    assert np.array_equal(again.at(2), epochs[0][2])
    assert not np.array_equal(Batches(strata, 40, seed=2).at(0), epochs[0][0])


@each("size", [0, 203, 500])
def test_one_batch_holds_all_rows_in_their_order(size):
    batches = Batches(np.zeros(203, dtype=int), size, seed=1)
    assert batches.n_batches == 1 and np.array_equal(batches.at(7), np.arange(203))
