"""Hyperparameters of models: one field each, which gives rule, default and docstring."""

from __future__ import annotations

import inspect

import pytest
from sklearn.base import clone
from tabsweep.models.deep.estimator import DeepEstimator
from tabsweep.models.hyperparameters import InvalidConfig, Number, entries, hyper
from tabsweep.models.registry import MODELS, load_class

CLASSES = [(load_class(spec.target), spec.paper) for spec in MODELS.values()]


class Base(DeepEstimator):
    """A base."""

    width: int = hyper(8, Number(1, 64, whole=True), "The width.")


class Narrow(Base):
    """A subclass with another default.

    References
    ----------
    None.
    """

    width: int = 2
    p: float = hyper(0.5, Number(0.0, 1.0, high_open=True), "A share.")


def test_a_subclass_may_change_a_default_and_inherits_rules_and_entries():
    found = entries(str(Narrow.__doc__))
    assert list(found)[:2] == ["p", "width"]
    assert found["width"] == ["width : int, default=2, in [1, 64]", "    The width."]
    assert found["p"][0] == "p : float, default=0.5, in [0, 1)"
    assert entries(str(Base.__doc__))["width"][0] == "width : int, default=8, in [1, 64]"
    assert str(Narrow.__doc__).endswith("None.")
    model = Narrow(task="binary", p=0.25)
    assert clone(model).get_params() == model.get_params() and Narrow(task="binary").width == 2
    for wrong in ({"width": 65}, {"p": 1.0}, {"device": "tpu"}):
        with pytest.raises(InvalidConfig, match=next(iter(wrong))):
            Narrow(task="binary", **wrong).check()
    with pytest.raises(TypeError):
        Narrow("binary")


def test_a_subclass_may_have_an_init_of_its_own_and_a_docstring_that_is_kept():
    class Written(Base):
        """A subclass that scikit-learn reads by its signature.

        Parameters
        ----------
        p : float, default=0.5
            A share.
        """

        def __init__(self, *, task: str, seed: int = 0, threads: int = 1, p: float = 0.5) -> None:
            super().__init__(task=task, seed=seed, threads=threads)
            self.p = p

    assert entries(str(Written.__doc__)) == {"p": ["p : float, default=0.5", "    A share."]}


def test_every_model_documents_each_hyperparameter_with_its_default_and_range():
    for cls, paper in CLASSES:
        doc = str(cls.__doc__)
        documented, parameters = entries(doc), inspect.signature(cls).parameters
        assert set(documented) == set(parameters) == set(cls._get_param_names()), cls
        assert set(cls.rules) == set(documented), cls
        assert all(p.kind is p.KEYWORD_ONLY for p in parameters.values()), cls
        for name, lines in documented.items():
            assert len(lines) > 1 and all(line.startswith("    ") for line in lines[1:]), name
            default = parameters[name].default
            if default is not inspect.Parameter.empty:
                assert f", default={default!r}" in lines[0], (cls, name)
        assert ("\nReferences\n" in doc) == bool(paper) and ">>> " in doc, cls
