"""Tiny random checkpoints of TabICL and TabPFN, in the form of the published ones."""

from __future__ import annotations

from pathlib import Path

import torch


def _shaken(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights with noise: those that begin at zero would make all answers equal."""
    return {
        name: value + 0.3 * torch.randn_like(value) if value.is_floating_point() else value
        for name, value in state.items()
    }


def tabicl(path: Path, *, regression: bool, seed: int = 0) -> Path:
    """A TabICL of width 8 with random weights."""
    from tabicl._model.tabicl import TabICL

    config = {
        "max_classes": 0 if regression else 10,
        "num_quantiles": 9,
        "embed_dim": 8,
        "col_num_blocks": 1,
        "col_nhead": 2,
        "col_num_inds": 4,
        "row_num_blocks": 1,
        "row_nhead": 2,
        "row_num_cls": 2,
        "icl_num_blocks": 1,
        "icl_nhead": 2,
        "zero_init": False,
    }
    torch.manual_seed(seed)
    state = _shaken(TabICL(**config).state_dict())
    torch.save({"config": config, "state_dict": state}, path)
    return path


def tabpfn(path: Path, *, regression: bool, seed: int = 0) -> Path:
    """A TabPFN of version 2, width 8, with random weights."""
    from tabpfn.architectures import tabpfn_v2
    from tabpfn.architectures.shared.bar_distribution import FullSupportBarDistribution

    config = {
        "emsize": 8,
        "nlayers": 1,
        "nhead": 2,
        "max_num_classes": 0 if regression else 10,
        "num_buckets": 20 if regression else 0,
    }
    torch.manual_seed(seed)
    parsed, _ = tabpfn_v2.parse_config(config)
    state = _shaken(tabpfn_v2.get_architecture(parsed).state_dict())
    if regression:
        bars = FullSupportBarDistribution(torch.linspace(-4.0, 4.0, 21))
        state |= {f"criterion.{name}": value for name, value in bars.state_dict().items()}
    torch.save({"config": config, "state_dict": state}, path)
    return path
