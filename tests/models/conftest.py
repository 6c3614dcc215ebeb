"""Tests of this folder start with torch's generator as if they ran alone."""

from fixed_seed import torch_is_seeded  # noqa: F401
