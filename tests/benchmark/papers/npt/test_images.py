"""NPT on images: labels of images to predict are never read, nor the pixels of a hidden patch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tabsweep.benchmark.papers.npt.images import SMALL, Encoded, ImageTask, Patches, accuracies
from tabsweep.models.deep.trainer import Recipe, Training, seeded


def task_of(kind, labels):
    """A network on 40 images of two shades, half of them to predict, trained for 60 steps."""
    parts = np.repeat([0, 2], 20)
    shades = torch.arange(40) % 2
    g = torch.Generator().manual_seed(0)
    images = shades[:, None, None, None] + 0.1 * torch.randn(40, 1, 8, 8, generator=g)
    with seeded(0):
        module = {"patches": Patches, "cnn": Encoded}[kind]((1, 8, 8), 2, **SMALL[kind])
    task = ImageTask(module, images, labels, parts, 0, 0, 60)
    recipe = Recipe(60, lambda s: 3e-3, 60, clip_value=1.0)
    training = Training(task, recipe, seed=0)
    training.run(60)
    return task, training, shades


@pytest.mark.parametrize("kind", list(SMALL))
def test_shades_are_learned_and_the_labels_to_predict_are_never_read(kind):
    truth = torch.arange(40) % 2
    wrong = torch.where(torch.arange(40) < 20, truth, 1 - truth)
    found = []
    for labels in (truth, wrong):
        task, training, shades = task_of(kind, labels)
        with training.final_weights():
            found.append(accuracies(task, shades, np.arange(20, 40), 40, 0))
    assert found[0] == found[1] and found[0][0] >= 90.0


def test_the_pixels_of_a_hidden_patch_are_not_read():
    module = Patches((1, 8, 8), 2, **SMALL["patches"]).eval()
    patches, labels = torch.randn(3, 16, 4), torch.zeros(3, dtype=torch.long)
    hidden = torch.zeros(3, 17, dtype=torch.bool)
    hidden[:, 5] = hidden[1, 16] = True
    other = patches.clone()
    other[:, 5] = 9.0
    changed = torch.tensor([0, 1, 0])  # where it is hidden
    with torch.no_grad():
        torch.testing.assert_close(
            module(patches, labels, hidden, None), module(other, changed, hidden, None)
        )
