"""Click options as fields of a dataclass, and the arguments that commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import Field, field, fields
from pathlib import Path
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

OTHER = "output"  # the group of options that name none, such as --json

_RUNS: Any = {"type": click.Path(path_type=Path), "metavar": "DIR/NAME..."}
RUN = click.argument("run", type=click.Path(path_type=Path), metavar="DIR/NAME")
SEVERAL_RUNS = click.argument("runs", nargs=-1, required=True, **_RUNS)
ANY_RUNS = click.argument("runs", nargs=-1, **_RUNS)
PAPER = click.option(
    "--paper",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="A paper's folder (docs/reproduction.md) instead of the built-in ones.",
)
FALLBACK = click.option(
    "--fallback",
    metavar="MODEL",
    help="Model whose score replaces a missing one in the leaderboard's second view, or 'worst'. "
    "Default: constant.",
)


# ---------------------------------------------------------------------- options as fields


class GroupedOption(click.Option):
    """An option that `--help` lists below the heading of its group."""

    def __init__(self, *names: Any, group: str, **words: Any) -> None:
        super().__init__(*names, **words)
        self.group = group


class GroupedCommand(click.Command):
    """A command whose `--help` lists its options group by group."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click has it, with a heading for each group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(parameter, "group", OTHER), []).append(record)
        for group, records in groups.items():
            with formatter.section(f"{group.capitalize()} options"):
                formatter.write_dl(records)


def option(
    group: str,
    default: Any = None,
    *,
    help: str,
    flag: str = "",
    kept: str = "",
    again: bool = False,
    reads: bool = False,
    **words: Any,
) -> Any:
    """An option of a command, as a field of an options class. A default of False makes a flag; a
    default of () makes an option that may be repeated.

    group: the option's heading in `--help`. flag: its name, if it differs from the field's name.
    words: further arguments of `click.option`. `planning.options` explains the other arguments.
    """
    if default is False:
        words["is_flag"] = True
    elif default == ():
        words["multiple"] = True
    elif "/" in flag or "is_flag" in words:  # None: neither was given
        words["default"] = None
    elif default is not None:
        words |= {"default": default, "show_default": True}
    words |= {"group": group, "help": help}
    facts = {"kept": kept, "again": again, "reads": reads}
    return field(default=default, metadata={"flag": flag, "words": words, **facts})


def flag_of(one: Field[Any]) -> str:
    """The name on the command line of an option that is a field."""
    return str(one.metadata["flag"]) or f"--{one.name.replace('_', '-')}"


def options_of(cls: type, *names: str, **helps: str) -> Decorator:
    """The fields of an options class, or those of these names, as options of a command, listed in
    the order of the fields. helps: {field: another help}."""
    chosen = [one for one in fields(cls) if not names or one.name in names]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for one in reversed(chosen):
            words = dict(one.metadata["words"])
            words["help"] = helps.get(one.name, words["help"])
            command = click.option(flag_of(one), one.name, cls=GroupedOption, **words)(command)
        return command

    return decorate


def options(*decorators: Decorator) -> Decorator:
    """Several options as one decorator, listed by --help in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def seed_of(what: str) -> dict[str, Any]:
    """What click is told of an option --seed; `what` it is the seed of."""
    return {"type": click.IntRange(min=0), "help": f"Seed of {what}."}


# ---------------------------------------------------------------------- options as variables


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


def _keep(context: click.Context, option: click.Parameter, given: str | None) -> None:
    """A click callback: the option's variable has its value until the command ends."""
    if given:
        context.with_resource(_variable(str(option.envvar), given))


_KEPT: Any = {"cls": GroupedOption, "group": "data", "callback": _keep, "expose_value": False}
DATA = options(  # of every command that reads datasets, which look at the variables themselves
    click.option(
        "--mirror",
        envvar="TABSWEEP_MIRROR",
        help="Folder or base URL with the datasets' files (MANIFEST.csv).",
        **_KEPT,
    ),
    click.option("--cache", envvar="TABSWEEP_CACHE", help="Folder of downloaded files.", **_KEPT),
)


# ---------------------------------------------------------------------- models and checkpoints


def module_form(text: str) -> str:
    """The name of a model; `folder/mymodel.py:Class` is the class of the module `folder.mymodel`,
    seen from the working directory. Raises ValueError for a file elsewhere.

    >>> module_form("mymodel.py:Mine"), module_form("./a/b.py:Mine"), module_form("knn")
    ('mymodel:Mine', 'a.b:Mine', 'knn')
    """
    path, colon, name = text.rpartition(":")
    if not colon or not path.endswith(".py"):
        return text
    parts = [part for part in Path(path).with_suffix("").parts if part != "."]
    if not all(part.isidentifier() for part in parts):
        raise ValueError(
            f"{text!r}: the file must be below the working directory, and its path made of names "
            "that Python can import"
        )
    return f"{'.'.join(parts)}:{name}"


def named_model(context: click.Context, parameter: click.Parameter, given: Any) -> Any:
    """A click callback: the name of the model, or of each model, that was given."""
    try:
        if isinstance(given, tuple):
            return tuple(map(module_form, given))
        return given and module_form(given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


PRETRAINED = ("tabicl", "tabpfn")
FILES = tuple(f"{model}-{kind}" for model in PRETRAINED for kind in ("classifier", "regressor"))


def _name_files(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> None:
    for text in given:
        name, sign, path = text.partition("=")
        if name not in FILES or not sign or not path:
            raise click.BadParameter(f"{text!r} is not NAME=PATH with one of {', '.join(FILES)}")
        os.environ[f"TABSWEEP_{name.replace('-', '_').upper()}"] = os.path.abspath(path)


# It sets the environment of this process and of the workers that it starts.
CHECKPOINTS = click.option(
    "--checkpoint",
    cls=GroupedOption,
    group="machine",
    multiple=True,
    metavar="NAME=PATH",
    expose_value=False,
    callback=_name_files,
    help=f"Checkpoint file of a pretrained model ({', '.join(FILES)}); nothing is ever "
    "downloaded. Repeatable.",
)
