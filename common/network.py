"""Servers: addresses of this machine alone, proxies, MLflow's password."""

from __future__ import annotations

import ipaddress
import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

LOOPBACK = ("localhost", "127.0.0.1", "127.0.0.0/8", "::1")  # as NO_PROXY names them
PASSWORD, PASSWORD_FILE = "MLFLOW_TRACKING_PASSWORD", "TABSWEEP_TRACKING_PASSWORD_FILE"


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


def ask_loopback_directly() -> None:
    """Requests of this process, and of those that it starts, to addresses of this machine go to no
    proxy from now on: another machine would not find them, and would learn their credentials."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return
    listed = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
    names = [name.strip() for name in listed.split(",") if name.strip()]
    for variable in ("no_proxy", "NO_PROXY") if names != ["*"] else ():
        os.environ[variable] = ",".join(dict.fromkeys([*names, *LOOPBACK]))


def proxy_of(url: str) -> str:
    """The proxy that a request of MLflow's or Ray's client to this address goes through; "" for
    none."""
    from urllib.request import getproxies, proxy_bypass

    parts, proxies = urlsplit(url), getproxies()
    proxy, host = proxies.get(parts.scheme) or proxies.get("all") or "", parts.hostname or ""
    if not proxy or is_loopback(host) or proxy_bypass(host):
        return ""
    for name in proxies.get("no", "").split(","):
        with suppress(ValueError):  # names and single addresses are known to `proxy_bypass`
            if ipaddress.ip_address(host) in ipaddress.ip_network(name.strip()):
                return ""
    return proxy


def anonymous_status(url: str) -> int:
    """The HTTP status of a request without credentials. Raises OSError without an answer."""
    from urllib.error import HTTPError
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=10) as answer:
            return answer.status
    except HTTPError as error:
        return error.code


def password_from_file() -> None:
    """Give MLflow's client the password in the file that TABSWEEP_TRACKING_PASSWORD_FILE names, a
    container's secret; a MLFLOW_TRACKING_PASSWORD that is set stays.

    Raises OSError where the file cannot be read.
    """
    if (name := os.environ.get(PASSWORD_FILE)) and not os.environ.get(PASSWORD):
        os.environ[PASSWORD] = Path(name).read_text(encoding="utf-8").rstrip("\r\n")
