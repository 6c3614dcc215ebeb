"""Soft nearest neighbours: memory by blocks, equal rows, and what a fitted model looks up."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from largest_tensor import Largest
from small_tables import TINY, small_task, table
from tabsweep.models.deep.layers.neighbours import distances, nearest, neighbour_mean
from tabsweep.models.registry import make_model

B, WIDTH, BLOCK = 64, 8, 128


def inputs(n, b=B):
    torch.manual_seed(0)
    q, c = torch.randn(b, WIDTH, requires_grad=True), torch.randn(n, WIDTH, requires_grad=True)
    return q, c, torch.randn(n, 2)


def largest(n, train):
    q, c, y = inputs(n)
    with Largest() as seen, torch.set_grad_enabled(train):
        out = neighbour_mean(q, c, y, temperature=1.0, block=BLOCK)
        if train:
            out.sum().backward()
    return seen.size


@pytest.mark.parametrize("train", [False, True])
def test_no_tensor_holds_all_pairs_of_queries_and_candidates(train):
    """Of N candidates the largest tensor is N x D, or that of a block; never B x N."""
    for n in (256, 1024, 8192):
        assert largest(n, train) <= max(n * WIDTH, B * BLOCK)
    assert 8192 * WIDTH < B * 8192 / 4  # the bound is far from the table of all pairs


def saved(n, b, kept):
    """Bytes that a training step keeps for its backward pass."""
    total = 0

    def count(tensor):
        nonlocal total
        total += tensor.nbytes
        return tensor

    q, c, y = inputs(n, b)
    with torch.autograd.graph.saved_tensors_hooks(count, lambda t: t):
        neighbour_mean(q, c, y, temperature=1.0, block=BLOCK, kept=kept)
    return total


def test_what_a_training_step_keeps_grows_with_the_candidates_not_with_the_pairs():
    """But for the distances of pairs, up to `kept` bytes of them."""
    assert saved(8192, 16, kept=0) < 2.1 * saved(4096, 16, kept=0)
    per_candidate = (saved(8192, 16, kept=0) - saved(4096, 16, kept=0)) / 4096
    wider = (saved(8192, 64, kept=0) - saved(4096, 64, kept=0)) / 4096
    assert wider == per_candidate
    for n in (4096, 8192):
        pairs = saved(n, B, kept=8 * B * BLOCK * 4) - saved(n, B, kept=0)
        # eight blocks of distances, and the numbers of their near pairs
        assert 8 * B * BLOCK * 4 <= pairs < 1.2 * 8 * B * BLOCK * 4


@pytest.mark.parametrize("kept", [0, B * BLOCK * 4, 2**28])
def test_distances_made_anew_give_the_gradients_of_kept_ones(kept):
    q, c, y = inputs(500)
    mean = neighbour_mean(q, c, y, temperature=1.0, block=BLOCK, kept=kept)
    mean.square().sum().backward()
    a, b, _ = inputs(500)
    neighbour_mean(a, b, y, temperature=1.0, block=BLOCK).square().sum().backward()
    assert torch.equal(q.grad, a.grad) and torch.equal(c.grad, b.grad)


def far_rows(width, shift):
    """400 rows far from zero; some are near others, and two are farther still."""
    torch.manual_seed(0)
    rows = torch.randn(400, width)
    for at, apart in ((100, 1e-4), (110, 1e-2), (120, 0.05), (130, 0.2), (140, 0.5)):
        rows[at : at + 10] = rows[90:100] + apart * torch.randn(10, width)
    rows += shift
    rows[[5, 300]] += 1e4
    return rows


@pytest.mark.parametrize("width", [1, 3, 128, 700])
@pytest.mark.parametrize("shift", [0.0, 100.0, 1e4])
def test_distances_and_gradients_far_from_zero_have_the_digits_of_float64(width, shift):
    """Relative error of a distance: 3e-5 (1e-6 in most), and of gradients: 3e-5 of the largest."""
    rows = far_rows(width, shift)
    wide = rows.double()
    exact = torch.cdist(wide, wide, compute_mode="donot_use_mm_for_euclid_dist")
    error = (distances(rows, rows).double() - exact).abs()
    assert not error[exact == 0].any()
    error = (error / exact)[exact > 0]
    assert error.max() < 3e-5 and error.quantile(0.99) < 1e-6
    y, found = torch.randn(400, 2), []
    for points in (rows, wide):
        q, c = points[:200].clone().requires_grad_(), points.clone().requires_grad_()
        mean = neighbour_mean(q, c, y.to(q), temperature=1.0, own=torch.arange(200), block=150)
        mean.square().sum().backward()
        found.append((q.grad.double(), c.grad.double()))
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).abs().max() < 3e-5 * theirs.abs().max()


def test_equal_rows_are_at_distance_zero_in_single_precision_and_have_gradients():
    torch.manual_seed(0)
    rows = (100 + torch.randn(60, 128)).requires_grad_()
    found = distances(rows, rows[torch.arange(60)])
    assert not found.diagonal().any()
    exact = distances(rows.detach().double(), rows.detach().double())  # by subtraction
    assert (found.double() - exact).abs().max() < 1e-5
    y = torch.randn(60, 3)
    neighbour_mean(rows, rows, y, temperature=5.0).square().sum().backward()
    wide = rows.detach().double().requires_grad_()
    neighbour_mean(wide, wide, y.double(), temperature=5.0).square().sum().backward()
    assert (rows.grad.double() - wide.grad).abs().max() < 1e-5 * wide.grad.abs().max()


@pytest.mark.parametrize("own", [None, torch.tensor([3, -1, 0, 8, 5])])
@pytest.mark.parametrize("block", [1, 4, 100])
def test_means_and_gradients_are_those_of_the_formula(own, block):
    torch.manual_seed(0)
    q, c = torch.randn(5, 3).double().requires_grad_(), torch.randn(9, 3).double().requires_grad_()
    y = torch.randn(9, 2).double()

    def formula(q, c):
        logits = -(q[:, None] - c).norm(dim=2) / 0.7
        if own is not None:
            logits = logits.masked_fill(own[:, None] == torch.arange(9), -torch.inf)
        return logits.softmax(1) @ y

    def ours(q, c):
        return neighbour_mean(q, c, y, temperature=0.7, own=own, block=block)

    assert torch.allclose(ours(q, c), formula(q, c), rtol=0, atol=1e-12)
    assert torch.autograd.gradcheck(ours, (q, c))


@pytest.mark.parametrize("outlier", [0.0, 1e4, 1e8])
def test_gradients_keep_their_digits_beside_far_points(outlier):
    torch.manual_seed(0)
    points, y = torch.randn(200, 6), torch.randn(200, 2)
    points[100:150] = points[50:100] + 1e-3
    points[[3, 170]] += outlier
    found = []
    for dtype in (torch.float32, torch.float64):
        q, c = (x.to(dtype).requires_grad_() for x in (points[:80].clone(), points.clone()))
        mean = neighbour_mean(q, c, y.to(dtype), temperature=1.0, own=torch.arange(80))
        mean.square().sum().backward()
        found.append((q.grad.double(), c.grad.double()))
    for ours, exact in zip(*found, strict=True):
        assert (ours - exact).abs().max() < 1e-5 * exact.abs().max()


def test_labels_that_want_a_gradient_are_refused():
    q, c, y = inputs(20)
    with pytest.raises(NotImplementedError, match="no gradient by labels"):
        neighbour_mean(q, c, y.requires_grad_(), temperature=1.0).sum().backward()


def test_a_batchs_candidates_are_a_part_of_the_other_rows_and_new_in_each_step():
    made = small_task("modern-nca", "binary", sample_rate=0.4, batch_size=20)
    seen = []
    for step in range(made.unit):
        rows = made.batch(step)
        more = made.candidates(rows, step)
        assert len(more) == int(40 * 0.4) == len(set(more.tolist()) - set(rows.tolist()))
        assert torch.equal(more, made.candidates(rows, step))
        seen.append(more.tolist())
    assert seen[0] != seen[1]


# -- TabR -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [None, torch.arange(40)])
def test_the_nearest_are_those_of_a_sorted_table_of_all_distances(own):
    torch.manual_seed(0)
    keys = torch.randn(500, 5)
    queries = keys[:40]
    table_ = torch.cdist(queries.double(), keys.double())
    if own is not None:
        table_[torch.arange(40), own] = torch.inf
    wanted = table_.argsort(dim=1)[:, :7]
    for block in (6, 64, 4096):
        assert torch.equal(nearest(queries, keys, 7, own=own, block=block), wanted)
    with Largest() as seen:
        nearest(queries, keys, 7, own=own, block=32)
    assert seen.size <= max(keys.numel(), 40 * (32 + 7))


def test_tabr_learns_by_heart_with_each_row_hidden_from_itself():
    frame, _ = table("binary", 30)
    for task in ("binary", "regression"):
        y = np.random.default_rng(1).permutation(np.arange(30) % 2)
        net = make_model("tabr", task=task, **{**TINY["tabr"], "epochs": 150, "patience": 0})
        net.fit(frame, y.astype(float) if task == "regression" else y)
        made = net._task(net._prepare(frame, y), None)
        start = made.loss(0).item()
        weights = {n: torch.from_numpy(a) for n, a in net.model_["weights"].items()}
        made.module.load_state_dict(weights)
        assert made.loss(0).item() < 0.2 * start, task
