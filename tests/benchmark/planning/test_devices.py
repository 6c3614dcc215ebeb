"""Where the trials of a sweep with GPUs compute: plan, identity, shares, and no GPU at all."""

from __future__ import annotations

import pytest
import torch
from calls import bench
from small_sweeps import FAST
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.fold_facts import Data, choose_folds
from tabsweep.benchmark.planning.plan import Options, Plan
from tabsweep.datasets.catalog import load_dataset
from tabsweep.models import boosting_devices, registry
from tabsweep.sweeps.workers.placement import Placement
from tabsweep.sweeps.workers.ray_cluster import Node
from tabsweep.sweeps.workers.trial_actor import GPU_SHARE

MODELS = ("xgboost", "catboost", "lightgbm", "mlp", "random-forest")
no_gpu_here = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


@pytest.fixture
def lightgbm_says(monkeypatch):
    """What LightGBM's build answers to a fit on (CUDA, OpenCL), instead of asking it."""

    def says(cuda: str, opencl: str) -> None:
        answers = {"cuda": cuda, "gpu": opencl}
        monkeypatch.setattr(boosting_devices, "_lightgbm_says", answers.__getitem__)
        boosting_devices.lightgbm_device.cache_clear()

    yield says
    boosting_devices.lightgbm_device.cache_clear()


def plan_of(device: str) -> Plan:
    table = load_dataset("iris")
    data = {"iris": Data(table, "kfold", choose_folds(table, "kfold", seed=0, folds=1))}
    return Plan(suites.load("smoke"), Options(device=device, models=MODELS), data, {})


def identities(plan: Plan) -> dict[str, dict]:
    found = {}
    for study in plan.build():
        found[study.model] = study.make_trial({}, 0).identity
    return found


def test_the_device_is_part_of_a_trials_identity_and_nothing_else_differs(lightgbm_says):
    lightgbm_says("was not enabled in this build", "was not enabled in this build")
    on_cpus, on_gpus = identities(plan_of("cpu")), identities(plan_of("cuda"))
    assert {name: i["device"] for name, i in on_cpus.items()} == dict.fromkeys(MODELS, "cpu")
    assert {name: i["device"] for name, i in on_gpus.items()} == {
        "xgboost": "cuda", "catboost": "cuda", "lightgbm": "cpu", "mlp": "cuda",
        "random-forest": "cpu",
    }  # fmt: skip
    for name in MODELS:
        assert {**on_gpus[name], "device": "cpu"} == on_cpus[name]


@pytest.mark.parametrize(
    ("cuda", "opencl", "device", "says"),
    [
        ("", "", "cuda", None),
        ("not enabled", "", "gpu", None),
        ("not enabled", "not enabled", "cpu", "neither CUDA nor OpenCL"),
        ("not enabled", "No OpenCL device found", "cpu", "No OpenCL device found"),
    ],
)
def test_a_plan_says_which_models_a_gpu_serves_and_why_lightgbm_is_left_out(
    lightgbm_says, cuda, opencl, device, says
):
    words = {"not enabled": "GPU Tree Learner was not enabled in this build."}
    lightgbm_says(words.get(cuda, cuda), words.get(opencl, opencl))
    plan = plan_of("cuda")
    assert plan.device(registry.spec("lightgbm")) == device
    notes = [note for note in plan.notes if "CPUs" in note]
    on_gpus = notes[0].partition(";")[0]
    assert ("lightgbm" in on_gpus) == (device != "cpu") and "xgboost, catboost" in on_gpus
    assert notes[1:] == [] if says is None else says in notes[1] and "lightgbm" in notes[1]
    assert plan.of_run({}).notes == plan.notes
    assert not [note for note in plan_of("cpu").notes if "GPU" in note]


def test_boosting_gets_a_share_of_a_gpu_by_the_memory_that_its_table_needs(lightgbm_says):
    lightgbm_says("", "")
    placement = Placement({"n": Node("n", "host", cpus=8, gpus=1, memory_mb=500_000.0)})
    placement.know_gpu("n", 16_000.0)
    needs = {study.model: study.needs for study in plan_of("cuda").build()}
    assert needs["random-forest"].gpu_mb == 0.0
    for name in ("xgboost", "catboost", "lightgbm"):
        shape = placement.shape(needs[name])
        assert shape is not None and shape.gpus == 1 / 8
    spec = registry.spec("xgboost")
    assert spec.gpu_memory_mb(500_000, 700) > 5_000.0 > spec.gpu_memory_mb(10_000, 20)
    assert {study.needs.gpu_mb for study in plan_of("cpu").build()} == {0.0}


def test_a_worker_and_a_model_call_the_share_of_a_gpu_by_one_name():
    assert GPU_SHARE == boosting_devices.SHARE


@no_gpu_here
@pytest.mark.usefixtures("work")
def test_boosting_on_a_gpu_that_is_not_there_is_refused_before_a_trial_runs(lightgbm_says):
    lightgbm_says("was not enabled in this build", "was not enabled in this build")
    call = ("sweep", "--suite", "smoke", "--dataset", "iris", "--device", "cuda", "--folds", 1)
    for model in ("xgboost", "catboost"):
        found = bench(*call, "--model", model, "--trials", 1, "--name", model, *FAST)
        assert found.code == 3 and "BENCH-E023" in found.err
    # LightGBM without GPUs runs, and both the plan and the report say where.
    found = bench(*call, "--model", "lightgbm", "--trials", 1, "--name", "l", *FAST)
    assert found.code == 0
    with open("runs/l/report/about.md", encoding="utf-8") as file:
        assert "lightgbm runs on CPUs" in file.read()


@no_gpu_here
@pytest.mark.nightly
@pytest.mark.usefixtures("work")
def test_a_ray_without_gpus_is_refused_too():
    args = ("--suite", "smoke", "--dataset", "iris", "--model", "xgboost", "--device", "cuda")
    found = bench("sweep", *args, "--workers", 1, "--tracking-uri", "none", "--runs", "runs")
    assert found.code == 3 and "BENCH-E023" in found.err and "xgboost" in found.err
