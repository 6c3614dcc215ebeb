"""Libraries that are extras of the installation: imported when a model is fitted, never before."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

LOGGERS = ("pytorch_lightning", "lightning.pytorch", "lightning_fabric")


def optional(module: str, *, model: str, extra: str) -> Any:
    """The module; ImportError with the way out where its library is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"the model {model!r} needs the extra {extra!r}, which is not installed "
            f"({error}): pip install 'tabsweep[{extra}]'"
        ) from error


@contextmanager
def undisturbed(seed: int, threads: int) -> Iterator[None]:
    """A block for libraries on torch, which seed the generators of the process, set its threads and
    log what they do. After the block generators and threads are as before; nothing is logged."""
    from .deep.trainer import computing, seeded

    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    drawn = random.getstate(), np.random.get_state()
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with computing(threads), seeded(seed):
            yield
    finally:
        random.setstate(drawn[0])
        np.random.set_state(drawn[1])
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
