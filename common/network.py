"""Servers: addresses of this machine alone, requests without credentials, MLflow's password."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

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
