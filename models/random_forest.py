"""What do many trees on resampled rows say together? A random forest."""

from __future__ import annotations

from typing import Any

from .forest import Forest


class RandomForest(Forest):
    """Breiman's forest: each tree on a bootstrap sample, best splits of a feature sample."""

    def _kinds(self) -> tuple[Any, Any]:
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        return RandomForestClassifier, RandomForestRegressor
