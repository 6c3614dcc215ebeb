"""What Linux says of the processor."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path


@cache
def described() -> Mapping[str, str]:
    """The entries of the first processor in /proc/cpuinfo: `vendor_id`, `model name`, `flags`, ...;
    empty on other systems."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return first_of(text)


def first_of(text: str) -> dict[str, str]:
    """The entries of the first processor in the text of /proc/cpuinfo.

    >>> first_of("model name : EPYC\\nmodel : 2\\n\\nmodel name : other\\n")
    {'model name': 'EPYC', 'model': '2'}
    """
    pairs = (line.partition(":") for line in text.split("\n\n", 1)[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def flags() -> frozenset[str]:
    """Instruction sets of this processor, as Linux names them."""
    return frozenset(described().get("flags", "").split())
