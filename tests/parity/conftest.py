"""Fixtures of the tests against official numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def double_by_default() -> Iterator[None]:
    """Torch makes float64 where no type is named."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)
