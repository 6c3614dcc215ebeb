"""`bench data` on the command line: the group of its commands."""

from __future__ import annotations

from ...console import Verbs
from .add import data_add
from .catalog import data_fetch, data_list, data_passport, data_remove, data_verify
from .inspect import data_inspect

data = Verbs(
    help="List, fetch, check and add datasets.",
    commands=[
        data_add,
        data_fetch,
        data_inspect,
        data_list,
        data_passport,
        data_remove,
        data_verify,
    ],
)
