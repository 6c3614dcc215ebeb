"""Small fitted models, saved, forged and loaded again."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import sys
import zipfile
from importlib import metadata

import numpy as np
import pandas as pd
import pytest
from small_tables import TINY
from tabsweep.models import registry
from tabsweep.models.persistence import archive as container
from tabsweep.models.persistence.model_file import save_model
from tabsweep.models.persistence.schema import Schema

SMALL = {"n_estimators": 8, "max_iter": 30}
QUIET = {"warn": lambda text: None}


def make_data(n=70):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "weight": rng.normal(size=n) * 100,
            "kind": pd.Categorical(rng.choice(["a", "b", "c"], n)),
        }
    )
    X.loc[::9, "size"] = np.nan
    X.loc[::13, "kind"] = np.nan
    wave = X["weight"].to_numpy() + 50 * (X["kind"] == "a")
    y = {
        "binary": (wave > 0).astype(np.int64),
        "multiclass": np.digitize(wave, [-60, 60]).astype(np.int64),
        "regression": wave + 0.1,
    }
    return X, y


X, Y = make_data()
# Rows as they come later: gaps where training had none, and a kind that it never held.
LATER = pd.DataFrame(
    {
        "size": [0.1, np.nan, -3.0, 1e9],
        "weight": [np.nan, 5.0, -70.25, 1e-9],
        "kind": pd.Categorical(["z", "a", None, "c"]),
    }
)


def make(name, task, **config):
    known = registry.defaults(name)
    small = {k: v for k, v in SMALL.items() if k in known} | TINY.get(name, {}) | config
    return registry.make_model(name, task=task, seed=3, **small).fit(X, Y[task], X, Y[task])


def saved(tmp_path, estimator, task, **more):
    return save_model(estimator, tmp_path / "m.tabsweep", schema=Schema.of(X, task), **more)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def as_json(value):
    return json.dumps(value, sort_keys=True)  # a tuple of widths comes back as a list


def assert_predicts_alike(fitted, estimator, task):
    for frame in (X, LATER):
        assert same(fitted.predict(frame, **QUIET), estimator.predict(frame))
        if task != "regression":
            assert same(fitted.predict_proba(frame, **QUIET), estimator.predict_proba(frame))


def forge(path, edit):
    """The file with members changed by `edit(members)` and every checksum right again."""
    members = container.unpack(path.read_bytes())
    members = {n: json.loads(d) if n.endswith(".json") else d for n, d in members.items()}
    edit(members)
    members = {n: json.dumps(d).encode() if n.endswith("json") else d for n, d in members.items()}
    manifest = json.loads(members.pop("manifest.json"))
    for name, data in members.items():
        manifest["members"][name] = {"bytes": 0, "sha256": hashlib.sha256(data).hexdigest()}
    path.write_bytes(container.pack({**members, "manifest.json": json.dumps(manifest).encode()}))


def set_(member, *keys, value):
    """An edit for `forge`: the value at these keys of a member."""

    def edit(members):
        place = members[member]
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return edit


def archive_of(names, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in names:
            archive.writestr(name, data)
    return out.getvalue()


OUTSIDE = """
import pathlib
import numpy as np
pathlib.Path(r"{canary}").touch()

class Mean:
    "Remembers the mean; has no plain form, for it holds a function."
    def __init__(self, *, task, seed=0, shift=0.0):
        self.task, self.shift = task, shift
    def fit(self, X, y):
        self.answer = lambda: float(np.mean(y)) + self.shift + {noise}
        return self
    def predict(self, X):
        return np.full(len(X), self.answer())
    classes_ = np.arange(2)
    def predict_proba(self, X):
        return np.column_stack([1 - self.predict(X), self.predict(X)])
"""


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """A folder for models from outside the package. Yields a function that writes the module
    `foreign_mean` into it and returns the file that its import makes."""
    library = tmp_path / "lib"
    library.mkdir()
    monkeypatch.syspath_prepend(str(library))
    # Which distribution owns which module takes a second to find out; the answer stays.
    known = functools.cache(metadata.packages_distributions)
    monkeypatch.setattr(metadata, "packages_distributions", known)

    def write(noise="0"):
        trace = tmp_path / "imported"
        (library / "foreign_mean.py").write_text(OUTSIDE.format(canary=trace, noise=noise))
        sys.modules.pop("foreign_mean", None)
        return trace

    yield write
    sys.modules.pop("foreign_mean", None)
