"""Network addresses: whether one is of this machine alone."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a host name or address is of this machine alone.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("10.0.0.7")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
