"""A preprocessing policy: the four choices that turn columns into numbers, in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass

NUMERIC = ("none", "shift", "standard", "quantile", "min-max", "squash")
CATEGORICAL = ("native", "ordinal", "one-hot")
MISSING = ("native", "impute")
TARGET = ("none", "shift", "standard")


@dataclass(frozen=True)
class Policy:
    """A preprocessing policy, in words that a report prints.

    numeric: `none` leaves values as they are; `shift` does, but subtracts the median where that is
    far from zero (`preprocessing.FAR`); `standard` subtracts the mean and divides by the standard
    deviation (ddof 0); `quantile` maps to a standard normal, fitted on slightly noisy values
    (Gorishniy 2021, sec. 4.4); `min-max` maps the least and largest value to 0 and 1;
    `squash` subtracts the median, divides by the distance of the quartiles (half the range where
    that is 0) and bends values x beyond smoothly to x / sqrt(1 + (x / 5)^2) (Holzmüller 2024,
    sec. 3), so that no value is above 5.
    categorical: `native` gives codes 0..K-1 that a library treats as categories; `ordinal` gives
    the same codes to be read as numbers, unseen levels as K; `one-hot` gives one 0/1 column a
    level, all zeros for a level that training did not hold. A missing value is a level of its own
    where training held one.
    missing: `native` keeps NaN; `impute` puts the training mean and adds a 0/1 indicator for each
    numeric column that has gaps in training.
    target: `none`, or `shift` and `standard` as for numbers (regression only; predictions are
    mapped back).

    A numeric column without a value in training is 0 in every row.
    """

    numeric: str = "none"
    categorical: str = "one-hot"
    missing: str = "impute"
    target: str = "none"

    def __post_init__(self) -> None:
        for field, known in (
            ("numeric", NUMERIC),
            ("categorical", CATEGORICAL),
            ("missing", MISSING),
            ("target", TARGET),
        ):
            if getattr(self, field) not in known:
                raise ValueError(
                    f"unknown {field} policy {getattr(self, field)!r}; known: {', '.join(known)}"
                )

    def describe(self) -> str:
        """The policy as one line, e.g. for `bench models`."""
        return ", ".join(f"{part}: {how}" for part, how in asdict(self).items())
