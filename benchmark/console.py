"""What do all commands share? Options, errors with stable ids, exit codes, and output."""

from __future__ import annotations

import functools
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from typing import Any, TextIO

import click

OK, FAILED, USAGE, ENVIRONMENT, REGRESSION, NOTHING, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

# Exception class -> (stable id, exit code). Looked up by name, so that nothing is imported for it.
ERRORS: dict[str, tuple[str, int]] = {
    "SuiteError": ("BENCH-E001", USAGE),
    "PlanError": ("BENCH-E002", USAGE),
    "UnknownDataset": ("BENCH-E003", USAGE),
    "UnknownModel": ("BENCH-E004", USAGE),
    "SweepError": ("BENCH-E005", USAGE),
    "SourceChanged": ("BENCH-E006", USAGE),
    "DataError": ("BENCH-E007", USAGE),
    "EvidenceError": ("BENCH-E008", USAGE),
    "FitError": ("BENCH-E009", USAGE),
    "ModelFileError": ("BENCH-E018", USAGE),
    "SchemaError": ("BENCH-E019", USAGE),
    "RunLocked": ("BENCH-E010", ENVIRONMENT),
    "ClusterLost": ("BENCH-E021", ENVIRONMENT),
    "LedgerError": ("BENCH-E011", ENVIRONMENT),
    "NoRun": ("BENCH-E020", USAGE),
    "NoData": ("BENCH-E012", ENVIRONMENT),
    "DatasetUnavailable": ("BENCH-E013", ENVIRONMENT),
    "ChecksumMismatch": ("BENCH-E014", ENVIRONMENT),
    "TrackingError": ("BENCH-E015", ENVIRONMENT),
    "OSError": ("BENCH-E016", ENVIRONMENT),
    "ValueError": ("BENCH-E017", USAGE),
    "UnknownExperiment": ("BENCH-E022", USAGE),
    "NoGpu": ("BENCH-E023", ENVIRONMENT),
    "PaperError": ("BENCH-E024", USAGE),
}


def count(n: int, word: str) -> str:
    """
    >>> count(1, "dataset"), count(3, "dataset"), count(2, "study")
    ('1 dataset', '3 datasets', '2 studies')
    """
    if n == 1:
        return f"1 {word}"
    return f"{n} {word[:-1]}ies" if word.endswith("y") else f"{n} {word}s"


def duration(seconds: float) -> str:
    """
    >>> duration(0.4), duration(75), duration(7500)
    ('under 1 s', '1 min 15 s', '2 h 05 min')
    """
    if seconds < 1:
        return "under 1 s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def by_reason(reasons: Mapping[str, str]) -> list[str]:
    """One line a reason, with everything that it keeps out.

    >>> by_reason({"a": "no network", "b": "no network", "c": "too large"})
    ['a, b: no network', 'c: too large']
    """
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    return [f"{', '.join(those)}: {reason}" for reason, those in names.items()]


def plain(value: Any) -> Any:
    """`value` as JSON can say it: no NaN or infinity, no types of other libraries."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    return plain(value.item()) if hasattr(value, "item") else str(value)


@dataclass
class Face:
    """How one call of a command speaks."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    color: bool = True
    _document: list[Any] = field(default_factory=list)
    _out: TextIO | None = None  # where standard output really is, under --json

    def say(self, text: str = "") -> None:
        """For people: standard output, which belongs to the one document under --json."""
        if not (self.quiet or self.json):
            click.echo(text)

    def tell(self, text: str) -> None:
        """For people, whatever else was asked for: what to do next, on standard error."""
        click.echo(text, err=True)

    def warn(self, text: str) -> None:
        self.tell(f"warning: {text}")

    def data(self, value: Any) -> None:
        """For programs: the document under --json, printed when the command ends. The last
        one counts."""
        self._document = [value]

    def print_document(self) -> None:
        if self.json and self._document:
            click.echo(json.dumps(plain(self._document[0]), indent=1, sort_keys=True))

    def line(self, value: Any) -> None:
        """For programs that watch: one JSON object on a line of its own, at once, under --json."""
        if self.json:
            out = self._out or sys.stdout
            out.write(json.dumps(plain(value), sort_keys=True) + "\n")
            out.flush()

    def table(self, header: list[str], rows: list[list[Any]]) -> None:
        """Columns of plain text."""
        if self.quiet or self.json:
            return
        cells = [header, *[["" if c is None else str(c) for c in row] for row in rows]]
        widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
        for row in cells:
            line = "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True))
            click.echo(line.rstrip())


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --json, --quiet, -v and --no-color, and turn its exceptions into one line."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
    @click.option("--quiet", "-q", is_flag=True, help="Print results and errors only.")
    @click.option("-v", "--verbose", is_flag=True, help="Say more; tracebacks for errors.")
    @click.option("--no-color", is_flag=True, help="No colours (NO_COLOR is honoured too).")
    @functools.wraps(command)
    def wrapped(
        *args: Any, as_json: bool, quiet: bool, verbose: bool, no_color: bool, **kwargs: Any
    ) -> Any:
        color = not (no_color or os.environ.get("NO_COLOR"))
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a terminal that lacks a sign is no reason to end
                stream.reconfigure(errors="replace")
        face = Face(json=as_json, quiet=quiet, verbose=verbose, color=color)
        with nothing_but_the_document() if as_json else nullcontext() as face._out:
            code = guarded(command, face, *args, **kwargs)
        face.print_document()
        sys.exit(code)

    return wrapped


def guarded(command: Callable[..., Any], face: Face, *args: Any, **kwargs: Any) -> int:
    """The exit code of a command; an exception becomes one line with a stable id."""
    try:
        return command(face, *args, **kwargs) or OK
    except (click.ClickException, click.Abort, click.exceptions.Exit):
        raise
    except KeyboardInterrupt:
        face.tell("interrupted")
        face.data({"interrupted": True})
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), 1
        )  # whoever read has gone: nothing is left to say
        return OK
    except Exception as error:
        found = lookup(error)
        if found is None or face.verbose:
            import traceback

            traceback.print_exc()
        id, code = found or ("BENCH-E000", FAILED)
        message = " ".join(str(error).split()) or type(error).__name__
        if found is None:
            message = f"{type(error).__name__}: {message} (not foreseen: please report it)"
        face.tell(f"error {id}: {message}")
        face.data({"error": {"id": id, "message": message}})
        return code


@contextmanager
def nothing_but_the_document() -> Iterator[TextIO]:
    """Standard output, of child processes too, goes to standard error: libraries print things. What
    is yielded still leads to standard output."""
    out = sys.stdout
    out.flush()
    try:
        number = out.fileno()
        kept = os.dup(number)
        os.dup2(2, number)
    except (OSError, ValueError):  # a stream that is no file, or nowhere to print to
        with redirect_stdout(sys.stderr):
            yield out
        return
    try:
        with open(kept, "w", encoding="utf-8", closefd=False) as direct:
            yield direct
    finally:
        out.flush()
        os.dup2(kept, number)
        os.close(kept)


def lookup(error: BaseException) -> tuple[str, int] | None:
    """(id, exit code) of the nearest known class, or None for what should not happen."""
    out = ("space left", "can't start new thread")
    if any(words in str(error) for words in out) or isinstance(error, MemoryError):
        return ERRORS["OSError"]
    for cls in type(error).__mro__:
        if cls.__name__ in ERRORS:
            return ERRORS[cls.__name__]
    return None
