"""Fixtures of the tests of models."""

from saved_models import outside  # noqa: F401
