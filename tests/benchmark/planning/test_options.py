"""The options of a sweep as a value: what follows from each field holds for every one."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click
import run_records
from calls import bench
from tabsweep.benchmark.arguments import flag_of
from tabsweep.benchmark.commands.running import sweep
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.options import BOTH, KEPT, LARGER, SAME, STAYS, Options
from tabsweep.benchmark.running.request import Request
from tabsweep.benchmark.running.resume import merge_with


def value_of(name: str, *, second: bool = False) -> Any:
    """A value of an option that is not its default; with `second`, another one."""
    option = next(one for one in sweep.params if one.name == name)
    assert isinstance(option, click.Option)
    if isinstance(option.type, click.Choice):
        known = [choice for choice in option.type.choices if choice != option.default]
        return known[-1 if second else 0]
    if option.is_flag:
        return True
    if isinstance(option.type, click.IntRange | click.FloatRange):
        found: Any = 100.5 if isinstance(option.type, click.FloatRange) else 7
        return found + second
    word: Any = f"{name}.{'b' if second else 'a'}"
    word = Path(word) if isinstance(option.type, click.Path) else word
    return (word,) if option.multiple else word


def test_every_option_is_read_from_the_command_line_that_its_value_writes():
    for one in fields(Options):
        given = Options(**{one.name: value_of(one.name)})
        assert flag_of(one).partition("/")[0] in given.words()
        with sweep.make_context("sweep", given.words()) as context:
            assert context.params[one.name] == getattr(given, one.name), one.name
            assert Options.of(context.params) == Options.of(given.to_data()), "no other is given"


def test_what_a_plan_keeps_comes_back_from_it():
    given = Options(**{one.name: value_of(one.name) for one in fields(Options)})
    kept = {one.name for one in KEPT}
    assert Options.of(given.to_data()).given().keys() == kept
    assert Options.of(given.to_data()).given() == {
        k: v for k, v in given.given().items() if k in kept
    }
    assert Options.of({}) == Options()


def test_a_run_that_is_started_again_keeps_what_each_option_says():
    suite = suites.load("smoke")
    for one in KEPT:
        before, now = value_of(one.name), value_of(one.name, second=True)
        old = run_records.whole_plan({}, [], options=Options(**{one.name: before}))
        for asked, stays, larger, both in (
            (None, before, before, before),
            (now, now, now, (*before, *now) if isinstance(before, tuple) else None),
        ):
            options = Options() if asked is None else Options(**{one.name: asked})
            if one.name == "budget":
                options = replace(options, budget="quick")
            found = getattr(merge_with(old, Request(suite, options)), one.name)
            expected = {STAYS: stays, LARGER: larger, BOTH: both, SAME: getattr(options, one.name)}
            if one.metadata["kept"] == BOTH and asked is None:
                assert set(before) < set(found), "with those of the suite"
            else:
                assert found == expected[one.metadata["kept"]], one.name


def test_help_lists_the_options_of_a_sweep_in_four_groups():
    shown = bench("sweep", "--help").out
    heads = ["Data options:", "Search options:", "Machine options:", "Output options:"]
    assert [line for line in shown.splitlines() if line in heads] == heads
    parts = dict(zip(heads, [shown.split(head)[1] for head in heads], strict=True))
    for head, flag in zip(heads, ("--csv", "--trials", "--workers", "--json"), strict=True):
        assert f" {flag} " in parts[head].split(" options:")[0]
