"""How large the tensors are that operations of torch make."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Largest(TorchDispatchMode):
    """`size` is the number of elements of the largest tensor that any operation allocates, and
    `operations` their count, while this is on."""

    def __init__(self):
        super().__init__()
        self.size, self.operations = 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else [out]:
            if isinstance(x, torch.Tensor):  # what is allocated, not an expanded view
                self.size = max(self.size, x.untyped_storage().nbytes() // x.element_size())
        self.operations += 1
        return out
