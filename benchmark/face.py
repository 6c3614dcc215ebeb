"""What do all commands share? Options, errors with stable ids, exit codes, and output."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
    "LedgerError": ("BENCH-E011", ENVIRONMENT),
    "NoData": ("BENCH-E012", ENVIRONMENT),
    "DatasetUnavailable": ("BENCH-E013", ENVIRONMENT),
    "ChecksumMismatch": ("BENCH-E014", ENVIRONMENT),
    "TrackingError": ("BENCH-E015", ENVIRONMENT),
    "OSError": ("BENCH-E016", ENVIRONMENT),
    "ValueError": ("BENCH-E017", USAGE),
}


@dataclass
class Face:
    """How one call of a command speaks."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    color: bool = True

    def say(self, text: str = "") -> None:
        """For people: standard output, which belongs to the one document under --json."""
        if not (self.quiet or self.json):
            click.echo(text)

    def warn(self, text: str) -> None:
        click.echo(f"warning: {text}", err=True)

    def data(self, value: Any) -> None:
        """For programs: the one JSON document on standard output."""
        if self.json:
            click.echo(json.dumps(value, indent=1, sort_keys=True, default=str))

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
        face = Face(json=as_json, quiet=quiet, verbose=verbose, color=color)
        try:
            code = command(face, *args, **kwargs)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            sys.exit(OK)
        except Exception as error:
            found = lookup(error)
            if found is None or verbose:
                import traceback

                traceback.print_exc()
            id, code = found or ("BENCH-E000", FAILED)
            lines = str(error).strip().splitlines() or [type(error).__name__]
            click.echo(f"error {id}: {' '.join(line.strip() for line in lines)}", err=True)
            if face.json:
                face.data({"error": {"id": id, "message": str(error)}})
            sys.exit(code)
        sys.exit(code or OK)

    return wrapped


def lookup(error: BaseException) -> tuple[str, int] | None:
    """(id, exit code) of the nearest known class, or None for what should not happen."""
    if "space left" in str(error):
        return ERRORS["OSError"]
    for cls in type(error).__mro__:
        if cls.__name__ in ERRORS:
            return ERRORS[cls.__name__]
    return None
