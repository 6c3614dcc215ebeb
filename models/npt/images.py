"""Networks of NPT for pictures (Kossen et al. 2021, sec. B.8).

Two networks. `PatchNetwork` reads square patches linearly: a picture is a row of patches and its
class, and all else is as for tables. `PictureNetwork` reads pictures by a ResNet-18 and then
attends between their codes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..deep.cell_masking import generator
from ..deep.cells import Cells, Columns
from ..deep.column_decoder import Decoded
from ..deep.layers.attention import attend
from ..deep.layers.dropout import Seed, dropout
from .network import Block, Context, NPTNetwork

# -- patches --------------------------------------------------------------------------------------


def to_patches(x: Tensor, grid: int) -> Tensor:  # (N, K, S, S) -> (N, grid^2, K s^2)
    """Squares of side s = S / grid, row by row; in each the channels, then its pixels.

    DIFF(Kossen 2021, sec. B.8, code): the authors' code cuts the flattened picture into runs of
    consecutive values, so that a patch is a strip of pixels and of colours; these are squares, as
    the paper says.
    """
    n, k, side, _ = x.shape
    s = side // grid
    cut = x.reshape(n, k, grid, s, grid, s).permute(0, 2, 4, 1, 3, 5)
    return cut.reshape(n, grid * grid, k * s * s)


def from_patches(x: Tensor, n_channels: int) -> Tensor:  # (N, grid^2, K s^2) -> (N, K, S, S)
    """The inverse of `to_patches`."""
    n, grid, s = len(x), round(x.shape[1] ** 0.5), round((x.shape[2] / n_channels) ** 0.5)
    joined = x.reshape(n, grid, grid, n_channels, s, s).permute(0, 3, 1, 4, 2, 5)
    return joined.reshape(n, n_channels, grid * s, grid * s)


def side_of(n_pixels: int, n_channels: int, n_patches: int = 1) -> int:
    """The side of a square picture of so many values; ValueError where the picture is not square or
    cannot be cut into square patches."""
    side = round((n_pixels / n_channels) ** 0.5)
    if side * side * n_channels != n_pixels:
        raise ValueError(
            f"a row holds {n_pixels} values; {n_channels} channels of a square picture do not"
        )
    grid = round(n_patches**0.5)
    if grid * grid != n_patches or side % grid:
        raise ValueError(
            f"patches must be a square number whose root divides the side {side}, got {n_patches}"
        )
    return side


class PatchEmbedding(nn.Module):
    """Cells of pixels and a class to vectors: (N, P + 1) -> (N, patches + 1, E), the class last.

    A patch is read with the mask channel of each of its values by one linear map for all patches,
    without a bias, plus a vector of its place.

    DIFF(Kossen 2021, sec. 2.2, code): no type embedding; the authors' code adds the same one at
    every place, which those of the places contain.
    """

    def __init__(self, columns: Columns, width: int, n_channels: int, n_patches: int) -> None:
        super().__init__()
        n_pixels, n_classes = len(columns.numeric_at), columns.sizes[-1]
        self.n_channels, self.grid = n_channels, round(n_patches**0.5)
        self.side = side_of(n_pixels, n_channels, n_patches)
        area = (self.side // self.grid) ** 2
        self.patch = nn.Parameter(torch.empty(2 * n_channels * area, width))
        # Xavier's bound as the authors' code has it, for a tensor (pixels, channels, width)
        bound = (6 / ((2 * n_channels + area) * width)) ** 0.5
        nn.init.uniform_(self.patch, -bound, bound)
        made = nn.Linear(n_classes + 1, width)
        self.label = nn.Parameter(made.weight.detach().t().contiguous())  # the mask's row is last
        self.label_bias = nn.Parameter(made.bias.detach())
        self.index = nn.Parameter(torch.randn(n_patches + 1, width))

    def forward(self, cells: Cells) -> Tensor:
        """One vector a patch, and one for the target."""
        shape = (len(cells), self.n_channels, self.side, self.side)
        hidden = cells.hidden[:, :-1].reshape(shape)
        seen = cells.values.reshape(shape).masked_fill(hidden, 0.0)
        pixels = torch.cat([seen, hidden.to(seen.dtype)], dim=1)
        patches = torch.matmul(to_patches(pixels, self.grid), self.patch)
        rows = torch.where(cells.hidden[:, -1], len(self.label) - 1, cells.codes[:, 0])
        label = F.embedding(rows, self.label) + self.label_bias
        return torch.cat([patches, label[:, None].to(patches.dtype)], dim=1) + self.index


class PatchDecoder(nn.Module):
    """Vectors (N, patches + 1, E) to standardised pixels, one linear map for all patches, and to
    the logits of the classes."""

    def __init__(self, columns: Columns, width: int, n_channels: int, n_patches: int) -> None:
        super().__init__()
        self.numeric, self.target, self.n_channels = columns.numeric_at, columns.n - 1, n_channels
        self.patch = nn.Linear(width, len(self.numeric) // n_patches)
        self.label = nn.Linear(width, columns.sizes[-1])

    def forward(self, state: Tensor, columns: Sequence[int]) -> Decoded:
        """The target's logits, and all pixels unless the target alone is asked for."""
        logits = self.label(state[:, -1:])  # (N, 1, C)
        if len(columns) == 1:
            return Decoded([], logits[:, 0, :0], [[self.target]], [logits])
        values = from_patches(self.patch(state[:, :-1]), self.n_channels).flatten(1)
        return Decoded(self.numeric, values, [[self.target]], [logits])


class PatchNetwork(NPTNetwork):
    """The network of sec. B.8, (2): a picture's patches and its class are the attributes, d =
    patches + 1. columns: the pixels, channel by channel and row by row, and last the class."""

    def __init__(
        self, columns: Columns, *, n_channels: int, n_patches: int, width: int, **options: object
    ) -> None:
        if columns.targets != (columns.n - 1,) or columns.categories_at != [columns.n - 1]:
            raise ValueError("pictures have numeric pixels and, last, one class as the target")
        tokens = Columns(
            (*[1] * n_patches, columns.sizes[-1]), (*[False] * n_patches, True), (n_patches,)
        )
        super().__init__(tokens, width=width, **options)  # type: ignore[arg-type]
        self.columns = columns
        self.embedding = PatchEmbedding(columns, width, n_channels, n_patches)  # type: ignore[assignment]
        self.decoder = PatchDecoder(columns, width, n_channels, n_patches)  # type: ignore[assignment]

    def segments(self) -> dict[Tensor, Sequence[int]]:
        """Every stored parameter is one tensor."""
        return {}


# -- a convolutional encoder ----------------------------------------------------------------------


class Residual(nn.Module):
    """Two 3 x 3 convolutions and a way around them (He et al. 2016, sec. 4.2):
    (N, K, S, S) -> (N, width, S / stride, S / stride)."""

    def __init__(self, n_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(n_in, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.around: nn.Module = nn.Identity()
        if stride > 1 or n_in != width:
            self.around = nn.Sequential(
                nn.Conv2d(n_in, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        return F.relu(self.body(x) + self.around(x))


def resnet18(n_channels: int, base: int, width: int) -> nn.Sequential:
    """ResNet-18 for small pictures: (N, K, S, S) -> (N, width).

    Four stages of two blocks, of widths base, 2, 4 and 8 base; the first convolution is 3 x 3 and
    nothing is pooled before the stages, as for CIFAR-10 (He et al. 2016, sec. 4.2), where the one
    for ImageNet would leave a picture of side 32 one pixel. base 64 is the published size.
    """
    layers: list[nn.Module] = [
        nn.Conv2d(n_channels, base, 3, 1, 1, bias=False),
        nn.BatchNorm2d(base),
        nn.ReLU(),
    ]
    n_in = base
    for stage in range(4):
        n_out = base * 2**stage
        layers += [Residual(n_in, n_out, 1 if stage == 0 else 2), Residual(n_out, n_out, 1)]
        n_in = n_out
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, width)]
    return nn.Sequential(*layers)


class PictureNetwork(nn.Module):
    """The network of sec. B.8, (1): ResNet-18 to a code of `width`, `n_blocks` ABD blocks between
    the pictures of a batch, a linear classifier. With n_blocks = 0 the ResNet alone."""

    def __init__(
        self,
        n_classes: int,
        *,
        n_channels: int,
        base: int = 64,
        width: int = 128,
        n_blocks: int = 4,
        n_heads: int = 8,
        p_weights: float = 0.1,
        p: float = 0.1,
        norm: str = "query",
    ) -> None:
        super().__init__()
        self.p = p
        self.encoder = resnet18(n_channels, base, width)
        self.blocks = nn.ModuleList(
            Block(width, n_heads, p_weights, p, norm) for _ in range(n_blocks)
        )
        self.head = nn.Linear(width, n_classes)

    def forward(self, x: Tensor, seed: Seed | None = None) -> Tensor:  # (N, K, S, S) -> (N, C)
        """Logits of the classes of pictures that attend to each other."""
        at = [None if seed is None else (*seed, i) for i in range(len(self.blocks) + 2)]
        code = dropout(self.encoder(x), self.p, at[0])[None]
        for i, block in enumerate(self.blocks, start=1):
            code = block(code, at[i])
        return self.head(dropout(code[0], self.p, at[-1]))

    def context(self, x: Tensor) -> Context:
        """Keys and values of these pictures in every block, for others to attend to."""
        code, found = self.encoder(x)[None], []
        for block in self.blocks:
            q, k, v = block.heads(code)  # type: ignore[operator]
            found.append((k, v))
            if len(found) == len(self.blocks):
                break  # nothing reads what the pictures become after the last block
            code = block.after(code, attend(q, k, v, scale=block.scale), None)  # type: ignore[operator, arg-type]
        return found

    def ask(self, x: Tensor, context: Context) -> Tensor:  # (N, C)
        """Pictures that attend to the context and each to itself, never to each other."""
        code = self.encoder(x)[None]
        for block, (keys, values) in zip(self.blocks, context, strict=True):
            code = block.asking(code, keys, values)  # type: ignore[operator]
        return self.head(code[0])


# -- augmentation ---------------------------------------------------------------------------------


def augmented(x: Tensor, padding: int, fill: Tensor, seed: int) -> Tensor:  # (N, K, S, S)
    """Each picture shifted by up to `padding` pixels both ways, what comes in being `fill` (K,),
    and mirrored with probability 1/2; all from the seed (random crop and flip, sec. B.8)."""
    n, k, side, _ = x.shape
    g = generator(x.device, seed)
    shifts = torch.randint(0, 2 * padding + 1, (2, n), generator=g, device=x.device)
    mirror = torch.rand(n, generator=g, device=x.device) < 0.5
    wide = side + 2 * padding
    padded = fill.to(x.dtype)[:, None, None].expand(k, wide, wide).repeat(n, 1, 1, 1)
    padded[:, :, padding : padding + side, padding : padding + side] = x
    along = torch.arange(side, device=x.device)
    down = (shifts[0, :, None] + along)[:, None, :, None]
    across = torch.where(mirror[:, None], along.flip(0), along) + shifts[1, :, None]
    which = torch.arange(n, device=x.device)[:, None, None, None]
    channel = torch.arange(k, device=x.device)[None, :, None, None]
    return padded[which, channel, down, across[:, None, None, :]]
