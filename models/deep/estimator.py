"""Base of all network estimators: device, precision, seeds, resumable fits, plain weights.

A subclass writes `_task` (network and losses on encoded rows), `_recipe`, `_network`, `_kept` and
the two answers; the fitted model is `model_`, a dictionary of arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from inspect import signature
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..base import BadState
from ..hyperparameters import SWITCH, Number, OneOf, hyper
from ..resumable import Stepwise
from .matrix_products import by_onednn
from .trainer import (
    PRECISIONS,
    Recipe,
    Task,
    Training,
    autocast,
    computing,
    resolved_precision,
    seeded,
    torch_device,
)

STEPS = Number(1, 10_000_000, whole=True)
PATIENCE = Number(0, 10_000_000, whole=True)
Module = TypeVar("Module")
Rows = tuple[np.ndarray, np.ndarray]  # x (N, F) as the preprocessing gives it; y (N,)


class DeepEstimator(Stepwise):
    """Base of the networks: trained in steps, the weights with the least validation loss kept.

    A subclass may count its schedule in something longer than a step (`resource`, `_unit`).

    After `fit`: `model_` (weights and what prediction needs, as arrays), `curve_` (n, 2) steps (or
    what `resource` counts) and validation losses, `best_iteration_`, `n_iter_`. Not saved with the
    model: `step_s_` (seconds a step), `precision_` (`fp32` or `bf16`: what `precision` meant here).
    """

    resource = "steps"
    reads_back = False  # a state holds all that a later step depends on
    computes_in = "float32"
    transient: ClassVar[tuple[str, ...]] = ("step_s_", "precision_", "_loaded")

    device: str = hyper("cpu", OneOf(("cpu", "cuda")), "Where the network is trained and predicts.")
    precision: str = hyper(
        "auto",
        OneOf(PRECISIONS),
        "Number format: `bf16` runs the network under autocast, `auto` does so on a GPU that "
        "has it.",
    )
    compile: bool = hyper(False, SWITCH, "Whether torch.compile is used on a GPU.")

    # -- what a subclass writes -------------------------------------------------------------------

    def _task(self, train: Rows, val: Rows | None) -> Task:
        """Network and losses; its weights are drawn under the fit's seed."""
        raise NotImplementedError

    def _recipe(self) -> Recipe:
        """How it is trained."""
        raise NotImplementedError

    def _network(self) -> Any:
        """The network of this configuration and data, with any weights."""
        raise NotImplementedError

    def _made(self, kind: Callable[..., Module], **given: Any) -> Module:
        """A network, or a part of one: of its parameters those in `given`, all others from the
        attribute of the same name, a hyperparameter or a fact of the table."""
        names = signature(kind).parameters
        return kind(**given, **{name: getattr(self, name) for name in names if name not in given})

    def _kept(self, train: Rows, val: Rows | None) -> dict[str, Any]:
        """Arrays beside the weights that prediction needs (the rows that it attends to)."""
        return {}

    def _unit(self) -> int:
        """Steps of the optimiser in one of `resource`; asked after `_task`."""
        return 1

    # -- fitting ----------------------------------------------------------------------------------

    def _begin(self, x: np.ndarray, y: np.ndarray, X_val: Any, y_val: Any) -> Any:
        val = self._validation(X_val, y_val)
        return self._training((x, y), val), val

    def _go_on(self, training: Any, state: Any) -> None:
        try:
            training[0].go_on_from(state)
        except ValueError as error:
            raise BadState(f"the state is of another network: {error}") from None

    def _grow(self, training: Any, step: int, until: int) -> Any:
        training[0].run(until * self._unit())
        return training[0].state()

    def _end(self, training: Any, x: np.ndarray, y: np.ndarray, stop: int) -> None:
        trained, val = training
        if trained.step and not trained.curve:
            trained.evaluate()
        self._finish(trained, (x, y), val)

    # -- inside -----------------------------------------------------------------------------------

    def _training(self, train: Rows, val: Rows | None) -> Training:
        torch_device(self.device)
        with seeded(self.seed):
            task = self._task(train, val)
        training = Training(task, self._recipe(), seed=self.seed, device=self.device)
        training.out_of_time = self._out_of_time
        return training

    def _fit(self, x: np.ndarray, y: np.ndarray, val: Rows | None) -> None:
        training = self._training((x, y), val)
        training.run(getattr(self, self.resource) * self._unit())
        self._finish(training, (x, y), val)

    def _finish(self, training: Training, train: Rows, val: Rows | None) -> None:
        weights = training.outcome()
        self.model_ = {"weights": weights, **self._kept(train, val)}
        unit = self._unit()
        self.curve_ = np.array(training.curve, dtype=np.float64).reshape(-1, 2)
        self.curve_[:, 0] /= unit
        self.n_iter_, self.best_iteration_ = training.step // unit, training.best_step // unit
        self.step_s_ = training.step_s
        self.precision_ = resolved_precision(self.precision, training.device)
        self._loaded = None

    def _early_stopping(self) -> bool:
        return True  # the validation rows choose the weights

    @contextmanager
    def _limits(self) -> Any:
        with computing(self.threads):
            yield

    @contextmanager
    def _ready(self) -> Any:
        """The fitted network in evaluation mode on its device."""
        import torch

        device = torch_device(self.device)
        if getattr(self, "_loaded", None) is None:
            with seeded(0):
                module = self._network()
            weights = {n: torch.from_numpy(a) for n, a in self.model_["weights"].items()}
            module.load_state_dict(weights)
            self._loaded = module.to(device).eval()
        loaded: Any = self._loaded
        with torch.no_grad(), autocast(self.precision, device), by_onednn(loaded, device):
            yield loaded

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {k: v for k, v in state.items() if not (k in self.transient and k[0] == "_")}
