"""The sources of a report's models and datasets as BibTeX, from what the registries say of them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .evidence import Evidence
from .output import escape

HEAD = """\
% The sources of the models and datasets, as far as the registries name them: complete authors and
% titles before you print them.
"""
# "Chen and Guestrin 2016, arXiv:1603.02754, sec. 3; a second source"
SOURCE = re.compile(r"(?P<author>[^,;]+?) (?P<year>\d{4})(?:,? (?P<where>[^;]+))?(?:;.*)?")


def entries(evidence: Evidence, names: Mapping[str, str]) -> dict[str, str]:
    """{model or dataset: its entry}, of those with a source; an entry's key is `key`. names: what
    a paper calls them."""
    entry_of = {}
    for model in evidence.models:
        source = (evidence.meta.get("families") or {}).get(model, ("", "", ""))[2]
        if not source:
            continue
        fields = {"title": names.get(model, model)}
        if parsed := SOURCE.fullmatch(source):
            author = parsed["author"].replace(" et al.", " and others")
            fields |= {"author": author, "year": parsed["year"]}
            fields["howpublished"] = parsed["where"] or ""
        else:
            fields["note"] = source
        entry_of[model] = _entry(model, fields)
    for dataset in evidence.datasets():
        facts = (evidence.meta.get("facts") or {}).get(dataset, {})
        if facts.get("citation"):
            title = facts.get("title") or names.get(dataset, dataset)
            entry_of[dataset] = _entry(
                dataset, {"key": title, "title": title, "note": facts["citation"]}
            )
    return entry_of


def key(name: str) -> str:
    r"""What \cite calls a model or dataset.

    >>> key("my.module:Mine, 2")
    'my.module:Mine--2'
    """
    return re.sub(r"[^A-Za-z0-9.:_-]", "-", escape.label(name))


def cited(names: list[str]) -> str:
    """The citation of several; "" of none."""
    return f"~\\cite{{{','.join(map(key, names))}}}" if names else ""


def _entry(name: str, fields: Mapping[str, str]) -> str:
    braces = {"title": "{{%s}}"}
    lines = [
        f"  {field} = {braces.get(field, '{%s}') % escape.latex(escape.one_line(text))},"
        for field, text in fields.items()
        if text
    ]
    return "\n".join([f"@misc{{{key(name)},", *lines, "}", ""])
