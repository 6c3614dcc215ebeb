"""A finished run as a black box, through `bench analyse` on real runs."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from calls import bench, working_in
from tabsweep.benchmark.planning.plan_record import plan_in
from tabsweep.benchmark.results import replayed
from tabsweep.benchmark.results.evidence_builder import evidence_of, load_results
from tabsweep.sweeps.store.ledger import Ledger

HALVED = """
name = "halved"
title = "Halved"
datasets = ["iris", "diabetes"]
[budgets.quick]
models = ["xgboost"]
folds = 1
trials = 9
sampler = "random"
halving = {eta = 3, rungs = 3}
[budgets.quick.model.xgboost]
fixed = {n_estimators = 9}
"""
FAST = ("--workers", 0, "--tracking-uri", "none", "-q")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A random search of two models, and one with rungs."""
    import os

    mirror = os.environ.get("TABSWEEP_MIRROR", "")
    with working_in(tmp_path_factory.mktemp("replayed")) as folder:
        given = ("--mirror", mirror) if mirror else ()
        words = "sweep --suite smoke --dataset iris --dataset diabetes --model knn"
        words += " --model decision-tree --folds 1 --trials 24 --sampler random --name random"
        assert bench(*words.split(), *given, *FAST).code == 0
        (folder / "halved.toml").write_text(HALVED)
        assert (
            bench("sweep", "--suite", "./halved.toml", "--name", "halved", *given, *FAST).code == 0
        )
        yield folder


def test_a_run_of_one_sampler_is_replayed_under_all_and_says_what_it_knows(work):
    texts = []
    for out in ("one", "two"):
        found = bench("analyse", "runs/random", "--what", "tuners", "--out", out, "--json")
        assert found.code == 0, found.err
        data = json.loads(found.out)
        texts.append((work / out / "tuners.md").read_bytes())
    assert texts[0] == texts[1]
    frame = pd.DataFrame(data["rows"])
    assert set(frame["tuner"]) == {"random", "tpe", "hyperopt"} and frame["n"].max() == 8
    text = texts[0].decode()
    assert "Replayed: nothing was fitted" in text and "Reliability of the replay" in text
    assert any("No grid" in note for note in data["notes"])


def test_a_pair_counts_only_where_the_repeats_tell_it_apart(work):
    """The table counts what scipy's interval of the repeats' losses leaves out zero for."""
    from scipy.stats import ttest_ind

    run = work / "runs" / "random"
    replay = replayed.replay_of(run, evidence_of([run]))
    last = replay.losses[replay.losses["n"] == replay.n_trials]
    counts = {}
    for a, b in (("hyperopt", "random"), ("hyperopt", "tpe"), ("random", "tpe")):
        counts[a, b] = [0, 0, 0]
        for _, mine in last.groupby(["dataset", "model"]):
            one, other = (mine.loc[mine["tuner"] == t, "best"].to_numpy() for t in (a, b))
            assert len(one) == len(other) == replay.repeats
            low = high = one.mean() - other.mean()
            if np.ptp(one) or np.ptp(other):
                found = ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
                low, high = found.low, found.high
            counts[a, b][0 if high < -1e-12 else 2 if low > 1e-12 else 1] += 1
    assert bench("analyse", "runs/random", "--what", "tuners", "--out", "apart").code == 0
    lines = (work / "apart" / "tuners.md").read_text().splitlines()
    assert any("not separable" in line for line in lines)
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in lines if "|" in line]
    shown = {tuple(r[:2]): r[2:5] for r in rows if tuple(r[:2]) in counts}
    assert shown == {pair: [str(c) for c in cells] for pair, cells in counts.items()}


def test_the_replayed_losses_are_recorded_ones_and_the_default_comes_first(work):
    run = work / "runs" / "random"
    replay = replayed.replay_of(run, evidence_of([run]), 6)
    frame = load_results(run)
    for part in replay.steps.values():
        for (dataset, model), mine in part.groupby(["dataset", "model"]):
            there = frame[(frame["dataset"] == dataset) & (frame["model"] == model)]
            name = {"iris": "accuracy", "diabetes": "rmse"}[dataset]
            sign = -1.0 if name == "accuracy" else 1.0
            known = sign * there[f"val_{name}"].to_numpy()
            assert np.isin(mine["loss"].to_numpy(), known).all()
            first = there.sort_values("index").iloc[0]
            assert (mine.loc[mine["n"] == 1, "loss"] == sign * first[f"val_{name}"]).all()
            least = mine.groupby("study")["loss"].cummin()
            assert least.equals(mine["best"])
    assert len(replay.known) == 4 and replay.known["exact"].between(0, 1).all()
    assert (replay.known["n_trials"] <= 24).all()


def test_an_axis_that_decides_the_loss_decides_what_is_near():
    points = np.random.default_rng(0).random((60, 3))
    losses = np.where(points[:, 2] > 0.9, np.nan, points[:, 1])
    points[::5, 0] = np.nan
    found = replayed.axis_weights(points, losses)
    assert found.argmax() == 1 and found[0] == found.min() > 0
    assert np.ptp(replayed.axis_weights(points, np.ones(60))) == 0


def test_a_space_that_has_changed_is_left_out_by_name(work):
    plan = plan_in(Ledger(work / "runs" / "random"))
    spaces, gone = replayed.spaces_of(plan)
    assert set(spaces) == {(d, m) for d in ("iris", "diabetes") for m in ("knn", "decision-tree")}
    assert gone == ""
    known = plan["identity"]["space"]
    changed = {k: "0" * 16 if k.startswith("knn") else v for k, v in known.items()}
    plan = {**plan, "identity": {**plan["identity"], "space": changed}}
    spaces, gone = replayed.spaces_of(plan)
    assert {m for _, m in spaces} == {"decision-tree"} and "knn" in gone


def test_fewer_promotions_are_known_exactly_from_the_rungs(work):
    run = work / "runs" / "halved"
    evidence = evidence_of([run])
    found = replayed.rungs_of(run, evidence).set_index(["setting", "dataset"])
    frame = load_results(run)
    for dataset in ("iris", "diabetes"):
        name, sign = {"iris": ("accuracy", -1), "diabetes": ("rmse", 1)}[dataset]
        mine = frame[frame["dataset"] == dataset]
        mine = mine.assign(loss=sign * mine[f"val_{name}"])
        whole = mine[mine["stage"] == "tune"]
        assert found.loc[("as run", dataset), "loss"] == whole["loss"].min()
        assert found.loc[("as run", dataset), "cpu"] == pytest.approx(mine["cpu_s"].sum())
        # one goes on: the best of the lowest rung alone
        lowest = mine[mine["stage"] == "rung0"].sort_values(["loss", "index"])["index"].iloc[0]
        whole = whole[whole["index"] == lowest]  # empty: the run took it no further
        alone = mine[(mine["stage"] != "rung0") & (mine["index"] == lowest)]["cpu_s"].sum()
        alone += mine[mine["stage"] == "rung0"]["cpu_s"].sum()
        there = ("one goes on", dataset) in found.index
        assert there == bool(len(whole))
        if there:
            assert found.loc[("one goes on", dataset), "loss"] == whole["loss"].iloc[0]
            assert found.loc[("one goes on", dataset), "cpu"] == pytest.approx(alone)
    done = bench("analyse", "runs/halved", "--what", "tuners", "--out", "h")
    assert done.code == 0, done.err
    text = (work / "h" / "tuners.md").read_text()
    assert "Halving settings" in text and "the lowest one is replayed" in text


def test_what_has_no_trial_to_answer_is_refused_with_a_reason(work):
    run = work / "runs" / "random"
    evidence = evidence_of([run])
    nothing = evidence.trials[evidence.trials["index"] < 1]
    with pytest.raises(ValueError, match="no study whose space is known"):
        replayed.replay_of(run, type(evidence).of(nothing, evidence.planned, evidence.meta))
