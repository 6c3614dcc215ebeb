"""Model files: a fitted model in one checksummed archive without a pickle, safe to load.

A file is an uncompressed zip archive, the same bytes for the same model:

    manifest.json   format, schema of the input, model, configuration, versions, sha256 of the rest
    state.json      the fitted attributes as plain data (see `serialization.py`)
    arrays.bin      their arrays
    booster.*       the trees of XGBoost (UBJ), LightGBM (text) or CatBoost (cbm)

A model whose attributes have no plain form (one from another package, say) is stored as its
configuration and training rows (with their weights, where they have some), and fitted again on
loading; the manifest then says `"how": "refit"`, and loading warns if the predictions differ from
those at saving.

Loading guarantees that no bytes of a file are executed, that no class outside a closed list is
created, that code from outside tabsweep is imported only where the caller names it, that damage to
any byte is found, and that the model predicts rows of its schema. Crafted trees could crash the
compiled code that reads them, so another process reads such a file first and predicts with it, and
indices inside scikit-learn's trees are checked before. Loading does not authenticate: a checksum is
no signature.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...common.columns.encoder import ColumnEncoder
from ...common.files import write_atomically
from ...common.text import one_line
from .. import registry
from ..base import Estimator
from ..in_context.checkpoint_file import CheckpointError
from ..in_context.entries import IN_CONTEXT
from ..library.estimator import arrays_inside
from ..sample_weights import fit_by_weights
from .allowlist import NotPlain
from .archive import (
    MAX_BYTES,
    ModelFileError,
    check_sums,
    parse,
    seal,
    to_json,
    unpack,
)
from .ensemble_file import ENSEMBLE, FORMAT, VERSION, has_native, open_ensemble
from .fitted import Fitted as Fitted
from .fitted import ModelWarning as ModelWarning
from .fitted import warn_user as warn_user
from .library_versions import compare_versions, versions
from .schema import Schema
from .serialization import Reader, Writer
from .trial_prediction import check_apart, predict_made_up

OURS = {**registry.MODELS, **IN_CONTEXT}  # their code is tabsweep's
OWN_PARAMS = ("task", "seed", "random_state", "threads", "n_jobs", "device")
ENCODED = "encoded columns"  # beside the attributes: what a ColumnEncoder has learned
N_CHECKED = 200  # training rows whose predictions a saved model must repeat


# -- saving ---------------------------------------------------------------------------------------


def save_model(estimator: Any, path: str | Path, *, schema: Schema, **how: Any) -> Path:
    """Write a fitted estimator to one file, atomically; returns its path. `schema` and `how` as for
    `model_bytes`."""
    write_atomically(Path(path), model_bytes(estimator, schema=schema, **how))
    return Path(path)


def model_bytes(
    estimator: Any,
    *,
    schema: Schema,
    encoder: ColumnEncoder | None = None,
    name: str | None = None,
    config: Mapping[str, Any] | None = None,
    training: tuple[Any, ...] | None = None,
    weights: Mapping[str, np.ndarray] | None = None,
    about: Mapping[str, Any] | None = None,
) -> bytes:
    """A fitted estimator as the bytes of a model file.

    encoder: makes numbers of the dates and texts of the schema, where it has any; it was used
    before the fit. name: registry name or `package.module:Class`; found from the class where it is
    registered. config: hyperparameters, those of `get_params` by default. training: the arguments
    of `fit`, (X, y) or (X, y, X_val, y_val). The file is then read back, and must repeat the
    predictions on the first rows byte for byte; a model without a plain form is stored as these
    rows. Without `training` such a model is a ModelFileError. weights: those of the training rows,
    as for `fit_rows`; they are stored beside the rows. about: JSON-able remarks, e.g. where the
    configuration comes from.
    """
    name = name or _registered_name(estimator)
    model = {"name": name, "target": registry.spec(name).target, "task": schema.task}
    model |= _arguments(estimator, config)
    common = {
        "format": FORMAT,
        "version": VERSION,
        "model": model,
        "schema": schema.to_data(),
        "libraries": versions(name),
        "python": platform.python_version(),
        "about": dict(about or {}),
    }
    columns = encoder.to_data() if encoder is not None else []
    answer = _answers(estimator, schema, training) if training is not None else None
    try:
        data = _state_file(estimator, common, columns)
        if training is not None and answer is not None:
            again = _answers(open_members(unpack(data), trust=(name,)).estimator, schema, training)
            if again.tobytes() != answer.tobytes():
                raise NotPlain("attributes that do not give the same predictions when read back")
    except (NotPlain, ModelFileError) as error:
        if training is None:
            raise ModelFileError(
                f"{name} holds {error}, for which there is no safe format; give its training rows "
                "(training=(X, y)) to have it fitted again on loading"
            ) from None
        assert answer is not None
        data = _refit_file(common, columns, training, weights, answer, str(error))
    if len(data) > MAX_BYTES:
        raise ModelFileError(f"the model takes {len(data)} bytes, more than {MAX_BYTES}")
    return data


def fit_rows(
    estimator: Any, training: tuple[Any, ...], weights: Mapping[str, np.ndarray] | None
) -> None:
    """Fit a model on the arguments of its `fit`: (X, y) or (X, y, X_val, y_val). weights: None, or
    `weights` (N,) of the training rows and `val_weights` (N_val,)."""
    if weights is None:
        estimator.fit(*training)
        return
    X, y, *val = training
    more = dict(zip(("X_val", "y_val"), val, strict=False))
    fit_by_weights(estimator.fit, X, y, **weights, **more)


def _registered_name(estimator: Any) -> str:
    target = f"{type(estimator).__module__}:{type(estimator).__qualname__}"
    return next((n for n, s in OURS.items() if s.target == target), target)


def _arguments(estimator: Any, config: Mapping[str, Any] | None) -> dict[str, Any]:
    """seed, threads and config, with which `make_model` makes the unfitted model again."""
    params = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    if config is None:
        config = {k: v for k, v in params.items() if k not in OWN_PARAMS}
    plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in config.items()}
    try:
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"the configuration is not plain data: {error}") from None

    def own(ours: str, theirs: str, usual: int) -> int:
        return next((int(params[n]) for n in (ours, theirs) if params.get(n) is not None), usual)

    seed, threads = own("seed", "random_state", 0), own("threads", "n_jobs", 1)
    return {"seed": seed, "threads": threads, "config": plain}


def _file(common: Mapping[str, Any], state: Any, writer: Writer, **more: Any) -> bytes:
    members = {"state.json": to_json(state), "arrays.bin": writer.arrays, **writer.boosters}
    return seal(members, {**common, **more})


def _transient(cls: type) -> set[str]:
    """Fitted attributes that are not saved: what the class and its bases declare."""
    return {name for base in cls.__mro__ for name in vars(base).get("transient", ())}


def _state_file(estimator: Any, common: Mapping[str, Any], columns: list[Any]) -> bytes:
    if not isinstance(estimator, Estimator):
        raise NotPlain(f"a class that is not tabsweep's ({type(estimator).__qualname__})")
    params = estimator.get_params(deep=False)
    writer = Writer()
    left = {*params, *_transient(type(estimator))}
    state = {k: writer.write(v) for k, v in sorted(vars(estimator).items()) if k not in left}
    state |= {ENCODED: writer.write(columns)} if columns else {}
    return _file(common, state, writer, how="state")


def _refit_file(
    common: Mapping[str, Any],
    columns: list[Any],
    training: tuple[Any, ...],
    weights: Mapping[str, np.ndarray] | None,
    answer: np.ndarray,
    reason: str,
) -> bytes:
    writer = Writer()
    try:
        state: dict[str, Any] = {"training": [_write_part(part, writer) for part in training]}
        if weights is not None:
            state["weights"] = writer.write(dict(weights))
        state |= {ENCODED: writer.write(columns)} if columns else {}
    except NotPlain as error:
        raise ModelFileError(f"the training rows hold {error}, which has no plain form") from None
    facts = {"reason": f"it holds {reason}", "answers_sha256": _sha256(answer)}
    return _file(common, state, writer, how="refit", refit=facts)


def _write_part(part: Any, writer: Writer) -> Any:
    """A frame of numbers and categories, or an array, as plain data."""
    if not isinstance(part, pd.DataFrame):
        return writer.write(np.asarray(part))
    columns = []
    for name in part.columns:
        column = part[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            values: dict[str, Any] = {"codes": column.cat.codes.to_numpy()}
            values["levels"] = column.cat.categories.to_numpy().astype(object)
        else:
            values = {"values": column.to_numpy()}
        columns.append((name, values))
    return {"frame": writer.write(columns)}


def _read_part(data: Any, reader: Reader) -> Any:
    if not (isinstance(data, dict) and "frame" in data):
        return reader.read(data)
    columns = {}
    for name, values in reader.read(data["frame"]):
        if "codes" in values:
            levels = pd.Index(values["levels"], dtype=object)
            values["values"] = pd.Categorical.from_codes(values["codes"], categories=levels)
        columns[name] = values["values"]
    return pd.DataFrame(columns)


def _answers(estimator: Any, schema: Schema, training: tuple[Any, ...]) -> np.ndarray:
    """The predictions for the first training rows."""
    X = training[0].iloc[:N_CHECKED] if hasattr(training[0], "iloc") else training[0][:N_CHECKED]
    ask = estimator.predict if schema.task == "regression" else estimator.predict_proba
    with arrays_inside():
        return np.ascontiguousarray(ask(X), dtype=np.float64)


def _sha256(values: np.ndarray) -> str:
    return hashlib.sha256(values.tobytes()).hexdigest()


# -- loading --------------------------------------------------------------------------------------


def load_model(
    path: str | Path,
    *,
    trust: Collection[str] = (),
    warn: Callable[[str], None] = warn_user,
) -> Fitted:
    """The model in a file that `save_model` or `save_ensemble` wrote.

    trust: names (`package.module:Class`) of models from outside tabsweep that may be imported.
    ModelFileError says what is wrong with a file; other versions of libraries are a warning.
    """
    path = Path(path)
    try:
        if not path.is_file():
            raise ModelFileError("there is no such file")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ModelFileError(f"it has {size} bytes; a model has at most {MAX_BYTES}")
        data = path.read_bytes()
        members = unpack(data)
        native = has_native(members)
        if native:
            check_apart(data)
        model = open_members(members, trust=trust, warn=warn)
        if model.how == "state" and not native:
            predict_made_up(model)
        return model
    except ModelFileError as error:
        raise ModelFileError(f"{path.name}: {error}") from None
    except OSError as error:
        raise ModelFileError(f"{path.name}: it cannot be read: {error.strerror}") from None


def open_members(
    members: Mapping[str, bytes],
    *,
    trust: Collection[str] = (),
    warn: Callable[[str], None] = warn_user,
) -> Fitted:
    """The model in the members of an archive; what it predicts was not tried yet."""
    members = dict(members)
    manifest = parse(members.pop("manifest.json", b""), "manifest.json")
    if manifest.get("format") != FORMAT or manifest.get("version") != VERSION:
        raise ModelFileError(
            f"its format is {manifest.get('format')!r} {manifest.get('version')!r}; this version "
            f"of tabsweep reads {FORMAT!r} {VERSION}"
        )
    try:
        if manifest.get("how") == ENSEMBLE:
            ensemble = open_ensemble(manifest, members, open_members, trust=trust, warn=warn)
            _try_about(ensemble)
            return ensemble
        check_sums(manifest, members)
        schema = Schema.parse(manifest["schema"])
        model = manifest["model"]
        if schema.task != model["task"]:
            raise ModelFileError(
                f"its schema says {schema.task}, its model {str(model['task'])[:40]!r}; refused"
            )
        name = _trusted(model["name"], model["target"], trust)
        compare_versions(manifest["libraries"], warn)
        estimator = registry.make_model(
            name,
            task=model["task"],
            seed=model["seed"],
            threads=model["threads"],
            **model["config"],
        )
        state = parse(members["state.json"], "state.json")
        how = manifest["how"]
        if how == "refit":
            _refit(estimator, state, members, manifest, schema, warn)
        else:
            attributes = {key: value for key, value in state.items() if key != ENCODED}
            _restore(estimator, attributes, members, model["threads"])
        encoder = None
        if ENCODED in state:
            learned = Reader(members["arrays.bin"], {}, threads=1).read(state[ENCODED])
            encoder = ColumnEncoder.of_data(learned)
        made = Fitted(estimator, schema, name, how, manifest["about"], encoder)
        _try_about(made)
    except NotPlain as error:
        raise ModelFileError(f"it holds {error}; refused") from None
    except CheckpointError as error:  # the file is whole, the user's own part is not there
        raise ModelFileError(str(error)) from None
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        if isinstance(error, ModelFileError):
            raise
        why = f"{type(error).__name__}: {one_line(error, 200)}"
        raise ModelFileError(f"it is no whole model: {why}") from None
    return made


def _try_about(model: Fitted) -> None:
    """TypeError or ValueError where the remarks are none, or their costs are no matrix of classes.
    A model that is fitted again is not tried on made-up rows, which would find it."""
    if not isinstance(model.about, dict):
        raise TypeError(f"remarks that are a {type(model.about).__name__}")
    if model.schema.task != "regression" and "costs" in model.about:
        n_classes = len(model.labels)
        model.decided(np.full((1, n_classes), 1 / n_classes))


def _trusted(name: str, target: str, trust: Collection[str]) -> str:
    """The name, if importing its class imports nothing that the file chose; else ModelFileError."""
    if name in OURS:
        if OURS[name].target != target:
            raise ModelFileError(f"it says that {name} is {target!r}, which it is not; refused")
        return name
    if registry.entry_points().get(name) == target or name in trust:
        if registry.spec(name).target == target:
            return name
    raise ModelFileError(
        f"its model {str(name)[:100]!r} is code from outside tabsweep, which loading would import; "
        "if you trust it, name it: load_model(path, trust=[...])"
    )


def _restore(
    estimator: Any, state: Mapping[str, Any], members: Mapping[str, bytes], threads: int
) -> None:
    """Sets the fitted attributes."""
    if not isinstance(estimator, Estimator):
        raise ModelFileError("its model is not tabsweep's and cannot be restored from attributes")
    reader = Reader(members["arrays.bin"], members, threads=threads)
    for key in state:
        fitted = key.endswith("_") or key.startswith("_target_")
        if key.startswith("__") or not fitted or key in estimator.get_params(deep=False):
            raise NotPlain(f"the attribute {key!r}")
        setattr(estimator, key, reader.read(state[key]))
    width = estimator.preprocessor_.n_out_
    if reader.n_features > width:
        raise NotPlain("a tree that asks for a feature which is not there")
    if reader.widths - {width}:
        raise NotPlain(f"rows of another width than {width}")


def _refit(
    estimator: Any,
    state: Mapping[str, Any],
    members: Mapping[str, bytes],
    manifest: Mapping[str, Any],
    schema: Schema,
    warn: Callable[[str], None],
) -> None:
    reader = Reader(members["arrays.bin"], {}, threads=1)
    training = tuple(_read_part(part, reader) for part in state["training"])
    weights = reader.read(state["weights"]) if "weights" in state else None
    with arrays_inside():
        fit_rows(estimator, training, weights)
    if _sha256(_answers(estimator, schema, training)) != manifest["refit"]["answers_sha256"]:
        warn(
            "the model was fitted again from its training rows and does not predict as it did "
            "when it was saved: another library version or processor, or a fit that is not "
            "deterministic"
        )
