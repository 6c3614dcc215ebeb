"""Self-normalising network (Klambauer et al. 2017; Gorishniy et al. 2021, F.5)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from .deep.layers.alpha_dropout import alpha_dropout
from .deep.layers.dropout import Seed
from .deep.perceptron import Perceptron, PerceptronNetwork
from .hyperparameters import DROPOUT, Number, hyper


class SNNNetwork(PerceptronNetwork):
    """[Linear -> SELU -> alpha dropout] for each hidden layer, then Linear.

    Weights are drawn from N(0, 1 / inputs), biases are 0.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for linear in (*self.layers, self.head):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
            nn.init.zeros_(linear.bias)

    def after(self, x: Tensor, seed: Seed | None) -> Tensor:  # (B, width) -> (B, width)
        """SELU and alpha dropout."""
        return alpha_dropout(nn.functional.selu(x), self.p, seed)


class SNN(Perceptron):
    """Self-normalising network: SELU, alpha dropout, and weights that keep mean and variance.

    The search spaces are those of Gorishniy et al. 2021, Table 12; the paper has no default
    configuration, ours is near what its searches chose.

    References
    ----------
    Klambauer et al. 2017, arXiv:1706.02515; Gorishniy et al. 2021, arXiv:2106.11959, sec. F.5.
    """

    example = "epochs=5, n_layers=2"
    network = SNNNetwork

    n_layers: int = hyper(4, Number(2, 1000, whole=True))
    dropout: float = hyper(0.05, DROPOUT, "Alpha dropout after each hidden layer.")
