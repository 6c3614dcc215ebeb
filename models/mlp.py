"""Multi-layer perceptron for tabular data (Gorishniy et al. 2021, sec. 3.1)."""

from __future__ import annotations

from torch import Tensor

from .deep.layers.dropout import Seed, dropout
from .deep.perceptron import Perceptron, PerceptronNetwork


class MLPNetwork(PerceptronNetwork):
    """[Linear -> ReLU -> dropout] for each hidden layer, then Linear."""

    def after(self, x: Tensor, seed: Seed | None) -> Tensor:  # (B, width) -> (B, width)
        """ReLU and dropout."""
        return dropout(x.relu(), self.p, seed)


class MLP(Perceptron):
    """Multi-layer perceptron.

    The search spaces are those of Gorishniy et al. 2021, Table 9; the paper has no default
    configuration, ours is near what its searches chose.

    References
    ----------
    Gorishniy et al. 2021, arXiv:2106.11959, sec. 3.1.
    """

    example = "epochs=5, n_layers=2"
    network = MLPNetwork
