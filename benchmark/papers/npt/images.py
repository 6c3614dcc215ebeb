"""NPT on images: linear patches, or a convolutional encoder (Kossen et al. 2021, B.8, Table 2).

A dataset is a table with a column a pixel, channel by channel and row by row: digits, which comes
with scikit-learn, or MNIST and CIFAR-10 as the user added them (`bench data add`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ....models.deep.cells import generator
from ....models.deep.layers.dropout import Seed
from ....models.deep.optimisers import Lamb
from ....models.deep.schedules import rate
from ....models.deep.trainer import Recipe, Training, seed_of, seeded, torch_device
from ....models.npt.batches import Batches, strata_of
from ....models.npt.masking import select
from ....models.npt.network import Block
from ..available import on_available
from ..experiment_result import ExperimentResult, ExperimentTable, Setting
from ..published_values import printed_values

FOLDER = Path(__file__).parent
SHAPES = {"digits": (1, 8, 8), "mnist": (1, 28, 28), "cifar-10": (3, 32, 32)}
ACCURACY = {("mnist", "patches"): 98.3, ("cifar-10", "patches"): 68.2, ("cifar-10", "cnn"): 93.7}
SMALL = {  # of digits
    "patches": {"side": 2, "width": 16, "n_layers": 4, "n_heads": 4, "p_target": 0.15},
    "cnn": {"channels": 8, "vector": 32, "n_layers": 2, "n_heads": 4},
}
LARGE = {  # DIFF(Kossen 2021, B.8): CIFAR-10 is not augmented by crops and flips
    "patches": {"side": 4, "width": 16, "n_layers": 8, "n_heads": 8, "p_target": 0.15},
    "cnn": {"channels": 64, "vector": 128, "n_layers": 4, "n_heads": 8},
}
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"datasets": ("digits",), "networks": SMALL, "steps": 2, "batch": 64, "asked": 3},
    "reduced": {
        "datasets": ("digits",),
        "networks": SMALL,
        "steps": 600,
        "batch": 256,
        "asked": 60,
    },
    "full": {
        **{"datasets": ("digits", "mnist", "cifar-10"), "networks": LARGE},
        **{"steps": 500_000, "batch": 512, "asked": 1000},
    },
}


class Patches(nn.Module):
    """Patches of images and the class as tokens, then layers between images and between tokens.

    A patch has its pixels and a mask channel; one linear map embeds all patches, a learned vector
    says their place. shape: (channels, height, width); side: of a patch, in pixels.
    """

    def __init__(
        self, shape: Sequence[int], n_classes: int, *, side: int, width: int, n_layers: int,
        n_heads: int, p_target: float,
    ) -> None:  # fmt: skip
        super().__init__()
        channels, height, breadth = shape
        self.side, self.n_classes, self.p_target = side, n_classes, p_target
        self.n_patches = (height // side) * (breadth // side)
        pixels = channels * side**2
        self.embed = nn.Linear(pixels + side**2, width)
        nn.init.xavier_uniform_(self.embed.weight)
        self.label = nn.Linear(n_classes + 1, width)
        self.place = nn.Parameter(torch.randn(self.n_patches + 1, width) * width**-0.5)
        whole = (self.n_patches + 1) * width
        self.blocks = nn.ModuleList(
            Block(width if i % 2 else whole, n_heads, 0.1, 0.1) for i in range(n_layers)
        )
        self.of_class, self.of_patch = nn.Linear(width, n_classes), nn.Linear(width, pixels)

    def cut(self, images: Tensor) -> Tensor:  # (N, C, H, W) -> (N, patches, pixels)
        """The patches of images."""
        return F.unfold(images, self.side, stride=self.side).transpose(1, 2)

    def forward(self, patches: Tensor, labels: Tensor, hidden: Tensor, seed: Seed | None) -> Tensor:
        """Tokens (N, patches + 1, E). labels: (N,); hidden: (N, patches + 1), the class last."""
        closed = hidden[:, :-1, None].to(patches.dtype)
        mask = closed.expand(-1, -1, self.side**2)
        shown = self.embed(torch.cat([patches * (1 - closed), mask], dim=-1))
        known = F.one_hot(labels, self.n_classes + 1)
        known = torch.where(hidden[:, -1:], F.one_hot(labels * 0 + self.n_classes), known)
        token = self.label(known.to(patches.dtype))[:, None]
        x = torch.cat([shown, token], dim=1) + self.place
        for i, block in enumerate(self.blocks):
            at = None if seed is None else (*seed, i + 1)
            x = block(x, at) if i % 2 else block(x.reshape(1, len(x), -1), at).view_as(x)
        return x


class Residual(nn.Module):
    """A basic block of ResNet-18 (He et al. 2016)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(after) for _ in range(2))
        same = before == after and stride == 1
        kept = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        self.kept: nn.Module = nn.Identity() if same else kept

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C', H', W')."""
        found = self.norms[1](self.second(F.relu(self.norms[0](self.first(x)))))
        return F.relu(found + self.kept(x))


class Encoded(nn.Module):
    """ResNet-18 to a vector an image, then layers between images alone; labels are no inputs."""

    def __init__(
        self, shape: Sequence[int], n_classes: int, *, channels: int, vector: int, n_layers: int,
        n_heads: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.p_target, self.n_classes = 1.0, n_classes
        sizes = [channels * 2**i for i in range(4)]
        parts: list[nn.Module] = [nn.Conv2d(shape[0], channels, 3, 1, 1, bias=False)]
        parts += [nn.BatchNorm2d(channels), nn.ReLU()]
        for i, after in enumerate(sizes):
            before = sizes[max(0, i - 1)]
            parts += [Residual(before, after, 1 if i == 0 else 2), Residual(after, after, 1)]
        parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(sizes[-1], vector)]
        self.trunk = nn.Sequential(*parts)
        self.blocks = nn.ModuleList(Block(vector, n_heads, 0.1, 0.1) for _ in range(n_layers))
        self.of_class = nn.Linear(vector, n_classes)

    def forward(self, images: Tensor, seed: Seed | None) -> Tensor:
        """Vectors (N, D) of images that attend to each other."""
        x = self.trunk(images)[None]
        for i, block in enumerate(self.blocks):
            x = block(x, None if seed is None else (*seed, i + 1))
        return x[0]


class ImageTask:
    """A network and its losses on images. parts: (N,), 0 for training images, 2 for those to
    predict, whose labels no step and no prediction reads."""

    def __init__(
        self, module: Patches | Encoded, images: Tensor, labels: Tensor, parts: np.ndarray,
        batch: int, seed: int, steps: int,
    ) -> None:  # fmt: skip
        self.module, self.images, self.seed, self.steps = module, images, seed, steps
        self.train = torch.from_numpy(parts == 0).to(images.device)
        self.labels = torch.where(self.train, labels, 0)
        # the encoder learns from training images alone
        used = np.arange(len(parts)) if isinstance(module, Patches) else np.flatnonzero(parts == 0)
        self.used = torch.from_numpy(used).to(images.device)
        self.batches = Batches(strata_of(parts[used], None), batch, seed)

    def optimiser(self) -> Lamb:
        """LAMB, as NPT's."""
        return Lamb(self.module.parameters())

    def val_loss(self) -> float | None:
        """None: the last weights are kept."""
        return None

    def loss(self, step: int) -> Tensor:
        """Cross-entropy of the hidden labels; of patches with the squared error of hidden patches,
        whose weight falls from 1 to 0."""
        at = torch.from_numpy(self.batches.at(step)).to(self.images.device)
        rows, g = self.used[at], generator(seed_of(self.seed, step, 1))
        images, labels, train = self.images[rows], self.labels[rows], self.train[rows]
        chosen = select(train[:, None], self.module.p_target, g)[0][:, 0]
        if isinstance(self.module, Encoded):
            logits = self.module.of_class(self.module(images, (self.seed, step)))
            return F.cross_entropy(logits, labels)
        patches = self.module.cut(images)
        masked = select(torch.ones_like(patches[..., 0], dtype=torch.bool), 0.15, g)[0]
        hidden = torch.cat([masked, (chosen | ~train)[:, None]], dim=1)
        state = self.module(patches, labels, hidden, (self.seed, step))
        weight = rate("cosine", step, self.steps, 1.0)
        logits = self.module.of_class(state[:, -1])
        on_labels = (F.cross_entropy(logits, labels, reduction="none") * chosen).sum()
        errors = (self.module.of_patch(state[:, :-1]) - patches).square().mean(dim=-1)
        on_patches = (errors * masked).sum() / masked.sum().clamp(min=1)
        return (1 - weight) * on_labels / chosen.sum().clamp(min=1) + weight * on_patches

    def answers(self, images: Tensor, labels: Tensor, known: Tensor) -> Tensor:
        """Classes of images that attend to each other, (N,); known: whose labels are seen."""
        if isinstance(self.module, Encoded):
            return self.module.of_class(self.module(images, None)).argmax(dim=1)
        patches = self.module.cut(images)
        shape = len(patches), patches.shape[1] + 1
        hidden = torch.zeros(shape, dtype=torch.bool, device=patches.device)
        hidden[:, -1] = ~known
        return self.module.of_class(self.module(patches, labels, hidden, None)[:, -1]).argmax(dim=1)


def accuracies(
    task: ImageTask, truth: Tensor, asked: np.ndarray, batch: int, seed: int
) -> tuple[float, float]:
    """Accuracy in percent on the asked images beside others, and with every pixel and label of the
    others permuted over them, each by itself (Algorithm 1)."""
    rng, device = np.random.default_rng([seed, 5]), task.images.device
    n, right = len(task.images), [0, 0]
    others = np.setdiff1d(np.arange(n), asked)
    for one in asked:
        rows = torch.from_numpy(np.append(rng.permutation(others)[: batch - 1], one)).to(device)
        images, labels, known = task.images[rows], task.labels[rows], task.train[rows]
        for i, spoilt in enumerate((False, True)):
            if spoilt:
                flat = images[:-1].flatten(1)
                order = torch.from_numpy(rng.random(tuple(flat.shape)).argsort(axis=0)).to(device)
                moved = flat.gather(0, order).view_as(images[:-1])
                images = torch.cat([moved, images[-1:]])
                moved = torch.from_numpy(rng.permutation(len(rows) - 1)).to(device)
                labels = torch.cat([labels[:-1][moved], labels[-1:]])
            found = task.answers(images, labels, known)[-1]
            right[i] += int(found == truth[int(one)])
    before, after = (100.0 * count / len(asked) for count in right)
    return before, after


def run(
    setting: Setting, *, datasets: Sequence[str], networks: Mapping[str, Mapping[str, Any]],
    steps: int, batch: int, asked: int,
) -> ExperimentResult:  # fmt: skip
    """`bench experiment npt-images`. batch: images of a step. asked: test images predicted."""
    kinds: dict[str, Callable[..., Any]] = {"patches": Patches, "cnn": Encoded}
    printed = printed_values(FOLDER, "table2")
    device = torch_device(setting.device)

    def on(dataset: str) -> list[dict[str, Any]]:
        data, shape = setting.load(dataset), SHAPES[dataset]
        fold = setting.folds(data)[0]
        rows = np.concatenate([fold.train, fold.test])
        parts = np.repeat([0, 2], [len(fold.train), len(fold.test)])
        pixels = data.rows(rows).to_numpy(dtype=np.float32)
        pixels = (pixels - pixels[parts == 0].mean()) / pixels[parts == 0].std()
        images = torch.from_numpy(pixels).view(-1, *shape).to(device)
        truth = torch.from_numpy(data.target[rows].astype(np.int64)).to(device)
        found = []
        for name, config in networks.items():
            setting.say(f"{name} on {dataset}")
            with seeded(setting.seed):
                module = kinds[name](shape, data.n_classes, **config).to(device)
            task = ImageTask(module, images, truth, parts, batch, setting.seed, steps)
            schedule = Recipe(
                steps, lambda s: rate("flat-cosine", s, steps, 1e-3), steps,
                clip_value=1.0, lookahead=(0.5, 6),
            )  # fmt: skip
            training = Training(task, schedule, seed=setting.seed, device=setting.device)
            training.run(steps)
            chosen = np.flatnonzero(parts == 2)[:asked]
            with training.final_weights():
                before, after = accuracies(task, truth, chosen, batch, setting.seed)
            change = printed.get((dataset, "npt"))
            paper = {"accuracy, paper": ACCURACY.get((dataset, name)), "change, paper": change}
            ours = {"accuracy": before, "others corrupted": after, "change": after - before}
            found.append(
                {"dataset": dataset, "network": name, "rows": len(chosen), **ours, **paper}
            )
        return found

    made, left_out = on_available(datasets, on)
    note = (
        "Accuracy in percent on test images. patches: linear patching encoder; cnn: ResNet-18, then"
        " attention between images. MNIST and CIFAR-10 are datasets that the user adds, a column a "
        "pixel."
    )
    rows = [row for found in made.values() for row in found]
    return ExperimentResult(
        [ExperimentTable("npt-images", "NPT on images", rows, note)], remarks=left_out
    )
