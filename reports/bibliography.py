"""The sources of a report's models and datasets as BibTeX, from what the registries say of them.

The papers of models are whole entries in `sources.toml`; a dataset's entry is its card's citation,
taken apart.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .evidence import Evidence
from .output import escape

HEAD = """\
% The sources of the models and datasets, as far as the registries name them.
"""
# "Chen and Guestrin 2016, arXiv:1603.02754, sec. 3; a second source"
SOURCE = re.compile(r"(?P<author>[^,;]+?) (?P<year>\d{4})\b(?:,? (?P<where>[^;]+))?(?:;.*)?")
# "R. A. Fisher: The use of multiple measurements. Annals of Eugenics 7 (1936) 179-188."
CITATION = re.compile(
    r"(?P<author>[^:()\d]+): (?P<title>.+?)(?:(?<! vs)\. |(?<=\?) |\.?$|(?= \(\d{4}\)))"
    r" ?(?P<where>.*)"
)
YEAR = re.compile(r" ?\((\d{4})\)[.,]? ?")
SPLITS = "Coding and splits:"  # where a card's citation goes on with another work


@dataclass(frozen=True)
class Entry:
    """What \\cite calls it, and its BibTeX."""

    key: str
    text: str


def entries(evidence: Evidence, names: Mapping[str, str]) -> tuple[dict[str, Entry], ...]:
    """({model: its entry}, {dataset: its entry}), of those with a source; models of one paper have
    one entry. names: what a paper calls them."""
    taken: dict[str, str] = {}
    models, datasets = {}, {}
    for model in evidence.models:
        source = evidence.facts.families.get(model, ("", "", ""))[2]
        if source:
            models[model] = _of_model(model, names.get(model, model), source, taken)
    for dataset in evidence.datasets():
        facts = evidence.facts.of_datasets.get(dataset, {})
        if citation := facts.get("citation"):
            title = facts.get("title") or names.get(dataset, dataset)
            datasets[dataset] = _of_dataset(dataset, title, citation, taken)
    return models, datasets


def cited(found: Iterable[Entry]) -> str:
    """The citation of several, each once; "" of none."""
    keys = dict.fromkeys(entry.key for entry in found)
    return f"~\\cite{{{','.join(keys)}}}" if keys else ""


@cache
def _whole() -> dict[str, dict[str, str]]:
    return tomllib.loads((Path(__file__).parent / "sources.toml").read_text(encoding="utf-8"))


def _of_model(model: str, name: str, source: str, taken: dict[str, str]) -> Entry:
    parsed = SOURCE.fullmatch(source)
    if parsed is None:
        return _entry("misc", model, {"title": name, "note": source}, taken)
    paper = f"{parsed['author']} {parsed['year']}"
    if paper not in _whole():
        author = parsed["author"].replace(" et al.", " and others")
        fields = {"title": name, "author": author, "year": parsed["year"]}
        return _entry("misc", model, fields | {"howpublished": parsed["where"] or ""}, taken)
    fields = {**_whole()[paper], "year": parsed["year"]}
    if "eprint" in fields:
        fields["archiveprefix"] = "arXiv"
    return _entry(fields.pop("kind"), re.sub(r"\W+", "-", paper).lower(), fields, taken)


def _of_dataset(dataset: str, title: str, citation: str, taken: dict[str, str]) -> Entry:
    first, mark, splits = citation.partition(SPLITS)
    parsed = CITATION.fullmatch(first.strip())
    if parsed is None:
        return _entry("misc", dataset, {"key": title, "title": title, "note": citation}, taken)
    author = parsed["author"].replace(" et al.", ", others").replace(", ", " and ")
    year = YEAR.search(parsed["where"])
    where = YEAR.sub(", ", parsed["where"], count=1).strip(" .,;")
    fields = {"author": author, "title": parsed["title"], "year": year[1] if year else ""}
    fields |= {"howpublished": where, "note": f"{mark}{splits}".strip(" .")}
    return _entry("misc", dataset, fields, taken)


def _entry(kind: str, name: str, fields: Mapping[str, str], taken: dict[str, str]) -> Entry:
    """taken: {key in small letters, which are all that BibTeX tells apart: the text of its entry};
    the key is `name`, with a sign of its own where another text has that."""
    braces = {"title": "{{%s}}"}
    lines = [
        f"  {field} = {braces.get(field, '{%s}') % _value(field, text)},"
        for field, text in fields.items()
        if text
    ]
    body = "\n".join([*lines, "}", ""])
    key = re.sub(r"[^A-Za-z0-9.:_-]", "-", name)
    if key != name or taken.setdefault(key.lower(), body) != body:
        own = hashlib.blake2s(f"{name}\n{body}".encode("utf-8", "surrogatepass"), digest_size=3)
        key = f"{key.strip('-')[:40]}-{own.hexdigest()}"
    return Entry(key, f"@{kind}{{{key},\n{body}")


def _value(field: str, text: str) -> str:
    """A field's text; pages with a dash, an address such as a DOI as it is."""
    if field in ("doi", "eprint"):
        return text
    text = escape.latex(escape.one_line(text))
    return text.replace("-", "--") if field == "pages" else text
