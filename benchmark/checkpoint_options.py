"""Options that name checkpoints of pretrained models and accept their licences."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

ACCEPTED = "TABSWEEP_ACCEPT_LICENCE"
MODELS = ("tabicl", "tabpfn")
FILES = tuple(f"{model}-{kind}" for model in MODELS for kind in ("classifier", "regressor"))


def _name_files(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> None:
    for text in given:
        name, sign, path = text.partition("=")
        if name not in FILES or not sign or not path:
            raise click.BadParameter(f"{text!r} is not NAME=PATH with one of {', '.join(FILES)}")
        os.environ[f"TABSWEEP_{name.replace('-', '_').upper()}"] = os.path.abspath(path)


def _accept(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> None:
    if given:
        held = os.environ.get(ACCEPTED, "").replace(",", " ").split()
        os.environ[ACCEPTED] = ",".join(dict.fromkeys([*held, *given]))


def checkpoint_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with --checkpoint and --accept-licence, which set the environment of this process
    and of the workers that it starts."""
    for option in (
        click.option(
            "--accept-licence",
            multiple=True,
            type=click.Choice(MODELS),
            expose_value=False,
            callback=_accept,
            help=f"You accept the licence of this model's checkpoints (or {ACCEPTED}). Repeatable.",
        ),
        click.option(
            "--checkpoint",
            multiple=True,
            metavar="NAME=PATH",
            expose_value=False,
            callback=_name_files,
            help=f"Checkpoint file of a pretrained model ({', '.join(FILES)}); nothing is ever "
            "downloaded. Repeatable.",
        ),
    ):
        command = option(command)
    return command
