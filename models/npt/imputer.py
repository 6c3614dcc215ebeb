"""NPT predicts any masked cell: gaps of a table are filled (Kossen et al. 2021, 2.6, C.4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..deep.cells import Cells, Columns, cells_of, fitting_width
from ..deep.column_decoder import Decoded, probabilities
from ..deep.schedules import rate
from ..deep.trainer import Recipe, Training, computing, seeded, torch_device
from .network import NPTNetwork
from .prediction import TRAIN, decode_inductive, stored_context
from .task import NPTTask


@dataclass(frozen=True)
class _Column:
    """How a column becomes numbers, and numbers its values: its categories, or None and the mean
    and scale of its numbers."""

    categories: pd.Index | None
    mean: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, values: pd.Series) -> _Column:
        known = values.dropna()
        if not len(known):
            raise ValueError(f"column {values.name!r} has no value to learn from: leave it out")
        numbers = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
        if not numbers:
            return cls(pd.Index(sorted(known.unique(), key=str), dtype=object))
        numeric = known.to_numpy(dtype=float)
        return cls(None, float(numeric.mean()), float(numeric.std()) or 1.0)

    def encode(self, values: pd.Series) -> np.ndarray:  # (N,), NaN where missing or unknown
        if self.categories is None:
            return (values.to_numpy(dtype=float, na_value=np.nan) - self.mean) / self.scale
        codes = self.categories.get_indexer(values.astype(object)).astype(float)
        return np.where(codes < 0, np.nan, codes)

    def decode(self, decoded: Decoded, at: int) -> np.ndarray:  # (N,) values as in the table
        found = decoded.of(at).double().cpu().numpy()
        if self.categories is None:
            return self.mean + self.scale * found
        return self.categories.to_numpy()[found.argmax(axis=1)]


class NPTImputer(TransformerMixin, BaseEstimator):
    """Fills gaps by a Non-Parametric Transformer, which predicts every cell from the other cells of
    its row and from the other rows.

    It learns as NPT does: in every step some known cells are hidden and predicted. Numbers get a
    mean, categories (all that is no number) the likeliest value. A row to fill attends to the
    fitted table and to itself, so that no other row to fill changes its answer.

    Without `targets` all columns are alike (self-supervision). With targets they have a loss of
    their own, to which the weight moves as in NPT, and `predict` answers all of them; rows whose
    targets are missing are learned from, too (semi-supervised).

    Parameters
    ----------
    targets : sequence of column names, default=()
        The columns that `predict` answers.
    steps : int, default=1000
        Steps of the optimiser.
    lr : float, default=1e-3
        Learning rate at its peak, kept for half of the steps; then half a cosine to 0.
    width : int, default=32
        Width of a cell's vector, E; divided by `n_heads`.
    max_width : int, default=512
        The widest row, columns times E; above it `width` is reduced. 0 for no limit.
    n_layers : int, default=4
        Layers: attention between rows and between columns in turn.
    n_heads : int, default=4
        Heads of attention.
    p_mask : float, default=0.15
        Share of the known cells that are hidden in a step.
    p_target : float, default=0.5
        Share of the known targets that are hidden in a step.
    dropout : float, default=0.1
        Dropout on hidden values and attention weights.
    batch_size : int, default=0
        Rows of a step, 0 for all.
    seed : int, default=0
        Of weights, masks and dropout.
    threads : int, default=1
        Threads of the computation.
    device : {"cpu", "cuda"}, default="cpu"
        Where it computes.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> X = pd.DataFrame({"a": [0.0, 1.0, np.nan, 1.0], "b": ["no", "yes", "no", None]})
    >>> filled = NPTImputer(steps=20, width=8, n_layers=2).fit_transform(X)
    >>> bool(filled.isna().any().any()), filled["b"].tolist()[:3]
    (False, ['no', 'yes', 'no'])
    """

    def __init__(
        self,
        *,
        targets: Sequence[Any] = (),
        steps: int = 1000,
        lr: float = 1e-3,
        width: int = 32,
        max_width: int = 512,
        n_layers: int = 4,
        n_heads: int = 4,
        p_mask: float = 0.15,
        p_target: float = 0.5,
        dropout: float = 0.1,
        batch_size: int = 0,
        seed: int = 0,
        threads: int = 1,
        device: str = "cpu",
    ) -> None:
        self.targets = targets
        self.steps = steps
        self.lr = lr
        self.width = width
        self.max_width = max_width
        self.n_layers = n_layers
        self.n_heads = n_heads
        self.p_mask = p_mask
        self.p_target = p_target
        self.dropout = dropout
        self.batch_size = batch_size
        self.seed = seed
        self.threads = threads
        self.device = device

    def fit(self, X: Any, y: Any = None) -> NPTImputer:
        """Learn from the known cells of X, (N, d): a DataFrame, or an array of numbers. y is not
        used. Raises ValueError for a column without a value, and for a target that X lacks."""
        frame = _frame(X)
        for name in self.targets:
            if name not in frame:
                raise ValueError(f"no column {name!r} among {', '.join(map(str, frame))}")
        self.n_features_in_ = frame.shape[1]
        self.feature_names_in_ = np.asarray(frame.columns, dtype=object)
        self.columns_ = [_Column.of(frame[name]) for name in frame]
        kinds = [column.categories for column in self.columns_]
        columns = Columns(
            sizes=tuple(1 if known is None else len(known) for known in kinds),
            categorical=tuple(known is not None for known in kinds),
            targets=tuple(frame.columns.get_loc(name) for name in self.targets),
        )
        device = torch_device(self.device)
        with seeded(self.seed):
            self.module_ = NPTNetwork(
                columns,
                width=fitting_width(self.width, self.max_width, columns.n, self.n_heads),
                n_layers=self.n_layers,
                n_heads=self.n_heads,
                p_weights=self.dropout,
                p=self.dropout,
            ).to(device)
        self.table_ = self._cells(frame)
        task = NPTTask(
            self.module_, self.table_, np.full(len(frame), TRAIN), None, self._settings()
        )
        recipe = Recipe(
            steps=self.steps,
            rate=lambda s: rate("flat-cosine", s, self.steps, self.lr),
            eval_every=max(1, self.steps),
            clip_value=1.0,
            lookahead=(0.5, 6),
        )
        with computing(self.threads):
            Training(task, recipe, seed=self.seed, device=self.device).run(self.steps)
        self.module_.eval()
        return self

    def transform(self, X: Any) -> Any:
        """X with its gaps filled; known cells stay as they are. An array of numbers stays one."""
        frame = self._checked(X)
        cells = self._cells(frame)
        gaps = cells.hidden.cpu().numpy()
        rows = np.flatnonzero(gaps.any(axis=1))
        filled = frame.copy()
        if len(rows):
            places = [j for j in range(frame.shape[1]) if gaps[:, j].any()]
            decoded = self._answers(cells[torch.from_numpy(rows).to(cells.hidden.device)], places)
            for j in places:
                column, name = self.columns_[j], frame.columns[j]
                mine = gaps[rows, j]
                values = filled[name].to_numpy(dtype=object, copy=True)
                values[rows[mine]] = column.decode(decoded, j)[mine]
                kept = frame[name].dtype
                numeric = column.categories is None
                filled[name] = pd.Series(values, frame.index).astype(float if numeric else kept)
        return filled if isinstance(X, pd.DataFrame) else filled.to_numpy()

    def predict(self, X: Any) -> pd.DataFrame:
        """The targets of rows, (N, number of targets), as if they were missing in X. A row that was
        fitted still finds its known targets in the fitted table."""
        frame, places, decoded = self._of_targets(X)
        found = {frame.columns[j]: self.columns_[j].decode(decoded, j) for j in places}
        return pd.DataFrame(found, index=frame.index)

    def predict_proba(self, X: Any) -> dict[Any, np.ndarray]:
        """{target: (N, C) probabilities of its categories, in the order of `categories_`}, of the
        targets that are no numbers."""
        frame, places, decoded = self._of_targets(X)
        classes = [j for j in places if self.columns_[j].categories is not None]
        return {frame.columns[j]: probabilities(decoded.of(j)) for j in classes}

    @property
    def categories_(self) -> dict[Any, np.ndarray]:
        """{column that holds no numbers: its values}."""
        named = zip(self.feature_names_in_, self.columns_, strict=True)
        return {n: c.categories.to_numpy() for n, c in named if c.categories is not None}

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns, which stay."""
        check_is_fitted(self)
        return self.feature_names_in_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    # ---------------------------------------------------------------------------------------------

    def _settings(self) -> SimpleNamespace:
        """What a step and a prediction of NPT ask an `NPT`."""
        of_targets = {"tradeoff_schedule": "cosine" if self.targets else "constant"}
        return SimpleNamespace(
            **of_targets, tradeoff=1.0, steps=self.steps, p_feature=self.p_mask, seed=self.seed,
            p_target=self.p_target, batch_size=self.batch_size, balanced=False, transductive=False,
            n_heads=self.n_heads,
        )  # fmt: skip

    def _checked(self, X: Any) -> pd.DataFrame:
        check_is_fitted(self)
        frame = _frame(X)
        if list(frame.columns) != list(self.feature_names_in_):
            wanted = ", ".join(map(str, self.feature_names_in_))
            raise ValueError(f"the columns must be those of fit: {wanted}")
        return frame

    def _cells(self, frame: pd.DataFrame) -> Cells:
        coded = [c.encode(frame[name]) for c, name in zip(self.columns_, frame, strict=True)]
        return cells_of(np.column_stack(coded), self.module_.columns).to(torch_device(self.device))

    def _of_targets(self, X: Any) -> tuple[pd.DataFrame, tuple[int, ...], Decoded]:
        frame = self._checked(X)
        cells, places = self._cells(frame), self.module_.columns.targets
        if not places:
            raise ValueError("predict answers the columns of targets, and there are none")
        cells.hidden[:, list(places)] = True
        return frame, places, self._answers(cells, places)

    def _answers(self, asked: Cells, places: Sequence[int]) -> Decoded:
        settings = self._settings()
        with torch.no_grad(), computing(self.threads):
            context = stored_context(self.module_, self.table_, settings)
            return decode_inductive(self.module_, context, asked, places, settings)


def _frame(X: Any) -> pd.DataFrame:
    return X if isinstance(X, pd.DataFrame) else pd.DataFrame(X).infer_objects()
