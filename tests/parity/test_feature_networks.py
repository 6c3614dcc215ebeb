"""Networks of single rows against RTDL's, with its weights.

Files and names: the folder that TABSWEEP_PARITY names. Everything is float64, the tolerance 1e-9.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import torch
from looped import each
from parity import assert_same, case, difference, names
from tabsweep.models import dcn_v2, grownet, mlp, resnet, snn
from tabsweep.models.policy import Policy
from tabsweep.models.preprocessing import Preprocessor
from tabsweep.models.registry import make_model
from torch.nn import functional as F

DEEP = Policy("quantile", "ordinal", "impute", "standard")


def loaded(module, given, rename=str):
    """The module with the official weights, in evaluation mode and float64.

    Ours has a row more for each categorical column; such rows are NaN, so that none is read.
    """
    state, own = {}, module.double().state_dict()
    for kind in ("param/", "buffer/"):
        for name, value in given.under(kind).items():
            if name in ("category_offsets", "category_embeddings.weight"):
                continue
            state[rename(name)] = torch.from_numpy(value)
    if "param/category_embeddings.weight" in given:
        table = torch.full_like(own["input.categories.weight"], torch.nan)
        theirs = given.tensor("param/category_embeddings.weight")
        ends = [0, *np.cumsum(given.meta["categories"])]
        assert list(given["buffer/category_offsets"]) == ends[:-1]
        for j, (a, b) in enumerate(pairwise(ends)):
            table[a + j : b + j] = theirs[a:b]
        state["input.categories.weight"] = table
    for name in set(own) - set(state):  # counters, and GrowNet's start and number of learners
        assert own[name].dim() == 0
        state[name] = own[name]
    unused = {n for n in set(state) - set(own) if n.startswith("models.0.bn2.")}
    module.load_state_dict({n: t for n, t in state.items() if n not in unused})
    return module.eval()


def rows_of(given):
    numbers = given.tensor("in/x_num")
    if "in/x_cat" in given:
        return numbers, given.tensor("in/x_cat")
    return numbers, torch.zeros((len(numbers), 0), dtype=torch.int64)


def shape_of(given, d_in):
    """What every network is told: columns and outputs."""
    meta = given.meta
    return {"n_numeric": meta[d_in], "sizes": meta["categories"] or [], "n_out": meta["d_out"]}


@each("name", names("rtdl_mlp_*", "rtdl_snn_*"))
def test_outputs_of_mlp_and_snn_are_the_official_ones(name):
    given = case(name)
    meta, mlp_or_snn = given.meta, mlp.MLPNetwork if "mlp" in name else snn.SNNNetwork
    module = mlp_or_snn(
        **shape_of(given, "d_in"),
        width=meta["d_embedding"],
        widths=meta["d_layers"],
        p=meta["dropout"],
    )
    loaded(module, given)
    assert_same(module(*rows_of(given)), given["out/logits"])


@each("name", names("rtdl_resnet_*"))
def test_outputs_of_resnet_are_the_official_ones(name):
    given = case(name)
    meta = given.meta
    module = resnet.ResNetNetwork(
        **shape_of(given, "d_numerical"),
        embedding=meta["d_embedding"],
        n_layers=meta["n_layers"],
        width=meta["d"],
        hidden=int(meta["d"] * meta["d_hidden_factor"]),
        p_hidden=meta["hidden_dropout"],
        p_residual=meta["residual_dropout"],
    )
    loaded(module, given)
    assert_same(module(*rows_of(given)), given["out/logits"])


def test_resnet_of_the_synthetic_study_has_the_published_size():
    module = resnet.ResNetNetwork(
        n_numeric=100, sizes=[], embedding=1, n_layers=4, width=256, hidden=384, n_out=1,
        p_hidden=0.5, p_residual=0.0,
    )  # fmt: skip
    assert sum(p.numel() for p in module.parameters()) == 817_665


@each("name", names("rtdl_dcn2_*"))
def test_outputs_of_dcn_are_the_official_ones(name):
    given = case(name)
    meta = given.meta

    def rename(name):  # there: cross_layers.1.linear.weight, deep_layers.3.weight
        if name.startswith("deep_layers."):
            _, at, kind = name.split(".")
            return f"deep_layers.{int(at) // 3}.{kind}"
        return name.replace(".linear.", ".")

    module = dcn_v2.DCNV2Network(
        **shape_of(given, "d_in"),
        embedding=meta["d_embedding"],
        width=meta["d"],
        n_cross=meta["n_cross_layers"],
        n_deep=meta["n_hidden_layers"],
        p_cross=meta["cross_dropout"],
        p_deep=meta["hidden_dropout"],
        stacked=meta["stacked"],
    )
    loaded(module, given, rename)
    assert_same(module(*rows_of(given)), given["out/logits"])


# -- GrowNet --------------------------------------------------------------------------------------


def boosted(given):
    meta = given.meta
    module = grownet.GrowNetNetwork(
        n_numeric=meta["n_num"],
        sizes=meta["categories"] or [],
        embedding=meta["d_embedding"] or 1,
        hidden=meta["hidden_d"],
        n_learners=meta["n_learners"],
    )
    loaded(module, given)
    module.start.fill_(meta["c0"])
    module.boost_rate.data.fill_(meta["boost_rate"])
    module.grown.fill_(meta["n_learners"])
    return module


@each("name", names("rtdl_grownet_*"))
def test_learners_and_their_sums_are_the_official_ones(name):
    given = case(name)
    module, rows = boosted(given), rows_of(given)
    x = module.input(*rows)
    for s in range(len(module.models)):
        assert_same(module.partial(x, s + 1)[1], given[f"out/partial_{s + 1}"])
    assert_same(module(*rows), given["out/logits"])


class Last:
    """Stands for a task at the stage of the last learner."""

    def __init__(self, module, task) -> None:
        self.module, self.settings = module, make_model("grownet", task=task)


def test_the_target_of_a_stage_is_the_newton_step_of_labels_minus_one_and_one():
    given = case("rtdl_grownet_binary")
    module, n = boosted(given), given.meta["n_learners"]
    total = given.tensor(f"out/partial_{n - 1}")
    labels = given.tensor("in/y_pm1").double()
    step, weight = grownet.newton_step(total, labels)
    assert_same(step, given["stage/pm1_direction"])
    assert_same(weight, given["stage/pm1_weight"])
    targets = given.tensor("in/y_01")
    assert torch.equal(2 * targets - 1, given.tensor("in/y_pm1"))
    loss = grownet.GrowTask.stage_loss(Last(module, "binary"), *rows_of(given), targets, n - 1)
    assert_same(loss, given["stage/pm1_loss"])
    # and it is -g / h of the log loss, by automatic differentiation
    at = total.clone().requires_grad_()
    lost = F.binary_cross_entropy_with_logits(at, targets.double(), reduction="sum")
    (g,) = torch.autograd.grad(lost, at, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), at)
    assert_same(step, -(g / h).detach().numpy())
    assert_same(weight, h.detach().numpy())


def test_labels_zero_and_one_give_other_targets_and_nothing_pulls_a_zero_down():
    given = case("rtdl_grownet_binary")
    n, zeros = given.meta["n_learners"], given["in/y_01"] == 0
    total = given.tensor(f"out/partial_{n - 1}")
    step, weight = grownet.newton_step(total, given.tensor("in/y_01").double())
    assert_same(step, given["stage/01_direction"])  # the defect, if we fed the formulas so
    assert_same(weight, given["stage/01_weight"])
    assert zeros.any() and not given["stage/01_direction"][zeros].any()
    assert (given["stage/01_weight"][zeros] == 0.25).all()
    assert (given["stage/pm1_direction"][zeros] < -1).all()
    assert difference(given["stage/01_loss"], given["stage/pm1_loss"]) > 0.01


# -- weight decay ---------------------------------------------------------------------------------


@each("name", ["mlp", "resnet", "snn", "dcn-v2"])
def test_one_group_holds_all_parameters_and_all_are_decayed(name):
    model = make_model(name, task="binary", weight_decay=0.25)
    x, y = model._prepare(pd.DataFrame({"a": range(9), "c": list("pqrpqrpqr")}), np.arange(9) % 2)
    task = model._task((x, y), None)
    (group,) = task.optimiser().param_groups
    assert {id(p) for p in group["params"]} == {id(p) for p in task.module.parameters()}
    assert group["weight_decay"] == 0.25 and group["params"]


# -- preprocessing --------------------------------------------------------------------------------


def columns(array):
    return pd.DataFrame({f"c{j}": array[:, j] for j in range(array.shape[1])})


def kinds(given):
    """(plain, constant, gaps): the columns of the training rows of each kind, each there."""
    train = given["in/train"]
    gaps, constant = np.isnan(train).any(axis=0), np.nanstd(train, axis=0) == 0
    found = [np.flatnonzero(at) for at in (~gaps & ~constant, constant, gaps)]
    assert all(len(at) for at in found)
    return found


def test_gaps_get_the_training_mean():
    given = case("rtdl_preprocessing_numeric")
    made = Preprocessor(Policy("none", "ordinal", "impute")).fit(columns(given["in/train"]))
    for part in ("train", "val", "test"):
        found, gaps = made.transform(columns(given[f"in/{part}"])), kinds(given)[2]
        n = given["in/train"].shape[1]
        assert_same(found[:, :n], given[f"imputed/{part}"])
        # DIFF: further columns say where the gaps were
        assert np.array_equal(found[:, n:], np.isnan(given[f"in/{part}"][:, gaps]))


def test_standardised_columns_are_the_official_ones():
    given = case("rtdl_preprocessing_numeric")
    made = Preprocessor(Policy("standard", "ordinal", "impute")).fit(columns(given["in/train"]))
    plain, constant, gaps = kinds(given)
    same = [*plain, *constant]
    for part in ("train", "val", "test"):
        found = made.transform(columns(given[f"in/{part}"]))
        assert_same(found[:, same], given[f"standard/{part}"][:, same])
        # DIFF: where a column has gaps, the deviation is that of the values there are
        there = np.nanstd(given["in/train"][:, gaps], axis=0)
        ratio = there / np.std(given["imputed/train"][:, gaps], axis=0)
        assert (ratio > 1).all()
        assert_same(found[:, gaps] * ratio, given[f"standard/{part}"][:, gaps])


def quantiles(given, seed):
    return Preprocessor(DEEP, seed=int(seed)).fit(columns(given["in/train"]))


def test_quantile_columns_are_the_official_ones():
    given = case("rtdl_preprocessing_numeric")
    for seed in given["in/seeds"]:
        made = quantiles(given, seed)
        assert_same(made._quantile.references_, given[f"quantile_seed{seed}/references"])
        same, _, gaps = kinds(given)
        theirs = given[f"quantile_seed{seed}/quantiles"]
        assert_same(made._quantile.quantiles_[:, same], theirs[:, same])
        for part in ("train", "val", "test"):
            found, wanted = made.transform(columns(given[f"in/{part}"])), f"quantile_seed{seed}/"
            assert_same(found[:, same], given[wanted + part][:, same])
            # the noise of a column with gaps is that of its observed deviation
            assert np.abs(found[:, gaps] - given[wanted + part][:, gaps]).max() < 0.05


def test_the_noise_is_the_official_one():
    """A thousandth over a column's deviation, at most one, times normal numbers of the seed."""
    given = case("rtdl_preprocessing_numeric")
    same, constant, _ = kinds(given)
    assert (given["noise/scale"][0, constant] == 1.0).all()
    for seed in given["in/seeds"]:
        noise = given["noise/scale"] * given[f"noise/standard_normal_seed{seed}"]
        made = quantiles(given, seed)._quantile
        noisy = np.percentile(given["imputed/train"] + noise, made.references_ * 100, axis=0)
        assert_same(made.quantiles_[:, same], noisy[:, same])


def test_columns_of_single_precision_are_mapped_nearly_alike():
    """There the noisy copy is rounded to float32 before the fit; ours keeps float64."""
    given = case("rtdl_preprocessing_numeric")
    train, val = (columns(given[f"in/{part}"].astype(np.float32)) for part in ("train", "val"))
    found = Preprocessor(DEEP, seed=int(given["in/seeds"][0])).fit(train).transform(val)
    same = kinds(given)[0]
    assert_same(found[:, same], given["quantile_float32_input/val"][:, same], 1e-5)


def test_a_constant_column_is_zero_and_no_number_drawn_by_the_seed():
    given = case("rtdl_preprocessing_numeric")
    constant, drawn = kinds(given)[1], set()
    for seed in given["in/seeds"]:
        made = quantiles(given, seed)
        assert not made.transform(columns(given["in/train"]))[:, constant].any()
        theirs = given[f"quantile_seed{seed}/train"][:, constant]
        assert (np.ptp(theirs, axis=0) == 0).all() and theirs.all()
        drawn.add(theirs.tobytes())
    assert len(drawn) == len(given["in/seeds"])


def test_targets_are_standardised_as_officially():
    given = case("rtdl_preprocessing_numeric")
    model = make_model("resnet", task="regression")
    assert_same(
        model._encode_target(given["in/y_train"], len(given["in/y_train"])), given["target/y_train"]
    )
    assert_same(model._target_mean, given["target/mean"])
    assert_same(model._target_scale, given["target/std"])
    for part in ("val", "test"):
        y = (given[f"in/y_{part}"] - model._target_mean) / model._target_scale
        assert_same(y, given[f"target/y_{part}"])


def texts(array):
    """Columns of texts, where the text nan is a gap."""
    frame = pd.DataFrame(array.astype(object))
    return frame.where(frame != "nan", None)


def test_codes_of_categories_are_the_official_ones():
    given = case("rtdl_preprocessing_categorical")
    made = Preprocessor(DEEP).fit(texts(given["in/train"]))
    assert made.cardinalities_ == list(given["out/cardinalities_from_train"])
    for part in ("train", "val", "test"):
        assert np.array_equal(made.transform(texts(given[f"in/{part}"])), given[f"out/{part}"])


def test_a_level_that_training_lacks_has_a_row_of_its_own_where_officially_it_has_none():
    given = case("rtdl_preprocessing_categorical")
    sizes = given["out/cardinalities_from_train"]
    unseen = np.vstack([given["out/val"], given["out/test"]]).max(axis=0)
    assert np.array_equal(unseen, sizes)  # one beyond the last row of each column's own
    offsets = np.r_[0, np.cumsum(sizes)]
    assert (unseen + offsets[:-1])[-1] == offsets[-1]  # the last column's: beyond the table
    table = mlp.MLPNetwork(n_numeric=0, sizes=sizes.tolist(), width=2, widths=[2], n_out=1, p=0.0)
    vectors = table.input.categories(torch.from_numpy(unseen)[None])[0]
    rows = table.input.categories.weight
    assert len(rows) == sizes.sum() + len(sizes)
    for j, start in enumerate(table.input.categories.offsets.tolist()):
        assert torch.equal(vectors[j], rows[start + sizes[j]])
        assert not (rows[start : start + sizes[j]] == vectors[j]).all(dim=1).any()


def test_a_gap_is_the_last_level_here_and_sorted_among_the_texts_officially():
    made = Preprocessor(DEEP).fit(pd.DataFrame({"c": ["B", "x", None, "x"]}))
    assert made.transform(pd.DataFrame({"c": ["B", "x", None]}))[:, 0].tolist() == [0, 1, 2]
    assert sorted(["B", "x", "___null___"]) == ["B", "___null___", "x"]  # there: 0, 2, 1
