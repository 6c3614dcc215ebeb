"""Plain feed-forward networks: normalisation, blocks and initial weights are settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from .deep.layers.alpha_dropout import alpha_dropout
from .deep.layers.dropout import Seed, dropout
from .deep.row_network import RowNetwork
from .hyperparameters import DROPOUT, LAYERS, WIDTH, InvalidConfig, OneOf, hyper
from .policy import Policy

BLOCKS = ("plain", "highway", "residual")
NORMALIZATIONS = ("none", "batch", "layer", "weight")
ACTIVATIONS = ("relu", "selu")
INITS = ("he", "lecun")
SHAPES = ("rectangular", "conic")
GATE_BIAS = -1.0  # of a highway gate at first: it lets through three quarters of its input


def widths(n_layers: int, width: int, shape: str, n_out: int) -> list[int]:
    """Widths of the hidden layers: all equal, or falling by one factor from `width` to `n_out`.

    >>> widths(3, 64, "rectangular", 2), widths(3, 64, "conic", 1)
    ([64, 64, 64], [64, 16, 4])
    """
    factor = 1.0 if shape == "rectangular" else (n_out / width) ** (1 / n_layers)
    return [max(1, n_out, round(width * factor**i)) for i in range(n_layers)]


class WeightNormLinear(nn.Module):
    """Linear with weights g v / |v| of one length and direction an output (Salimans and Kingma
    2016); at first g is |v|."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.direction = nn.Parameter(linear.weight.detach().clone())  # (outputs, inputs)
        self.length = nn.Parameter(self.direction.detach().norm(dim=1, keepdim=True))
        self.bias = nn.Parameter(linear.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:  # (B, inputs) -> (B, outputs)
        """The layer's outputs."""
        unit = self.direction / self.direction.norm(dim=1, keepdim=True).clamp_min(1e-12)
        return F.linear(x, self.length * unit, self.bias)


class Layer(nn.Module):
    """Linear -> normalisation -> activation -> dropout."""

    def __init__(
        self, d_in: int, d_out: int, *, normalization: str, activation: str, init: str, p: float
    ) -> None:
        super().__init__()
        self.activation, self.p = activation, p
        linear = _linear(d_in, d_out, gain=2.0 if init == "he" else 1.0)
        self.linear = WeightNormLinear(linear) if normalization == "weight" else linear
        norms: dict[str, Callable[[int], nn.Module]] = {
            "batch": nn.BatchNorm1d,
            "layer": nn.LayerNorm,
        }
        self.norm = norms[normalization](d_out) if normalization in norms else nn.Identity()

    def forward(self, x: Tensor, seed: Seed | None = None) -> Tensor:  # (B, inputs) -> (B, outputs)
        """The layer's outputs; `seed` names the draw of its dropout, None for none."""
        x = self.norm(self.linear(x))
        if self.activation == "selu":
            return alpha_dropout(F.selu(x), self.p, seed)
        return dropout(x.relu(), self.p, seed)


class Highway(nn.Module):
    """t layer(x) + (1 - t) x with a gate t = sigmoid(Linear(x)) (Srivastava et al. 2015)."""

    def __init__(self, d: int, layer: Callable[[], Layer]) -> None:
        super().__init__()
        self.layer = layer()
        self.gate = _linear(d, d, gain=1.0)
        nn.init.constant_(self.gate.bias, GATE_BIAS)

    def forward(self, x: Tensor, seed: Seed | None = None) -> Tensor:  # (B, D) -> (B, D)
        """The block's outputs."""
        gate = self.gate(x).sigmoid()
        return gate * self.layer(x, seed) + (1 - gate) * x


class Residual(nn.Module):
    """x plus what two layers make of it (He et al. 2016, rows instead of pictures)."""

    def __init__(self, layer: Callable[[], Layer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([layer(), layer()])

    def forward(self, x: Tensor, seed: Seed | None = None) -> Tensor:  # (B, D) -> (B, D)
        """The block's outputs."""
        z = self.layers[0](x, seed and (*seed, 0))
        return x + self.layers[1](z, seed and (*seed, 1))


class FeedForwardNetwork(nn.Module):
    """Hidden layers or blocks, then Linear. Two-class and numeric outputs come as (B,).

    Blocks with a path around them need one width: a plain layer stands before them.
    """

    def __init__(
        self, *, n_in: int, n_out: int, hidden: Sequence[int], block: str, **layer: Any
    ) -> None:
        super().__init__()
        ins = [n_in, *hidden]
        made: list[nn.Module] = []
        for d_in, d_out in zip(ins, hidden, strict=False):
            if block == "plain" or not made:
                made.append(Layer(d_in, d_out, **layer))
                continue

            def same(d: int = d_out) -> Layer:
                return Layer(d, d, **layer)

            made.append(Highway(d_out, same) if block == "highway" else Residual(same))
        self.layers = nn.ModuleList(made)
        self.head = _linear(ins[-1], n_out, gain=1.0)

    def forward(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:
        """(B,) values or logits of the second class, or (B, C) logits, of a batch of rows."""
        x = numbers
        for i, layer in enumerate(self.layers):
            x = layer(x, seed and (*seed, i))
        return self.head(x).squeeze(-1)


def _linear(d_in: int, d_out: int, gain: float) -> nn.Linear:
    """Linear with weights from N(0, gain / inputs) and no bias at first."""
    made = nn.Linear(d_in, d_out)
    nn.init.normal_(made.weight, std=(gain / d_in) ** 0.5)
    nn.init.zeros_(made.bias)
    return made


class FeedForward(RowNetwork):
    """Feed-forward network of standardised numbers and one-hot categories.

    Settings name the networks that Klambauer et al. 2017 compare:

    ============ ==================================================================================
    MSRA init    the defaults
    BatchNorm    normalization="batch"
    LayerNorm    normalization="layer"
    WeightNorm   normalization="weight"
    Highway      block="highway"
    ResNet       block="residual", normalization="batch"
    SNN          activation="selu", init="lecun"
    ============ ==================================================================================

    DIFF(Klambauer 2017): optimiser and number of epochs are settings; the defaults are those of the
    other networks of rows here. DIFF(He 2016): the second layer of a residual block has its
    activation before the sum.

    References
    ----------
    Klambauer et al. 2017, arXiv:1706.02515; He et al. 2015, arXiv:1502.01852 (MSRA init); Ioffe and
    Szegedy 2015, arXiv:1502.03167; Ba et al. 2016, arXiv:1607.06450; Salimans and Kingma 2016,
    arXiv:1602.07868; Srivastava et al. 2015, arXiv:1505.00387; He et al. 2016, arXiv:1512.03385.
    """

    example = 'epochs=5, normalization="batch", width=16'

    numeric: str = "standard"
    lr: float = 1e-3
    weight_decay: float = 0.0
    block: str = hyper(
        "plain",
        OneOf(BLOCKS),
        "Layers one after the other (`plain`), with a gated path around each (`highway`) or a "
        "path around each pair (`residual`). The first layer is always plain.",
    )
    normalization: str = hyper(
        "none",
        OneOf(NORMALIZATIONS),
        "Of a layer's values before its activation over the batch (`batch`) or the layer "
        "(`layer`), of its weights (`weight`), or `none`.",
    )
    activation: str = hyper("relu", OneOf(ACTIVATIONS), "ReLU, or SELU with alpha dropout.")
    init: str = hyper(
        "he",
        OneOf(INITS),
        "Initial weights N(0, 2 / inputs) (`he`, also called MSRA) or N(0, 1 / inputs) "
        "(`lecun`); biases are 0.",
    )
    n_layers: int = hyper(3, LAYERS, "Hidden layers or blocks, the first layer included.")
    width: int = hyper(256, WIDTH, "Width of the first hidden layer.")
    shape: str = hyper(
        "rectangular",
        OneOf(SHAPES),
        "All hidden layers as wide (`rectangular`), or each narrower than the one before by the "
        "same factor, from `width` towards the outputs (`conic`, plain layers alone).",
    )
    dropout: float = hyper(0.0, DROPOUT, "Dropout after each hidden layer.")

    def check(self) -> None:
        """As of all networks of rows; a path around layers needs one width, and batch norms need
        batches of two rows."""
        super().check()
        name = type(self).__name__
        if self.shape == "conic" and self.block != "plain":
            raise InvalidConfig(
                f"{name}: shape must be 'rectangular' where block is {self.block!r}: the path "
                "around a block keeps its width"
            )
        if self.normalization == "batch" and self.batch_size == 1:
            raise InvalidConfig(f"{name}: batch_size must not be 1: batch norms need two rows")

    def _policy(self) -> Policy:
        return Policy(self.numeric, "one-hot", "impute", "standard")

    def _network(self) -> FeedForwardNetwork:
        return FeedForwardNetwork(
            n_in=self.n_numeric,
            n_out=self.n_out,
            hidden=widths(self.n_layers, self.width, self.shape, self.n_out),
            block=self.block,
            normalization=self.normalization,
            activation=self.activation,
            init=self.init,
            p=self.dropout,
        )
