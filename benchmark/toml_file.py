"""TOML files of the user (suites, papers, cards of results), checked against pydantic models.

The first fault becomes one error, which names the file, line, key and a correct value.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from ..common.text import one_line, suggest

MAX_BYTES = 1_000_000
MISSPELT = ("extra_forbidden", "invalid_key")

KeyPath = tuple[str, ...]
Fault = tuple[KeyPath, str]  # a key, and what is wrong with it


class Strict(BaseModel):
    """A frozen model that refuses unknown keys and converts no types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Model = TypeVar("Model", bound=Strict)


def read(
    path: Path, what: str, error: type[Exception]
) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """(the data of a TOML or JSON file, the lines of its keys; none of JSON). Raises `error`, in
    which the file is called `what`, for a file that cannot be read."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise error(f"{path} is larger than {MAX_BYTES // 1000} kB: it is no {what}")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as problem:  # no UTF-8, or a path that cannot be
        raise error(one_line(f"cannot read the {what} {path}: {problem}", 500)) from None
    is_json = path.suffix == ".json"
    try:
        return (json.loads(text), {}) if is_json else (tomllib.loads(text), _lines(text))
    except ValueError as problem:
        raise error(f"{path}: not {'JSON' if is_json else 'TOML'}: {problem}") from None
    except RecursionError:
        raise error(f"{path} is nested too deeply") from None


def checked(
    model: type[Model],
    data: Any,
    where: str,
    lines: Mapping[KeyPath, int],
    error: type[Exception],
    faults: Callable[[Model], Iterable[Fault]] = lambda found: (),
) -> Model:
    """The data as a model. Raises `error` for the first fault. faults: checks beyond types."""
    try:
        found = model.model_validate(data)
        wrong = list(faults(found))
    except ValidationError as problem:
        # a misspelt key is also a missing one: the spelling says more, and so does a wrong type
        wrong = [_explain(dict(fault), model) for fault in sorted(problem.errors(), key=_says_less)]
    if not wrong:
        return found
    path, message = wrong[0]
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    raise error(f"{where}{_line_of(lines, path)}: {'.'.join(path)}: {message}{more}")


# ---------------------------------------------------------------------- lines of keys


def _lines(text: str) -> dict[KeyPath, int]:
    """{path of a key: its line}, for table headers and for `key = value` at a line's beginning."""
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[+([^\[\]]+)\]", line):
            table = _dotted(header[1])
            lines.setdefault(table, number)
        elif key := re.match(r"\s*([\w.\"'-]+)\s*=", line):
            lines.setdefault((*table, *_dotted(key[1])), number)
    return lines


def _dotted(key: str) -> KeyPath:
    return tuple(part.strip().strip("\"'") for part in key.split("."))


def _line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> str:
    """The line of a key as ":12", or that of the nearest key above it that has a line."""
    for end in range(len(path), 0, -1):
        if path[:end] in lines:
            return f":{lines[path[:end]]}"
    return ""


# ---------------------------------------------------------------------- faults in words


def _says_less(fault: Mapping[str, Any]) -> int:
    """Sort key of pydantic's faults: misspelt keys first, missing keys last."""
    return 0 if fault["type"] in MISSPELT else 2 if fault["type"] == "missing" else 1


def _explain(fault: dict[str, Any], model: type[BaseModel]) -> Fault:
    """The key and a plain sentence for one fault that pydantic found."""
    path = tuple(str(part) for part in fault["loc"] if part != "[key]")
    kind, given, context = fault["type"], fault["input"], fault.get("ctx", {})
    shown = repr(given) if isinstance(given, str | int | float) else kind_of(given)
    shown = shown if len(shown) < 60 else f"{shown[:57]}..."
    if kind == "extra_forbidden":
        return path, f"unknown key; {suggest(path[-1], _keys_at(model, path[:-1]))}"
    if kind == "missing":
        return path, "is missing"
    if kind == "literal_error":
        options = re.findall(r"'([^']*)'", context["expected"])
        what = "unknown key" if fault["loc"][-1] == "[key]" else f"unknown value {shown}"
        return path, f"{what}; {suggest(str(given), options)}"
    rule = re.sub(r"^(Input|String|List) should (be a valid |be )?", _rule, fault["msg"])
    return path, rule if "not" in rule.split() else f"{rule}, not {shown}"


def _rule(start: re.Match[str]) -> str:
    return {"be a valid ": "must be a valid ", "be ": "must be "}.get(start[2] or "", "must ")


def kind_of(value: Any) -> str:
    """The type of a file's value, in words."""
    names = {dict: "a table", list: "a list", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), type(value).__name__)


def _keys_at(model: Any, path: KeyPath) -> Iterable[str]:
    """The keys of the table at a path of a file that the model describes."""
    for part in path:
        if isinstance(model, type) and issubclass(model, BaseModel):
            model = model.model_fields[part].annotation
            if get_origin(model) in (Union, UnionType):  # or None
                model = next(one for one in get_args(model) if one is not NoneType)
        else:  # a table of tables, or a list of them: `part` is a name or a number
            model = get_args(model)[-1]
    return model.model_fields
