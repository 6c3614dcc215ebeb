"""The names of the library's classes: what the registry has, with `Classifier` or `Regressor`."""

from __future__ import annotations

from functools import cache

from .. import registry
from ..model_spec import ModelSpec

KINDS = ("Classifier", "Regressor")


@cache
def class_names() -> dict[str, tuple[str, str]]:
    """{class name: (model, kind)} of every model, those of other installed packages too.

    >>> class_names()["FTTransformerRegressor"]
    ('ft-transformer', 'Regressor')
    """
    found: dict[str, tuple[str, str]] = {}
    for model in [*registry.MODELS, *registry.names()]:  # registered ones first: they keep a name
        spec = registry.spec(model)
        base = spec.target.partition(":")[2]
        for kind in kinds_of(spec):
            found.setdefault(f"{base}{kind}", (model, kind))
    return dict(sorted(found.items()))


def kinds_of(spec: ModelSpec) -> list[str]:
    """The kinds of estimators that a model has.

    >>> kinds_of(registry.spec("naive-bayes"))
    ['Classifier']
    """
    classifies = "binary" in spec.tasks or "multiclass" in spec.tasks
    has = (classifies, "regression" in spec.tasks)
    return [kind for kind, there in zip(KINDS, has, strict=True) if there]


def estimators(kind: str | None = None) -> dict[str, str]:
    """The models' classes: {class name: what the model is}.

    Parameters
    ----------
    kind : {"Classifier", "Regressor"} or None, default None
        Those of one kind alone.

    Raises
    ------
    ValueError
        For another kind.

    Examples
    --------
    >>> estimators("Regressor")["KNNRegressor"]
    'k-nearest neighbours'
    """
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)} or None, got {kind!r}")
    return {
        name: registry.spec(model).summary
        for name, (model, own) in class_names().items()
        if kind in (None, own)
    }
