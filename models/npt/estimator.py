"""How is a Non-Parametric Transformer fitted and asked? (Kossen et al. 2021, arXiv:2106.02584)

The rows that it was trained on are part of the model: a prediction attends to them. By default a
row to predict sees the training rows and itself (inductive); no other row to predict changes its
answer. In the paper's own way (`transductive`) all rows of the table are attended to and masked
together, validation and test rows with their features.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ..base import COUNT, RATE, Number, OneOf
from ..deep.cells import Cells, Columns, cells_of, fitting_width, join
from ..deep.estimator import DeepEstimator, Rows
from ..deep.layers.polynomial_attention import ATTENTIONS, ORDER
from ..deep.schedules import SCHEDULES, rate
from ..deep.trainer import Recipe, torch_device
from ..preprocessing import Policy, as_frame, numbers
from .batches import deal
from .masking import without
from .network import NORMS, Context, Decoded, Network, below, probabilities
from .task import TEST, TRAIN, VAL, NPTTask

PROBABILITY = Number(0.0, 1.0)
DROPOUT = Number(0.0, 1.0, high_open=True)
WEIGHTS_AT_ONCE = 2**22  # attention weights of the rows that are asked together


class NPT(DeepEstimator):
    """Non-Parametric Transformer: self-attention between datapoints, and between attributes.

    width: of a cell's vector, e. max_width: the widest row d e; above it `width` is narrowed to a
    multiple of n_heads (0: never; ours, for wide tables on small machines). n_layers: ABD and ABA
    in turn. aba: False leaves the ABA layers out (sec. B.5). n_heads. attention, order: `softmax`
    in the ABA layers, or a polynomial of their attention matrix and its order (CheAtt).
    dropout: on hidden values, dropout_weights: on attention weights, with a polynomial on what its
    heads answer. norm: `query` as the authors' code, `all` as eq. 4.
    p_feature, p_target: shares of feature cells and training targets that are masked in a step;
    with p_target < 1 the other training targets are seen, at prediction all of them. tradeoff,
    tradeoff_schedule: weight of the feature loss and its way to 0 (`cosine`, `linear`, `constant`).
    lr, schedule, schedule_share: see `deep.schedules.rate`. lookahead: with Lookahead (0.5, 6).
    clip: limit of each element of the gradient. batch_size: rows of a step, 0 for all; balanced:
    batches keep the shares of the classes. transductive: see the module; such a fit also takes
    X_test. val_in_context: rows to predict also see the validation rows and labels, as in the
    authors' code (not when these rows themselves are predicted; with p_target < 1 this is an
    advantage over models that are fitted on training rows alone). Targets may be several: y (N, T).

    Defaults are NPT-Base (C.1.1) with the flat share and full batches of the small sets (C.1.2).
    """

    rules = {
        **DeepEstimator.common_rules,
        "width": COUNT,
        "max_width": Number(0, 1_000_000, whole=True),
        "n_layers": Number(1, 1000, whole=True),
        "n_heads": COUNT,
        "aba": OneOf((True, False)),
        "attention": OneOf(ATTENTIONS),
        "order": ORDER,
        "norm": OneOf(NORMS),
        "dropout": DROPOUT,
        "dropout_weights": DROPOUT,
        "p_feature": PROBABILITY,
        "p_target": Number(0.0, 1.0, low_open=True),
        "tradeoff": PROBABILITY,
        "tradeoff_schedule": OneOf(("cosine", "linear", "constant")),
        "lr": RATE,
        "schedule": OneOf(SCHEDULES),
        "schedule_share": PROBABILITY,
        "lookahead": OneOf((True, False)),
        "clip": Number(0.0, low_open=True, words=(None,)),
        "batch_size": Number(0, 10_000_000, whole=True),
        "balanced": OneOf((True, False)),
        "transductive": OneOf((True, False)),
        "val_in_context": OneOf((True, False)),
    }
    policy = Policy("standard", "native", "native", "standard")
    transient = (*DeepEstimator.transient, "_contexts", "_extra")

    def __init__(
        self,
        *,
        task: str,
        seed: int = 0,
        threads: int = 1,
        device: str = "cpu",
        precision: str = "auto",
        compile: bool = False,
        steps: int = 2000,
        eval_every: int = 1,
        patience: int = 0,
        width: int = 64,
        max_width: int = 0,
        n_layers: int = 8,
        n_heads: int = 8,
        aba: bool = True,
        attention: str = "softmax",
        order: int = 5,
        norm: str = "query",
        dropout: float = 0.1,
        dropout_weights: float = 0.1,
        p_feature: float = 0.15,
        p_target: float = 1.0,
        tradeoff: float = 1.0,
        tradeoff_schedule: str = "cosine",
        lr: float = 1e-3,
        schedule: str = "flat-cosine",
        schedule_share: float = 0.5,
        lookahead: bool = True,
        clip: float | None = 1.0,
        batch_size: int = 0,
        balanced: bool = False,
        transductive: bool = False,
        val_in_context: bool = False,
    ) -> None:
        super().__init__(task=task, seed=seed, threads=threads)
        self.device = device
        self.precision = precision
        self.compile = compile
        self.steps = steps
        self.eval_every = eval_every
        self.patience = patience
        self.width = width
        self.max_width = max_width
        self.n_layers = n_layers
        self.n_heads = n_heads
        self.aba = aba
        self.attention = attention
        self.order = order
        self.norm = norm
        self.dropout = dropout
        self.dropout_weights = dropout_weights
        self.p_feature = p_feature
        self.p_target = p_target
        self.tradeoff = tradeoff
        self.tradeoff_schedule = tradeoff_schedule
        self.lr = lr
        self.schedule = schedule
        self.schedule_share = schedule_share
        self.lookahead = lookahead
        self.clip = clip
        self.batch_size = batch_size
        self.balanced = balanced
        self.transductive = transductive
        self.val_in_context = val_in_context

    # -- the table --------------------------------------------------------------------------------

    def columns(self) -> Columns:
        """The columns of the table: features as the preprocessing orders them, then targets."""
        made = self.preprocessor_
        sizes = [1] * int((~made.categorical_).sum())
        for size, gap in zip(made.cardinalities_, made.missing_levels_, strict=True):
            sizes.append(max(1, size - gap))
        classes = [len(c) for c in self._all_classes()]
        n = len(sizes)
        return Columns(
            sizes=(*sizes, *(classes or [1] * self.n_targets_)),
            categorical=(*(bool(c) for c in made.categorical_), *[bool(classes)] * self.n_targets_),
            targets=tuple(range(n, n + self.n_targets_)),
        )

    def _all_classes(self) -> list[np.ndarray]:
        if self.task == "regression":
            return []
        return list(self.classes_) if self.n_targets_ > 1 else [self.classes_]

    def cells(self, x: np.ndarray, y: np.ndarray | None = None) -> Cells:
        """Encoded rows (N, F) and targets (N,) or (N, T), hidden where there are none, as cells."""
        if y is None:
            y = np.full((len(x), self.n_targets_), np.nan)
        y = np.asarray(y, dtype=np.float64).reshape(len(x), -1)
        whole = np.concatenate([np.asarray(x, dtype=np.float64), y], axis=1)
        return cells_of(whole, self.columns()).to(torch_device(self.device))

    def _network(self) -> Network:
        columns = self.columns()
        return Network(
            columns,
            width=fitting_width(self.width, self.max_width, columns.n, self.n_heads),
            n_layers=self.n_layers,
            n_heads=self.n_heads,
            p_weights=self.dropout_weights,
            p=self.dropout,
            norm=self.norm,
            aba=self.aba,
            attention=self.attention,
            order=self.order,
        )

    # -- fitting ----------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        X_val: Any = None,
        y_val: Any = None,
        X_test: Any = None,
        *,
        score: Callable[..., float] | None = None,
        report: Callable[[int, float], Any] | None = None,
    ) -> NPT:
        """As every model; X_test: features of the rows to predict, used by a transductive fit."""
        with self._others(X_val, X_test):
            super().fit(X, y, X_val, y_val, score=score, report=report)
        return self

    def fit_to(
        self, X: Any, y: Any, X_val: Any = None, y_val: Any = None, X_test: Any = None, **how: Any
    ) -> NPT:  # type: ignore[override]
        """As every model with steps; X_test as in `fit`."""
        with self._others(X_val, X_test):
            super().fit_to(X, y, X_val, y_val, **how)
        return self

    def _others(self, *frames: Any) -> Any:
        return _Extra(self, [as_frame(f) for f in frames if f is not None and self.transductive])

    def _seen(self, frame: pd.DataFrame) -> pd.DataFrame:
        return pd.concat([frame, *self._extra], ignore_index=True) if self._extra else frame

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        labels = np.asarray(y)
        self.n_targets_ = labels.shape[1] if labels.ndim == 2 else 1
        if self.n_targets_ == 1:
            return super()._encode_target(labels[:, 0] if labels.ndim == 2 else y, n_rows)
        encoded: list[np.ndarray] = []
        facts: list[Any] = []
        for column in labels.T:
            encoded.append(super()._encode_target(column, n_rows))
            regression = self.task == "regression"
            facts.append((self._target_mean, self._target_scale) if regression else self.classes_)
        if self.task == "regression":
            means_and_scales: Any = np.array(facts)
            self._target_mean, self._target_scale = means_and_scales.T
        else:
            self.classes_: Any = facts
        return np.column_stack(encoded)

    def _constant_answer(self, x: np.ndarray, target: np.ndarray) -> np.ndarray | None:
        return super()._constant_answer(x, target) if target.ndim == 1 else None

    def _validation(self, X_val: Any, y_val: Any) -> Rows | None:
        if self.n_targets_ == 1 or X_val is None or y_val is None:
            return super()._validation(
                X_val, None if y_val is None else np.asarray(y_val).reshape(-1)
            )
        x, labels = self.preprocessor_.transform(as_frame(X_val)), np.asarray(y_val)
        if self.task == "regression":
            return x, (labels.astype(np.float64) - self._target_mean) / self._target_scale
        found = [
            pd.Index(c).get_indexer(col) for c, col in zip(self.classes_, labels.T, strict=True)
        ]
        codes = np.column_stack(found)
        known = (codes >= 0).all(axis=1)
        return (x[known], codes[known]) if known.any() else None

    def _task(self, train: Rows, val: Rows | None) -> NPTTask:
        module = self._network().to(torch_device(self.device))
        cells = [self.cells(*train)]
        parts = [np.full(len(train[0]), TRAIN)]
        hidden_val = None if val is None else self.cells(*val)
        if self.transductive:
            if val is not None and hidden_val is not None:
                cells.append(hidden_val)
                parts.append(np.full(len(val[0]), VAL))
            if len(self._extra) > 1 or (val is None and self._extra):
                x = self.preprocessor_.transform(self._extra[-1])
                cells.append(self.cells(x))
                parts.append(np.full(len(x), TEST))
        return NPTTask(module, join(cells), np.concatenate(parts), hidden_val, self)

    def _recipe(self) -> Recipe:
        return Recipe(
            steps=self.steps,
            rate=partial(rate_at, self.schedule, self.steps, self.lr, self.schedule_share),
            eval_every=self.eval_every,
            patience=self.patience,
            clip_value=self.clip,
            lookahead=(0.5, 6) if self.lookahead else None,
            precision=self.precision,
            compile=self.compile,
        )

    def _kept(self, train: Rows, val: Rows | None) -> dict[str, Any]:
        """The training rows; the validation rows where predictions see them."""
        kept = {"x": train[0].astype(np.float32), "y": np.asarray(train[1], dtype=np.float32)}
        if val is not None and self.val_in_context:
            kept |= {"x_val": val[0].astype(np.float32), "y_val": val[1].astype(np.float32)}
        self._contexts: dict[bool, Context] = {}
        return kept

    # -- prediction -------------------------------------------------------------------------------

    def decode_rows(
        self, module: Network, cells: Cells, parts: Tensor, asked: Cells, every: bool = False
    ) -> Decoded:
        """Outputs of a network for rows whose targets are hidden from it: the targets, or `every`
        column. cells, parts: the table that it is trained on."""
        asked = without(asked, self._target_cells(asked))
        columns = range(module.columns.n) if every else module.columns.targets
        if self.transductive:
            table = self._visible(cells[parts == TRAIN])
            rest = cells[parts == TEST]
            return self._together(module, [table, rest] if len(rest) else [table], asked, columns)
        return self._alone(module, self._context(module, self._visible(cells)), asked, columns)

    def _target_cells(self, cells: Cells) -> Tensor:
        mask = torch.zeros_like(cells.hidden)
        mask[:, cells.hidden.shape[1] - self.n_targets_ :] = True
        return mask

    def _visible(self, table: Cells) -> Cells:
        """Labelled rows as predictions see them: with p_target = 1 no label is ever an input."""
        return without(table, self._target_cells(table)) if self.p_target >= 1 else table

    def _context(self, module: Network, table: Cells) -> Context:
        """Keys and values of the labelled rows; with batches, of as many as a batch has."""
        size = self.batch_size
        if 0 < size < len(table):
            rng = np.random.default_rng([self.seed, 2])
            rows = np.sort(rng.choice(len(table), size, replace=False))
            table = table[torch.from_numpy(rows).to(table.hidden.device)]
        return module.context(table)

    def _alone(self, module: Network, context: Context, asked: Cells, columns: Any) -> Decoded:
        """Rows that see the context and themselves, in blocks of one size: a row's answer is the
        same whatever is asked beside it."""
        n, h = context[0][0].shape[2], self.n_heads
        block = int(np.clip(WEIGHTS_AT_ONCE // (n * h), 16, 256))
        parts = []
        for at in range(0, len(asked), block):
            piece = asked[slice(at, at + block)]
            rows = len(piece)
            if rows < block:
                again = torch.arange(block, device=piece.hidden.device) % rows
                piece = piece[again]
            parts.append((module.decode(module.ask(piece, context), columns), rows))
        return below(parts)

    def _together(self, module: Network, table: list[Cells], asked: Cells, columns: Any) -> Decoded:
        """Rows that are part of one table with the others, in batches as in training."""
        whole = join([*table, asked])
        parts = np.repeat(np.arange(len(table) + 1), [*map(len, table), len(asked)])
        begin, n = len(whole) - len(asked), len(whole)
        size = self.batch_size if 0 < self.batch_size < n else n
        rng = np.random.default_rng([self.seed, 3])
        found, order = [], []
        for rows in deal(parts, size, rng) if size < n else [np.arange(n)]:
            wanted = np.flatnonzero(rows >= begin)
            device = whole.hidden.device
            state = module(whole[torch.from_numpy(rows).to(device)])
            decoded = module.decode(state[torch.from_numpy(wanted).to(device)], columns)
            found.append((decoded, len(wanted)))
            order.append(rows[wanted] - begin)
        back = torch.from_numpy(np.argsort(np.concatenate(order))).to(whole.hidden.device)
        return below(found).rows(back)

    def _decoded(self, x: np.ndarray, every: bool = False) -> Decoded:
        """Outputs of the fitted network for encoded rows."""
        own = self._own(x)
        groups = [(False, np.flatnonzero(own)), ("x_val" in self.model_, np.flatnonzero(~own))]
        found, order = [], []
        with self._ready() as module:
            columns = range(module.columns.n) if every else module.columns.targets
            for labelled, rows in groups:
                if len(rows):
                    asked = self.cells(x[rows])
                    found.append((self._answers(module, asked, labelled, columns), len(rows)))
                    order.append(rows)
            back = torch.from_numpy(np.argsort(np.concatenate(order)))
            return below(found).rows(back.to(torch_device(self.device)))

    def _own(self, x: np.ndarray) -> np.ndarray:  # (N,) bool
        """Which rows to predict are validation rows, and must not see their own labels."""
        seen = {row.tobytes() for row in self.model_.get("x_val", x[:0]) + np.float32(0)}
        return np.array([row.tobytes() in seen for row in x.astype(np.float32) + np.float32(0)])

    def _answers(self, module: Network, asked: Cells, labelled: bool, columns: Any) -> Decoded:
        if self.transductive:
            return self._together(module, [self._table(labelled)], asked, columns)
        contexts = self.__dict__.setdefault("_contexts", {})
        if labelled not in contexts:
            contexts[labelled] = self._context(module, self._table(labelled))
        return self._alone(module, contexts[labelled], asked, columns)

    def _table(self, labelled: bool) -> Cells:
        """The rows that a prediction sees, as it sees them; `labelled`: validation rows too."""
        kept = self.model_
        tables = [self.cells(kept["x"], kept["y"])]
        if labelled:
            tables.append(self.cells(kept["x_val"], kept["y_val"]))
        return self._visible(join(tables))

    def _predict(self, x: np.ndarray) -> np.ndarray:
        decoded = self._decoded(x)
        values = decoded.values.float().cpu().numpy().astype(np.float64)
        return values[:, 0] if self.n_targets_ == 1 else values

    def _predict_proba(self, x: np.ndarray) -> np.ndarray:
        return probabilities(self._decoded(x).of(self.columns().targets[0]))

    def predict_proba(self, X: Any) -> Any:
        """(N, C) probabilities; a list of such for several targets."""
        if getattr(self, "n_targets_", 1) == 1:
            return super().predict_proba(X)
        x, _ = self._numbers(X)
        with self._limits():
            decoded = self._decoded(x)
        sizes = [len(c) for c in self.classes_]
        targets = self.columns().targets
        return [probabilities(decoded.of(t)[:, :c]) for t, c in zip(targets, sizes, strict=True)]

    def predict(self, X: Any) -> np.ndarray:
        """(N,) labels or values, (N, T) for several targets."""
        if getattr(self, "n_targets_", 1) == 1 or self.task == "regression":
            return super().predict(X)
        answers = self.predict_proba(X)
        return np.column_stack(
            [c[p.argmax(axis=1)] for c, p in zip(self.classes_, answers, strict=True)]
        )

    def impute(self, X: Any) -> pd.DataFrame:
        """X with its gaps filled by what the network expects there, seen from the training rows.

        Numeric gaps get the expected value (the column is float64 then), categorical ones the
        likeliest category of training.
        A column without a value in training has nothing to be filled with and keeps its gaps.
        """
        x, _ = self._numbers(X)
        out = as_frame(X).copy()
        gaps = out.isna().to_numpy()
        if self.constant_ is not None or not gaps.any():
            return out
        made = self.preprocessor_
        rows = np.flatnonzero(gaps.any(axis=1))
        asked = x[rows]
        n_numeric = len(made.numeric_names_)
        with self._limits():
            decoded = self._decoded(asked, every=True)
        asked_device = decoded.values.device
        for j, name in enumerate([*made.numeric_names_, *made.category_names_]):
            empty = np.flatnonzero(gaps[rows, out.columns.get_loc(name)])
            if not len(empty):
                continue
            at = torch.from_numpy(empty).to(asked_device)
            found = decoded.of(j)[at].float().cpu().numpy()
            column = out[name]
            if j < n_numeric:
                if made._empty[j]:
                    continue
                filled = numbers(column).copy()
                filled[rows[empty]] = found.astype(np.float64) * made._scale[j] + made._centre[j]
            else:
                levels = made._categories[j - n_numeric].index
                if not len(levels):
                    continue
                filled = column.astype(object).to_numpy(copy=True)
                filled[rows[empty]] = levels.to_numpy()[found.argmax(axis=1)]
                if isinstance(column.dtype, pd.CategoricalDtype):
                    kinds = column.cat.categories.union(levels, sort=False)
                    filled = pd.Categorical(filled, kinds, ordered=column.cat.ordered)
            out[name] = filled
        return out


class _Extra:
    """The rows beside the training rows that a transductive fit sees, for as long as it lasts."""

    def __init__(self, model: NPT, frames: list[pd.DataFrame]) -> None:
        self.model, self.frames = model, frames

    def __enter__(self) -> None:
        self.model._extra = self.frames

    def __exit__(self, *_: object) -> None:
        del self.model._extra


def rate_at(schedule: str, steps: int, peak: float, share: float, s: int) -> float:
    """`rate` with the step last, as a recipe asks for it."""
    return rate(schedule, s, steps, peak, share)
