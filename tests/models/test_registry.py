"""The registry: specs, search spaces, models from elsewhere, and what it refuses."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from importlib import metadata

import pytest
from looped import each
from small_tables import ALL, NAMES
from tabsweep.common.tasks import TASKS
from tabsweep.models import discovery, model_spec, registry, space_files
from tabsweep.models.base import Estimator
from tabsweep.models.hyperparameters import InvalidConfig
from tabsweep.models.registry import MODELS, default_config, make_model, spaces, spec, unsupported
from tabsweep.sweeps.search.space import Space, Variants


def parsed(name: str, task: str) -> dict[str, Space]:
    return {key: Space.parse(data) for key, data in spaces(name, task).items()}


def test_the_registry_is_sorted_by_name_and_every_model_has_a_space_file():
    assert list(MODELS) == sorted(MODELS) and all(MODELS[name].name == name for name in MODELS)
    assert {file.stem for file in model_spec.FOLDER.glob("*.toml")} == set(MODELS)


@each("name", NAMES)
def test_a_spec_points_at_an_estimator_and_says_what_it_is(name):
    found = spec(name)
    cls = registry.load_class(found.target)
    assert issubclass(cls, Estimator)
    assert found.summary and found.threads == 1
    assert found.tasks == tuple(task for task in TASKS if task in found.tasks) != ()
    assert found.family in registry.FAMILIES and found.family != "external"
    for library in found.libraries:
        assert metadata.version(library)
    policy = make_model(name, task=found.tasks[-1])._policy()
    assert policy == found.preprocessing
    takes = inspect.signature(cls.fit).parameters
    assert found.sample_weight == ("sample_weight" in takes)
    assert 0 < found.memory_mb(1000, 20, 3) < 10_000


def test_papers_have_a_name_for_every_model_and_one_of_several_words_is_written_out():
    assert len({spec.display_name for spec in MODELS.values()}) == len(MODELS)
    for name, model in MODELS.items():
        assert model.display_name != name and "_" not in model.display_name
        assert "title" in model_spec.model_file(name) or "-" not in name, name


@each(("name", "task"), ALL)
def test_every_space_parses_and_names_only_hyperparameters_of_its_model(name, task):
    for space in parsed(name, task).values():
        named = {
            name
            for key, param in space.params.items()
            for name in (param.names if isinstance(param, Variants) else [key])
        }
        assert named <= set(registry.defaults(name))


@each(("name", "task"), ALL)
def test_the_default_configuration_lies_inside_the_default_space(name, task):
    config = default_config(name, task)
    assert config in parsed(name, task)["default"]
    made = make_model(name, task=task, **config).get_params()
    params = spaces(name, task)["default"]["params"]
    fixed = {k for k, p in params.items() if p["kind"] == "fixed"}
    defaults = registry.defaults(name)
    # the steps of a network are those of a fit that a search can pay for
    allowed = {spec(name).resource, *registry.small_fits(name).get("fixed_off_default", ())}
    assert {k for k in fixed if made[k] != defaults[k]} <= allowed


@each(("name", "task"), ALL)
def test_draws_from_every_space_are_accepted_by_the_model(name, task):
    import numpy as np

    rng = np.random.default_rng(0)
    for space in parsed(name, task).values():
        for _ in range(20):
            make_model(name, task=task, **space.sample(rng))


@each(("name", "task"), ALL)
def test_a_grid_has_as_many_points_as_its_search_says(name, task):
    for data in spaces(name, task).values():
        if data["search"].get("strategy") == "grid":
            size, n_configs = Space.parse(data).size, data["search"]["n_configs"]
            # a larger grid is tried in part, and the note says how large the part is
            part = size > n_configs and f"subset of {n_configs} " in data["note"]
            assert size == n_configs or part


@each("name", NAMES)
def test_settings_of_small_fits_are_no_space_and_known_to_their_model(name):
    found = registry.small_fits(name)
    assert not set(space_files.TESTING_KEYS) & set(spaces(name, spec(name).tasks[0]))
    assert space_files.TESTING not in spaces(name, spec(name).tasks[0])
    for key in ("config", "random", "draws_nothing", "ignores_validation"):
        config = {**found.get("config", {}), **found.get(key, {})}
        make_model(name, task=spec(name).tasks[0], **config)
    # a fit that can stop and continue says how it is made random: the laws of pieces need it
    assert bool(found.get("random")) == bool(spec(name).resource)


def test_a_setting_of_small_fits_with_an_unknown_key_is_refused(tmp_path, monkeypatch):
    (tmp_path / "unwritten.toml").write_text("[testing]\nconfg = { epochs = 2 }\n")
    monkeypatch.setattr(model_spec, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match="'confg'.*'config'"):
        registry.small_fits("unwritten")


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
def test_papers_spaces_say_their_rounds_and_their_early_stopping(name):
    for key, data in spaces(name, "regression").items():
        params = data["params"]
        assert params["early_stopping_rounds"]["kind"] == "fixed"
        stop, rounds = params["early_stopping_rounds"]["value"], params["n_estimators"]
        if key == "default":
            assert stop > 0 and rounds["value"] <= 300
        if key in ("npt", "hopular"):
            assert stop == 0
        if key == "hopular":
            assert rounds["value"] == 1000
        if key.startswith("rtdl"):
            assert (stop, rounds["value"]) == (50, 2000)


@each("name", NAMES)
def test_a_paper_space_names_its_table_section_or_code(name):
    for key, data in spaces(name, "regression").items():
        named = re.search(r"Table|\b[A-Z]\.\d|authors' code", data["source"])
        assert key in ("default", "quick") or named, key


def test_an_unknown_model_task_or_hyperparameter_comes_with_a_suggestion():
    with pytest.raises(ValueError, match="unknown model 'lightgmb' .*did you mean 'lightgbm'"):
        spec("lightgmb")
    with pytest.raises(ValueError, match="unknown task 'regresion'.*did you mean 'regression'"):
        make_model("knn", task="regresion")
    with pytest.raises(InvalidConfig, match="did you mean 'n_neighbors'"):
        make_model("knn", task="binary", n_neigbors=3)


def test_task_seed_and_threads_are_no_part_of_a_configuration():
    with pytest.raises(TypeError):
        make_model("knn", task="binary", **{"task": "binary"})
    assert not {"task", "seed", "threads"} & set(registry.defaults("knn"))


@each("name", NAMES)
def test_every_rule_refuses_a_value_of_a_wrong_kind(name):
    task = spec(name).tasks[0]
    for key in set(registry.load_class(spec(name).target).rules) - {"task"}:
        for value in (float("nan"), float("inf"), "nonsense", [object()], -7):
            with pytest.raises(InvalidConfig, match=key):
                make_model(name, **{"task": task, key: value})


def test_a_criterion_of_the_other_task_is_refused():
    with pytest.raises(InvalidConfig, match="criterion for a binary task"):
        make_model("random-forest", task="binary", criterion="squared_error")


def test_a_gaussian_process_on_many_rows_is_a_planned_absence_with_a_reason():
    gp = spec("gaussian-process")
    assert unsupported(gp, "regression", 500, 10, 0) is None
    assert "45000" in unsupported(gp, "regression", 45_000, 9, 0)
    assert "classes" in unsupported(gp, "multiclass", 200, 17, 15)
    assert unsupported(spec("xgboost"), "regression", 10**7, 9, 0) is None


def test_a_task_that_a_model_has_not_is_a_planned_absence():
    narrow = registry.ModelSpec("narrow", "a.b:C", tasks=("binary",))
    assert "no regression form" in unsupported(narrow, "regression", 10, 2, 0)


EXTERNAL = '''
"""A module of models that is not part of the package."""
from tabsweep.models.knn import KNN

class Mine(KNN):
    """Neighbours of my own.

    More words.
    """
    tasks = ("binary", "multiclass")
    libraries = ("scikit-learn",)

    @staticmethod
    def spaces():
        return {"default": {"params": {"n_neighbors": {"kind": "choice", "values": [1, 5]}}}}

class Plain:
    def __init__(self, depth=3, random_state=0):
        self.depth, self.random_state = depth, random_state
    def fit(self, X, y): return self
    def predict(self, X): return X

class Thief(KNN):
    name = "xgboost"

class Named(KNN):
    name = "my-knn"

class Lettered(Plain):
    tasks = "binary"

class Odd(Plain):
    tasks = ("binary", "classification")

class Swapped(Plain):
    tasks = ["regression", "binary"]

class Epochs(Plain):
    resource, gpu_mb = "epochs", 300
    def __init__(self, epochs=10):
        self.epochs = epochs
    def fit_to(self, X, y, *, stop, every, start=None, save=None): ...

class NoMethod(Epochs):
    fit_to = None

class NoParameter(Epochs):
    def __init__(self): ...

class Nothing: pass
not_a_class = 3
'''


@pytest.fixture
def external(tmp_path, monkeypatch):
    (tmp_path / "outside_models.py").write_text(EXTERNAL)
    (tmp_path / "outside_broken.py").write_text("import math\nclass Model(:\n")
    (tmp_path / "outside_raises.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield "outside_models"
    sys.modules.pop("outside_models", None)


def test_a_class_from_elsewhere_is_a_model(external):
    found = spec(f"{external}:Mine")
    assert found.summary == "Neighbours of my own." and found.family == "external"
    assert found.tasks == ("binary", "multiclass") and found.libraries == ("scikit-learn",)
    assert make_model(f"{external}:Mine", task="binary", seed=3).seed == 3
    assert default_config(f"{external}:Mine", "binary") == {"n_neighbors": 5}
    assert spec(f"{external}:Named").name == "my-knn"
    assert spec(f"{external}:Swapped").tasks == ("binary", "regression")
    stepping = spec(f"{external}:Epochs")
    assert (stepping.resource, stepping.gpu_mb) == ("epochs", 300)


def test_the_classes_that_a_module_only_imports_are_not_listed_as_its_own(external):
    with pytest.raises(ValueError, match="its classes: Mine, Plain, ") as refused:
        spec(f"{external}:Absent")
    assert "KNN" not in str(refused.value)


def test_a_class_without_a_space_has_its_default_configuration_and_says_so(external):
    data = spaces(f"{external}:Plain", "binary")["default"]
    assert data["params"] == {} and "only trial" in data["note"]
    assert make_model(f"{external}:Plain", task="binary", seed=9, depth=4).random_state == 9


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("outside_models:Mien", "no class 'Mien' .*did you mean 'Mine'"),
        ("outside_models:not_a_class", "no class"),
        ("outside_models:Nothing", "no method fit and no predict"),
        ("outside_models:NoMethod", "resource = 'epochs' but has no method fit_to"),
        ("outside_models:NoParameter", "resource = 'epochs', which it does not take"),
        ("outside_models:Thief", "the name of tabsweep.models.xgboost:XGBoost"),
        ("outside_models:Lettered", "`tasks` must be a tuple of 'binary'.*not 'binary'"),
        ("outside_models:Odd", "`tasks` must be a tuple .*'classification'"),
        ("outside_broken:Model", "cannot import 'outside_broken' .*SyntaxError: .*line 2"),
        ("outside_raises:Model", "cannot import 'outside_raises' .*ZeroDivisionError"),
        ("no_such_module_here:Model", "cannot import 'no_such_module_here'"),
        (":Model", "package.module:Class"),
    ],
)
def test_an_external_class_that_cannot_serve_is_refused(external, target, message):
    with pytest.raises(ValueError, match=message):
        spec(target)


def pretend_installed(monkeypatch, name, *classes):
    made = [metadata.EntryPoint(name, value, discovery.GROUP) for value in classes]
    monkeypatch.setattr(discovery.metadata, "entry_points", lambda group: made)


def test_an_installed_package_adds_a_model_by_entry_point(external, monkeypatch):
    pretend_installed(monkeypatch, "elsewhere", f"{external}:Mine")
    assert "elsewhere" in registry.names() and spec("elsewhere").target == f"{external}:Mine"
    assert make_model("elsewhere", task="binary").n_neighbors == 5
    assert list(spaces("elsewhere", "binary")) == ["default"]


@pytest.mark.fault(23)
def test_an_installed_model_may_not_take_a_registered_name(external, monkeypatch):
    pretend_installed(monkeypatch, "knn", f"{external}:Mine")
    with pytest.raises(ValueError, match="'knn'.*has the name of tabsweep.models.knn:KNN"):
        registry.names()


@pytest.mark.fault(23)
def test_two_installed_models_may_not_share_a_name(external, monkeypatch):
    pretend_installed(monkeypatch, "elsewhere", f"{external}:Mine", f"{external}:Plain")
    with pytest.raises(ValueError, match="must be renamed"):
        registry.names()


def test_a_space_table_with_an_unknown_key_is_refused():
    with pytest.raises(ValueError, match="unknown key 'serach'.*did you mean 'search'"):
        space_files.resolve("m", "default", {"params": {}, "serach": {}}, "binary")
