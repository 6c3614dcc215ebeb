"""Fitted estimators as plain data (JSON, arrays, boosters) and back, without a pickle.

Reading never looks up a name that a file chose: classes, types and losses are those of the closed
lists in `allowlist.py`; nothing is unpickled and nothing that a file names is called. Whatever is
outside these lists raises `NotPlain`, on writing as on reading.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Literal

import numpy as np
import pandas as pd

from ...common.text import one_line
from .allowlist import CLASSES, DROPPED, LOSSES, NATIVE, TYPES, NotPlain
from .boosters import BOOSTER_MEMBERS, BOOSTERS
from .part_checks import CHECKS, EXACT, NEIGHBOURS, check_tree

MAX_DEPTH = 60  # of nested values; trees are arrays, so honest files stay below 15
_SCALARS = "biufUS"


def name_of(value: object) -> str:
    """`package.module:Class` of a value."""
    return f"{type(value).__module__}:{type(value).__qualname__}"


# -- writing --------------------------------------------------------------------------------------


class Writer:
    """Turns values into JSON-able data; arrays go to `arrays`, boosters to `boosters`."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0
        self._places: dict[bytes, int] = {}
        self.boosters: dict[str, bytes] = {}

    @property
    def arrays(self) -> bytes:
        """All arrays back to back, each distinct content once."""
        return b"".join(self._chunks)

    def write(self, value: Any, depth: int = 0) -> Any:
        """The plain form of `value`; NotPlain names the type that has none."""
        if depth > MAX_DEPTH:
            raise NotPlain("values nested without end")
        if value is None or isinstance(value, bool | str) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$": "float", "value": repr(value)}
        name = name_of(value)
        if name in DROPPED:
            return None
        if name in BOOSTERS:
            return self._booster(name, value)
        if isinstance(value, np.generic):
            return {**self._array(np.asarray(value)), "$": "scalar"}
        if isinstance(value, np.ndarray) and value.dtype != object:
            return self._array(value)

        def inner(item: Any) -> Any:
            return self.write(item, depth + 1)

        if type(value) is list:
            return [inner(v) for v in value]
        if type(value) is tuple:
            return {"$": "tuple", "items": [inner(v) for v in value]}
        if type(value) is dict:
            return {"$": "dict", "items": [[inner(k), inner(v)] for k, v in value.items()]}
        if isinstance(value, np.ndarray):
            items = [inner(v) for v in value.ravel()]
            return {"$": "objects", "shape": list(value.shape), "items": items}
        if isinstance(value, pd.Index) and type(value) is pd.Index:
            return {"$": "levels", "items": [inner(v) for v in value]}
        if isinstance(value, slice):
            parts = (value.start, value.stop, value.step)
            return {"$": "slice", "items": [inner(v) for v in parts]}
        if isinstance(value, type) and value in TYPES.values():
            return {"$": "type", "name": value.__name__}
        if isinstance(value, functools.partial) and _is_check_array(value):
            return {"$": "check_array", "options": inner(value.keywords)}
        if name == "sklearn.tree._tree:Tree":
            _, (n_features, n_classes, n_outputs), state = value.__reduce__()
            made = {"n_features": n_features, "n_classes": n_classes, "n_outputs": n_outputs}
            return {"$": "tree", "made": inner(made), "state": inner(state)}
        if type(value).__name__ in LOSSES and name.startswith("sklearn._loss.loss:"):
            given: dict[str, Any] = {"n_classes": value.n_classes}
            given["quantile"] = getattr(value.closs, "quantile", None)
            made = {name: given[name] for name in LOSSES[type(value).__name__]}
            return {"$": "loss", "name": type(value).__name__, **made}
        if name in CLASSES:
            state = dict(vars(value))
            if type(value).__name__ in NEIGHBOURS:
                state.pop("_tree", None)
            state = {str(k): inner(v) for k, v in state.items()}
            return {"$": "object", "class": name, "state": state}
        raise NotPlain(f"a {name}")

    def _booster(self, name: str, value: Any) -> dict[str, Any]:
        member, to_bytes, _ = BOOSTERS[name]
        if member in self.boosters:
            raise NotPlain(f"two boosters of {name}")
        self.boosters[member] = to_bytes(value)
        return {"$": "booster", "member": member}

    def _array(self, value: np.ndarray) -> dict[str, Any]:
        by_column = value.flags.f_contiguous and not value.flags.c_contiguous
        order: Literal["C", "F"] = "F" if by_column else "C"
        if value.dtype.names is not None:  # what lies between the fields is left-over memory
            clean = np.zeros(value.shape, value.dtype)
            for field in value.dtype.names:
                clean[field] = value[field]
            value = clean
        data = value.tobytes(order=order)
        key = hashlib.sha256(data).digest()
        if key not in self._places:
            self._places[key] = self._size
            self._chunks.append(data)
            self._size += len(data)
        return {
            "$": "array",
            "dtype": _dtype_data(value.dtype),
            "shape": list(value.shape),
            "order": order,
            "at": self._places[key],
        }


def _is_check_array(value: Any) -> bool:
    from sklearn.utils.validation import check_array

    return value.func is check_array and not value.args


def _dtype_data(dtype: np.dtype) -> Any:
    if dtype.names is None:
        if dtype.kind not in _SCALARS or dtype.subdtype is not None:
            raise NotPlain(f"an array of {dtype}")
        return dtype.str
    fields = [dtype.fields[name] for name in dtype.names]  # type: ignore[index]
    return {
        "names": list(dtype.names),
        "formats": [_dtype_data(field[0]) for field in fields],
        "offsets": [int(field[1]) for field in fields],
        "itemsize": dtype.itemsize,
    }


# -- reading --------------------------------------------------------------------------------------


class Reader:
    """Turns plain data back into values; NotPlain for anything that `Writer` cannot have written.

    Parts of scikit-learn are compared before it sees them; `n_features` is then the number of
    features that they ask for, at most, and `widths` holds the widths that rows must have. What
    other compiled code reads (`is_native`) may still point anywhere, see `trial_prediction.py`.
    """

    def __init__(self, arrays: bytes, boosters: Mapping[str, bytes], *, threads: int) -> None:
        self._arrays = memoryview(arrays)
        self._boosters = boosters
        self._threads = threads
        self.n_features = 0
        self.widths: set[int] = set()

    def read(self, data: Any, depth: int = 0) -> Any:
        """The value of plain data that `Writer.write` gave."""
        if depth > MAX_DEPTH:
            raise NotPlain("values nested without end")
        if data is None or isinstance(data, bool | str | int | float):
            return data
        if isinstance(data, list):
            return [self.read(item, depth + 1) for item in data]
        kind = data.get("$") if isinstance(data, dict) else None
        if kind not in _KINDS:
            raise NotPlain(f"a value of the unknown kind {kind!r}")
        try:
            return getattr(self, f"_{kind}")(data, depth + 1)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            why = f"{type(error).__name__}: {one_line(error, 200)}"
            raise NotPlain(f"a broken {kind}: {why}") from None

    def _items(self, data: dict[str, Any], depth: int) -> list[Any]:
        if not isinstance(data["items"], list):
            raise NotPlain("items that are no list")
        return [self.read(item, depth) for item in data["items"]]

    def _float(self, data: dict[str, Any], depth: int) -> float:
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[data["value"]]

    def _tuple(self, data: dict[str, Any], depth: int) -> tuple[Any, ...]:
        return tuple(self._items(data, depth))

    def _dict(self, data: dict[str, Any], depth: int) -> dict[Any, Any]:
        return {self.read(k, depth): self.read(v, depth) for k, v in data["items"]}

    def _slice(self, data: dict[str, Any], depth: int) -> slice:
        return slice(*self._items(data, depth))

    def _type(self, data: dict[str, Any], depth: int) -> type:
        return TYPES[data["name"]]

    def _levels(self, data: dict[str, Any], depth: int) -> pd.Index:
        return pd.Index(objects(self._items(data, depth)))

    def _objects(self, data: dict[str, Any], depth: int) -> np.ndarray:
        return objects(self._items(data, depth)).reshape(data["shape"])

    def _scalar(self, data: dict[str, Any], depth: int) -> Any:
        return self._array(data, depth)[()]

    def _array(self, data: dict[str, Any], depth: int) -> np.ndarray:
        dtype, shape, at = _dtype(data["dtype"]), data["shape"], data["at"]
        whole = [at, *shape]
        if any(type(n) is not int or n < 0 for n in whole) or len(shape) > 8:
            raise NotPlain(f"an array of shape {shape} at {at}")
        size = math.prod(shape) * dtype.itemsize
        if at + size > len(self._arrays) or data["order"] not in ("C", "F"):
            raise NotPlain("an array beyond the end of the file")
        flat = np.frombuffer(self._arrays[at : at + size], dtype=dtype)
        return flat.reshape(shape, order=data["order"]).copy(order=data["order"])

    def _booster(self, data: dict[str, Any], depth: int) -> Any:
        member = data["member"]
        from_bytes = BOOSTERS[BOOSTER_MEMBERS[member]][2]
        try:
            return from_bytes(self._boosters[member], self._threads)
        except Exception as error:  # each library has its own kind
            line = (str(error).splitlines() or [type(error).__name__])[0]
            raise NotPlain(f"a {member} that its library cannot read: {line}") from None

    def _loss(self, data: dict[str, Any], depth: int) -> Any:
        if data["name"] not in LOSSES:
            raise NotPlain(f"the loss {data['name']!r}")
        made = getattr(import_module("sklearn._loss.loss"), data["name"])
        return made(**{name: data[name] for name in LOSSES[data["name"]]})

    def _check_array(self, data: dict[str, Any], depth: int) -> Any:
        from sklearn.utils.validation import check_array

        return functools.partial(check_array, **self.read(data["options"], depth))

    def _tree(self, data: dict[str, Any], depth: int) -> Any:
        from sklearn.tree._tree import Tree

        made, state = self.read(data["made"], depth), self.read(data["state"], depth)
        self.n_features = max(self.n_features, check_tree(state, made["n_features"]))
        tree = Tree(made["n_features"], made["n_classes"], made["n_outputs"])
        tree.__setstate__(state)
        return tree

    def _object(self, data: dict[str, Any], depth: int) -> Any:
        name = data["class"]
        if name not in CLASSES:
            raise NotPlain(f"the class {name!r}, which is not on the list")
        module, _, cls_name = name.partition(":")
        try:
            cls = getattr(import_module(module), cls_name)
        except (ImportError, AttributeError):
            raise NotPlain(f"the class {name}, which the library here does not have") from None
        made = cls.__new__(cls)
        for key, value in data["state"].items():
            if key.startswith("__"):
                raise NotPlain(f"the attribute {key!r}")
            vars(made)[key] = self.read(value, depth)
        if cls_name in CHECKS:
            width = CHECKS[cls_name](vars(made))
            self.n_features = max(self.n_features, width)
            self.widths |= {width} if cls_name in EXACT else set()
        if cls_name in NEIGHBOURS:
            vars(made)["_tree"] = _search_tree(made)
        return made


_KINDS = {
    *("float", "tuple", "dict", "slice", "type", "levels", "objects", "scalar", "array"),
    *("booster", "loss", "tree", "object", "check_array"),
}


def _search_tree(model: Any) -> Any:
    """The tree over the training rows of a neighbour search; None for a brute-force one."""
    from sklearn.neighbors import KDTree

    if model._fit_method == "brute":
        return None
    if model._fit_method != "kd_tree":
        raise NotPlain(f"a neighbour search by {model._fit_method!r}")
    options = model.effective_metric_params_ or {}
    return KDTree(model._fit_X, model.leaf_size, metric=model.effective_metric_, **options)


def is_native(data: Any) -> bool:
    """Whether plain data hold what compiled code follows to places in memory: trees, boosters."""
    todo = [data]
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo += value
        elif isinstance(value, dict):
            if value.get("$") in ("tree", "booster") or str(value.get("class")).startswith(NATIVE):
                return True
            todo += value.values()
    return False


def objects(items: Sequence[Any]) -> np.ndarray:  # (N,)
    """An array of these values, whatever they are."""
    out = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        out[i] = item
    return out


def _dtype(data: Any) -> np.dtype:
    if isinstance(data, str):
        dtype = np.dtype(data)
        if dtype.kind not in _SCALARS or dtype.subdtype is not None:
            raise NotPlain(f"an array of {data!r}")
        return dtype
    formats, row = [_dtype(format_) for format_ in data["formats"]], data["itemsize"]
    for offset, field in zip(data["offsets"], formats, strict=True):
        # NumPy adds an offset and a size in 32 bits, so that it does not see one beyond 2^31.
        if not 0 <= offset <= row - field.itemsize:
            raise NotPlain(f"a field at byte {offset} of rows of {row} bytes")
    fields: Any = {**data, "formats": formats}
    return np.dtype(fields)
