"""Hopular against the authors' code, with its weights.

Files and names: the folder that TABSWEEP_PARITY names. Everything is float64 and the tolerance
1e-9, except the encoding, which is float32 in the authors' code: 2e-6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from looped import each
from parity import assert_same, case, difference, names
from tabsweep.models.deep.cells import Cells, Columns
from tabsweep.models.deep.optimisers import Average, Lamb
from tabsweep.models.hopular.estimator import Hopular
from tabsweep.models.hopular.masking import column_losses, mean_loss
from tabsweep.models.hopular.network import HopularNetwork
from tabsweep.models.hopular.schedules import gamma, rate
from tabsweep.models.hopular.task import HopularTask, ask

SAMPLES = "sample_sample_associations"
FEATURES = "feature_feature_associations"
CORE = "hopfield_lookup.association_core"
SIDES = {"samples": ("sample_norm", SAMPLES), "features": ("feature_norm", FEATURES)}


def columns_of(meta: Mapping[str, Any]) -> Columns:
    """The columns of a case, from its `meta`."""
    categorical = tuple(j in meta["discrete_columns"] for j in range(meta["d"]))
    return Columns(tuple(meta["sizes"]), categorical, tuple(meta["target_columns"]))


def ours(get: Any, n_blocks: int, columns: Columns) -> dict[str, torch.Tensor]:
    """Tensors of the official network by our names; `get` gives one by its official name."""
    d = range(columns.n)
    first, second = "embeddings.feature_embeddings", "embeddings.feature_projections"
    state = {
        "embedding.weight": torch.cat([get(f"{first}.{j}.0.weight").t() for j in d]),
        "embedding.bias": torch.stack([get(f"{first}.{j}.0.bias") for j in d]),
        "embedding.kind": get("embeddings.feature_type_embeddings.weight"),
        "embedding.index": get("embeddings.feature_position_embeddings.weight"),
        "embedding.gain": torch.stack([get(f"{second}.{j}.2.weight") for j in d]),
        "embedding.shift": torch.stack([get(f"{second}.{j}.2.bias") for j in d]),
        "embedding.second": torch.stack([get(f"{second}.{j}.3.weight").t() for j in d]),
        "embedding.second_bias": torch.stack([get(f"{second}.{j}.3.bias") for j in d]),
        "summary.gain": get("summarizations.feature_summarizations.2.weight"),
        "summary.shift": get("summarizations.feature_summarizations.2.bias"),
        "summary.weight": get("summarizations.feature_summarizations.3.weight"),
        "summary.bias": get("summarizations.feature_summarizations.3.bias"),
    }
    for b in range(n_blocks):
        for side, (norm, core) in SIDES.items():
            here, there = f"blocks.{b}.{side}", f"hopular_blocks.{b}.{core}.{CORE}"
            for kind in ("weight", "bias"):
                state[f"{here}.norm.{kind}"] = get(f"hopular_blocks.{b}.{norm}.{kind}")
                state[f"{here}.out.{kind}"] = get(f"{there}.out_proj.{kind}")
            state[f"{here}.bias"] = get(f"{there}.in_proj_bias")
            for name, official in (("query", "q"), ("key", "k"), ("value", "v")):
                state[f"{here}.{name}.weight"] = get(f"{there}.{official}_proj_weight")
    return state


def network(case: Any, **given: Any) -> HopularNetwork:
    """Our network in float64 with a case's weights, without dropout."""
    meta, columns = case.meta, columns_of(case.meta)
    module = HopularNetwork(
        columns,
        width=meta["e"],
        n_blocks=meta["blocks"],
        n_nets=meta["M"],
        scaling=meta["scaling"],
        p_input=0.0,
        p_hopfield=0.0,
        p_output=0.0,
        **given,
    ).double()
    params = case.under("param/")
    state = ours(lambda name: torch.from_numpy(params[name]), meta["blocks"], columns)
    module.load_state_dict(state)
    return module.eval()


def cells_from(
    encoded: np.ndarray, columns: Columns, missing: np.ndarray | None = None
) -> tuple[Cells, torch.Tensor]:
    """(cells, flags) from official rows (n, S + d): of each column the channels, then its flag.
    Cells that are 0 in all channels are hidden, as those that are `missing`."""
    n, at = len(encoded), np.cumsum([0, *(s + 1 for s in columns.sizes)])
    values = np.zeros((n, len(columns.numeric_at)))
    codes = np.zeros((n, len(columns.categories_at)), dtype=np.int64)
    flags = encoded[:, at[1:] - 1] == 1
    hidden = flags.copy() if missing is None else flags | missing
    for i, j in enumerate(columns.numeric_at):
        values[:, i] = encoded[:, at[j]]
    for i, j in enumerate(columns.categories_at):
        channels = encoded[:, at[j] : at[j + 1] - 1]
        codes[:, i] = channels.argmax(axis=1)
        hidden[:, j] |= ~channels.any(axis=1)
    cells = Cells(torch.from_numpy(values), torch.from_numpy(codes), torch.from_numpy(hidden))
    return cells, torch.from_numpy(flags)


def encoded_from(cells: Cells, flags: torch.Tensor, columns: Columns) -> np.ndarray:
    """Official rows (n, S + d) from cells and flags: what `cells_from` undoes."""
    parts = []
    for j, size in enumerate(columns.sizes):
        if columns.categorical[j]:
            codes = cells.codes[:, columns.categories_at.index(j)]
            channels = torch.nn.functional.one_hot(codes, size).to(cells.values.dtype)
        else:
            channels = cells.values[:, columns.numeric_at.index(j)][:, None]
        parts += [channels.masked_fill(cells.hidden[:, j, None], 0.0), flags[:, j, None]]
    return torch.cat(parts, dim=1).numpy()


def official(decoded: Any, columns: Columns) -> torch.Tensor:  # (n, S)
    """Outputs as the official network gives them: columns side by side."""
    parts = []
    for j, size in enumerate(columns.sizes):
        found = decoded.of(j)
        parts.append(found[:, :size] if columns.categorical[j] else found[:, None])
    return torch.cat(parts, dim=1)


FORWARD = names("hopular_forward_*")
LOSSES = names("hopular_loss_*")
ENCODED = names("hopular_encode_*")


def own_rows(given, n: int) -> torch.Tensor | None:
    """(n,) the position in memory of each training query's own row, -1 for none."""
    forbidden = given["train/forbidden"]
    assert np.array_equal(forbidden, given["train/ids"][:, None] == given["memory_ids"])
    assert (forbidden.sum(axis=1) <= 1).all() and forbidden.shape[0] == n
    return torch.from_numpy(np.where(forbidden.any(axis=1), forbidden.argmax(axis=1), -1))


@each("mode", ["train", "eval"])
@each("name", FORWARD)
def test_outputs_and_associations_are_the_official_ones(name, mode):
    given = case(name)
    module, columns = network(given), columns_of(given.meta)
    assert sum(p.numel() for p in module.parameters()) == given.meta["parameters"]
    rows, flags = cells_from(given["memory"], columns)
    assert not flags.any()
    memory = module.store(rows)
    cells, flags = cells_from(given[f"{mode}/in"], columns)
    own = own_rows(given, len(cells)) if mode == "train" else None
    state = module(cells, flags, memory, forbidden=own)
    assert_same(official(module.decode(state), columns), given[f"{mode}/out"])
    if mode == "eval":
        samples, features = module.maps(cells, flags, memory)[0]
        assert_same(samples, given["eval/assoc_s"])
        assert_same(features, given["eval/assoc_f"])
        alone = module(cells, flags, memory, alone=True)
        assert_same(official(module.decode(alone), columns), given["eval/out"])


@each("name", LOSSES)
def test_losses_and_gradients_are_the_official_ones(name):
    given = case(name)
    meta, columns = given.meta, columns_of(given.meta)
    module = network(given)
    truth, _ = cells_from(with_flags(given["train/true"], columns), columns)
    truth.hidden[:] = given.tensor("train/missing")
    cells, flags = cells_from(given["train/in"], columns, given["train/missing"])
    chosen = given.tensor("train/selected") & ~given.tensor("train/missing")
    memory = module.store(cells_from(given["memory"], columns)[0])
    state = module(cells, flags, memory, forbidden=given.tensor("train/ids"))
    decoded = module.decode(state)
    assert_same(official(decoded, columns), given["train/out"])
    is_target = torch.zeros(columns.n, dtype=torch.bool)
    is_target[list(columns.targets)] = True
    losses, counted = column_losses(decoded, truth, columns, chosen)
    found = {}
    for kind, which in (("feature", ~is_target), ("target", is_target)):
        found[kind], n = mean_loss(losses, counted, which)
        assert int(n) == int(given[f"train/{kind}_count"])
        assert_same(found[kind], given[f"train/{kind}_loss"])
    total = meta["gamma"] * found["feature"] + (1 - meta["gamma"]) * found["target"]
    assert_same(total, given["train/total_loss"])
    total.backward()
    grads = {n: p.grad for n, p in module.named_parameters()}
    square = sum(float((g**2).sum()) for g in grads.values())
    assert_same(np.sqrt(square), given["grad_norm_all"])
    theirs = given.under("grad/")
    assert sorted(theirs) == sorted(meta["gradients"])
    checked = set()

    def get(official_name):
        like = torch.from_numpy(np.array(given[f"param/{official_name}"]))
        if official_name not in theirs:
            return torch.full_like(like, torch.nan)
        checked.add(official_name)
        return torch.from_numpy(theirs[official_name])

    for name_, expected in ours(get, meta["blocks"], columns).items():
        known = ~torch.isnan(expected)
        assert_same(grads[name_][known], expected[known])
    assert checked == set(theirs)


@each("name", LOSSES)
def test_validation_scores_are_the_official_ones(name):
    given = case(name)
    columns = columns_of(given.meta)
    module = network(given)
    rows = cells_from(given["memory"], columns)[0]
    encoded, missing = with_flags(given["eval/true"], columns), given["eval/missing"]
    shown = encoded.copy()  # of a row to validate all is shown but the targets
    is_target = np.repeat(np.isin(range(columns.n), columns.targets), np.add(columns.sizes, 1))
    shown[:, is_target] = 0.0
    shown[:, np.cumsum(np.add(columns.sizes, 1)) - 1] = given["eval/selected"]
    shown[np.repeat(missing, np.add(columns.sizes, 1), axis=1)] = 0.0
    assert_same(shown, given["eval/in"])
    assert given["eval/selected"][:, list(columns.targets)].all()
    assert given["eval/selected"].sum() == len(shown) and given["eval/feature_count"] == 0
    val, _ = cells_from(encoded, columns, missing)
    target = columns.targets[0]
    scale = 1.0 if columns.categorical[target] else float(given["raw/std"][target])
    task = HopularTask(module, rows, val, Hopular(task="regression"), scale)
    with torch.no_grad():
        decoded = ask(module, module.store(rows), val)
        validated = task.val_loss()
        losses, counted = column_losses(decoded, val, columns, ~val.hidden)
    theirs = given["eval/out"][:, np.sum(columns.sizes[:target], dtype=int) :]
    if columns.categorical[target]:
        assert_same(decoded.of(target), theirs[:, : columns.sizes[target]])
        loss, n = mean_loss(losses, counted, torch.ones_like(counted))
        assert int(n) == 1
        assert_same(loss, given["eval/loss"])
        assert difference(1 - validated, given["eval/accuracy"]) < 1e-7
    else:
        assert_same(decoded.of(target), theirs[:, 0])
        assert_same(validated, given["eval/loss"])
        assert given["eval/accuracy"] == 0.0  # there is none


@each("name", LOSSES)
def test_memory_and_batch_hold_the_standardised_rows_of_the_table(name):
    given = case(name)
    columns = columns_of(given.meta)
    mean, std = given["raw/mean"], given["raw/std"]
    numeric = np.array([not c for c in columns.categorical])
    assert np.isnan(mean[~numeric]).all() and np.isnan(std[~numeric]).all()
    spread = [np.repeat(np.where(numeric, v, k), columns.sizes) for v, k in ((mean, 0), (std, 1))]
    rows = (given["raw/rows"] - spread[0]) / spread[1]
    missing = given["missing"]
    rows[np.repeat(missing, columns.sizes, axis=1)] = 0.0
    n = len(given["memory"])
    assert np.array_equal(given["memory_ids"], range(n))
    assert_same(with_flags(rows[:n], columns), given["memory"])
    parts = {"train": given["train/ids"], "eval": np.arange(n, len(rows))}
    for part, at in parts.items():
        assert np.array_equal(missing[at], given[f"{part}/missing"])
        there = ~np.repeat(missing[at], columns.sizes, axis=1)
        assert_same(rows[at][there], given[f"{part}/true"][there])


def with_flags(rows: np.ndarray, columns: Columns) -> np.ndarray:
    """Official rows (n, S) with a flag of 0 behind the channels of each column."""
    return np.insert(rows, np.cumsum(columns.sizes), 0.0, axis=1)


# -- encoding -------------------------------------------------------------------------------------


def table_of(given) -> tuple[pd.DataFrame, np.ndarray]:
    """(features, target) of an encode file, in the official order of columns."""
    meta = given.meta
    (target,) = meta["target_columns"]
    columns = {}
    for j in range(meta["d"]):
        values, missing = given[f"raw/{j}"], given["missing"][:, j]
        if j in meta["discrete_columns"]:
            values = pd.Categorical(np.where(missing, None, values.astype(object)))
        columns[f"x{j}"] = values
    y = np.asarray(columns.pop(f"x{target}"))
    return pd.DataFrame(columns), y


@each("name", ENCODED)
def test_rows_are_encoded_as_the_official_ones(name):
    given = case(name)
    theirs, (target,) = columns_of(given.meta), given.meta["target_columns"]
    frame, y = table_of(given)
    parts = {p: given[f"rows/{p}"] for p in ("train", "val", "test")}
    regression = not theirs.categorical[target]
    model = Hopular(task="regression" if regression else "multiclass")
    x, encoded_y = model._prepare(frame.iloc[parts["train"]], y[parts["train"]])
    columns = model.columns()
    names = [*model.preprocessor_.numeric_names_, *model.preprocessor_.category_names_]
    place = {j: i for i, j in enumerate([*(int(n[1:]) for n in names), target])}
    # our order of columns, and the levels that the training rows hold
    levels = {
        j: [list(given[f"categories/{j}"]).index(v) for v in kept]
        for j, kept in kept_levels(model, names, target, regression).items()
    }
    gaps = official_gaps(given)
    for part, rows in parts.items():
        if part == "train":
            cells = model.cells(x, encoded_y)
        else:
            cells = model.cells(model.preprocessor_.transform(frame.iloc[rows]))
        flags = torch.zeros_like(cells.hidden)
        for key in ("memory", f"{part}/in") if part == "train" else (f"{part}/in",):
            if key != "memory":
                flags[:, place[target]] = True
                cells.hidden[:, place[target]] = True
            made = encoded_from(cells, flags, columns)
            expected, at = in_our_order(given[key], theirs, columns, place, levels)
            same = ~np.isin(at, [place[j] for j in gaps])
            assert_same(made[:, same], expected[:, same], 2e-6)
            if gaps and name.endswith("missing_numeric"):
                assert difference(made, expected) > 1e-3
        # the truth of a part: its targets alone are asked for, its cells are those of its rows
        (select,) = np.unique(given[f"{part}/selected"], axis=0)
        assert np.array_equal(np.flatnonzero(select), [target])
        assert np.array_equal(given[f"{part}/missing"], given["missing"][rows])
        true = with_flags(given[f"{part}/true"], theirs)
        expected, at = in_our_order(true, theirs, columns, place, levels)
        if regression:
            targets = (y[rows] - model._target_mean) / model._target_scale
        else:
            targets = pd.Index(model.classes_).get_indexer(y[rows])
        cells = model.cells(model.preprocessor_.transform(frame.iloc[rows]), targets)
        made = encoded_from(cells, torch.zeros_like(cells.hidden), columns)
        seen = ~cells.hidden.numpy()[:, at] & ~np.isin(at, [place[j] for j in gaps])
        assert_same(made[seen], expected[seen], 2e-6)


def kept_levels(model, names, target, regression):
    """{official column: levels of the training rows, in our order}."""
    made = model.preprocessor_
    found = {
        int(n[1:]): list(c.index)
        for n, c in zip(made.category_names_, made._categories, strict=True)
    }
    return found if regression else {**found, target: list(model.classes_)}


def official_gaps(given) -> list[int]:
    """Numeric columns whose official statistics count a missing training cell as 0."""
    missing = given["missing"][given["rows/train"]]
    return [j for j in given.meta["numeric_columns"] if missing[:, j].any()]


def in_our_order(rows, theirs, columns, place, levels):
    """(official rows with our order of columns and levels, our column of each entry)."""
    starts = np.cumsum([0, *(s + 1 for s in theirs.sizes)])
    found, at = [], []
    for j, i in sorted(place.items(), key=lambda item: item[1]):
        channels = rows[:, starts[j] : starts[j + 1]]
        kept = levels.get(j, [0])
        assert len(kept) == columns.sizes[i]
        found.append(channels[:, [*kept, -1]])
        at += [i] * (len(kept) + 1)
    return np.concatenate(found, axis=1), np.array(at)


@each("name", ENCODED)
def test_the_unbiased_spread_of_the_training_rows_is_used(name):
    given = case(name)
    frame, y = table_of(given)
    train = given["rows/train"]
    numeric = given.meta["numeric_columns"]
    (target,) = given.meta["target_columns"]
    regression = target in numeric
    model = Hopular(task="regression" if regression else "multiclass")
    model._prepare(frame.iloc[train], y[train])
    made = model.preprocessor_
    facts = zip(made.numeric_names_, made._centre, made._scale, strict=True)
    found = {int(name[1:]): np.array([mean, std]) for name, mean, std in facts}
    if regression:
        found[target] = np.array([model._target_mean, model._target_scale])
    gaps = official_gaps(given)
    assert sorted(found) == sorted(numeric)
    for j, statistics in found.items():
        theirs = np.array([given["raw/mean"][j], given["raw/std"][j]])
        assert (difference(statistics, theirs) < 1e-5) == (j not in gaps)


# -- optimisation ---------------------------------------------------------------------------------


def test_clipping_lamb_and_the_average_take_the_official_steps():
    given = case("hopular_optim_lamb_ema")
    meta = given.meta
    for run, settings in meta["runs"].items():
        params = {x: given.tensor(f"start/{x}").requires_grad_() for x in meta["tensors"]}
        lamb = Lamb(
            params.values(), betas=tuple(meta["betas"]), eps=meta["eps"], debias=True,
            weight_decay=settings["weight_decay"],
        )  # fmt: skip
        average = Average(params.values(), settings["ema_ratio"])
        for t in range(meta["steps"]):
            for x, p in params.items():
                p.grad = torch.from_numpy(given[f"gradient/{x}"][t].copy())
            norm = torch.nn.utils.clip_grad_norm_(params.values(), meta["clip_norm"])
            assert_same(norm, given[f"run_{run}/gradient_norm"][t])
            for x, p in params.items():
                assert_same(p.grad, given[f"run_{run}/clipped/{x}"][t])
            lamb.param_groups[0]["lr"] = float(given[f"run_{run}/lr"][t])
            lamb.step()
            average.after(t + 1)
            for i, (x, p) in enumerate(params.items()):
                assert_same(p, given[f"run_{run}/fast/{x}"][t])
                assert_same(average.slow[i], given[f"run_{run}/slow/{x}"][t])
                for key in ("exp_avg", "exp_avg_sq"):
                    assert_same(lamb.state[p][key], given[f"run_{run}/{key}/{x}"][t])


def test_schedules_are_the_official_curves():
    given = case("hopular_optim_schedules")
    for curve, f in given.meta["curves"].items():
        epochs, warmup = range(f["period"]), f["warmup_ratio"]
        made = [gamma(k, f["period"], f["start"], f["end"], warmup=warmup) for k in epochs]
        assert_same(np.array(made), given[f"gamma/{curve}"], 1e-12)
        made = [rate(k, f["period"], f["lr"], warmup=warmup) for k in epochs]
        assert_same(np.array(made), given[f"lr/{curve}"], 1e-12)


# -- sizes ----------------------------------------------------------------------------------------


@each(
    ("sizes_", "width", "n_blocks", "parameters"),
    [
        ((*[1] * 9, 6), 32, 8, 3_344_623),  # glass
        ((*[1] * 12, 10, 1), 32, 4, 3_268_215),  # like Boston
        ((*[1] * 12, 10, 1), 32, 8, 6_507_383),
        ((*[1] * 12, 10, 1), 64, 8, 25_954_007),
        ((*[1] * 12, 10, 1), 128, 8, 103_665_047),
        ((*[1] * 30, 2), 32, 8, 31_644_512),  # like WDBC
        ((*[1] * 30, 2), 64, 8, 126_398_112),
        ((*[1] * 60, 2), 32, 8, 122_258_942),  # sonar
        ((1,) * 6, 32, 8, 1_232_262),  # sulfur
    ],
)
def test_the_number_of_parameters_is_that_of_the_authors_code(sizes_, width, n_blocks, parameters):
    columns = Columns(sizes_, tuple(s > 1 for s in sizes_), (len(sizes_) - 1,))
    with torch.device("meta"):
        module = HopularNetwork(columns, width=width, n_blocks=n_blocks)
    assert sum(p.numel() for p in module.parameters()) == parameters
