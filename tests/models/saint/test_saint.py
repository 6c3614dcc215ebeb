"""Laws of SAINT's layers, pre-training and predictions.

The numbers of the authors' code are in tests/parity/test_saint.py.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_tables import TINY, table
from tabsweep.models.deep.layers.polynomial_attention import BASES
from tabsweep.models.hyperparameters import InvalidConfig
from tabsweep.models.registry import make_model
from tabsweep.models.saint.network import Cells, Embedding, SAINTNetwork
from tabsweep.models.saint.pretext import cutmix, drawn

# -- the network ----------------------------------------------------------------------------------


def small(style="colrow", attention="softmax", *, seed=0, **given):
    """A network of two numbers, the second with gaps, and two categories, in float64."""
    torch.manual_seed(seed)
    embedding = Embedding(2, [3, 4], 4, gaps=[1], unknown=[False, True])
    settings = {"n_layers": 2, "order": 3, **given}
    module = SAINTNetwork(
        embedding, style=style, n_heads=2, attention=attention, p=0.0, hidden=8, n_out=1, **settings
    ).double()
    for name, p in module.named_parameters():
        if name.endswith("alpha"):
            torch.nn.init.normal_(p)
        elif name.endswith("qkv.weight"):
            p.data *= 3.0  # away from flat attention
    return module


def some_rows(n, seed=1):
    rng = np.random.default_rng(seed)
    numbers = np.c_[rng.normal(size=(n, 2)), rng.random(n) < 0.3]
    codes = np.c_[rng.integers(0, 3, n), rng.integers(0, 4, n)]
    return torch.from_numpy(numbers), torch.from_numpy(codes)


@pytest.mark.parametrize("style", ["col", "row", "colrow"])
def test_rows_of_a_batch_change_each_other_where_layers_attend_between_rows(style):
    module, (numbers, codes) = small(style), some_rows(6)
    before = module(numbers, codes)
    numbers[0] += 1.0
    changed = (module(numbers, codes) - before).abs() > 1e-9
    assert changed[0] and changed[1:].all() == (style != "col") == changed[1:].any()


@pytest.mark.parametrize("attention", ["softmax", *BASES])
def test_an_asked_row_is_one_more_row_of_a_matrix_that_no_kept_row_looks_back_at(attention):
    """Layer by layer against the polynomial of [A 0; a a'], written out."""
    module = small(attention=attention)
    kept, asked = some_rows(7), some_rows(5, seed=2)
    found = module.ask(*asked, module.context(*kept))
    for i in range(5):
        rows = [torch.cat([k, a[i : i + 1]]) for k, a in zip(kept, asked, strict=True)]
        x = module.embedding(module.embedding.cells(*rows))
        for kind, layer in zip(module.kinds, module.layers, strict=True):
            if kind == "column":
                x = layer(x)
                continue
            flat = x.reshape(1, 8, -1)
            y, heads = layer.norm_in(flat), layer.attention
            q, k, v = (t.view(8, 2, 64).transpose(0, 1) for t in heads.qkv(y)[0].chunk(3, dim=-1))
            logits = q @ k.transpose(1, 2) / 8
            logits[:, :-1, -1] = -torch.inf
            matrix = torch.softmax(logits, dim=-1)
            if attention != "softmax":
                matrix = heads.polynomial.matrix(matrix[None])[0]
                assert not matrix[:, :-1, -1].any()
            attended = heads.out((matrix @ v).transpose(0, 1).flatten(1))[None]
            x = layer._after(y + attended).view(x.shape)
        torch.testing.assert_close(found[i], module.read(x)[-1], rtol=1e-11, atol=1e-11)


def test_what_stands_in_a_missing_cell_is_not_seen():
    module, (numbers, codes) = small(), some_rows(8)
    cells = module.embedding.cells(numbers, codes)
    assert torch.equal(cells.missing[:, 3], numbers[:, 2] == 1)
    assert torch.equal(cells.missing[:, 1], codes[:, 1] == 3)
    assert not cells.missing[:, [0, 2]].any() and cells.missing[:, [1, 3]].any(dim=0).all()
    other = cells._replace(
        numbers=torch.where(cells.missing[:, 2:], 7.0, cells.numbers),
        codes=torch.where(cells.missing[:, :2], 0, cells.codes),
    )
    assert torch.equal(module.embedding(other), module.embedding(cells))


# -- pre-training ---------------------------------------------------------------------------------


def test_the_cells_that_a_row_takes_come_from_one_other_row():
    b, f = 500, 9
    damage = drawn(b, f, p_cutmix=0.2, mixup=0.3, seed=1)
    assert sorted(damage.donors.tolist()) == sorted(damage.partners.tolist()) == [*range(b)]
    assert abs(float(damage.taken.double().mean()) - 0.2) < 0.02
    cells = Cells(
        torch.arange(b)[:, None].expand(b, 4).double(),
        torch.arange(b)[:, None].expand(b, 5),
        torch.rand(b, f) < 0.1,
    )
    mixed = cutmix(cells, damage)
    rows = torch.cat([mixed.codes, mixed.numbers.long()], dim=1)
    own = torch.arange(b)[:, None].expand(b, f)
    assert torch.equal(rows, torch.where(damage.taken, damage.donors[:, None].expand(b, f), own))
    assert torch.equal(mixed.missing, cells.missing)
    again = drawn(b, f, p_cutmix=0.2, mixup=0.3, seed=1)
    assert all(torch.equal(a, c) for a, c in zip(damage[:3], again[:3], strict=True))
    assert not torch.equal(drawn(b, f, p_cutmix=0.2, mixup=0.3, seed=2).taken, damage.taken)


def test_views_without_damage_are_equal_and_such_pretraining_is_refused():
    module, rows = small(), some_rows(6)
    cells = module.embedding.cells(*rows)
    none = drawn(6, 4, p_cutmix=0.0, mixup=1.0, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(cutmix(cells, none), cells, strict=True))
    same = {"p_cutmix": 0.0, "mixup": 1.0, "ffn_dropout": 0.0}
    with pytest.raises(InvalidConfig, match="p_cutmix"):
        saint(**same)
    for other in ({"p_cutmix": 0.1}, {"mixup": 0.5}, {"ffn_dropout": 0.1}, {"pretrain_epochs": 0}):
        saint(**{**same, **other})


# -- the fitted model -----------------------------------------------------------------------------


def saint(task="regression", name="saint", **given):
    return make_model(name, task=task, **{**TINY[name], "epochs": 4, **given})


def fitted(task="regression", **given):
    return saint(task, **given).fit(*table(task))


def test_in_the_papers_way_rows_that_are_asked_together_see_each_other_and_no_training_row():
    model = fitted(batch_prediction=True, batch_size=16)
    asked, _ = table("regression", 40, seed=3)
    whole = model.predict(asked)
    changed = asked.assign(a=asked["a"].where(np.arange(40) != 5, 3.0))
    differs = model.predict(changed) != whole
    assert differs[:16].all() and not differs[16:].any()  # batches are taken as they come
    assert len(model.model_["x"]) == 0
    column = fitted(batch_prediction=True, style="col").predict(asked)
    assert np.array_equal(column, fitted(style="col").predict(asked))


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("style", ["colrow", "col"])
def test_validation_rows_are_scored_as_they_would_be_predicted(style, together):
    frame, y = table("regression")
    val = table("regression", 30, seed=5)
    model = saint(style=style, batch_prediction=together, batch_size=16, reference_rows=9)
    model.fit(frame, y, *val)
    rmse = np.sqrt(np.mean((model.predict(val[0]) - val[1]) ** 2)) / model._target_scale
    assert model.curve_[:, 1].min() == pytest.approx(rmse, rel=1e-6)


def test_the_rows_that_answers_attend_to_are_training_rows_drawn_by_the_seed():
    frame, y = table("regression")
    model = fitted(reference_rows=9)
    x = model.preprocessor_.transform(frame).astype(np.float32)
    kept = model.references(60)
    assert len(set(kept)) == 9 and np.array_equal(model.model_["x"], x[kept])
    assert not np.array_equal(saint(reference_rows=9, seed=1).references(60), kept)
    assert len(fitted().references(60)) == 60 and len(fitted(batch_size=16).references(60)) == 16
    assert len(fitted(style="col").references(60)) == 0
    before = model.predict(frame)
    model.model_["x"] = model.model_["x"] * 1.5
    assert np.array_equal(model.predict(frame), before)  # what they gave is kept
    model._context = None
    assert not np.array_equal(model.predict(frame), before)


def test_tables_of_many_features_have_small_tokens_and_batches():
    rng = np.random.default_rng(0)
    for n, width, rows in ((100, 12, 256), (101, 8, 64)):
        net = saint(width=12, batch_size=256)
        x, _ = net._prepare(rng.normal(size=(70, n)), rng.normal(size=70))
        module = net._network()
        assert module.embedding.cls.shape == (width,) and net.rows_a_batch(len(x)) == rows
