"""NPT against the authors' code, with its weights.

Files and names: the folder that TABSWEEP_PARITY names. Everything is float64, the tolerance 1e-9.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch
from looped import each
from parity import assert_same, case, names
from tabsweep.datasets.protocols import make_folds
from tabsweep.models.deep.cells import Cells, Columns, cells_of, without
from tabsweep.models.deep.optimisers import Lamb, Lookahead
from tabsweep.models.deep.schedules import rate, tradeoff
from tabsweep.models.npt.estimator import NPT
from tabsweep.models.npt.masking import loss_on
from tabsweep.models.npt.network import NPTNetwork
from tabsweep.models.npt.prediction import TEST, TRAIN, decode_targets
from tabsweep.models.npt.task import NPTTask

LAYERS = {
    "fc_q": "query",
    "fc_k": "key",
    "fc_v": "value",
    "fc_mix_heads": "mix",
    "fc_res": "residual",
    "ln0": "norm_in",
    "ln1": "norm_ff",
    "rff.0": "widen",
    "rff.3": "narrow",
}


def columns_of(meta: Mapping[str, Any]) -> Columns:
    """The columns of a case, from its `meta`."""
    categorical = tuple(j in meta["cat_columns"] for j in range(meta["d"]))
    return Columns(tuple(meta["H"]), categorical, tuple(meta["target_columns"]))


def ours(official: Mapping[str, np.ndarray], columns: Columns) -> dict[str, torch.Tensor]:
    """A state of our network from the official one's parameters."""

    def get(name: str) -> torch.Tensor:
        return torch.from_numpy(np.array(official[name]))

    state = {
        "embedding.weight": torch.cat(
            [get(f"in_embedding.{j}.weight").t() for j in range(columns.n)]
        ),
        "embedding.bias": torch.stack([get(f"in_embedding.{j}.bias") for j in range(columns.n)]),
        "embedding.index": get("feature_index_embedding.weight"),
        "decoder.weight": torch.cat([get(f"out_embedding.{j}.weight") for j in range(columns.n)]),
        "decoder.bias": torch.cat([get(f"out_embedding.{j}.bias") for j in range(columns.n)]),
    }
    if "feature_type_embedding.weight" in official:
        state["embedding.kind"] = get("feature_type_embedding.weight")
    for name in official:
        if name.startswith("enc."):
            _, at, _, rest = name.split(".", 3)
            layer, kind = rest.rsplit(".", 1)
            state[f"blocks.{(int(at) - 1) // 2}.{LAYERS[layer]}.{kind}"] = get(name)
    return state


def cells_from(encoded: Mapping[str, np.ndarray], columns: Columns) -> Cells:
    """Cells from the official one-hot inputs {column: (n, H_j + 1)}; mask channel last."""
    both = [encoded[str(j)] for j in range(columns.n)]
    n = len(both[0])
    values = np.zeros((n, len(columns.numeric_at)))
    codes = np.zeros((n, len(columns.categories_at)), dtype=np.int64)
    for i, j in enumerate(columns.numeric_at):
        values[:, i] = both[j][:, 0]
    for i, j in enumerate(columns.categories_at):
        codes[:, i] = both[j][:, :-1].argmax(axis=1)
    hidden = np.stack([b[:, -1] == 1 for b in both], axis=1)
    return Cells(torch.from_numpy(values), torch.from_numpy(codes), torch.from_numpy(hidden))


def network(case: Any, **given: Any) -> NPTNetwork:
    """Our network in float64 with a case's weights, without dropout."""
    meta, columns = case.meta, columns_of(case.meta)
    module = NPTNetwork(
        columns,
        width=meta["e"],
        n_layers=meta["L"],
        n_heads=meta["h"],
        p=0.0,
        p_weights=0.0,
        **given,
    ).double()
    module.load_state_dict(ours(case.under("param/"), columns))
    return module.eval()


FORWARD = names("npt_forward_*")
LOSSES = names("npt_loss_*")


def decoded_columns(decoded, columns):
    """{column: (n, H_j)}, as the official outputs are shaped."""
    return {
        j: decoded.of(j)[:, : columns.sizes[j]]
        if columns.categorical[j]
        else decoded.of(j)[:, None]
        for j in range(columns.n)
    }


@each("name", FORWARD)
def test_outputs_are_the_official_ones(name):
    given = case(name)
    module, columns = network(given), columns_of(given.meta)
    assert sum(p.numel() for p in module.parameters()) == given.meta["parameters"]
    cells = cells_from(given.under("in/"), columns)
    masked_or_missing = np.isin(given["cell_state"], (1, 3))
    assert np.array_equal(cells.hidden, masked_or_missing) and masked_or_missing.any()
    for j, values in decoded_columns(module.decode(module(cells)), columns).items():
        assert_same(values, given[f"out/{j}"])


@each("name", FORWARD)
def test_attention_maps_are_the_official_ones(name):
    given = case(name)
    module, columns = network(given), columns_of(given.meta)
    maps = module.maps(cells_from(given.under("in/"), columns))
    assert_same(maps[0], given["att/block0"])
    n, h, d, _ = maps[1].shape
    assert_same(maps[1].transpose(0, 1).reshape(h * n, d, d), given["att/block1"])


@each("name", LOSSES)
def test_losses_and_gradients_are_the_official_ones(name):
    given = case(name)
    module, columns = network(given), columns_of(given.meta)
    truth = cells_from(given.under("true/"), columns)
    lam = given.meta["lambda"]
    for mode in given.meta["modes"]:
        cells = cells_from(given.under(f"{mode}/in/"), columns)
        decoded = module.decode(module(cells))
        for j, values in decoded_columns(decoded, columns).items():
            assert_same(values, given[f"{mode}/out/{j}"])
        losses = {}
        for kind in ("target", "feature"):
            chosen = given.tensor(f"{mode}/{kind}_loss_cells").bool()
            total, count = loss_on(decoded, truth, columns, chosen)
            assert int(count) == int(given[f"{mode}/{kind}_count"])
            losses[kind] = total / count if int(count) else total
            assert_same(losses[kind], given[f"{mode}/{kind}_loss"])
        total = (1 - lam) * losses["target"] + lam * losses["feature"]
        assert_same(total, given[f"{mode}/total_loss"])
        if mode == "train":
            total.backward()
    names = {p: n for n, p in module.named_parameters()}
    grads = {names[p]: p.grad for p in module.parameters()}
    square = sum(float((g**2).sum()) for n, g in grads.items() if not n.endswith("key.bias"))
    assert_same(np.sqrt(square), given["grad_norm_all"])
    assert given.meta["gradients"]
    for clamped in (False, True):
        if clamped:
            torch.nn.utils.clip_grad_value_(module.parameters(), given.meta["clamp"])
        found = official_names(grads, columns)
        for official in given.meta["gradients"]:
            kind = "grad_clamped" if clamped else "grad"
            assert_same(found(official), given[f"{kind}/{official}"])


def official_names(grads, columns):
    """A function from the official name of a parameter to our gradient in its shape."""

    def find(name):
        head, *rest = name.split(".")
        if head in ("in_embedding", "out_embedding"):
            j, kind = int(rest[0]), rest[1]
            side = "embedding" if head == "in_embedding" else "decoder"
            sizes = [s + (head == "in_embedding") for s in columns.sizes]
            if kind == "bias" and side == "embedding":
                return grads["embedding.bias"][j]
            part = grads[f"{side}.{kind}"][sum(sizes[:j]) : sum(sizes[: j + 1])]
            return part.t() if side == "embedding" else part
        if head == "enc":
            layer = LAYERS[".".join(rest[2:-1])]
            return grads[f"blocks.{(int(rest[0]) - 1) // 2}.{layer}.{rest[-1]}"]
        return grads[{"feature_index_embedding": "embedding.index"}.get(head, "embedding.kind")]

    return find


@each("name", LOSSES)
def test_what_validation_and_test_rows_see_follows_from_the_masks(name):
    given = case(name)
    columns = columns_of(given.meta)
    truth = cells_from(given.under("true/"), columns)
    assert np.array_equal(truth.hidden, given["missing"])
    is_target = sum(given[f"target_cells/{part}"].astype(int) for part in ("train", "val", "test"))
    assert np.array_equal(np.flatnonzero(is_target[0]), given.meta["target_columns"])
    assert (is_target == is_target[0]).all()  # each row is in one part
    assert not (given["train/target_loss_cells"] & ~given["target_cells/train"]).any()
    visible = {"val": ["train"], "test": ["train", "val"]} if "visible" in name else {}
    for mode in ("val", "test"):
        hidden = torch.zeros_like(truth.hidden)
        for part in ("train", "val", "test"):
            if part not in visible.get(mode, []):
                hidden |= given.tensor(f"target_cells/{part}").bool()
        made, theirs = without(truth, hidden), cells_from(given.under(f"{mode}/in/"), columns)
        assert torch.equal(made.hidden, theirs.hidden)
        at = ~theirs.hidden[:, columns.numeric_at]
        assert torch.equal(made.values[at], theirs.values[at])


@each("mode", ["val", "test"])
@each("name", LOSSES)
def test_scores_of_validation_and_test_rows_are_the_official_ones(name, mode):
    """As a transductive fit scores them: rows whose labels it has, and the others of the table."""
    given = case(name)
    meta, columns = given.meta, columns_of(given.meta)
    module, truth = network(given), cells_from(given.under("true/"), columns)
    rows = {part: given[f"target_cells/{part}"].any(axis=1) for part in ("train", "val", "test")}
    table = without(truth, given.tensor("target_cells/test"))  # labels that no fit is given
    others = torch.from_numpy(np.flatnonzero(~rows[mode]))
    parts = np.where(rows["test"][others.numpy()], TEST, TRAIN)
    (target,) = columns.targets
    settings = NPT(
        task="multiclass" if columns.categorical[target] else "regression",
        transductive=True, p_target=meta["p_target"]["train"], n_heads=meta["h"], batch_size=0,
    )  # fmt: skip
    asked = truth[torch.from_numpy(np.flatnonzero(rows[mode]))]
    task = NPTTask(module, table[others], parts, asked, settings)
    with torch.no_grad():
        found = np.array(task.val_loss())
        decoded = decode_targets(module, task.cells, task.parts, asked, settings).of(target)
    official = given.under(f"{mode}/eval_label/")
    scale = float(given["sigma"][target])
    if columns.categorical[target]:
        assert scale == -1.0
        for key in ("cat_loss", "total_loss", "total_loss_unstd"):
            assert_same(found, official[key])
        codes = asked.codes[:, columns.categories_at.index(target)]
        right = (decoded.argmax(dim=1) == codes).double().mean()
        assert_same(right, official["cat_accuracy"])
    else:
        for key in ("num_loss", "num_mse_loss", "total_loss"):
            assert_same(found, official[key])
            unit = f"{key}_unstd"
            assert_same(found * scale**2, official[unit])
    assert_same(found, given[f"{mode}/target_loss"])


# -- optimisation ---------------------------------------------------------------------------------


def test_lamb_and_lookahead_take_the_official_steps():
    given = case("npt_optim_lamb_lookahead")
    meta = given.meta
    for run, settings in meta["runs"].items():
        params = {x: given.tensor(f"start/{x}").requires_grad_() for x in meta["tensors"]}
        lamb = Lamb(
            params.values(), betas=tuple(meta["betas"]), eps=meta["eps"],
            weight_decay=settings["weight_decay"],
        )  # fmt: skip
        ahead = Lookahead(params.values(), settings["lookahead_alpha"], settings["lookahead_k"])
        for t in range(meta["steps"]):
            for x, p in params.items():
                p.grad = torch.from_numpy(given[f"gradient/{x}"][t].copy())
            lamb.param_groups[0]["lr"] = float(given[f"run_{run}/lr"][t])
            lamb.step()
            ahead.after(t + 1)
            for x, p in params.items():
                assert_same(p, given[f"run_{run}/weight/{x}"][t])
                for key in ("exp_avg", "exp_avg_sq"):
                    assert_same(lamb.state[p][key], given[f"run_{run}/{key}/{x}"][t])


def test_schedules_are_the_official_curves():
    given = case("npt_optim_schedules")
    names = {"flat_and_anneal": "flat-cosine", "cosine_cyclic": "cosine-cyclic"}
    for curve, facts in given.meta["curves"].items():
        kind, name, _ = curve.split("/")
        steps = facts["total_steps"]
        if kind == "lr":
            ours_name = names.get(name, "polynomial")
            made = [
                rate(ours_name, s, steps, facts["lr"], facts["proportion"])
                for s in range(steps + 1)
            ]
        else:
            ours_name = name.removesuffix("_decline")
            made = [
                tradeoff(ours_name, s, steps, facts["start"], facts["annealing_proportion"])
                for s in range(steps + 1)
            ]
        assert_same(np.array(made), given[curve], 1e-12)


# -- encoding -------------------------------------------------------------------------------------

ENCODED = names("npt_encode_classification", "npt_encode_mixed_*")


def frame_of(given):
    """The raw columns in file order: numbers, and categories that sort as they do officially."""
    columns = {}
    for j in range(given.meta["d"]):
        raw = pd.Series(given[f"raw/{j}"])
        if j in given.meta["cat_columns"]:
            if raw.dtype.kind == "f" and given[f"categories/{j}"].dtype.kind == "U":
                raw = raw.map(str)  # a number-coded column with gaps becomes text there
            raw = raw.astype(object).where(~given["missing"][:, j], None)
            raw = pd.Series(pd.Categorical(raw), name=raw.name)
        columns[str(j)] = raw
    return pd.DataFrame(columns)


@each("name", ENCODED)
def test_a_table_is_encoded_as_officially(name):
    given = case(name)
    frame, target = frame_of(given), str(given.meta["target_columns"][0])
    features = frame.drop(columns=target)
    labels = frame[target].to_numpy()
    task = "regression" if frame[target].dtype.kind == "f" else "multiclass"
    parts = [given[f"rows/{part}"] for part in ("train", "val", "test")]
    train, val, test = (features.iloc[rows] for rows in parts)
    model = NPT(task=task, transductive=given.meta["semi_supervised"])
    with model._others(val, test):
        _, encoded_target = model._prepare(train, labels[parts[0]])
    order = given["order"]
    y = pd.Series(labels[order])
    if task == "regression":
        y = (y.to_numpy(float) - model._target_mean) / model._target_scale
        assert np.array_equal(y[: len(train)], encoded_target)
    else:
        y = pd.Index(model.classes_).get_indexer(y.astype(object))
    columns = model.columns()
    made = model.preprocessor_
    exact = cells_of(
        np.column_stack([made.transform(features.iloc[order]), y]), columns, torch.double
    )
    names = [*made.numeric_names_, *made.category_names_, target]
    assert sorted(names) == sorted(frame.columns)
    facts = dict(zip(made.numeric_names_, zip(made._centre, made._scale, strict=True), strict=True))
    levels = {
        n: [str(v) for v in c.index]
        for n, c in zip(made.category_names_, made._categories, strict=True)
    }
    if task == "regression":
        facts[target] = model._target_mean, model._target_scale
    else:
        levels[target] = [str(v) for v in model.classes_]
    for official in names:
        found = [given[f"{kind}"][int(official)] for kind in ("raw/mean", "raw/std", "sigmas")]
        if official in facts:
            mean, std = facts[official]
            assert_same(np.array([mean, std, std]), np.array(found))
        else:
            assert np.isnan(found[:2]).all() and found[2] == -1.0
            assert levels[official] == [str(v) for v in given[f"categories/{official}"]]
    for at, official in enumerate(names):
        wanted = given[f"encoded/{official}"]
        assert columns.sizes[at] == wanted.shape[1] - 1
        assert np.array_equal(exact.hidden[:, at].numpy(), wanted[:, -1] == 1)
        assert np.array_equal(exact.hidden[:, at].numpy(), given["missing"][order, int(official)])
        seen = ~exact.hidden[:, at].numpy()
        if columns.categorical[at]:
            codes = exact.codes[:, columns.categories_at.index(at)].numpy()
            assert np.array_equal(codes[seen], wanted[seen, :-1].argmax(axis=1))
        else:
            values = exact.values[:, columns.numeric_at.index(at)]
            assert_same(values.numpy()[seen], wanted[seen, 0])


def test_statistics_of_features_come_from_all_rows_or_from_training_rows_as_the_fit_sees_them():
    by_all, by_train = (
        case("npt_encode_mixed_semi_supervised"),
        case("npt_encode_mixed_train_statistics"),
    )
    for given, rows in ((by_all, "order"), (by_train, "rows/train")):
        for j in given.meta["num_columns"]:
            target = j in given.meta["target_columns"]
            raw = given[f"raw/{j}"][given["rows/train" if target else rows]]
            assert_same(np.nanstd(raw), given["raw/std"][j])  # over n, not n - 1


def test_ten_folds_are_the_official_ones():
    """The protocol `kfold` and the authors' split routine draw the very same rows, before their
    re-ordering of the table, which ours leaves out."""
    given = case("npt_encode_splits")
    for name, meta in given.meta["tables"].items():
        n = meta["n"]
        labels = given[f"{name}/labels"] if meta["stratified"] else np.arange(n, dtype=float)
        task = "binary" if meta["stratified"] else "regression"
        stand_in = SimpleNamespace(n_rows=n, task=task, target=labels, name=name, masks=None)
        folds = make_folds(stand_in, "kfold", seed=given.meta["seed"])
        assert len(folds) == meta["folds"]
        for i, fold in enumerate(folds):
            for part in ("train", "val", "test"):
                theirs = np.sort(given[f"{name}/fold{i}/{part}"])
                assert np.array_equal(getattr(fold, part), theirs)
