"""The network of Hopular (Schaefl et al. 2022, arXiv:2206.00664, sec. 3).

Every cell of a row becomes a vector; together they are the row's state. A block lets the state
retrieve from the training rows (Hopfield nets over samples, H_s) and then lets every cell retrieve
from the cells of the row as it came in (Hopfield nets over features, H_f). After the last block one
linear map reads all columns from the state. The order of the norms follows the authors' code.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..deep.cells import CellMaps, Cells, Columns, index
from ..deep.column_decoder import Decoded, Decoder
from ..deep.layers.attention import attend, attention_weights, join_heads, split_heads
from ..deep.layers.dropout import Seed, dropout

LN_EPS = 1e-12
STEEP = 10.0  # a larger scaling factor makes logits that 16-bit numbers cannot hold

Stored = tuple[Tensor, Tensor]  # keys and values of stored patterns, each (B, M, N, W / M)
Memory = list[Stored]  # of the training rows, for each block


def _uniform_(x: Tensor, fan_in: int) -> None:
    nn.init.uniform_(x, -(fan_in**-0.5), fan_in**-0.5)


def _at(seed: Seed | None, place: int) -> Seed | None:
    return None if seed is None else (*seed, place)


class Embedding(CellMaps):
    """Cells to vectors, all columns at once (sec. 3, (i)): (N, d) cells -> (N, d, E).

    Column j: a linear map from its value channels and its mask channel, plus type and index
    embeddings, GELU, dropout, layer norm, a second linear map. A cell that is missing has zeros in
    all channels, one that is hidden on purpose has its mask channel (`flags`) set.

    DIFF(Schaefl 2022, sec. 3 (i)): the paper ends after the first map; this is the authors' code.

    Columns share stored parameters; all but `weight` have the column as their first dimension.
    """

    def __init__(self, columns: Columns, width: int, p: float) -> None:
        super().__init__(columns, width)
        self.p, d = p, columns.n
        self.kind = nn.Parameter(torch.empty(2, width))
        self.index = nn.Parameter(torch.empty(d, width))
        self.gain = nn.Parameter(torch.ones(d, width))
        self.shift = nn.Parameter(torch.zeros(d, width))
        self.second = nn.Parameter(torch.empty(d, width, width))  # (d, in, out)
        self.second_bias = nn.Parameter(torch.empty(d, width))
        for x in (self.kind, self.index, self.second, self.second_bias):
            _uniform_(x.data, width)

    def forward(self, cells: Cells, flags: Tensor, seed: Seed | None = None) -> Tensor:
        """One vector a cell; `flags` marks the cells hidden on purpose."""
        z = self._first(cells, flags)  # (d, N, E)
        z = dropout(F.gelu(z), self.p, seed)
        z = F.layer_norm(z, z.shape[-1:], eps=LN_EPS)
        z = torch.addcmul(self.shift[:, None], z, self.gain[:, None])
        out = torch.baddbmm(self.second_bias[:, None].to(z.dtype), z, self.second.to(z.dtype))
        return (
            out.transpose(0, 1).to(self.weight.dtype).contiguous()
        )  # the state is kept in float32

    def _first(self, cells: Cells, flags: Tensor) -> Tensor:  # (d, N, E)
        """The first map with the type and index embeddings, columns first."""
        added = self.bias + self.kind[self.kinds] + self.index
        hidden, flags = cells.hidden.t(), flags.t()
        parts: list[Tensor] = []
        numeric, categories = self.columns.numeric_at, self.columns.categories_at
        if numeric:
            seen = cells.values.t().masked_fill(hidden[numeric], 0.0)
            channels = torch.stack([seen, flags[numeric].to(seen.dtype)], dim=2)  # (k, N, 2)
            rows = torch.stack([self.numeric_rows, self.numeric_rows + 1], dim=1).flatten()
            maps = self.weight.index_select(0, rows).view(len(numeric), 2, -1)
            parts += torch.baddbmm(added[self.numeric_at][:, None], channels, maps).unbind()
        if categories:
            first, mask = self.first_rows[:, None], self.mask_rows[:, None]
            rows = torch.where(hidden[categories], mask, first + cells.codes.t())
            vectors = F.embedding(rows, self.weight)
            absent = hidden[categories] & ~flags[categories]
            vectors = vectors.masked_fill(absent[..., None], 0.0)
            parts += (vectors + added[self.categories_at][:, None]).unbind()
        at = {j: i for i, j in enumerate([*numeric, *categories])}
        return torch.stack([parts[at[j]] for j in range(self.columns.n)])


class Hopfield(nn.Module):
    """M Hopfield nets side by side (sec. 3, (I) and (II)): states retrieve from stored patterns.

    (B, T, W) -> (B, T, W): LN(x) + W_o [softmax(beta q_m k_m^T) v_m for each net m], where queries
    read LN(x), keys and values the stored patterns under the same norm, and
    beta = scaling / sqrt(W / M). Dropout p on the associations.

    DIFF(Schaefl 2022, eq. 7): as in the authors' code, the normalised state is kept beside what is
    retrieved, there are norms and biases, and values have a projection of their own; the paper
    keeps the state, prints no norm and uses the keys' projection.

    `bias` holds those of queries, keys and values, as in the authors' code. The keys' third cancels
    in the softmax and is not added.
    """

    def __init__(self, width: int, n_nets: int, scaling: float, p: float) -> None:
        super().__init__()
        self.n_nets, self.p = n_nets, p
        self.beta = scaling / (width // n_nets) ** 0.5
        self.steep = scaling > STEEP
        self.norm = nn.LayerNorm(width, eps=LN_EPS)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.bias = nn.Parameter(torch.empty(3 * width))
        _uniform_(self.bias.data, width)
        self.out = nn.Linear(width, width)

    def _exactly(self, x: Tensor) -> AbstractContextManager:
        return torch.autocast(x.device.type, enabled=False) if self.steep else nullcontext()

    def store(self, normed: Tensor) -> Stored:
        """Keys and values of patterns (B, N, W), normalised but without the norm's gain."""
        with self._exactly(normed):
            m = torch.addcmul(self.norm.bias, normed, self.norm.weight)
            k, v = self.key(m), F.linear(m, self.value.weight, self.bias.chunk(3)[2])
        return split_heads(k, self.n_nets), split_heads(v, self.n_nets)

    def _asked(self, x: Tensor) -> tuple[Tensor, Tensor]:
        normed = self.norm(x)
        with self._exactly(x):
            q = F.linear(normed, self.query.weight, self.bias.chunk(3)[0])
        return normed, split_heads(q, self.n_nets)

    def forward(
        self,
        x: Tensor,
        stored: Stored,
        seed: Seed | None = None,
        *,
        forbidden: Tensor | None = None,
        alone: bool = False,
    ) -> Tensor:
        """forbidden: (T,) the pattern that a state must not retrieve. alone: no state's rounding
        may depend on the others; for prediction."""
        k, v = stored
        normed, q = self._asked(x)
        with self._exactly(x):
            if alone:
                told = torch.matmul(attention_weights(q, k, self.beta), v)
            else:
                told = attend(q, k, v, scale=self.beta, p=self.p, seed=seed, forbidden=forbidden)
        return normed + self.out(join_heads(told))

    def weights(self, x: Tensor, stored: Stored) -> Tensor:  # (B, M, T, N)
        """The associations, for figures."""
        return attention_weights(self._asked(x)[1], stored[0], self.beta)


class Block(nn.Module):
    """H_s, then H_f: (N, d, E) -> (N, d, E)."""

    def __init__(self, d: int, width: int, n_nets: int, scaling: float, p: float) -> None:
        super().__init__()
        self.samples = Hopfield(d * width, n_nets, scaling, p)
        self.features = Hopfield(width, n_nets, scaling, p)

    def forward(
        self,
        x: Tensor,
        stored: Stored,
        cells: Tensor,
        seed: Seed | None = None,
        *,
        forbidden: Tensor | None = None,
        alone: bool = False,
    ) -> Tensor:
        """stored: training rows. cells: (N, d, E) of the rows as they came in, normalised."""
        y = self.samples(
            x.reshape(1, len(x), -1), stored, _at(seed, 0), forbidden=forbidden, alone=alone
        ).view_as(x)
        return self.features(y, self.features.store(cells), _at(seed, 1), alone=alone)


class Summary(Decoder):
    """The state to columns (sec. 3, (iii)): GELU, dropout, layer norm, linear.

    Every output reads the whole state (N, d E).
    DIFF(Schaefl 2022, sec. 3 (iii)): the paper maps attribute by attribute; this is the authors'
    code.
    """

    def __init__(self, columns: Columns, width: int, p: float) -> None:
        whole = columns.n * width
        super().__init__(columns, whole)
        self.p = p
        self.gain, self.shift = nn.Parameter(torch.ones(whole)), nn.Parameter(torch.zeros(whole))

    def prepare(self, state: Tensor, seed: Seed | None) -> Tensor:
        """Input of the linear map, (N, d E)."""
        x = dropout(F.gelu(state.flatten(1)), self.p, seed)
        x = F.layer_norm(x, x.shape[-1:], eps=LN_EPS)
        return torch.addcmul(self.shift, x, self.gain)

    def forward(self, state: Tensor, columns: Sequence[int]) -> Decoded:
        """Outputs for some columns of prepared states."""
        numeric = [j for j in columns if not self.columns.categorical[j]]
        groups = self._groups(columns)
        rows, gaps, sizes = [self.starts[j] for j in numeric], [], [len(numeric)]
        for group in groups:  # rows of each column, filled up to the longest of the group
            longest = max(self.columns.sizes[j] for j in group)
            for j in group:
                size = self.columns.sizes[j]
                rows += [self.starts[j] + min(c, size - 1) for c in range(longest)]
                gaps += [c >= size for c in range(longest)]
            sizes.append(len(group) * longest)
        at = index(rows, state.device)
        out = F.linear(state, self.weight.index_select(0, at), self.bias.index_select(0, at))
        values, *rest = out.split(sizes, dim=1)
        missing = index(gaps, state.device).bool().split(sizes[1:])
        logits = [
            x.masked_fill(gap, -torch.inf).unflatten(1, (len(group), -1))
            for x, gap, group in zip(rest, missing, groups, strict=True)
        ]
        return Decoded(numeric, values, groups, logits)


class HopularNetwork(nn.Module):
    """The network: rows of cells and a memory of training rows -> states; `decode` reads columns.

    columns: of the table, targets included. width: E, of a cell. n_blocks. n_nets: M Hopfield nets
    in each module, M divides E. scaling: c in beta = c / sqrt(width of a net). p_input, p_hopfield,
    p_output: dropout in the embedding, on the associations, before the summary.

    A seed names the dropout of one pass; without one there is none.
    """

    def __init__(
        self,
        columns: Columns,
        *,
        width: int = 32,
        n_blocks: int = 8,
        n_nets: int = 8,
        scaling: float = 1.0,
        p_input: float = 0.1,
        p_hopfield: float = 0.1,
        p_output: float = 0.01,
    ) -> None:
        super().__init__()
        if width % n_nets:
            raise ValueError(f"n_nets must divide the width {width}, got {n_nets}")
        self.columns, self.width = columns, width
        self.embedding = Embedding(columns, width, p_input)
        self.blocks = nn.ModuleList(
            Block(columns.n, width, n_nets, scaling, p_hopfield) for _ in range(n_blocks)
        )
        self.summary = Summary(columns, width, p_output)

    def segments(self) -> dict[Tensor, Sequence[int]]:
        """Stored parameters that hold several tensors: rows of each (for LAMB)."""
        ones, e = [1] * self.columns.n, self.embedding
        rows: dict[Tensor, Sequence[int]] = {e.weight: e.segments}
        return rows | dict.fromkeys((e.bias, e.gain, e.shift, e.second, e.second_bias), ones)

    def store(self, rows: Cells, seed: Seed | None = None) -> Memory:
        """The memory: training rows with their targets, for every block. Gradients flow."""
        x = self.embedding(rows, torch.zeros_like(rows.hidden), seed).flatten(1)[None]
        normed = F.layer_norm(x, x.shape[-1:], eps=LN_EPS)
        return [block.samples.store(normed) for block in self.blocks]  # type: ignore[operator, union-attr]

    def forward(
        self,
        cells: Cells,
        flags: Tensor,
        memory: Memory,
        seed: Seed | None = None,
        *,
        forbidden: Tensor | None = None,
        alone: bool = False,
    ) -> Tensor:
        """States of rows, ready to be decoded. flags: (N, d) cells hidden on purpose. forbidden:
        (N,) the memory row that a row must not see, -1 for none. alone: see `Hopfield`."""
        came_in = x = self.embedding(cells, flags, _at(seed, 0))
        came_in = F.layer_norm(came_in, came_in.shape[-1:], eps=LN_EPS)
        for i, (block, stored) in enumerate(zip(self.blocks, memory, strict=True)):
            x = block(x, stored, came_in, _at(seed, i + 1), forbidden=forbidden, alone=alone)
        return self.summary.prepare(x, _at(seed, len(self.blocks) + 1))

    def decode(self, state: Tensor, columns: Sequence[int] | None = None) -> Decoded:
        """Values and logits of some columns (all by default) of states."""
        return self.summary(state, range(self.columns.n) if columns is None else columns)

    def maps(self, cells: Cells, flags: Tensor, memory: Memory) -> list[tuple[Tensor, Tensor]]:
        """Associations of every block: (M, N, memory rows) and (N, M, d, d)."""
        came_in = x = self.embedding(cells, flags)
        came_in = F.layer_norm(came_in, came_in.shape[-1:], eps=LN_EPS)
        pairs = []
        for block, stored in zip(self.blocks, memory, strict=True):
            flat = x.reshape(1, len(x), -1)
            y = block.samples(flat, stored).view_as(x)  # type: ignore[operator, union-attr]
            kept = block.features.store(came_in)  # type: ignore[operator, union-attr]
            pairs.append((block.samples.weights(flat, stored)[0], block.features.weights(y, kept)))  # type: ignore[operator, union-attr]
            x = block.features(y, kept)  # type: ignore[operator]
        return pairs
