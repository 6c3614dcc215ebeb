"""The library's classes as type checkers and editors see them: `models/library/class_types.pyi`.

`python tests/helpers/class_types.py` writes the file anew, for a commit that changes a model's
hyperparameters or adds a model; `make lint` does so, too.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import textwrap
from pathlib import Path

from tabsweep.models import registry
from tabsweep.models.library.classes import class_of
from tabsweep.models.library.names import kinds_of

FILE = Path(__file__).resolve().parents[2] / "models" / "library" / "class_types.pyi"
ACCEPT = "python tests/helpers/class_types.py"
COMMON_TYPES = {
    "preset": 'Literal["quick", "paper"]',
    "validation_fraction": "float",
    "categorical_features": "Any",
    "random_state": "Any",
    "n_jobs": "int | None",
    "verbose": "int",
}
_LAID = [f"    {name}: {kind}" for name, kind in COMMON_TYPES.items()]
KNOWN = {*dir(builtins), "Sequence"}  # the names of annotations that the file may have
HEAD = f'''\
"""The models' classes, which are made when they are first asked for, for type checkers and editors.

Made by `{ACCEPT}`; `typing` and editors alone read this file.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypedDict, Unpack

from .estimator import LibraryClassifier, LibraryEstimator, LibraryRegressor, Weighted

# fmt: off
class _Common(TypedDict, total=False):
{chr(10).join(_LAID)}
'''


def _type_of(annotation: object) -> str:
    """The text of an annotation, Any where it has names that the file does not know."""
    names = set(re.findall(r"[A-Za-z_]\w*", str(annotation)))
    return str(annotation) if names and names <= KNOWN else "Any"


def _classes_of(model: str) -> str:
    """The classes of a model, with the hyperparameters that both kinds share in a base."""
    spec = registry.spec(model)
    target = registry.load_class(spec.target)
    kinds = {kind: class_of(model, kind) for kind in kinds_of(spec)}
    own = next(iter(kinds.values())).hyperparameters
    given = inspect.signature(target).parameters
    of = {name: _type_of(given[name].annotation).replace(" ", "~") for name in own}
    listed = ["self", *(["*"] if own else []), *(f"{name}:~{of[name]}~=~..." for name in own)]
    wrapped = textwrap.fill(", ".join([*listed, "**common:~Unpack[_Common],"]), 92)
    weighted = "Weighted, " if spec.sample_weight else ""
    base = f"_{target.__name__}"
    lines = [
        f"class {base}(LibraryEstimator):",
        "    def __init__(",
        textwrap.indent(wrapped, " " * 8).replace("~", " "),
        "    ) -> None: ...",
        *(f"class {c.__name__}({weighted}{base}, Library{k}): ..." for k, c in kinds.items()),
    ]
    return "\n".join(lines) + "\n"


def written() -> str:
    """The file as the registry has it: the registered models, without those of other packages."""
    return HEAD + "".join(f"\n{_classes_of(model)}" for model in registry.MODELS)


def same(one: str, other: str) -> bool:
    """Whether two files say the same, however they are laid out."""
    return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
