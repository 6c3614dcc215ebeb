"""Boosters as bytes, in the file formats of XGBoost, LightGBM and CatBoost."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _xgboost_bytes(booster: Any) -> bytes:
    return bytes(booster.save_raw("ubj"))


def _xgboost_from(data: bytes, threads: int) -> Any:
    from xgboost import Booster

    booster = Booster({"nthread": threads})
    booster.load_model(bytearray(data))
    return booster


def _lightgbm_bytes(booster: Any) -> bytes:
    return booster.model_to_string(num_iteration=-1).encode()


def _lightgbm_from(data: bytes, threads: int) -> Any:
    from lightgbm import Booster

    return Booster(model_str=data.decode())  # threads are given with each prediction


def _catboost_bytes(booster: Any) -> bytes:
    """The model without its time stamp, random name and folder: the same trees, the same bytes."""
    copy = _catboost_from(_catboost_file(booster), 1)
    metadata = copy.get_metadata()
    for key in ("train_finish_time", "model_guid", "output_options"):
        if key in metadata:
            del metadata[key]
    return _catboost_file(copy)


def _catboost_file(booster: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cbm"
        booster.save_model(str(path), format="cbm")
        return path.read_bytes()


def _catboost_from(data: bytes, threads: int) -> Any:
    from catboost import CatBoost

    booster = CatBoost()
    booster.load_model(blob=data)
    return booster


BOOSTERS: dict[str, tuple[str, Callable[[Any], bytes], Callable[[bytes, int], Any]]] = {
    "xgboost.core:Booster": ("booster.ubj", _xgboost_bytes, _xgboost_from),
    "lightgbm.basic:Booster": ("booster.txt", _lightgbm_bytes, _lightgbm_from),
    "catboost.core:CatBoost": ("booster.cbm", _catboost_bytes, _catboost_from),
}
"""Class of a booster -> member of the archive, booster to bytes, (bytes, threads) to booster."""

BOOSTER_MEMBERS = {member: name for name, (member, _, _) in BOOSTERS.items()}
