"""Torch modules from elsewhere as estimators: what a constructor is told, what is searched.

A module is told the form of the table and answers batches of rows. `estimator_of` makes the class
of its estimator, whose fit is that of every network of single rows (`deep/row_network.py`).
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ..common.text import did_you_mean, one_line
from .base import softmax, two_columns
from .deep.layers.dropout import Seed
from .deep.row_network import RowNetwork, RowTask
from .deep.trainer import Recipe, Task, seed_of, seeded, torch_device
from .hyperparameters import InvalidConfig, OneOf, hyper
from .policy import Policy

ESTIMATOR = "tabsweep_estimator"  # the attribute of a module's class that holds its estimator
FACTS = ("n_numeric", "cardinalities", "n_out")  # what a constructor is told of the table
GIVEN = (*FACTS, "task", "seed", "threads", "device")
DECLARED = ("name", "tasks", "family", "libraries", "max_rows", "needs_threads", "gpu_mb")
LEAST_STEPS = 300  # without a better validation loss, before a fit of a small table ends
TIE = 1e-9  # less than two values of a metric of classes differ by
FEW_ROWS, SMALL_BATCH = 5_000, 64  # below so many training rows, batches of this many
SEARCHED: dict[str, Any] = {  # of every module that declares no space
    "lr": {"kind": "log-uniform", "low": 1e-4, "high": 1e-2},
    "weight_decay": {"kind": "log-uniform", "low": 1e-6, "high": 1e-2},
}

# -- what a fit stops by: losses of class codes (N,) and their probabilities (N, C) ---------------


def _lacking(score: str, codes: np.ndarray, shares: np.ndarray) -> float:
    """1 - a score of scikit-learn that looks at predicted classes."""
    from sklearn import metrics

    return 1.0 - float(getattr(metrics, score)(codes, shares.argmax(axis=1)))


def _log_loss(codes: np.ndarray, shares: np.ndarray) -> float:
    return float(-np.log(shares[np.arange(len(codes)), codes].clip(1e-15)).mean())


def _brier(codes: np.ndarray, shares: np.ndarray) -> float:
    return float(((shares - np.eye(shares.shape[1])[codes]) ** 2).sum(axis=1).mean())


def _area_lacking(codes: np.ndarray, shares: np.ndarray) -> float:
    """1 - ROC AUC, of three classes and more the mean of one against the rest; the log loss where
    a class has no row."""
    from sklearn.metrics import roc_auc_score

    if len(np.unique(codes)) < shares.shape[1]:
        return _log_loss(codes, shares)
    asked = shares[:, 1] if shares.shape[1] == 2 else shares
    return 1.0 - float(roc_auc_score(codes, asked, multi_class="ovr"))


STOPS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "metric": partial(_lacking, "accuracy_score"),
    "accuracy": partial(_lacking, "accuracy_score"),
    "balanced_accuracy": partial(_lacking, "balanced_accuracy_score"),
    "mcc": partial(_lacking, "matthews_corrcoef"),
    "roc_auc": _area_lacking,
    "loss": _log_loss,
    "log_loss": _log_loss,
    "brier": _brier,
}


class ModuleTask(RowTask):
    """As of all networks of rows, but for the validation loss: the metric that `stop_on` names.

    Few rows have few values of a metric of classes: of equal ones that with the lower log loss is
    better, so that no fit ends while its metric rests.
    """

    def val_loss_of(self, out: Tensor, targets: Tensor) -> float:
        """The validation loss of outputs (B,) or (B, C)."""
        stop_on = self.settings.stop_on
        if self.settings.task == "regression":
            if stop_on == "mae" and self.settings.quantile is None:
                return float((out - targets).abs().mean())
            return super().val_loss_of(out, targets)
        if not out.isfinite().all():
            return float("nan")
        codes, shares = targets.cpu().numpy(), shares_of(out.cpu().numpy())
        loss = _log_loss(codes, shares)
        return STOPS[stop_on](codes, shares) + TIE * loss / (1.0 + loss)


def shares_of(out: np.ndarray) -> np.ndarray:
    """Probabilities (N, C) of logits (N, C), or (N, 2) of those of the second class (N,)."""
    return softmax(out) if out.ndim == 2 else two_columns(np.exp(-np.logaddexp(0.0, -out)))


# -- the estimator -------------------------------------------------------------------------------


class Answering(nn.Module):
    """The user's module as `RowTask` calls it: what it draws in a step follows from the fit's seed
    and the step alone, and one output a row comes as (B,)."""

    def __init__(self, module: nn.Module, n_out: int) -> None:
        super().__init__()
        self.module, self.n_out = module, n_out

    def forward(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:
        """(B,) values or logits of the second class, or (B, C) logits. ValueError for another
        shape."""
        with seeded(seed_of(*seed)) if seed else nullcontext():
            out = self.module(numbers, codes)
        kinds = {(len(numbers), self.n_out)} | ({(len(numbers),)} if self.n_out == 1 else set())
        got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        if got not in kinds:
            raise ValueError(
                f"forward gave {got} for {len(numbers)} rows where (rows, n_out) = "
                f"{(len(numbers), self.n_out)} is needed"
            )
        return out.squeeze(-1) if out.dim() == 2 and self.n_out == 1 else out


class OwnModule(RowNetwork):
    """Base of the estimators of modules from elsewhere; `module` is the user's class.

    Numbers are quantile-transformed, gaps get the training mean and a 0/1 column; targets are
    standardised. Of the epochs the one counts that is best by `stop_on` on validation rows.
    """

    module: ClassVar[type[nn.Module]]
    make_task: ClassVar[Callable[..., Task]] = ModuleTask
    policy: ClassVar[Policy] = Policy("quantile", "ordinal", "impute", "standard")
    gpu_mb: ClassVar[float] = 2000.0

    lr: float = 1e-3
    stop_on: str = hyper(
        "metric",
        OneOf((*STOPS, "rmse", "mae")),
        "The validation loss: `metric` (share of wrong classes or RMSE), `loss` (as in training), "
        "or a metric by its name, which a sweep sets to the one that it ranks by.",
    )

    def check(self) -> None:
        """Raises `InvalidConfig` where `stop_on` is of another task, and where the module cannot be
        made or answers in another form, which two rows of three numbers and two categories tell."""
        super().check()
        known = ("metric", "loss", "rmse", "mae") if self.task == "regression" else tuple(STOPS)
        name = self.module.__name__
        if self.stop_on not in known:
            raise InvalidConfig(
                f"{name}: stop_on of a {self.task} task must be one of {', '.join(known)}, got "
                f"{self.stop_on!r}"
            )
        n_out = 3 if self.task == "multiclass" else 1
        try:
            with seeded(self.seed):
                made = self._made_of(n_numeric=3, cardinalities=[3, 2], n_out=n_out)
            if not any(p.requires_grad for p in made.parameters()):
                raise ValueError("it has no parameters to train")
        except Exception as error:  # code of the user, which may raise anything
            said = "" if type(error) is ValueError else f"{type(error).__name__}: "
            raise InvalidConfig(f"{name}: {said}{one_line(error)}") from error

    def rows_a_batch(self, n: int) -> int:
        """Rows of a step for a table of n training rows; small tables have small batches."""
        return self.batch_size or (SMALL_BATCH if n < FEW_ROWS else super().rows_a_batch(n))

    def _recipe(self) -> Recipe:
        """As of all networks of rows; patience lasts for at least `LEAST_STEPS` steps."""
        recipe = super()._recipe()
        if not recipe.patience:
            return recipe
        return replace(recipe, patience=max(recipe.patience, LEAST_STEPS // self._unit()))

    def _network(self) -> Answering:
        # codes that training rows did not have are one more level
        sizes = [n + 1 for n in self.sizes]
        return self._made_of(n_numeric=self.n_numeric, cardinalities=sizes, n_out=self.n_out)

    def _made_of(self, **told: Any) -> Answering:
        """The module, told these facts of a table; two rows have passed it, so lazy layers are made
        and its answer has the right form. ValueError, and whatever the user's code raises."""
        names = parameters_of(self.module)
        given = {n: told[n] if n in told else getattr(self, n) for n in names}
        device = torch_device(self.device)
        made = Answering(self.module(**given), told["n_out"]).to(device)
        numbers = torch.zeros(2, told["n_numeric"], device=device)
        codes = torch.zeros(2, len(told["cardinalities"]), dtype=torch.int64, device=device)
        with torch.no_grad():
            made.eval()(numbers, codes)
        return made


def parameters_of(cls: type[nn.Module]) -> dict[str, inspect.Parameter]:
    """The named parameters of a module's constructor; none of a class that takes `**` alone."""
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {n: p for n, p in inspect.signature(cls).parameters.items() if p.kind not in variable}


def estimator_of(cls: type[nn.Module]) -> type[OwnModule]:
    """The class of the estimators that train a module's class, made once, kept as its attribute.

    The hyperparameters are those of every network of rows and the module's own: what its
    constructor takes beyond `GIVEN`, each with its default. ValueError for a module that lacks a
    `forward` of two arguments, or whose constructor needs what nobody gives.
    """
    if ESTIMATOR in vars(cls):
        found: type[OwnModule] = vars(cls)[ESTIMATOR]
        return found
    _check_forward(cls)
    own = {n: p.default for n, p in parameters_of(cls).items() if n not in GIVEN}
    for name, default in own.items():
        if default is inspect.Parameter.empty:
            raise ValueError(
                f"the constructor of {cls.__name__} needs {name!r}{did_you_mean(name, GIVEN)}; "
                f"a module is told {', '.join(GIVEN)}: give the rest a default"
            )
        taken = hasattr(OwnModule, name) or name in (*DECLARED, "spaces")
        if taken and name not in OwnModule.rules:
            raise ValueError(
                f"the constructor of {cls.__name__} takes {name!r}, which every estimator has: "
                "rename it"
            )
    kept = {n: tuple(v) if isinstance(v, list) else v for n, v in own.items()}
    space = getattr(cls, "spaces", None) or {"default": {"params": SEARCHED | _hinted(cls, own)}}
    made: type[OwnModule] = type(
        cls.__name__,
        (OwnModule,),
        {
            **kept,
            **{name: getattr(cls, name) for name in DECLARED if hasattr(cls, name)},
            "__annotations__": dict.fromkeys(kept, Any),
            "__module__": cls.__module__,
            "__qualname__": f"{cls.__qualname__}.{ESTIMATOR}",
            "__doc__": cls.__doc__ or "A torch module.",
            "module": cls,
            "spaces": staticmethod(space) if callable(space) else space,
        },
    )
    setattr(cls, ESTIMATOR, made)
    return made


def _check_forward(cls: type[nn.Module]) -> None:
    """ValueError where `forward` is missing or does not take numbers and codes."""
    law = f"{cls.__name__} needs a method forward(self, x_num, x_cat)"
    if cls.forward is nn.Module.forward:
        raise ValueError(f"{law}; it has none")
    signature = inspect.signature(cls.forward)
    try:
        signature.bind(None, None, None)
    except TypeError:
        raise ValueError(f"{law}; it has forward{signature}") from None


def _hinted(cls: type[nn.Module], own: dict[str, Any]) -> dict[str, Any]:
    """What the type hints of a constructor say may be searched: `bool`, `Literal[64, 128]`,
    `Annotated[int, 16, 256]`, `Annotated[float, 0.0, 0.5]`, and with "log" after the bounds."""
    try:
        hints = typing.get_type_hints(cls.__init__, include_extras=True)
    except Exception as error:  # names that the module lacks
        raise ValueError(
            f"the type hints of {cls.__name__} cannot be read: {one_line(error)}"
        ) from error
    found = {name: _searched(hints[name]) for name in own if name in hints}
    return {name: entry for name, entry in found.items() if entry}


def _searched(hint: Any) -> dict[str, Any]:
    """A space's entry for a type hint, {} for one that names no values."""
    if hint is bool:
        return {"kind": "choice", "values": [False, True]}
    if typing.get_origin(hint) is typing.Literal:
        return {"kind": "choice", "values": list(typing.get_args(hint))}
    kind, *said = typing.get_args(hint) if typing.get_origin(hint) is typing.Annotated else [hint]
    if kind not in (int, float) or not all(isinstance(x, int | float) for x in said[:2]):
        return {}
    if len(said) < 2 or said[2:] not in ([], ["log"]):
        return {}
    low, high = map(kind, said[:2])
    if kind is int:
        return {"kind": "int", "low": low, "high": high, "log": bool(said[2:])}
    return {"kind": "log-uniform" if said[2:] else "uniform", "low": low, "high": high}
