"""What do many trees with random thresholds say together? Extremely randomised trees."""

from __future__ import annotations

from typing import Any

from .forest import Forest


class ExtraTrees(Forest):
    """Geurts' extra trees: every tree on all rows, thresholds drawn at random."""

    def _kinds(self) -> tuple[Any, Any]:
        from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

        return ExtraTreesClassifier, ExtraTreesRegressor
