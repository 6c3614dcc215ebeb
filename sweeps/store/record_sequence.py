"""The records of a ledger by position, across its parts: the sealed segments and the tail."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from .segments import Head, Part
from .tail import Record

if TYPE_CHECKING:
    import pyarrow as pa

READERS = 4  # parts that are read at once


class RecordSequence:
    """Records in the order in which they became durable; positions count from 0."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._starts: list[int] = []  # position of the first record of each part

    def _add(self, part: Part) -> None:
        self._starts.append(len(self))
        self._parts.append(part)

    def __len__(self) -> int:
        return self._starts[-1] + len(self._parts[-1]) if self._parts else 0

    def records(self, kind: str | None = None) -> Iterator[Record]:
        """The records of a kind (plan, lease, death, result, slot, study), in order."""
        for position in self.positions(*([kind] if kind else [])):
            yield self.at(position)

    def positions(self, *kinds: str) -> Iterator[int]:
        """The positions of the records of some kinds (all, if none is named), in order."""
        for start, part in zip(self._starts, self._parts, strict=True):
            rows = part.rows(kinds) if kinds else range(len(part))
            yield from (start + row for row in rows)

    def _find(self, position: int) -> tuple[Part, int]:
        """The part that holds a position (parts may be empty), and the row there."""
        at = bisect_right(self._starts, position) - 1
        return self._parts[at], position - self._starts[at]

    def at(self, position: int) -> Record:
        """The whole record; decoding it takes some 20 microseconds."""
        part, row = self._find(position)
        return json.loads(part.text(row))

    def head(self, position: int) -> Head:
        """The head of a record, in a tenth of the time of `at`."""
        part, row = self._find(position)
        return Head(*[column[row] for column in part.heads])

    def heads(self, *kinds: str) -> Iterator[tuple[int, Head]]:
        """Position and head of the records of some kinds (all, if none is named), in order."""
        for start, part in zip(self._starts, self._parts, strict=True):
            for row, values in enumerate(zip(*part.heads, strict=True)):
                if not kinds or values[0] in kinds:
                    yield start + row, Head(*values)

    def columns(self) -> pa.Table:
        """What tables need of results, slots and ends of studies (`column_cache.column_types`), in
        the order of the records; `row` is the position. No sealed record is decoded."""
        import pyarrow as pa
        import pyarrow.compute as pc

        with ThreadPoolExecutor(READERS) as pool:
            found = list(pool.map(lambda part: part.columns(), self._parts))
        for at, start in enumerate(self._starts):
            # In Arrow: to make an array from numpy's, pyarrow waits for another thread's import
            # of pandas.
            rows = pc.add(found[at].column("row").cast(pa.int64()), start)
            found[at] = found[at].set_column(0, "row", rows)
        return pa.concat_tables(found, promote_options="default").unify_dictionaries()
