"""Hopular's network: what a row may see, its draws and losses, and the cost of a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from largest_tensor import Largest
from looped import each
from tabsweep.models.deep.cells import Cells, Columns, cells_of
from tabsweep.models.deep.layers import attention
from tabsweep.models.deep.optimisers import Lamb
from tabsweep.models.hopular.masking import noisy
from tabsweep.models.hopular.network import HopularNetwork
from tabsweep.models.hopular.schedules import gamma, rate
from tabsweep.models.hopular.task import HopularTask, ask

COLUMNS = Columns((1, 3, 1, 2, 4), (False, True, False, True, True), (4,))
N = 80  # attention over fewer rows shares its shift between queries: equal, but not to the bit


def table(n: int, seed: int = 0, missing: float = 0.0) -> Cells:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, COLUMNS.n))
    for j in COLUMNS.categories_at:
        x[:, j] = rng.integers(0, COLUMNS.sizes[j], n)
    gaps = rng.random(x.shape) < missing
    gaps[:, COLUMNS.targets] = False
    return cells_of(np.where(gaps, np.nan, x), COLUMNS, torch.float64)


def network(seed: int = 0, **given) -> HopularNetwork:
    torch.manual_seed(seed)
    settings = {"width": 4, "n_blocks": 2, "n_nets": 2, "scaling": 3.0, **given}
    module = HopularNetwork(COLUMNS, **settings).double()
    for p in module.parameters():  # no norm at its initial gain
        p.data += 0.1 * torch.randn_like(p)
    return module.eval()


@dataclass
class Settings:
    seed: int = 0
    p_mask: float = 0.1
    p_replace: float = 0.2
    weight_decay: float = 0.1
    gamma: float = 0.5
    batch_size: int = 0
    steps: int = 10


def outputs(
    module: HopularNetwork, rows: Cells, asked: Cells, own: torch.Tensor | None
) -> torch.Tensor:
    """Everything that the network says of the asked rows, targets hidden."""
    flags = torch.zeros_like(asked.hidden)
    flags[:, -1] = True
    shown = Cells(asked.values, asked.codes, asked.hidden | flags)
    with torch.no_grad():
        state = module(shown, flags, module.store(rows), forbidden=own)
        decoded, n = module.decode(state), len(asked.codes)
        parts = [decoded.of(j).reshape(n, -1)[:, :size] for j, size in enumerate(COLUMNS.sizes)]
        return torch.cat(parts, dim=1)


# -- what a row sees ------------------------------------------------------------------------------


def test_a_row_in_training_sees_nothing_of_its_own_copy_in_the_memory():
    module, rows, asked = network(), table(N), table(N, 1)
    own = torch.arange(N)
    before, free = outputs(module, rows, asked, own), outputs(module, rows, asked, None)
    for i in (0, 41):
        changed = Cells(rows.values.clone(), rows.codes.clone(), rows.hidden)
        changed.values[i] += 2.0
        changed.codes[i] = (changed.codes[i] + 1) % torch.tensor([3, 2, 4])
        after = outputs(module, changed, asked, own)
        assert torch.equal(after[i], before[i])
        others = torch.arange(N) != i
        assert ((after != before).any(dim=1) == others).all()
        assert (outputs(module, changed, asked, None)[i] - free[i]).abs().max() > 1e-4


def test_the_target_of_an_asked_row_changes_no_prediction():
    module, rows, asked = network(), table(N), table(9, 1)
    with torch.no_grad():
        memory = module.store(rows)
        before = ask(module, memory, asked).of(4)
        asked.codes[:, -1] = (asked.codes[:, -1] + 1) % 4
        assert torch.equal(ask(module, memory, asked).of(4), before)
        rows.codes[:, -1] = (rows.codes[:, -1] + 1) % 4
        assert not torch.allclose(ask(module, module.store(rows), asked).of(4), before)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="n_nets.*4.*3"):
        network(n_nets=3, width=4)


# -- masks and losses -----------------------------------------------------------------------------


def test_cells_are_hidden_and_replaced_at_the_stated_rates():
    n, p_mask, p_replace = 4000, 0.025, 0.175
    cells = table(n, missing=0.1)
    shown, flags = noisy(cells, COLUMNS, p_mask, p_replace, torch.Generator().manual_seed(0))
    assert flags[:, 4].all() and shown.hidden[:, 4].all()
    there = ~cells.hidden[:, :4]
    assert (
        not (flags & cells.hidden).any() and (shown.hidden & cells.hidden).sum() == (~there).sum()
    )
    numeric = there[:, [0, 2]]
    changed = (shown.values != cells.values) & numeric
    for share, p, among in (
        (flags[:, :4][there].double().mean(), p_mask, int(there.sum())),
        (changed[numeric].double().mean(), p_replace, int(numeric.sum())),
    ):
        assert abs(float(share) - p) < 3 * (p * (1 - p) / among) ** 0.5
    assert not (changed & flags[:, [0, 2]]).any()
    assert abs(float(shown.values[changed].std()) - 1) < 0.1
    codes, drawn = shown.codes[:, 0], shown.codes[:, 0] != cells.codes[:, 0]
    assert set(codes.tolist()) == {0, 1, 2}
    expected = p_replace * 2 / 3  # a category is replaced by itself now and then
    share = float(drawn[there[:, 1]].double().mean())
    assert abs(share - expected) < 3 * (expected / int(there[:, 1].sum())) ** 0.5


def test_gamma_and_the_rate_fall_from_one_end_to_the_other_and_stay():
    assert [gamma(k, 10) for k in (0, 5, 10, 99)] == pytest.approx([1.0, 0.5, 0.0, 0.0])
    assert gamma(0, 10, 0.5, 0.2) == 0.5 and gamma(10, 10, 0.5, 0.2) == pytest.approx(0.2)
    assert [rate(k, 10, 2.0) for k in (4, 9, 99)] == pytest.approx([1.0, 0.0, 0.0])
    assert rate(0, 10, 2.0) < 2.0 and rate(1, 10, 2.0, warmup=0.2) == 2.0
    assert {rate(k, 10, 2.0, schedule="constant") for k in range(30)} == {2.0}


# -- one step -------------------------------------------------------------------------------------


def gradients(
    module: HopularNetwork, cells: Cells, **settings
) -> tuple[float, dict[str, torch.Tensor]]:
    module.zero_grad()
    loss = HopularTask(module, cells, None, Settings(**settings)).loss(3)
    loss.backward()
    return float(loss.detach()), {n: p.grad.clone() for n, p in module.named_parameters()}


@each("how", ["asked in batches", "attended in blocks", "both"])
def test_batches_and_blocks_change_neither_loss_nor_gradients(how, monkeypatch):
    module = network(p_input=0.0, p_hopfield=0.0, p_output=0.0)
    cells = table(24)
    whole, expected = gradients(module, cells)
    if how != "asked in batches":
        monkeypatch.setattr(attention, "BLOCK", 24)
        monkeypatch.setattr(attention, "ROWS", 1)
        monkeypatch.setattr(attention, "KEEP", 0)
    found, made = gradients(module, cells, batch_size=0 if how == "attended in blocks" else 8)
    assert found == pytest.approx(whole, abs=1e-12)
    for name, g in expected.items():
        torch.testing.assert_close(made[name], g, rtol=0, atol=1e-12)
    assert max(float(g.abs().max()) for g in expected.values()) > 1e-2


def test_lamb_steps_each_of_the_official_tensors_by_its_own_norm():
    module = network()
    HopularTask(module, table(20), None, Settings()).loss(0).backward()
    segments = module.segments()
    apart, of = [], []
    for p in module.parameters():
        rows = list(segments.get(p, [len(p)]))
        for part, g in zip(p.split(rows), p.grad.split(rows), strict=True):
            apart.append(part.detach().clone().requires_grad_())
            apart[-1].grad = g.clone()
        of.append(len(rows))
    HopularTask(module, table(20), None, Settings()).optimiser().step()
    Lamb(apart, weight_decay=0.1, debias=True).step()
    pieces = iter(apart)
    for p, n in zip(module.parameters(), of, strict=True):
        expected = torch.cat([next(pieces).detach() for _ in range(n)])
        torch.testing.assert_close(p.detach(), expected, rtol=0, atol=1e-12)
    # 6 of each column's embedding, type and index, 16 of a block, 4 of the summary of all columns
    assert len(apart) == 6 * COLUMNS.n + 2 + 16 * 2 + 4


@each("batch_size", [0, 100])
def test_no_table_of_all_pairs_of_rows_is_made_with_dropout_on(batch_size, monkeypatch):
    monkeypatch.setattr(attention, "BLOCK", 2**14)
    monkeypatch.setattr(attention, "ROWS", 1)
    monkeypatch.setattr(attention, "KEEP", 2**14)
    n = 600
    module = network(p_hopfield=0.2)
    task = HopularTask(module, table(n), None, Settings(batch_size=batch_size))
    with Largest() as seen:
        task.loss(0).backward()
    widest = n * COLUMNS.n * COLUMNS.n * 2  # weights between the cells of all rows, two nets
    assert 2**13 < seen.size <= widest < n * n / 10
