"""Which models are there, what do they need, and which search spaces do they declare?

`MODELS` is data: a model's class is imported when it is made. Models from elsewhere join by the
entry-point group `tabsweep.models` or by `package.module:Class`, with no edit here.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from ..common.tasks import TASKS
from ..common.text import did_you_mean
from .base import Estimator, InvalidConfig
from .preprocessing import Policy

GROUP = "tabsweep.models"
SPACES = Path(__file__).with_name("spaces")
SKLEARN = ("scikit-learn", "numpy", "pandas", "scipy")
FAMILIES = ("baseline", "classical", "gbdt", "feature network", "row attention", "external")


@dataclass(frozen=True)
class ModelSpec:
    """What the planner must know of a model without importing it.

    target: `package.module:Class`. libraries: distributions whose versions a result depends on.
    threads: given to every fit. max_rows, max_classes: above them the model is unsupported.
    preprocessing: the policy of the default configuration. memory_bytes_per_cell: rough peak memory
    of a fit over that of the interpreter, per cell of the (one-hot) training table;
    memory_bytes_per_pair: per pair of training rows; memory_bytes_per_column_pair. Guesses for the
    preset `quick` where there is one, else for the defaults; what a fit is seen to take corrects
    them upwards. resource: the hyperparameter that counts the
    steps of a fit that can stop and go on (`fit_to`), "" where there is none. gpu_mb: GPU memory of
    a fit in MB, a first guess, 0 for a model that never uses a GPU.
    """

    name: str
    target: str
    tasks: tuple[str, ...] = TASKS
    family: str = "classical"
    libraries: tuple[str, ...] = SKLEARN
    threads: int = 1
    max_rows: int | None = None
    max_classes: int | None = None
    summary: str = ""
    paper: str = ""
    preprocessing: Policy = field(default_factory=Policy)
    memory_bytes_per_cell: float = 64.0
    memory_bytes_per_pair: float = 0.0
    memory_bytes_per_column_pair: float = 0.0
    resource: str = ""
    gpu_mb: float = 0.0

    def memory_mb(self, n_rows: int, n_features: int, n_classes: int = 0) -> float:
        """A rough estimate of a fit's peak memory in MB, over an idle interpreter's."""
        cells = self.memory_bytes_per_cell * n_rows * (n_features + max(n_classes, 1))
        pairs = self.memory_bytes_per_pair * n_rows**2
        pairs += self.memory_bytes_per_column_pair * n_features**2
        return 50.0 + (cells + pairs) / 2**20


def _own(
    name: str, target: str, summary: str, paper: str, policy: Policy, **rest: Any
) -> ModelSpec:
    return ModelSpec(
        name,
        f"tabsweep.models.{target}",
        summary=summary,
        paper=paper,
        preprocessing=policy,
        **rest,
    )


_SCALED = Policy("standard", "one-hot", "impute", "standard")
_SCALED_X = Policy("standard", "one-hot", "impute", "none")
_TREE = Policy("none", "one-hot", "native", "none")
_ONE_HOT = Policy("none", "one-hot", "native", "standard")
_IMPUTED = Policy("none", "one-hot", "impute", "standard")
_NATIVE = Policy("none", "native", "native", "standard")
_CELLS = Policy("standard", "native", "native", "standard")
_GBDT: dict[str, Any] = {"family": "gbdt", "resource": "n_estimators"}
_ROWS = Policy("quantile", "ordinal", "impute", "standard")
_STANDARD_ROWS = Policy("standard", "ordinal", "impute", "standard")
_FEATURES: dict[str, Any] = {
    "family": "feature network",
    "resource": "epochs",
    "libraries": ("torch", "numpy", "pandas", "scikit-learn"),
    "memory_bytes_per_cell": 200.0,
    "gpu_mb": 2000.0,
}
_SAINT = {  # 12 weights for each pair of a row's numbers, 8 a column; seven times in all
    **_FEATURES,
    "family": "row attention",
    "memory_bytes_per_column_pair": 7 * 4 * 12 * 8**2,
}
_NETWORK: dict[str, Any] = {
    "resource": "steps",
    "libraries": ("torch", "numpy", "pandas", "scikit-learn"),
    "memory_bytes_per_cell": 5000.0,  # of `quick` 1,000; the defaults take up to 50,000
}

MODELS: dict[str, ModelSpec] = {
    spec.name: spec
    for spec in (
        _own(
            "autoint",
            "autoint:AutoInt",
            "attention between features, all of which are read",
            "Song et al. 2019, arXiv:1810.11921; Gorishniy et al. 2021, F.10",
            _ROWS,
            **_FEATURES,
        ),
        _own(
            "catboost",
            "catboost:CatBoost",
            "boosting of symmetric trees, at home with categories",
            "Prokhorenkova et al. 2018, arXiv:1706.09516",
            _NATIVE,
            libraries=("catboost", *SKLEARN),
            **_GBDT,
        ),
        _own(
            "constant",
            "constant:Constant",
            "class frequencies, or the target's mean",
            "",
            Policy(),
            family="baseline",
        ),
        _own(
            "dcn-v2",
            "dcn_v2:DCNV2",
            "crossed features beside a multi-layer perceptron",
            "Wang et al. 2021, arXiv:2008.13535; Gorishniy et al. 2021, F.9",
            _ROWS,
            **_FEATURES,
        ),
        _own(
            "decision-tree",
            "decision_tree:DecisionTree",
            "a single pruned tree",
            "Breiman et al. 1984, Classification and Regression Trees",
            _ONE_HOT,
        ),
        _own(
            "extra-trees",
            "extra_trees:ExtraTrees",
            "many trees with random thresholds",
            "Geurts et al. 2006, doi:10.1007/s10994-006-6226-1",
            _TREE,
        ),
        _own(
            "ft-transformer",
            "ft_transformer:FTTransformer",
            "attention between features, read from one token",
            "Gorishniy et al. 2021, arXiv:2106.11959, sec. 3.3",
            _ROWS,
            **_FEATURES,
        ),
        _own(
            "gaussian-process",
            "gaussian_process:GaussianProcess",
            "exact Gaussian process, small data only",
            "Rasmussen and Williams 2006, Gaussian Processes for Machine Learning",
            _SCALED,
            max_rows=2000,
            max_classes=10,
            memory_bytes_per_pair=64.0,
        ),
        _own(
            "gradient-boosting",
            "gradient_boosting:GradientBoosting",
            "exact gradient boosting of scikit-learn",
            "Friedman 2001, doi:10.1214/aos/1013203451",
            _IMPUTED,
            **_GBDT,
        ),
        _own(
            "grownet",
            "grownet:GrowNet",
            "boosting of small networks, corrected together",
            "Badirli et al. 2020, arXiv:2002.07971; Gorishniy et al. 2021, F.8",
            _ROWS,
            tasks=("binary", "regression"),
            **_FEATURES,
        ),
        _own(
            "hist-gradient-boosting",
            "hist_gradient_boosting:HistGradientBoosting",
            "histogram gradient boosting of scikit-learn",
            "Ke et al. 2017 (LightGBM), which it follows",
            _NATIVE,
            **_GBDT,
        ),
        _own(
            "hopular",
            "hopular.estimator:Hopular",
            "Hopfield networks that look up the training rows in every block",
            "Schaefl et al. 2022, arXiv:2206.00664",
            _CELLS,
            family="row attention",
            **_NETWORK,
            gpu_mb=4000.0,
        ),
        _own(
            "knn",
            "knn:KNN",
            "k-nearest neighbours",
            "Cover and Hart 1967, doi:10.1109/TIT.1967.1053964",
            _SCALED_X,
            max_rows=1_000_000,
        ),
        _own(
            "lightgbm",
            "lightgbm:LightGBM",
            "leaf-wise boosting on binned features",
            "Ke et al. 2017, LightGBM (NeurIPS)",
            _NATIVE,
            libraries=("lightgbm", *SKLEARN),
            **_GBDT,
        ),
        _own(
            "linear",
            "linear:Linear",
            "logistic or ridge regression",
            "Hoerl and Kennard 1970, doi:10.2307/1267351",
            _SCALED,
        ),
        _own(
            "met",
            "met:MET",
            "a masked autoencoder of columns, trained on as a classifier",
            "Majmundar et al. 2022, arXiv:2206.08564; Kim et al. 2024 (CheAtt)",
            _STANDARD_ROWS,
            **_FEATURES,
        ),
        _own(
            "met-cheatt",
            "met:METCheAtt",
            "MET with Chebyshev polynomials of its attention",
            "Kim et al. 2024 (CheAtt)",
            _STANDARD_ROWS,
            **_FEATURES,
        ),
        _own(
            "mlp",
            "mlp:MLP",
            "multi-layer perceptron with embedded categories",
            "Gorishniy et al. 2021, arXiv:2106.11959, sec. 3.1",
            _ROWS,
            **_FEATURES,
        ),
        _own(
            "mlp-sklearn",
            "mlp_sklearn:MLPSklearn",
            "scikit-learn's multi-layer perceptron",
            "Rumelhart et al. 1986, doi:10.1038/323533a0",
            _SCALED,
        ),
        _own(
            "node",
            "node:NODE",
            "ensembles of differentiable oblivious trees",
            "Popov et al. 2020, arXiv:1909.06312; Gorishniy et al. 2021, F.6",
            _ROWS,
            **_FEATURES,
        ),
        _own(
            "npt",
            "npt.estimator:NPT",
            "attention between datapoints and between attributes",
            "Kossen et al. 2021, arXiv:2106.02584",
            _CELLS,
            family="row attention",
            **_NETWORK,
            gpu_mb=4000.0,
        ),
        _own(
            "random-forest",
            "random_forest:RandomForest",
            "many trees on bootstrap samples",
            "Breiman 2001, doi:10.1023/A:1010933404324",
            _TREE,
        ),
        _own(
            "resnet",
            "resnet:ResNet",
            "residual network of single rows",
            "Gorishniy et al. 2021, arXiv:2106.11959, sec. 3.2",
            _ROWS,
            **_FEATURES,
        ),
        _own(
            "saint",
            "saint.estimator:SAINT",
            "attention between features and between rows, pre-trained on damaged rows",
            "Somepalli et al. 2021, arXiv:2106.01342; Kim et al. 2024 (CheAtt)",
            _STANDARD_ROWS,
            **_SAINT,
        ),
        _own(
            "saint-cheatt",
            "saint.estimator:SAINTCheAtt",
            "SAINT with Chebyshev polynomials of its attention",
            "Kim et al. 2024 (CheAtt)",
            _STANDARD_ROWS,
            **_SAINT,
        ),
        _own(
            "snn",
            "snn:SNN",
            "self-normalising multi-layer perceptron",
            "Klambauer et al. 2017, arXiv:1706.02515",
            _ROWS,
            **_FEATURES,
        ),
        _own(
            "svm",
            "svm:SVM",
            "support vector machine, RBF kernel",
            "Cortes and Vapnik 1995, doi:10.1007/BF00994018",
            _SCALED,
            max_rows=20_000,
        ),
        _own(
            "tabnet",
            "tabnet:TabNet",
            "steps that look at few features of a row through masks",
            "Arik and Pfister 2021, arXiv:1908.07442; Gorishniy et al. 2021, F.7",
            _ROWS,
            **_FEATURES,
        ),
        _own(
            "tabtransformer",
            "tabtransformer:TabTransformer",
            "attention between features, pre-trained by hiding cells",
            "Huang et al. 2020, arXiv:2012.06678; Kim et al. 2024 (CheAtt)",
            _STANDARD_ROWS,
            **_FEATURES,
        ),
        _own(
            "tabtransformer-cheatt",
            "tabtransformer:TabTransformerCheAtt",
            "TabTransformer with Chebyshev polynomials of its attention",
            "Kim et al. 2024 (CheAtt)",
            _STANDARD_ROWS,
            **_FEATURES,
        ),
        _own(
            "vime",
            "vime:VIME",
            "an encoder that learned which values were exchanged, and a predictor",
            "Yoon et al. 2020, NeurIPS",
            Policy("min-max", "one-hot", "impute", "standard"),
            **_FEATURES,
        ),
        _own(
            "xgboost",
            "xgboost:XGBoost",
            "regularised boosting on binned features",
            "Chen and Guestrin 2016, arXiv:1603.02754",
            _ONE_HOT,
            libraries=("xgboost", *SKLEARN),
            **_GBDT,
        ),
    )
}


# -- finding a model ------------------------------------------------------------------------------


def load_class(target: str) -> type:
    """The class behind `package.module:Class`; ValueError says what is missing."""
    module_name, _, class_name = target.partition(":")
    if not class_name or not all(part.isidentifier() for part in module_name.split(".")):
        raise ValueError(f"a model outside the registry is package.module:Class, got {target!r}")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"cannot import {module_name!r} for model {target!r}: {error}; "
            "is it installed, or on PYTHONPATH?"
        ) from error
    found = getattr(module, class_name, None)
    if not inspect.isclass(found):
        classes = [n for n, v in vars(module).items() if inspect.isclass(v)]
        raise ValueError(
            f"{module_name!r} has no class {class_name!r}{did_you_mean(class_name, classes)}"
        )
    return found


def entry_points() -> dict[str, str]:
    """Installed models of other packages: name -> `package.module:Class`."""
    found: dict[str, str] = {}
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda p: (p.name, p.value)):
        if point.name in MODELS or found.get(point.name, point.value) != point.value:
            other = MODELS[point.name].target if point.name in MODELS else found[point.name]
            raise ValueError(
                f"the installed model {point.name!r} ({point.value}) has the name of {other}; "
                f"one of the two must be renamed or uninstalled"
            )
        found[point.name] = point.value
    return found


def spec(name: str) -> ModelSpec:
    """The spec of a registered, installed (entry point) or external (`package.module:Class`) model.

    ValueError for an unknown name (with a suggestion) and for an external class that takes the name
    of a registered model or lacks what a model needs.
    """
    if name in MODELS:
        return MODELS[name]
    if ":" in name:
        return _external(name, None)
    installed = entry_points()
    if name in installed:
        return _external(installed[name], name)
    known = sorted({*MODELS, *installed})
    raise ValueError(
        f"unknown model {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}; "
        "a class of your own is package.module:Class"
    )


def names() -> list[str]:
    """Names of all registered and installed models, sorted."""
    return sorted({*MODELS, *entry_points()})


def _external(target: str, name: str | None) -> ModelSpec:
    cls: Any = load_class(target)
    missing = [m for m in ("fit", "predict") if not callable(getattr(cls, m, None))]
    if missing:
        raise ValueError(f"model {target!r} has no method {' and no '.join(missing)}")
    own = name or _checked_name(getattr(cls, "name", None), target) or target
    if name is None and own in MODELS:
        raise ValueError(
            f"model {target!r} calls itself {own!r}, which is the name of {MODELS[own].target}; "
            "give the class another `name`"
        )
    owners = _distributions(target.partition(":")[0].partition(".")[0])
    return ModelSpec(
        own,
        target,
        tasks=tuple(getattr(cls, "tasks", TASKS)),
        family=str(getattr(cls, "family", "external")),
        libraries=tuple(getattr(cls, "libraries", (*owners, *SKLEARN))),
        threads=int(getattr(cls, "needs_threads", 1)),
        max_rows=getattr(cls, "max_rows", None),
        summary=(inspect.getdoc(cls) or "").partition("\n")[0],
        preprocessing=getattr(cls, "policy", Policy()),
        resource=_resource(cls, target),
        gpu_mb=float(getattr(cls, "gpu_mb", 0.0)),
    )


def _checked_name(name: Any, target: str) -> str | None:
    """What a class calls itself. Odd names are written harmlessly wherever they go; ValueError for
    one that is no text, has control characters, or reads as a way to another folder."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise ValueError(f"model {target!r}: its `name` must be a text, not {name!r}")
    way = ".." in name.replace("\\", "/").split("/") or name.startswith(("/", "~"))
    if way or any(ord(c) < 32 or ord(c) == 127 for c in name):
        raise ValueError(
            f"model {target!r} calls itself {name[:80]!r}: a name has no control characters and "
            "is no path"
        )
    return name


def _resource(cls: Any, target: str) -> str:
    """The `resource` that a class declares; ValueError where it does not keep what that means."""
    name = str(getattr(cls, "resource", ""))
    if name and not callable(getattr(cls, "fit_to", None)):
        raise ValueError(f"model {target!r} declares resource = {name!r} but has no method fit_to")
    if name and not _takes(inspect.signature(cls).parameters, name):
        raise ValueError(f"model {target!r} declares resource = {name!r}, which it does not take")
    return name


@cache
def _distributions(package: str) -> tuple[str, ...]:
    """The installed distributions that a top-level package belongs to (a slow question)."""
    return tuple(sorted(set(metadata.packages_distributions().get(package, []))))


def _takes(parameters: Mapping[str, inspect.Parameter], name: str) -> bool:
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


# -- making one -----------------------------------------------------------------------------------


def make_model(
    name: str, *, task: str, seed: int = 0, threads: int | None = None, **config: Any
) -> Any:
    """An unfitted estimator. `threads` None means what the model declares.

    A class from elsewhere is given what it takes of task, seed (or `random_state`) and threads (or
    `n_jobs`).
    `InvalidConfig` (a ValueError) for an unknown hyperparameter or a value that it does not accept.

    >>> make_model("knn", task="binary", n_neighbors=3)
    KNN(n_neighbors=3, task='binary')
    """
    found = spec(name)
    if task not in TASKS:
        raise ValueError(f"unknown task {task!r}{did_you_mean(task, TASKS)}; known: {TASKS}")
    cls: Any = load_class(found.target)
    accepted = inspect.signature(cls).parameters
    known = [n for n, p in accepted.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    own = {"task": task, "seed": seed, "threads": found.threads if threads is None else threads}
    for ours, theirs in (("seed", "random_state"), ("threads", "n_jobs")):
        if ours not in accepted and theirs in accepted:
            own[theirs] = own.pop(ours)
    for key in config:
        if not _takes(accepted, key) or key in own:
            raise InvalidConfig(
                f"{name}: unknown hyperparameter {key!r}{did_you_mean(key, known)}; "
                f"known: {', '.join(sorted(set(known) - set(own)))}"
            )
    model = cls(**{k: v for k, v in own.items() if _takes(accepted, k)}, **config)
    if isinstance(model, Estimator):
        model.check()
    return model


def defaults(name: str) -> dict[str, Any]:
    """The hyperparameters of a model with their default values."""
    cls: Any = load_class(spec(name).target)
    return {
        n: list(p.default) if isinstance(p.default, tuple) else p.default
        for n, p in inspect.signature(cls).parameters.items()
        if n not in ("task", "seed", "threads", "device") and p.default is not p.empty
    }


def unsupported(
    spec: ModelSpec, task: str, n_rows: int, n_features: int, n_classes: int
) -> str | None:
    """Why a model does not run on `n_rows` training rows of a task, or None where it does."""
    if task not in spec.tasks:
        return f"{spec.name} has no {task} form"
    if spec.max_rows is not None and n_rows > spec.max_rows:
        return f"{spec.name} takes at most {spec.max_rows} training rows, here are {n_rows}"
    if spec.max_classes is not None and n_classes > spec.max_classes:
        return f"{spec.name} takes at most {spec.max_classes} classes, here are {n_classes}"
    return None


# -- search spaces --------------------------------------------------------------------------------

SECTIONS = {
    "binary": ("classification", "binary"),
    "multiclass": ("classification", "multiclass"),
    "regression": ("regression",),
}
SPACE_KEYS = (
    "note",
    "source",
    "search",
    "params",
    *sorted({s for v in SECTIONS.values() for s in v}),
)


@cache
def _declared(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


def spaces(name: str, task: str) -> dict[str, dict[str, Any]]:
    """The search spaces of a model for a task, as plain data.

    space name -> {"params": {...}, "note": str, "source": str, "search": {...}}, where a parameter
    is {"kind": "fixed" | "choice" | "uniform" | "log-uniform" | "int" | "optional" | "variants",
    ...} with the bounds or values of its kind, and "search" may say `strategy` and `n_configs`. A
    space file (or a class's `spaces()`) may keep `params` by kind of task, in sub-tables
    `classification`, `binary`, `multiclass` and `regression`, which add to the common ones; a space
    that does not exist for the task is left out. A model that declares none has one, `default`,
    without parameters: its default configuration is its only trial, and the note says so.
    """
    found = spec(name)
    file = SPACES / f"{found.name}.toml"
    if found.name in MODELS:
        data = _declared(file)
    else:
        declare = getattr(load_class(found.target), "spaces", None)
        note = "declares no space: its default configuration is its only trial"
        data = declare() if callable(declare) else {"default": {"params": {}, "note": note}}
    return {
        space: resolved
        for space, table in data.items()
        if (resolved := _resolve(found.name, space, table, task)) is not None
    }


def _resolve(model: str, space: str, table: Any, task: str) -> dict[str, Any] | None:
    if not isinstance(table, Mapping):
        raise ValueError(f"space {space!r} of {model} must be a table, got {table!r}")
    for key in table:
        if key not in SPACE_KEYS:
            raise ValueError(
                f"unknown key {key!r} in space {space!r} of {model}{did_you_mean(key, SPACE_KEYS)}"
            )
    parts = [table[s] for s in SECTIONS[task] if s in table]
    if not parts and "params" not in table:
        return None
    params: dict[str, Any] = dict(table.get("params", {}))
    notes, search = [table.get("note", "")], dict(table.get("search", {}))
    for part in parts:
        params |= part.get("params", {})
        notes.append(part.get("note", ""))
        search |= part.get("search", {})
    return {
        "params": params,
        "note": " ".join(n for n in notes if n),
        "source": table.get("source", ""),
        "search": search,
    }


def default_config(name: str, task: str, space: str = "default") -> dict[str, Any]:
    """The default configuration as a point of a space: a default for each searched parameter.

    Fixed parameters have their fixed value, of variants the first is taken; a conditional parameter
    whose condition fails is left out. For `default` spaces the point lies inside the space; for
    others it may not.
    """
    values = defaults(name)
    out: dict[str, Any] = {}
    for key, param in spaces(name, task)[space]["params"].items():
        when = param.get("when", {})
        if any(out.get(k, values.get(k)) not in allowed for k, allowed in when.items()):
            continue
        if param.get("kind") == "variants":
            out |= param["values"][0]
        else:
            out[key] = param["value"] if param.get("kind") == "fixed" else values[key]
    return out
