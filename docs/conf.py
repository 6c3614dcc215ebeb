"""Settings of the documentation's site: `make docs` builds it strictly into build/docs/."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from pathlib import Path
from typing import Any

import tabsweep

project = "tabsweep"
version = release = tabsweep.__version__
html_title = f"tabsweep {release}"
html_theme = "furo"
html_copy_source = False
html_show_sphinx = False

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["examples"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["misc.highlighting_failure"]  # "..." stands for what a reader fills in

napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # attributes are listed once, not again as members
autodoc_typehints = "none"  # the docstrings give types with their shapes and ranges
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 88

html_static_path = ["pictures"]

# Pages of the repository's root, which the chapters link to as GitHub shows them.
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}


def links(app: Any, page: str, source: list[str]) -> None:
    """Lead links to files outside of docs/ to their pages here."""
    up = "../" * page.count("/")
    for name, inside in OUTSIDE.items():
        source[0] = re.sub(rf"\]\((?:\.\./)+{name}\b", f"]({up}{inside}", source[0])


def included_links(app: Any, path: Any, page: str, source: list[str]) -> None:
    """The same for README.md and CONTRIBUTING.md, which stand one folder above their pages here."""
    text = source[0].replace("](docs/", "](").replace('"docs/pictures/', '"_static/')
    for name, inside in OUTSIDE.items():
        text = text.replace(f"]({name}", f"]({inside}")
    # files that are no page
    source[0] = re.sub(r"\[([^\]]+)\]\((?:CHANGELOG\.md|LICENSE)\)", r"`\1`", text)


# Pages of models, with the families on each.
FAMILIES = {
    "api-models/classical": ("classical", "baseline"),
    "api-models/boosting": ("gbdt",),
    "api-models/feature-networks": ("feature network",),
    "api-models/row-attention": ("row attention",),
}


def models(app: Any, page: str, source: list[str]) -> None:
    """List every estimator of the library whose family has this page."""
    for name in tabsweep.estimators():
        if getattr(tabsweep, name).spec.family not in FAMILIES.get(page, ()):
            continue
        source[0] += f"\n## {name}\n\n```{{eval-rst}}\n.. autoclass:: tabsweep.{name}\n```\n"


def executed(example: Path) -> str:
    """The cells of an example as Markdown: its words, its code and what the code prints."""
    page, names = "", {"__name__": "__main__"}
    for cell in example.read_text(encoding="utf-8").split("# %%")[1:]:
        kind, _, body = cell.partition("\n")
        if "[markdown]" in kind:
            page += re.sub("^# ?(#?)", r"\1\1", body, flags=re.MULTILINE)  # a title is one lower
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            exec(compile(body, example.name, "exec"), names)
        page += f"\n```python\n{body.strip()}\n```\n"
        page += f"\n```text\n{printed.getvalue().rstrip()}\n```\n" if printed.tell() else ""
    return page


def examples(app: Any, page: str, source: list[str]) -> None:
    """Show every example with what it prints, run here and now."""
    if page != "examples":
        return
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for example in sorted(Path(app.srcdir, "examples").glob("*.py")):
            source[0] += "\n" + executed(example)


def wrapped(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Long lines of code are wrapped, not cut off."""
    style = "<style>pre { white-space: pre-wrap }</style>"
    context["metatags"] = context.get("metatags", "") + style


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("source-read", links)
    app.connect("source-read", models)
    app.connect("source-read", examples)
    app.connect("html-page-context", wrapped)
    app.connect("include-read", included_links)
