"""Boosting libraries on GPUs: what they are given, and what is said where there is none."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from tabsweep.models import boosting_devices
from tabsweep.models.boosting_devices import NoGpuFound, gpu_share, lightgbm_device
from tabsweep.models.hyperparameters import InvalidConfig
from tabsweep.models.persistence.model_file import load_model, save_model
from tabsweep.models.persistence.schema import Schema
from tabsweep.models.registry import MODELS, defaults, make_model

GPU_BOOSTING = ("xgboost", "catboost", "lightgbm")
no_gpu_here = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


@pytest.fixture
def rows():
    x = np.random.default_rng(0).normal(size=(120, 3))
    return x, x[:, 0] + 0.1 * x[:, 1]


def test_every_boosting_library_with_gpus_takes_a_device_that_is_no_hyperparameter():
    for name in GPU_BOOSTING:
        assert make_model(name, task="binary").device == "cpu"
        assert make_model(name, task="binary", device="cuda").device == "cuda"
        assert "device" not in defaults(name)
        with pytest.raises(InvalidConfig, match="device must be one of 'cpu', 'cuda'"):
            make_model(name, task="binary", device="tpu")
    for name in ("random-forest", "hist-gradient-boosting"):
        assert MODELS[name].on_gpu() == ("cpu", "")


@no_gpu_here
@pytest.mark.parametrize("name", GPU_BOOSTING)
def test_no_library_falls_back_to_the_cpu(name, rows):
    x, y = rows
    model = make_model(name, task="regression", device="cuda", n_estimators=3)
    with pytest.raises(NoGpuFound, match="device 'cuda'.*device='cpu'"):
        model.fit(x, y, x, y)
    with pytest.raises(NoGpuFound):
        model.fit_to(x, y, stop=2, every=1)
    # What CatBoost itself raises would spoil the next fit of the process.
    make_model(name, task="regression", n_estimators=3).fit(x, y)


# ---------------------------------------------------------------------- what a library is given


def test_xgboost_is_given_the_device():
    model = make_model("xgboost", task="regression", device="cuda")
    assert model._params()["device"] == "cuda"
    assert make_model("xgboost", task="regression")._params()["device"] == "cpu"


def catboost_params(task: str, classes: int, **config) -> dict:
    """What the library holds of a configuration on a GPU."""
    model = make_model("catboost", task=task, device="cuda", **config)
    model.classes_ = np.arange(classes)
    return model._on_gpu()


def test_catboost_trains_the_same_configuration_on_both_devices(rows):
    """The library's own choices on a CPU, for which it has others on a GPU, are set there."""
    x, y = rows
    kinds = {"regression": y, "binary": y > 0, "multiclass": np.arange(120) % 3}
    for task, target in kinds.items():
        fitted = make_model("catboost", task=task, n_estimators=2).fit(x, target).model_
        chosen = fitted.get_all_params()
        given = catboost_params(task, {"binary": 2, "multiclass": 3}.get(task, 0))
        assert given["task_type"] == "GPU" and given["devices"] == "0"
        for key in ("border_count", "boosting_type", "bootstrap_type", "subsample"):
            assert given.get(key) == pytest.approx(chosen.get(key)), (task, key)
    assert "bootstrap_type" not in catboost_params("binary", 2, bagging_temperature=0.5)


PROBE = """
import sys
import numpy as np
from tabsweep.models import catboost
catboost.check_catboost = lambda: None  # it would refuse before the library sees the options
task, classes, more = sys.argv[1], int(sys.argv[2]), eval(sys.argv[3])
model = catboost.CatBoost(task=task, device="cuda", n_estimators=2, **more)
y = np.arange(60) % classes if classes else np.arange(60.0)
try:
    model.fit(np.random.default_rng(0).normal(size=(60, 3)), y)
except Exception as error:
    print(model._library(2, 0).get_params()["task_type"], error)
"""


@no_gpu_here
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("task", "classes", "more"),
    [
        ("regression", 0, "{}"),
        ("binary", 2, "{'bagging_temperature': 0.5, 'leaf_estimation_iterations': 5}"),
        ("multiclass", 3, "{'max_depth': 10, 'one_hot_max_size': 10, 'learning_rate': None}"),
    ],
)
def test_catboost_accepts_our_options_for_a_gpu_and_ends_at_the_missing_driver(task, classes, more):
    command = [sys.executable, "-c", PROBE, task, str(classes), more]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith("GPU ") and "CUDA error" in said, said


def test_catboost_reserves_no_more_of_a_gpu_than_the_share_of_its_worker(monkeypatch):
    assert gpu_share() == 1.0 and catboost_params("binary", 2)["gpu_ram_part"] == 0.8
    monkeypatch.setenv(boosting_devices.SHARE, "0.125")
    assert catboost_params("binary", 2)["gpu_ram_part"] == pytest.approx(0.1)
    for wrong in ("0", "2", "half"):
        monkeypatch.setenv(boosting_devices.SHARE, wrong)
        with pytest.raises(ValueError, match="TABSWEEP_GPU_SHARE"):
            gpu_share()


def test_catboost_continues_no_training_on_a_gpu(rows):
    x, y = rows
    for device, continues in (("cpu", True), ("cuda", False)):
        model = make_model("catboost", task="regression", device=device)
        model._prepare(x, y)
        assert model._continues() is continues


def test_lightgbm_is_told_the_device_type_and_promises_no_equal_bytes_there():
    on_cpu = make_model("lightgbm", task="regression")._params()
    assert on_cpu["deterministic"] and on_cpu["force_row_wise"] and "device_type" not in on_cpu
    for device in ("cuda", "gpu"):
        params = make_model("lightgbm", task="regression", device=device)._params()
        assert params["device_type"] == device
        assert "deterministic" not in params and "force_row_wise" not in params


# ---------------------------------------------------------------------- what LightGBM was built for


def test_a_device_type_that_the_build_lacks_is_told_from_a_device_that_is_missing(monkeypatch):
    not_built = "CUDA Tree Learner was not enabled in this build. Please recompile"
    said = {"cuda": not_built, "gpu": "No OpenCL device found"}
    monkeypatch.setattr(boosting_devices, "_lightgbm_says", said.__getitem__)

    def found():
        lightgbm_device.cache_clear()
        return lightgbm_device()

    try:
        device, why = found()
        assert device == "cpu" and "OpenCL alone" in why and "No OpenCL device" in why
        said["gpu"] = not_built.replace("CUDA", "GPU")
        assert found()[0] == "cpu" and "neither CUDA nor OpenCL" in found()[1]
        said["gpu"] = ""
        assert found() == ("gpu", "")
        said["cuda"] = "[CUDA] no CUDA-capable device is detected"  # the driver of a cluster
        assert found() == ("cuda", "")
    finally:
        lightgbm_device.cache_clear()


def test_the_build_is_asked_in_a_process_of_its_own(capfd):
    says = boosting_devices._lightgbm_says

    assert "Unknown device type" in says("tpu")
    assert capfd.readouterr() == ("", "")


# ---------------------------------------------------------------------- saved models


@pytest.mark.parametrize("name", GPU_BOOSTING)
def test_a_model_of_a_gpu_predicts_on_a_machine_without_one(name, rows, tmp_path):
    """The trees are a CPU's here; all that the saved model knows of a GPU is what it is told."""
    x, y = rows
    frame = pd.DataFrame(x, columns=list("abc"))
    model = make_model(name, task="regression", n_estimators=4).fit(frame, y)
    expected = model.predict(frame)
    model.device = "cuda"
    if name == "lightgbm":
        text = model.model_.model_to_string().replace("[device_type: cpu]", "[device_type: cuda]")
        assert "[device_type: cuda]" in text
        model.model_ = type(model.model_)(model_str=text)
    schema = Schema.of(frame, "regression")
    save_model(model, tmp_path / "m.tabsweep", schema=schema)
    np.testing.assert_allclose(load_model(tmp_path / "m.tabsweep").predict(frame), expected)


# ---------------------------------------------------------------------- CatBoost's own choices


def test_catboost_stops_by_a_count_of_rounds_or_by_its_test():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 3))
    y = x[:, 0] + rng.normal(size=200)
    found = {}
    for p in (None, 0.001):
        config = {"n_estimators": 400, "learning_rate": 0.3, "early_stopping_rounds": 5}
        model = make_model("catboost", task="regression", od_pval=p, **config)
        model.fit(x[:100], y[:100], x[100:], y[100:])
        found[p] = model.model_.get_all_params()
        assert model.best_iteration_ < 400
    assert found[None]["od_type"] == "Iter" and found[0.001]["od_type"] == "IncToDec"
    assert found[0.001]["od_pval"] == pytest.approx(0.001) and found[0.001]["od_wait"] == 5


def test_catboost_chooses_its_learning_rate_by_the_rounds_unless_it_is_given(rows):
    rates = []
    for rounds, rate in ((10, None), (1000, None), (10, 0.07)):
        given = {"n_estimators": rounds, "learning_rate": rate, "early_stopping_rounds": 1}
        model = make_model("catboost", task="regression", **given).fit(*rows, *rows)
        rates.append(model.model_.get_all_params()["learning_rate"])
    assert rates[0] > 2 * rates[1] and rates[2] == pytest.approx(0.07)
