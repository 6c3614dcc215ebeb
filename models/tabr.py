"""TabR: a network that reads the nearest training rows beside its own (Gorishniy et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .deep.layers.dropout import Seed, dropout
from .deep.layers.neighbours import nearest
from .deep.layers.number_embedding import NumberVectors
from .deep.layers.one_hot import OneHot
from .deep.lookup import LookupRows, LookupTask, in_parts
from .deep.row_network import Batch
from .hyperparameters import COUNT, DEPTH, DROPOUT, WIDTH, Number, hyper


class Block(nn.Module):
    """x + drop(Linear(drop(ReLU(Linear(LayerNorm(x)))))); the first of an encoder has no norm."""

    def __init__(self, width: int, hidden: int, p_hidden: float, p_out: float, norm: bool) -> None:
        super().__init__()
        self.p_hidden, self.p_out = p_hidden, p_out
        self.norm = nn.LayerNorm(width) if norm else None
        self.linear0 = nn.Linear(width, hidden)
        self.linear1 = nn.Linear(hidden, width)

    def forward(self, x: Tensor, seed: Seed | None = None) -> Tensor:  # (B, D) -> (B, D)
        """x plus what the block adds."""
        z = x if self.norm is None else self.norm(x)
        z = dropout(self.linear0(z).relu(), self.p_hidden, seed and (*seed, 0))
        return x + dropout(self.linear1(z), self.p_out, seed and (*seed, 1))


class TabRNetwork(nn.Module):
    """Encoder, keys, what is read of the context rows, predictor.

    n_classes: 0 for a value. n_out: outputs; one comes as (B,). `known` holds the keys (N, D) and
    targets (N,) of training rows, once `remember` was called; the weights say nothing of them.
    """

    def __init__(
        self,
        *,
        n_numeric: int,
        sizes: Sequence[int],
        n_classes: int,
        n_out: int,
        width: int,
        hidden: int,
        n_encoder: int,
        n_predictor: int,
        context_size: int,
        p_context: float,
        p_hidden: float,
        p_out: float,
        numbers: NumberVectors | None = None,
    ) -> None:
        super().__init__()
        self.context_size, self.p_context, self.p_hidden = context_size, p_context, p_hidden
        self.numbers, self.one_hot = numbers, OneHot(sizes)
        wide = n_numeric if numbers is None else numbers.n * numbers.width
        self.linear = nn.Linear(wide + self.one_hot.n_out, width)

        def block(norm: bool) -> Block:
            return Block(width, hidden, p_hidden, p_out, norm)

        self.encoder = nn.ModuleList(block(norm=i > 0) for i in range(n_encoder))
        self.norm = nn.LayerNorm(width) if n_encoder else None
        self.to_key = nn.Linear(width, width)
        self.label: nn.Embedding | nn.Linear
        if n_classes:
            self.label = nn.Embedding(n_classes, width)
            nn.init.uniform_(self.label.weight, -1, 1)
        else:
            self.label = nn.Linear(1, width)
            for p in self.label.parameters():
                nn.init.uniform_(p, -(0.5**0.5), 0.5**0.5)
        self.change0 = nn.Linear(width, hidden)
        self.change1 = nn.Linear(hidden, width, bias=False)
        self.predictor = nn.ModuleList(block(norm=True) for _ in range(n_predictor))
        self.head_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, n_out)
        self.known: tuple[Tensor, Tensor] | None = None

    def inputs(self, rows: Batch) -> Tensor:  # -> (B, inputs)
        """Numbers, or their vectors, and the 0/1 columns of categories."""
        x = rows.numbers if self.numbers is None else self.numbers(rows.numbers).flatten(1)
        return torch.cat([x, self.one_hot(rows.codes)], dim=1)

    def encode(self, rows: Batch, seed: Seed | None = None) -> Tensor:  # -> (B, D)
        """Encoded rows."""
        x = self.linear(self.inputs(rows))
        for i, block in enumerate(self.encoder):
            x = block(x, seed and (*seed, i))
        return x

    def key(self, x: Tensor) -> Tensor:  # (B, D) -> (B, D)
        """Keys of encoded rows."""
        return self.to_key(x if self.norm is None else self.norm(x))

    def keys(self, rows: Batch) -> Tensor:  # -> (N, D)
        """Keys of many rows, without dropout."""
        return torch.cat([self.key(self.encode(part)) for part in in_parts(rows)])

    def label_vectors(self, targets: Tensor) -> Tensor:  # (...) -> (..., D)
        """Vectors of targets."""
        if isinstance(self.label, nn.Linear):
            return self.label(targets[..., None])
        return self.label(targets)

    def change(self, apart: Tensor, seed: Seed | None = None) -> Tensor:  # (..., D) -> (..., D)
        """What a difference of keys says, T in the paper."""
        return self.change1(dropout(self.change0(apart).relu(), self.p_hidden, seed))

    def read(
        self, x: Tensor, key: Tensor, keys: Tensor, targets: Tensor, seed: Seed | None = None
    ) -> Tensor:
        """Rows with what their context says: x and key (B, D), keys (B, m, D), targets (B, m)."""
        apart = key[:, None] - keys
        shares = (-apart.square().sum(-1)).softmax(dim=1)
        shares = dropout(shares, self.p_context, seed and (*seed, 0))
        values = self.label_vectors(targets) + self.change(apart, seed and (*seed, 1))
        return x + (shares[:, None] @ values).squeeze(1)

    def predict(self, x: Tensor, seed: Seed | None = None) -> Tensor:  # -> (B,) or (B, C)
        """Outputs from rows that have read their context."""
        for i, block in enumerate(self.predictor):
            x = block(x, seed and (*seed, i))
        return self.head(self.head_norm(x).relu()).squeeze(-1)

    def remember(self, rows: Batch, targets: Tensor) -> None:
        """Keeps the keys and targets of rows as the candidates of `forward`."""
        self.known = self.keys(rows), targets

    def forward(self, numbers: Tensor, codes: Tensor, seed: Seed | None = None) -> Tensor:
        """The answers for rows, from all that is known."""
        if self.known is None:
            raise RuntimeError("no training rows to look up; call remember first")
        keys, targets = self.known
        x = self.encode(Batch(numbers, codes))
        key = self.key(x)
        at = nearest(key, keys, min(self.context_size, len(keys)))
        return self.predict(self.read(x, key, keys[at], targets[at]))


class TabRTask(LookupTask):
    """A row's context are its nearest among all other training rows; gradients flow through keys
    and encoder of the context, not through the choice.

    DIFF(Gorishniy 2024, the authors' code): the choice is exact, where theirs is faiss in float32,
    and made without dropout; only rows of a context are encoded with gradients, which are equal.
    """

    def loss(self, step: int) -> Tensor:
        """The mean loss of the batch of step `step` + 1."""
        rows, seed, net = self.batch(step), (self.settings.seed, step), self.module
        x = net.encode(self.rows.at(rows), (*seed, 0))
        key = net.key(x)
        with torch.no_grad():
            keys = net.keys(self.rows)
            n = min(net.context_size, len(keys) - 1)
            context = nearest(key, keys, n, own=rows)
        used, at = context.unique(return_inverse=True)
        keys = net.key(net.encode(self.rows.at(used), (*seed, 1)))
        x = net.read(x, key, keys[at], self.targets[context], (*seed, 2))
        return self.criterion(net.predict(x, (*seed, 3)), self.targets[rows])


class TabR(LookupRows):
    """A feed-forward network with one layer that attends to the nearest training rows.

    Defaults are TabR-S's, with neither vectors of numbers nor encoder blocks. Predictions keep the
    training rows in the model; in training all rows are encoded anew in each step.

    DIFF(Gorishniy 2024): numbers that are missing have 0/1 columns, see `RowNetwork`. All weights
    decay, as in the runs that the paper reports. Initial frequencies are cut at three standard
    deviations, as in `rtdl_num_embeddings`.

    References
    ----------
    Gorishniy et al. 2024, arXiv:2307.14338.
    """

    example = "epochs=5, width=16"
    make_task = TabRTask

    lr: float = 3.1e-4
    weight_decay: float = 1.2e-6
    width: int = hyper(265, WIDTH, "Width of an encoded row and its key, D.")
    n_encoder: int = hyper(0, DEPTH, "Residual blocks before keys are made.")
    n_predictor: int = hyper(1, DEPTH, "Residual blocks after a row has read its context.")
    hidden_factor: float = hyper(
        2.0, Number(0.0, 1000.0, low_open=True), "Width inside of a block, as a multiple of D."
    )
    context_size: int = hyper(96, COUNT, "Nearest training rows that a row reads.")
    context_dropout: float = hyper(0.389, DROPOUT, "Dropout on the weights of the context rows.")
    hidden_dropout: float = hyper(0.389, DROPOUT, "Dropout inside of a block.")
    residual_dropout: float = hyper(0.0, DROPOUT, "Dropout on what a block adds.")

    def _network(self) -> TabRNetwork:
        return self._made(
            TabRNetwork,
            n_classes=0 if self.task == "regression" else len(self.classes_),
            hidden=max(1, int(self.width * self.hidden_factor)),
            p_context=self.context_dropout,
            p_hidden=self.hidden_dropout,
            p_out=self.residual_dropout,
        )
