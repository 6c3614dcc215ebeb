"""Rendering of the HTML pages from templates; every text is escaped.

A page loads no other file: it contains its style, script and data, and its content security policy
allows this style and this script by their hashes and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..evidence import Evidence
from ..output import escape, looks
from . import dataset, model, page

if TYPE_CHECKING:
    import jinja2

    from ..report import Parts

HERE = Path(__file__).parent
SCRIPTS = {
    "index": ("common.js", "draw.js", "ranks.js", "figures.js", "board.js"),
    "dataset": ("common.js", "draw.js", "trials.js"),
    "model": ("common.js", "draw.js"),
}


def pages(evidence: Evidence, parts: Parts) -> dict[str, str]:
    """{file name: text} of the folder html/: index.html, a page a dataset and a page a model."""
    source = page.Source.of(evidence, parts)
    full = source.full_names
    first = page.index(source)
    if first["alone"]:
        first |= dataset.scores(source, source.names[0])
    texts = {"index.html": _render("index", first, full)}
    of_rows = evidence.trials["dataset"].to_numpy()  # sorted, as Evidence.of leaves them
    for name in source.names:
        start, end = (np.searchsorted(of_rows, name, side) for side in ("left", "right"))
        mine = evidence.trials.iloc[start:end]
        texts[source.files[name]] = _render("dataset", dataset.page(source, name, mine), full)
    for name, file in source.model_files.items():
        texts[file] = _render("model", model.page(source, name), full)
    return texts


def other_page(template: Path, variables: Mapping[str, Any]) -> str:
    """A page of another room in the form of a report: the text of `template`, which extends
    base.html.j2 and may import parts.html.j2, with the variables.

    Every text is escaped. Raises jinja2.TemplateError.
    """
    import jinja2

    environment = _templates().overlay(
        loader=jinja2.FileSystemLoader([template.parent, HERE]), cache_size=2
    )
    return _filled(
        environment.get_template(template.name),
        {"data": {}, **variables},
        _style(),
        (HERE / "common.js").read_text(encoding="utf-8"),
    )


def _render(kind: str, variables: dict[str, Any], full: Mapping[str, str]) -> str:
    """A page of that kind. `full`: the whole of each name that the report's tables cut."""
    template = _templates().get_template(f"{kind}.html.j2")
    text = _filled(template, variables, _style(), _script(kind, variables.get("alone", False)))
    for_html = _templates().filters["escape"]
    for cut, name in full.items():
        text = text.replace(for_html(cut), for_html(name))
    return text


def _filled(
    template: jinja2.Template, variables: Mapping[str, Any], style: str, script: str
) -> str:
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return template.render(**variables, policy=policy, style=style, script=script)


@cache
def _templates() -> jinja2.Environment:
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["embedded"] = embedded
    return made


def _visible(value: Any) -> Any:
    """A value as a template prints it: on one line, invisible characters shown."""
    if value.__class__ is str:  # most of them
        return escape.one_line(value)
    return value if hasattr(value, "__html__") else escape.one_line(str(value))


def embedded(document: Any) -> str:
    """The document as JSON that can stand in a <script> element: <, >, & and the two Unicode line
    separators are escaped.

    >>> embedded({"name": "</script>"})
    '{"name":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


@cache
def _style() -> str:
    return looks.css() + (HERE / "report.css").read_text(encoding="utf-8")


@cache
def _script(kind: str, alone: bool) -> str:
    names = SCRIPTS["model" if alone else kind]
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in names)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
