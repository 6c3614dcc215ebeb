"""What a model sees of dates and texts: numbers, by what the training rows of the fold hold."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from ..datasets.protocols import Fold
from ..datasets.table import Table
from ..models.library.columns import is_cyclic
from ..models.model_spec import ModelSpec
from ..sweeps.fingerprint import source_hash

NUMBERS = f"{__name__.partition('.')[0]}.models.own_class:ready"
MODULE = f"{__name__.partition('.')[0]}.models.own_module:estimator_of"
ENCODER = f"{__name__.partition('.')[0]}.common.columns.encoder:ColumnEncoder"


@cache
def encoder_source() -> str:
    """The fingerprint of the encoder's source."""
    return source_hash(ENCODER)


def encoding_identity(spec: ModelSpec, table: Table) -> dict[str, Any]:
    """What a trial's identity says of the encoding: {"encoding": {cyclic, source}}, and for a class
    that takes numbers alone {"numbers": source}, for a torch module {"module": source of what
    trains it}. {} for other models on a table without dates and texts, whose trials keep their ids.
    """
    numbers = {"numbers": source_hash(NUMBERS)} if spec.numbers_only else {}
    numbers |= {"module": source_hash(MODULE)} if spec.module else {}
    if not table.has_texts_or_dates:
        return numbers
    return {**numbers, "encoding": {"cyclic": is_cyclic(spec), "source": encoder_source()}}


def table_of_trial(table: Table, fold: Fold, identity: Mapping[str, Any]) -> tuple[Table, float]:
    """(the table with its columns encoded for the trial's model, seconds of the encoding)."""
    if not table.has_texts_or_dates:
        return table, 0.0
    return _encoded(table, fold.sha256, fold, bool(identity["encoding"]["cyclic"]))


@lru_cache(maxsize=4)  # the trials of a study, and of its neighbours, share theirs
def _encoded(table: Table, _split: str, fold: Fold, cyclic: bool) -> tuple[Table, float]:
    start = time.perf_counter()
    return table.encoded(fold.train, cyclic=cyclic)[0], time.perf_counter() - start
