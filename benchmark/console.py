"""Output that all commands share, and how their exceptions become exit codes."""

from __future__ import annotations

import atexit
import functools
import gc
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TextIO

import click

from ..common.counting import count as count
from .errors import BEHIND as BEHIND
from .errors import ENVIRONMENT as ENVIRONMENT
from .errors import FAILED as FAILED
from .errors import INTERRUPTED as INTERRUPTED
from .errors import NOTHING as NOTHING
from .errors import OK as OK
from .errors import OS_ERROR, SWEEP_LIBRARIES, NotInstalled, lookup
from .errors import REGRESSION as REGRESSION
from .errors import USAGE as USAGE

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table as RichTable

    from ..reports.output.tables import Section

# Without this, Python ends with a search for cycles among all objects of a command: half a second
# after a large report, for memory that the system takes back anyway.
atexit.register(gc.freeze)

# States of a check of `bench doctor`.
OKAY, WARNING, PROBLEM = "ok", "warning", "problem"


def duration(seconds: float) -> str:
    """Seconds in words, in two digits.

    >>> duration(0.4), duration(41), duration(540), duration(7500), duration(200_000)
    ('1 s', '41 s', '9 min', '2.1 h', '56 h')
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    hours = seconds / 3600
    if hours < 10:
        return f"{hours:.1f} h"
    return f"{hours:.0f} h" if hours < 120 else f"{hours / 24:.0f} days"


def size(n_bytes: float) -> str:
    """Bytes in words, by powers of 1000.

    >>> size(900), size(2_500_000), size(812.3e6), size(2e12)
    ('900 B', '2.5 MB', '812 MB', '2000 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 999.5 or unit == "GB":
            break
        n_bytes /= 1000
    return f"{n_bytes:.0f} {unit}" if unit == "B" or n_bytes >= 99.95 else f"{n_bytes:.1f} {unit}"


def split_names(given: Iterable[str]) -> list[str]:
    """The names in the values of an option that may be repeated, each with names between commas.

    >>> split_names(["oom, killed", "timeout"])
    ['oom', 'killed', 'timeout']
    """
    return [name.strip() for words in given for name in words.split(",") if name.strip()]


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: NaN and infinity become null, other types numbers or text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    return plain(value.item()) if hasattr(value, "item") else str(value)


_ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\n\x07\x1b]*(\x07|\x1b\\)?|.?)")
# Control characters, and those that change the direction of a line.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)


def printable(text: Any) -> str:
    """Text without what a terminal would obey: no escape sequence, and no control character but
    newline and tab. A line that overwrote itself keeps its last state, as on a terminal.

    >>> printable("\\x1b]0;title\\x07\\x1b[31mred\\x1b[0m")
    'red'
    >>> printable("10 %\\r20 %\\r\\nnext")
    '20 %\\nnext'
    """
    lines = _ESCAPE.sub("", str(text)).replace("\r\n", "\n").split("\n")
    return "\n".join(_CONTROL.sub("", line.rstrip("\r").rpartition("\r")[2]) for line in lines)


@dataclass
class Console:
    """The output of one call of a command: text for people, or JSON for programs."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    color: bool = True
    teller: Any = None  # of `running/watched.py`, where another process watches this one
    _document: Any = None
    _out: TextIO | None = None  # the real standard output, under --json

    def say(self, text: str = "") -> None:
        """Print for people, on standard output; nothing under --json or --quiet."""
        if not (self.quiet or self.json):
            click.echo(text)

    def tell(self, text: str) -> None:
        """Print for people under every option, on standard error: errors, and what to do next."""
        click.echo(text, err=True)

    def warn(self, text: str) -> None:
        """Print a warning, on standard error."""
        self.tell(f"warning: {text}")

    def data(self, value: Any) -> None:
        """Set the document that --json prints when the command ends; the last one set counts."""
        self._document = value

    def print_document(self) -> None:
        """Print the document, under --json."""
        if self.json and self._document is not None:
            click.echo(json.dumps(plain(self._document), indent=1, sort_keys=True))

    def line(self, value: Any) -> None:
        """Print one JSON object on a line of its own, at once, under --json: for commands that
        watch."""
        if self.json:
            out = self._out or sys.stdout
            out.write(json.dumps(plain(value), sort_keys=True) + "\n")
            out.flush()

    def say_page(self, files: Iterable[Path]) -> None:
        """Print where the page among `files` is, as an address that a browser opens; nothing
        without one."""
        for path in files:
            if path.name == "index.html":
                self.say(f"page: {path}   open it in a browser: {path.resolve().as_uri()}")

    def table(self, header: list[str], rows: list[list[Any]]) -> None:
        """Print columns under a header; None is an empty cell."""
        if self.quiet or self.json:
            return
        from rich.text import Text

        table = _columns(header, n_labels=len(header))
        for row in rows:
            table.add_row(*(Text(printable("" if cell is None else cell)) for cell in row))
        self._print(table, wrap=True)

    def report_tables(self, section: Section) -> None:
        """Print the tables of a report's section, each below the first sentence of its title, with
        a row a model where there are more models than datasets; the best are bold and the second
        best underlined, on a terminal."""
        if self.quiet or self.json:
            return
        from rich.text import Text

        from ..reports.output.tables import upright

        for shown in map(upright, section.tables):
            table = _columns(shown.header, n_labels=shown.n_labels)
            for panel in shown.panels:
                if panel.title:
                    table.add_row(Text(printable(panel.title), style="italic"))
                for row in panel.rows:
                    cells: list[Text] = []
                    for cell in row:
                        styles = ["bold"] * bool(cell.bold) + ["underline"] * bool(cell.underline)
                        after = (f" ± {cell.sub}" if cell.sub else "") + (
                            f" {cell.mark}" if cell.mark else ""
                        )
                        cells += [
                            Text(printable(cell.text), style=" ".join(styles)) + printable(after)
                        ]
                        cells += [Text()] * (cell.span - 1)
                    table.add_row(*cells)
            title = printable(shown.title).partition(". ")[0]
            self.say(f"\n{title}\n")
            self._print(table)

    def _print(self, table: RichTable, *, wrap: bool = False) -> None:
        """On a terminal with its styles, wrapped to its width with `wrap`; else as plain lines."""
        from rich.console import Console as Terminal

        terminal = Terminal(no_color=not self.color, highlight=False)
        if not (terminal.is_terminal and wrap):
            terminal.width = 10_000  # lines are never cut
        with terminal.capture() as printed:
            terminal.print(table)
        for line in printed.get().splitlines():
            click.echo(line.rstrip())


def _columns(header: Iterable[str], *, n_labels: int) -> RichTable:
    """An empty table: the first `n_labels` columns are text, the others numbers."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, name in enumerate(header):
        justify: Literal["left", "right"] = "left" if number < n_labels else "right"
        table.add_column(Text(printable(name)), justify=justify, overflow="fold")
    return table


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """A click command with --json, --quiet, -v and --no-color, which gets a Console as its first
    argument; its exceptions become one line and an exit code (see `guarded`)."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
    @click.option("--quiet", "-q", is_flag=True, help="Print errors and warnings only.")
    @click.option("-v", "--verbose", is_flag=True, help="Say more; tracebacks for errors.")
    @click.option("--no-color", is_flag=True, help="No colours (NO_COLOR is honoured too).")
    @functools.wraps(command)
    def wrapped(
        *args: Any, as_json: bool, quiet: bool, verbose: bool, no_color: bool, **kwargs: Any
    ) -> Any:
        color = not (no_color or os.environ.get("NO_COLOR"))
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a character that the terminal lacks becomes "?"
                stream.reconfigure(errors="replace")
        console = Console(json=as_json, quiet=quiet, verbose=verbose, color=color)
        with stdout_to_stderr() if as_json else nullcontext() as console._out:
            code = guarded(command, console, *args, **kwargs)
        code = printed(console, code)
        if console.teller is not None:  # threads of Ray could hold up the interpreter's end
            console.teller.end(code)
        sys.exit(code)

    return wrapped


class Verbs(click.Group):
    """The group of all commands.

    own_process: whether this process was started to run a command, and not to run, say, tests or a
    notebook that call it.
    """

    own_process: ClassVar[bool] = False

    def main(self, args: Sequence[str] | None = None, *more: Any, **options: Any) -> Any:
        """As click has it."""
        given = sys.argv[1:] if args is None else list(args)
        Verbs.own_process = bool(given) and sys.argv[-len(given) :] == given
        open_streams()
        return super().main(args, *more, **options)


def open_streams() -> None:
    """Open /dev/null in place of standard streams that are closed, as of a daemon: the next file
    that is opened, the ledger, say, would get its number, and what libraries print."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))


def printed(console: Console, code: int) -> int:
    """Print the document of --json; returns the exit code of a command that ended with `code`."""
    try:
        console.print_document()
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reading end of the pipe is closed
    except OSError as error:  # a full disk, say
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        id, code = OS_ERROR
        console.tell(f"error {id}: standard output: {error}")
    return code


def guarded(command: Callable[..., Any], console: Console, *args: Any, **kwargs: Any) -> int:
    """Run a command; returns its exit code. An exception is printed as one line with a stable id,
    and with its traceback where it is unexpected or under -v."""
    try:
        return command(console, *args, **kwargs) or OK
    except (click.ClickException, click.Abort, click.exceptions.Exit):
        raise
    except KeyboardInterrupt as interrupt:  # with what to do next, or without
        console.tell("; ".join(["interrupted", *map(str, interrupt.args)]))
        console.data({"interrupted": True})
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reading end of the pipe is closed
        return OK
    except Exception as error:
        if type(error).__name__ == "RayNotUp" and console.teller is not None:
            console.teller.not_up(" ".join(str(error).split()))
        library = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        if library and library.partition(".")[0] in SWEEP_LIBRARIES:
            error = NotInstalled([library])
        known = lookup(error)
        if known is None or console.verbose:
            import traceback

            traceback.print_exc()
        id, code = known or ("BENCH-E000", FAILED)
        message = " ".join(str(error).split()) or type(error).__name__
        if known is None:
            message = (
                f"{type(error).__name__}: {message} (unexpected: report it with the traceback)"
            )
        console.tell(f"error {id}: {message}")
        console.data({"error": {"id": id, "message": message}})
        return code


@contextmanager
def stdout_to_stderr() -> Iterator[TextIO]:
    """Redirect standard output, of child processes too, to standard error, because libraries print.
    Yields a stream that still leads to standard output."""
    out = sys.stdout
    if out is None:  # closed before this process began
        with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(sys.stderr):
            yield nowhere
        return
    out.flush()
    try:
        number = out.fileno()
        kept = os.dup(number)
        os.dup2(2, number)
    except (OSError, ValueError):  # standard output is not a file, or is closed
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
