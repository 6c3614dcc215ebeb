"""Oversmoothing in TabTransformer with ordinary and with polynomial attention.

Kim et al. 2024, sec. 5.3 and Fig. 4, on what they call Phishing: the frequencies that attention
leaves, the cosine between tokens by layer, the singular values of the last layer, of ordinary
attention and of Chebyshev polynomials of order 5; beside them the control that the paper has not, a
polynomial of order 1, which is attention with a free identity path. Of ordinary attention also the
convergence of its powers (sec. 3.3 and Fig. 2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....datasets.protocols import Fold
from ....datasets.table import Table as Data
from ....models.deep.layers.token_attention import PolynomialAttention
from ....reports.metrics import roc_auc
from ..experiment_files import new_figure, save_figure
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from .convergence import converged
from .diagnostics import (
    Layer,
    deviation,
    dft_response,
    effective_rank,
    high_pass,
    singular_values,
    token_cosine,
)

METHODS: dict[str, dict[str, Any]] = {
    "base": {"attention": "softmax"},
    "k = 1": {"attention": "chebyshev", "order": 1},
    "k = 5": {"attention": "chebyshev", "order": 5},
}
PHISHING = {  # Kim et al. 2024, Table 7; no dropout is stated
    "n_layers": 3, "width": 16, "n_heads": 8, "hidden": 32, "lr": 1e-3, "pretrain_lr": 1e-3,
    "weight_decay": 1e-3, "ce_weight": 0.3, "attention_dropout": 0.0, "ffn_dropout": 0.0,
}  # fmt: skip
DATASET = "telco-churn"  # what the paper's counts say of its Phishing
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "config": {
            **PHISHING, "epochs": 2, "pretrain_epochs": 1, "patience": 0, "batch_size": 2048,
        },
        "rows": 8,
        "seeds": 1,
    },
    "reduced": {
        "config": {
            **PHISHING, "epochs": 24, "pretrain_epochs": 12, "patience": 0, "batch_size": 256,
        },
        "rows": 256,
        "seeds": 1,
    },
    "full": {
        "config": {
            **PHISHING, "epochs": 150, "pretrain_epochs": 50, "patience": 20, "batch_size": 256,
        },
        "rows": 1055,
        "seeds": 5,
    },
}  # fmt: skip
GAINS = ("frequency 0", "other frequencies", "high-pass gain", "its mean")
NOTE = (
    "means over rows and heads. Layer 0: before the first block. cosine: of two tokens of a row. "
    "deviation: share of the tokens' norm that is not their mean. frequencies: what the operator "
    "leaves of the DFT along the columns. high-pass gain: largest singular value of the operator "
    "on differences between tokens, and the root mean square of all of them. AUROC: of the fit, in "
    "percent."
)


@dataclass(frozen=True)
class Seen:
    """A fitted network's output for some rows. tokens: (B, T, D) before the first block. auroc:
    on all test rows, between 0 and 1."""

    tokens: np.ndarray
    layers: list[Layer]
    auroc: float

    @property
    def states(self) -> list[np.ndarray]:
        """Tokens (B, T, D) before the first block and behind each."""
        return [self.tokens, *(layer.tokens for layer in self.layers)]


def layers_of(module: Any, numbers: Tensor, codes: Tensor) -> tuple[np.ndarray, list[Layer]]:
    """Tokens before the first block, and every block of a TabTransformer, in evaluation mode and
    with the polynomial of undropped attention."""
    module = deepcopy(module).double()
    with torch.no_grad():
        x = module.tokens(numbers.double(), codes)
        first, found = x.numpy(force=True), []
        for block in module.blocks:
            attention, normed = block.attention, block.norm_in(x)
            weights = attention.weights(normed)
            values = attention.qkv(normed).chunk(3, dim=-1)[2]
            values = values.unflatten(-1, (attention.n_heads, -1)).transpose(1, 2)
            operator = weights
            if isinstance(attention, PolynomialAttention):
                operator = attention.matrix(normed)
            x = block(x)
            parts = [t.numpy(force=True) for t in (x, weights, operator, values)]
            found.append(Layer(*parts))
    return first, found


def looked_at(model: Any, data: Data, fold: Fold, rows: int) -> Seen:
    """A fitted network on the first test rows, and its AUROC on all of them."""
    codes = np.searchsorted(model.classes_, data.target[fold.test])
    score = roc_auc(codes, model.predict_proba(data.rows(fold.test)))
    x, _ = model._numbers(data.rows(fold.test[:rows]))
    batch = model._rows(x)
    with model._ready() as module:
        tokens, layers = layers_of(module, batch.numbers, batch.codes)
    return Seen(tokens, layers, float("nan") if score is None else score)


def run(setting: Setting, *, config: Mapping[str, Any], rows: int, seeds: int) -> ExperimentResult:
    """`bench experiment cheatt-smoothing`. config: hyperparameters of every TabTransformer. rows:
    test rows that are analysed. seeds: fits of each method."""
    data = setting.load(DATASET)
    fold = setting.folds(data)[0]
    seen: dict[str, list[Seen]] = {}
    for name, change in METHODS.items():
        for seed in setting.seeds(seeds):
            setting.say(f"TabTransformer, {name}, seed {seed}")
            model = setting.fit("tabtransformer", data, fold, {**config, **change}, seed)
            seen.setdefault(name, []).append(looked_at(model, data, fold, rows))
    first = {name: runs[0] for name, runs in seen.items()}
    figure = _figure(first, setting.out / "cheatt-smoothing.png")
    note = f"{DATASET}, {rows} test rows, {seeds} seed(s); {NOTE}"
    powers, steps = converged(first["base"].layers, f"{DATASET}, {rows} test rows", setting.out)
    spectra = {name: [spectrum(layer) for layer in run.layers] for name, run in first.items()}
    tables = [_table(seen, note), powers, _responses(spectra, f"{DATASET}, {rows} test rows")]
    by_layer = _by_layer(spectra, setting.out / "cheatt-figure-1.png")
    return ExperimentResult(tables, [figure, by_layer, steps])


def spectrum(layer: Layer) -> tuple[np.ndarray, np.ndarray]:
    """(frequencies, what the operator of a layer leaves of each, a mean over rows and heads)."""
    response = dft_response(layer.operator)
    t = response.shape[-1]
    means = np.fft.fftshift(response.reshape(-1, t).mean(axis=0))
    return np.fft.fftshift(np.fft.fftfreq(t)), means


Spectra = Mapping[str, Sequence[tuple[np.ndarray, np.ndarray]]]  # of each attention, by layer


def _responses(spectra: Spectra, about: str) -> ExperimentTable:
    """Figure 1 in numbers: the response to each frequency, layer by layer."""
    rows = [
        {
            "attention": name,
            "frequency": float(frequency),
            **{f"layer {i}": float(means[at]) for i, (_, means) in enumerate(layers, start=1)},
        }
        for name, layers in spectra.items()
        for at, frequency in enumerate(layers[0][0])
        if frequency <= 0  # the response is even
    ]
    title = "Spectral response of attention, layer by layer"
    return ExperimentTable("cheatt-figure-1", title, rows, f"{about}; means over rows and heads.")


def _by_layer(spectra: Spectra, path: Path) -> Path:
    """The paper's Figure 1, a panel for each layer."""
    figure, axes = new_figure(len(next(iter(spectra.values()))))
    for name, layers in spectra.items():
        for ax, (frequencies, means) in zip(axes[0], layers, strict=True):
            ax.plot(frequencies, means, marker=".", label=name)
    for number, ax in enumerate(axes[0], start=1):
        ax.set(title=f"layer {number}", xlabel="frequency", ylabel="|response|", yscale="log")
    axes[0][0].legend()
    figure.tight_layout()
    return save_figure(figure, path)


def _table(seen: Mapping[str, list[Seen]], note: str) -> ExperimentTable:
    rows: list[dict[str, Any]] = []
    for name, runs in seen.items():
        auroc = 100.0 * float(np.mean([run.auroc for run in runs]))
        for layer in range(len(runs[0].layers) + 1):
            tokens = np.concatenate([run.states[layer] for run in runs])
            row = {
                "attention": name,
                "layer": layer,
                "cosine": float(token_cosine(tokens).mean()),
                "deviation": float(deviation(tokens).mean()),
                "effective rank": float(effective_rank(tokens).mean()),
                **dict.fromkeys(GAINS),
                "AUROC": auroc,
            }
            if layer:
                row |= _gains([run.layers[layer - 1].operator for run in runs])
            rows.append(row)
    title = "Tokens and attention of a TabTransformer by layer"
    return ExperimentTable("cheatt-smoothing", title, rows, note)


def _gains(operators: Sequence[np.ndarray]) -> dict[str, float]:
    """What the operators of a layer leave of frequencies and of differences between tokens."""
    left = np.concatenate([dft_response(o).reshape(-1, o.shape[-1]) for o in operators])
    largest, typical = zip(*(high_pass(o) for o in operators), strict=True)
    means = (left[:, 0].mean(), left[:, 1:].mean(), np.mean(largest), np.mean(typical))
    return dict(zip(GAINS, map(float, means), strict=True))


def _figure(seen: Mapping[str, Seen], path: Path) -> Path:
    """The three panels of the paper's Figure 4."""
    figure, axes = new_figure(3)
    for name, run in seen.items():
        last = run.layers[-1]
        axes[0][0].plot(*spectrum(last), marker=".", label=name)
        cosines = [token_cosine(x).mean() for x in run.states]
        axes[0][1].plot(range(len(cosines)), cosines, marker="o", label=name)
        values = singular_values(last.tokens).mean(axis=0)
        axes[0][2].plot(range(1, len(values) + 1), values, marker=".", label=name)
    axes[0][0].set(title="response of the last layer", xlabel="frequency", ylabel="|response|")
    axes[0][0].set_yscale("log")
    axes[0][1].set(title="cosine of two tokens", xlabel="layer", ylabel="mean cosine")
    axes[0][2].set(title="tokens of the last layer", xlabel="number", ylabel="singular value")
    axes[0][2].set_yscale("log")
    axes[0][0].legend()
    figure.tight_layout()
    return save_figure(figure, path)
