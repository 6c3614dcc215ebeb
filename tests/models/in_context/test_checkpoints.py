"""TabICL and TabPFN on tiny random checkpoints: outputs, identity, and no download."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from calls import bench, working_in
from small_sweeps import FAST, answer
from tabsweep.models.in_context import checkpoint_file
from tabsweep.models.registry import MODELS, make_model, names
from tabsweep.sweeps.store.ledger import Ledger


def _shaken(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights with noise: those that begin at zero would make all answers equal."""
    return {
        name: value + 0.3 * torch.randn_like(value) if value.is_floating_point() else value
        for name, value in state.items()
    }


def tabicl(path: Path, *, regression: bool, seed: int = 0) -> Path:
    """A TabICL of width 8 with random weights."""
    from tabicl._model.tabicl import TabICL

    config = {
        "max_classes": 0 if regression else 10,
        "num_quantiles": 9,
        "embed_dim": 8,
        "col_num_blocks": 1,
        "col_nhead": 2,
        "col_num_inds": 4,
        "row_num_blocks": 1,
        "row_nhead": 2,
        "row_num_cls": 2,
        "icl_num_blocks": 1,
        "icl_nhead": 2,
        "zero_init": False,
    }
    torch.manual_seed(seed)
    state = _shaken(TabICL(**config).state_dict())
    torch.save({"config": config, "state_dict": state}, path)
    return path


def tabpfn(path: Path, *, regression: bool, seed: int = 0) -> Path:
    """A TabPFN of version 2, width 8, with random weights."""
    from tabpfn.architectures import tabpfn_v2
    from tabpfn.architectures.shared.bar_distribution import FullSupportBarDistribution

    config = {
        "emsize": 8,
        "nlayers": 1,
        "nhead": 2,
        "max_num_classes": 0 if regression else 10,
        "num_buckets": 20 if regression else 0,
    }
    torch.manual_seed(seed)
    parsed, _ = tabpfn_v2.parse_config(config)
    state = _shaken(tabpfn_v2.get_architecture(parsed).state_dict())
    if regression:
        bars = FullSupportBarDistribution(torch.linspace(-4.0, 4.0, 21))
        state |= {f"criterion.{name}": value for name, value in bars.state_dict().items()}
    torch.save({"config": config, "state_dict": state}, path)
    return path


LIBRARIES = ("tabicl", "tabpfn")
TASKS = ("binary", "multiclass", "regression")
N = 60


def rows(task: str) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(N, 2))
    colours = pd.Categorical(rng.choice(["x", "y", "z"], N))
    frame = pd.DataFrame({"a": numbers[:, 0], "b": numbers[:, 1], "c": colours})
    frame.loc[::7, "b"] = np.nan
    if task == "regression":
        return frame, 3 * numbers[:, 0] + 5
    return frame, np.array(["one", "two", "three"])[np.arange(N) % (2 if task == "binary" else 3)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint for each model and kind of task."""
    folder = tmp_path_factory.mktemp("checkpoints")
    for name in LIBRARIES:
        pytest.importorskip(name, reason=f"needs the extra {name}")
        for kind in ("classifier", "regressor"):
            place = folder / f"{name}-{kind}.ckpt"
            (tabicl if name == "tabicl" else tabpfn)(place, regression=kind == "regressor")
    return folder


@pytest.fixture
def named(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files are named."""
    for path in files.glob("*.ckpt"):
        monkeypatch.setenv(f"TABSWEEP_{path.stem.replace('-', '_').upper()}", str(path))
    return files


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Connections that were tried; each fails."""
    tried: list[Any] = []

    def refuse(self: socket.socket, address: Any) -> None:
        tried.append(address)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    return tried


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", LIBRARIES)
def test_the_same_seed_gives_the_same_predictions_without_a_network(name, task, named, no_network):
    x, y = rows(task)
    one, same, other = (
        make_model(name, task=task, seed=seed, n_estimators=2).fit(x, y) for seed in (3, 3, 4)
    )
    ask = "predict" if task == "regression" else "predict_proba"
    found = getattr(one, ask)(x)
    np.testing.assert_array_equal(found, getattr(same, ask)(x))
    assert not np.array_equal(found, getattr(other, ask)(x))
    assert np.isfinite(found).all() and not no_network
    if task != "regression":
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        assert set(one.predict(x)) <= set(y)


@pytest.mark.parametrize("name", LIBRARIES)
def test_predictions_equal_those_of_the_library_itself(name, named):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(40, 3)), np.arange(40) % 3
    ours = make_model(name, task="multiclass", seed=7, n_estimators=2).fit(x, y).predict_proba(x)
    path = named / f"{name}-classifier.ckpt"
    if name == "tabicl":
        from tabicl import TabICLClassifier

        library: Any = TabICLClassifier(
            n_estimators=2, model_path=path, allow_auto_download=False, device="cpu",
            use_amp=False, random_state=7, n_jobs=1,
        )  # fmt: skip
    else:
        from tabpfn import TabPFNClassifier

        library = TabPFNClassifier(
            n_estimators=2, model_path=str(path), device="cpu", random_state=7,
            softmax_temperature=0.9, categorical_features_indices=[],
            ignore_pretraining_limits=True,
        )  # fmt: skip
    theirs = library.fit(x, y).predict_proba(x).astype(float)
    np.testing.assert_allclose(ours, theirs / theirs.sum(axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_downloader_that_is_called_in_a_fit_refuses(name, named, monkeypatch):
    path = named / f"{name}-classifier.ckpt"
    real = checkpoint_file.checkpoint_of(name, "binary")
    monkeypatch.setenv(f"TABSWEEP_{name.upper()}_CLASSIFIER", str(path))
    model = make_model(name, task="binary", checkpoint=real.sha256)
    with model._quiet():
        import huggingface_hub

        with pytest.raises(checkpoint_file.CheckpointError, match="download"):
            huggingface_hub.hf_hub_download("jingang/TabICL", "x.ckpt")
    assert huggingface_hub.hf_hub_download.__name__ == "hf_hub_download"


def test_without_a_file_or_the_planned_bytes_a_fit_says_the_way_out(named, monkeypatch, tmp_path):
    x, y = rows("binary")
    for name in LIBRARIES:
        variable = checkpoint_file.variable(name, "binary")
        with pytest.raises(ValueError, match="name that file"):
            make_model(name, task="binary", checkpoint="0" * 64).fit(x, y)
        with pytest.raises(ValueError, match="sha256 of a file"):
            make_model(name, task="binary", checkpoint="mine.ckpt")
        with monkeypatch.context() as patch:
            patch.setenv(variable, str(tmp_path / "absent.ckpt"))
            with pytest.raises(ValueError, match=variable):
                make_model(name, task="binary").fit(x, y)
            patch.delenv(variable)
            with pytest.raises(ValueError, match=f"--checkpoint {name}-classifier=PATH"):
                make_model(name, task="binary").fit(x, y)
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, name, None)  # as if it were not installed
            with pytest.raises(ImportError, match=rf"tabsweep\[{name}\]"):
                make_model(name, task="binary").fit(x, y)


def test_they_are_listed_and_no_suite_has_them_by_default():
    assert set(LIBRARIES) <= set(names()) and not set(LIBRARIES) & set(MODELS)


def test_a_sweep_keeps_the_sha256_in_every_trial_and_notes_what_was_pretrained_on(
    files, tmp_path, monkeypatch
):
    monkeypatch.setenv("TABSWEEP_TABICL_CLASSIFIER", "")
    sweep = ("sweep", "--suite", "smoke", "--dataset", "iris", "--dataset", "wine", "--folds", 1)
    sweep += ("--model", "tabicl", *FAST)
    place = tmp_path / "mine.ckpt"
    place.write_bytes((files / "tabicl-classifier.ckpt").read_bytes())
    named = ("--checkpoint", f"tabicl-classifier={place}")
    with working_in(tmp_path):
        without = bench(*sweep, "--name", "a")
        assert without.code == 2 and "BENCH-E002" in without.err and "--checkpoint" in without.err
        wrong = bench(*sweep, "--checkpoint", "tabnet=x")
        assert wrong.code == 2 and "tabicl-classifier" in wrong.err
        found = answer(*sweep, *named, "--name", "a")
        sha256 = hashlib.sha256(place.read_bytes()).hexdigest()
        assert any("no list" in note and sha256[:12] in note for note in found["notes"])
        trials = list(Ledger(Path("runs/a")).records("result"))
        assert trials and all(one["config"]["checkpoint"] == sha256 for one in trials)
        place.with_name("mine.ckpt.pretraining.txt").write_text("Iris  # by its authors\nadult\n")
        found = answer(*sweep, *named, "--name", "b")
        (note,) = [note for note in found["notes"] if sha256[:12] in note]
        assert note.startswith("Contamination") and "iris" in note and "wine" not in note
        assert note in Path("runs/b/report/about.md").read_text("utf-8")
        tabicl(place, regression=False, seed=1)
        other = bench(*sweep, *named, "--name", "a")
        assert other.code == 2, "another checkpoint is another space: the run is not mixed"
        answer(*sweep, *named, "--name", "c")
        ids = [{one["id"] for one in Ledger(Path(f"runs/{n}")).records("result")} for n in "abc"]
        assert ids[0] == ids[1] and not ids[0] & ids[2]


HOUSES = "number,kind,noise,sold\n" + "".join(
    f"{np.sin(i):.4f},{'xyz'[i % 3]},{np.cos(7 * i):.4f},{'yes' if np.sin(i) > 0.1 else 'no'}\n"
    for i in range(60)
)


def process(*words: object, **environment: str) -> str:
    """`bench` in a process of its own: its standard error."""
    ran = subprocess.run(
        [sys.executable, "-c", "from tabsweep.benchmark.cli import main; main()", *map(str, words)],
        env={**os.environ, **environment}, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, (ran.stdout, ran.stderr)
    return ran.stderr


@pytest.fixture
def unnamed(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a table; no checkpoint is named, as `bench` names one for its process."""
    monkeypatch.setenv("TABSWEEP_TABICL_CLASSIFIER", "")
    with working_in(tmp_path):
        Path("houses.csv").write_text(HOUSES)
        yield files


SWEEP = ("sweep", "--csv", "houses.csv", "--target", "sold", "--model", "tabicl", "--folds", 1)


def of_tabicl(path: Path) -> tuple[str, ...]:
    return ("--checkpoint", f"tabicl-classifier={path}")


def test_a_saved_model_predicts_the_same_bytes_in_every_process_that_has_its_checkpoint(
    unnamed, monkeypatch
):
    file = unnamed / "tabicl-classifier.ckpt"
    predict = ("predict", "one.tabsweep", "houses.csv", "--out")
    answer(*SWEEP, *of_tabicl(file), *FAST, "--bag", 0, "--name", "one")
    answer("fit", "runs/one", "--out", "one.tabsweep")
    assert Path("one.tabsweep").stat().st_size < file.stat().st_size / 4, "weights stay outside"
    for seed in ("1", "4"):  # {"none", "power"} in both orders, as the library holds its passes
        assert "does not predict" not in process(*predict, f"{seed}.csv", PYTHONHASHSEED=seed)
    assert Path("1.csv").read_bytes() == Path("4.csv").read_bytes()
    assert pd.read_csv("1.csv")["prediction"].isin(["yes", "no"]).all()
    other = bench(*predict, "p.csv", *of_tabicl(unnamed / "tabicl-regressor.ckpt"))
    assert other.code == 2 and "name that file" in other.err and "whole model" not in other.err
    monkeypatch.setenv("TABSWEEP_TABICL_CLASSIFIER", "")
    lacking = bench(*predict, "p.csv")
    assert lacking.code == 2 and "--checkpoint tabicl-classifier=PATH" in lacking.err
    assert not Path("p.csv").exists()
    assert bench(*predict, "p.csv", *of_tabicl(file)).code == 0
    assert Path("p.csv").read_bytes() == Path("1.csv").read_bytes()


@pytest.mark.nightly
def test_a_sweep_under_ray_has_the_results_of_one_in_a_process_and_can_be_merged(
    unnamed, monkeypatch
):
    named = of_tabicl(unnamed / "tabicl-classifier.ckpt")
    process(*SWEEP, *named, "--workers", 1, "--tracking-uri", "none", "--name", "ray")
    process(*SWEEP, *named, *FAST, "--name", "here", "--runs", "own")
    scores = [Path(f"{run}/report/scores.csv").read_bytes() for run in ("runs/ray", "own/here")]
    assert scores[0] == scores[1]
    sweep = ("sweep", *SWEEP[1:5], "--model", "knn", *FAST, "--folds", 1, "--trials", 2)
    answer(*sweep, "--name", "other")
    monkeypatch.setenv("TABSWEEP_TABICL_CLASSIFIER", "")
    merge = ("merge", "runs/ray", "runs/other", "--out", "runs/both")
    assert "--checkpoint tabicl-classifier=PATH" in bench(*merge).err
    assert answer(*merge, *named)["written"]
    retried = bench("retry", "runs/ray", *named, "--workers", 0, "--tracking-uri", "none")
    assert retried.code == 5, retried.err  # nothing has failed
