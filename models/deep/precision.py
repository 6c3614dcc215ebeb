"""Number formats of layers with hand-written backward passes under autocast.

Autocast looks at the library's operations one by one; a layer that writes out its own forward and
backward passes must be given all its tensors in one format.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def in_one_format(layer: Any, tensors: tuple[Tensor, ...], *rest: Any) -> Tensor:
    """`layer.apply(*tensors, *rest)`, the tensors as autocast would have them, gradients in the
    formats that they came in."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return layer.apply(*tensors, *rest)
    dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        return layer.apply(*(t.to(dtype) for t in tensors), *rest)


def in_float32(layer: Any, *tensors: Tensor) -> Any:
    """`layer(*tensors)` outside of autocast; where that is on, the tensors come in float32."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return layer(*tensors)
    with torch.autocast(device, enabled=False):
        return layer(*(t.float() for t in tensors))
