"""OpenML's REST interface: tasks, datasets and suites as JSON, and the files that they name."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ...common.text import one_line
from ..download import NetworkAccess, Refused, Unreachable
from ..errors import DataError, DatasetUnavailable, Md5Mismatch, UnknownDataset
from ..reading.files import BYTES_PER_BYTE, free_memory

SERVER = "https://www.openml.org/api/v1"
DESCRIPTION_BYTES = 32 << 20  # of an answer in JSON
FILE_BYTES = 4 << 30  # of a dataset or its splits
CLASSIFICATION, REGRESSION = "1", "2"  # the types of tasks that have a target and folds
PUBLIC = "https://www.openml.org/search?type=task"


def address() -> str:
    """TABSWEEP_OPENML, or the public server. DataError for what is no address."""
    given = (os.environ.get("TABSWEEP_OPENML") or SERVER).rstrip("/")
    if not re.fullmatch(r"https?://\S+", given):
        raise DataError(
            f"{one_line(given, 80)!r} is no address of an OpenML server: TABSWEEP_OPENML is one "
            f"such as {SERVER}"
        )
    return given


@dataclass(frozen=True)
class Task:
    """A task: the dataset (its number), the column to predict, and where its splits are.
    `procedure` names how they were made, e.g. "crossvalidation"; `regression` is the kind."""

    id: int
    dataset: int
    target: str
    regression: bool
    procedure: str
    splits_url: str


@dataclass(frozen=True)
class Description:
    """What OpenML says of a dataset. `md5` is that of the file at `url`; the Parquet file at
    `parquet_url` ("" where there is none) has no checksum. `ignored` are columns that are no
    features."""

    id: int
    name: str
    version: str
    format: str
    url: str
    parquet_url: str
    md5: str
    licence: str
    citation: str
    status: str
    ignored: tuple[str, ...]


class Server:
    """An OpenML server. Answers that fail are retried and waited for as `NetworkAccess` does.

    Every method raises UnknownDataset where the server knows no such number, DatasetUnavailable
    where it cannot be reached or answers with an error, and DataError for an answer that is not
    understood; `what` in these is "openml:59" and the like.
    """

    def __init__(self, address: str, network: NetworkAccess) -> None:
        self.address = address
        self._network = network

    def task(self, number: int) -> Task:
        """The task of this number. DataError for one without a target or without folds."""
        what = f"openml:{number}"
        answer = _part(self._json(f"task/{number}", what), "task", what)
        kind = str(answer.get("task_type_id"))
        if kind not in (CLASSIFICATION, REGRESSION):
            raise DataError(
                f"{what} is a task of type {one_line(answer.get('task_type') or kind, 60)!r}; "
                f"supervised classification and regression can be added: choose another ({PUBLIC})"
            )
        inputs = {
            str(one.get("name")): one
            for one in _list(answer.get("input"))
            if isinstance(one, Mapping)
        }
        data = _part(inputs.get("source_data"), "data_set", what)
        procedure = _part(inputs.get("estimation_procedure"), "estimation_procedure", what)
        return Task(
            number,
            _number(data.get("data_set_id"), "data_set_id", what),
            _text(data, "target_feature", what),
            kind == REGRESSION,
            str(procedure.get("type") or "unknown"),
            _text(procedure, "data_splits_url", what),
        )

    def dataset(self, number: int, what: str) -> Description:
        """The description of the dataset of this number, which task `what` uses."""
        answer = _part(self._json(f"data/{number}", what), "data_set_description", what)
        ignored = [
            name.strip()
            for key in ("ignore_attribute", "row_id_attribute")
            for text in _list(answer.get(key))
            for name in str(text).split(",")
        ]
        return Description(
            number,
            _text(answer, "name", what),
            str(answer.get("version") or "unknown"),
            str(answer.get("format") or ""),
            str(answer.get("url") or ""),
            str(answer.get("parquet_url") or ""),
            str(answer.get("md5_checksum") or "").strip().lower(),
            one_line(answer.get("licence") or "not stated on OpenML", 200),
            one_line(answer.get("citation") or f"OpenML, dataset {number}", 500),
            str(answer.get("status") or ""),
            tuple(filter(None, ignored)),
        )

    def suite(self, wanted: str) -> tuple[int, ...]:
        """The tasks of a suite, by its number or an alias such as OpenML-CC18."""
        what = f"openml-suite:{wanted}"
        answer = _part(self._json(f"study/{quote(wanted, safe='')}", what), "study", what)
        tasks = answer.get("tasks")
        listed = tasks.get("task_id") if isinstance(tasks, Mapping) else tasks
        numbers = [_number(one, "task_id", what) for one in _list(listed)]
        if not numbers:
            raise DataError(f"{what}: OpenML lists no task in it; a suite of tasks is needed")
        return tuple(dict.fromkeys(numbers))

    def file(self, url: str, what: str, md5: str = "") -> bytes:
        """The bytes at an address that the server named, checked against `md5` where it is given
        (Md5Mismatch)."""
        most = int(min(FILE_BYTES, free_memory() / BYTES_PER_BYTE))
        data = self._get(url, what, most)
        if len(data) > most:
            raise DataError(
                f"{what}: {one_line(url, 120)} has more than {most / 1e6:,.0f} MB, the most that "
                "can be read with the memory that is free; nothing was kept"
            )
        actual = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if md5 and actual != md5:
            raise Md5Mismatch(what, url.rpartition("/")[2], md5, actual, url)
        return data

    def _json(self, path: str, what: str) -> Mapping[str, Any]:
        url = f"{self.address}/json/{path}"
        data = self._get(url, what, DESCRIPTION_BYTES)
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):  # no JSON, or lists in lists without end
            answer = None
        if not isinstance(answer, dict):
            raise DataError(
                f"{what}: {url} did not answer with JSON as OpenML does, but with "
                f"{one_line(data[:60].decode('utf-8', 'replace'), 60)!r}: is it an OpenML server?"
            )
        return answer

    def _get(self, url: str, what: str, limit: int) -> bytes:
        if not re.fullmatch(r"https?://\S+", url):
            raise DataError(
                f"{what}: OpenML names {one_line(url, 60)!r} as an address, which is none"
            )
        try:
            return self._network.get(url, limit=limit)
        except Refused as error:
            said = _said(error.body)
            if said and (error.code == 404 or said.lower().startswith("unknown")):
                raise UnknownDataset(
                    f"OpenML does not know {what}: {said} (HTTP {error.code}); {PUBLIC} finds tasks"
                ) from None
            advice = "" if error.code != 412 else "; a private one cannot be added"
            raise DatasetUnavailable(
                what, f"{url}: HTTP {error.code}{f', {said}' if said else ''}{advice}"
            ) from None
        except Unreachable as error:
            raise DatasetUnavailable(
                what,
                f"{one_line(error, 200)}; try again later, or name another server by "
                "TABSWEEP_OPENML",
            ) from None


def _said(body: bytes) -> str:
    """The message of an OpenML error, which comes as old JSON, new JSON or XML."""
    text = body.decode("utf-8", "replace")
    try:
        answer = json.loads(text)
        inner = answer.get("error", answer) if isinstance(answer, dict) else {}
        code = inner.get("code")
        said = inner.get("message") or inner.get("detail") or inner.get("title") or ""
    except (ValueError, AttributeError, RecursionError):
        code, said = (
            match[1] if (match := re.search(rf"<oml:{key}>([^<]*)</oml:{key}>", text)) else ""
            for key in ("code", "message")
        )
    return one_line(f"{said}, error {code}" if code else said, 160)


def _list(value: Any) -> list[Any]:
    """The entries of a list; one alone stands without a list in answers made from XML."""
    if value is None or value == []:
        return []
    return value if isinstance(value, list) else [value]


def _part(answer: Any, key: str, what: str) -> Mapping[str, Any]:
    part = answer.get(key) if isinstance(answer, Mapping) else None
    if not isinstance(part, Mapping):
        raise DataError(f"{what}: OpenML's answer has no part {key!r}, so it cannot be added")
    return part


def _text(answer: Mapping[str, Any], key: str, what: str) -> str:
    value = answer.get(key)
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{what}: OpenML states no {key!r}, so it cannot be added")
    return value.strip()


def _number(value: Any, key: str, what: str) -> int:
    if not re.fullmatch(r"\d{1,9}", str(value)):
        raise DataError(f"{what}: OpenML states {key} {one_line(value, 40)!r}, which is no number")
    return int(value)
