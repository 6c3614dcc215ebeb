"""Tests of this folder start with torch's generator as if they ran alone; models from outside."""

from fixed_seed import torch_is_seeded  # noqa: F401
from saved_models import outside  # noqa: F401
