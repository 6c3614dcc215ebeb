"""MLflow stores: which addresses are allowed, and how one is opened without harm.

SQLite under the run folder by default, or a server. A fresh SQLite store is made beside its place
under a file lock and moved there whole: several first users at once would otherwise break it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from ...common.network import is_loopback

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

INSECURE = "TABSWEEP_ALLOW_INSECURE_TRACKING"
PORTS = {"http": 80, "https": 443}
PROBE_S = 3.0  # for a connection
ANSWER_S = 10.0  # for an answer on it

# What MLflow reads when it is asked to do something; restored afterwards.
ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # a run whose making was not answered may exist
    "MLFLOW_HTTP_REQUEST_TIMEOUT": f"{ANSWER_S:g}",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SQLALCHEMYSTORE_POOLCLASS": "NullPool",  # else a deleted file stays open in the pool
}


class TrackingError(Exception):
    """The tracking store was refused or could not be used; the ledger is not affected."""


class Refused(TrackingError):
    """The store answered, and will not take what it is given, whatever the time."""


class Unreachable(TrackingError):
    """There is no answer at the address of the tracking server."""


# ---------------------------------------------------------------------- addresses


def default_uri(run: Path) -> str:
    """SQLite under the run folder."""
    return f"sqlite:///{run.resolve()}/mlflow.db"


def scheme_of(uri: str) -> str:
    """The scheme of an address in lower case, without a driver; "" without one."""
    return uri.partition(":")[0].partition("+")[0].lower() if "://" in uri else ""


def is_server(uri: str) -> bool:
    """Whether an address is that of an MLflow server, not of a file."""
    return scheme_of(uri) in PORTS


def check(uri: str) -> str:
    """The address itself, or TrackingError where it may not be used."""
    scheme = scheme_of(uri)
    if scheme == "sqlite":
        path = sqlite_path(uri)
        if path is None or "?" in str(path):
            raise TrackingError(
                f"{redact(uri)} names no SQLite file that can be used: write "
                "sqlite:////absolute/path/mlflow.db, without '?'"
            )
        return uri
    if scheme not in PORTS:
        raise TrackingError(
            f"tracking to {redact(uri)!r} is not supported: give sqlite:////path/mlflow.db or the "
            "http(s) address of an MLflow server"
        )
    try:
        parts = urlsplit(uri)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host:
        raise TrackingError(f"{redact(uri)} is no address: write https://host:port")
    if scheme == "http" and not is_loopback(host) and os.environ.get(INSECURE) != "1":
        raise TrackingError(
            f"{redact(uri)} would send results and credentials in the clear: use https, or set "
            f"{INSECURE}=1 where the network is trusted"
        )
    return uri


def sqlite_path(uri: str) -> Path | None:
    """The file of a SQLite address, None for one in memory."""
    text = uri.partition(":///")[2]
    return Path(text) if text and not text.startswith(":memory:") else None


def has_secret(uri: str) -> bool:
    """Whether an address holds a user, a password or a query."""
    return redact(uri) != uri


def redact(uri: str) -> str:
    """The address without user, password and query, for people and logs.

    >>> redact("https://me:secret@host:5000/x?token=1")
    'https://***@host:5000/x?***'
    """
    if scheme_of(uri) == "sqlite":
        return uri
    shown = re.sub(r"(://)[^/?#]*@", r"\1***@", uri)
    return re.sub(r"\?.+", "?***", shown)


def scrub(text: object, uri: str) -> str:
    """One line of an error message without anything secret of the address."""
    line = " ".join(str(text).split()).replace(uri, redact(uri))
    if has_secret(uri):
        try:
            secrets = [urlsplit(uri).password or "", *urlsplit(uri).query.split("&")]
        except ValueError:
            secrets = []
        for secret in secrets:
            for form in {secret, unquote(secret), secret.partition("=")[2]}:
                if form:
                    line = line.replace(form, "***")
    return re.sub(r"(://)[^/\s@]*@", r"\1***@", line)[:500]


def probe(uri: str) -> None:
    """Raise Unreachable within seconds where no server answers; without MLflow."""
    if not is_server(uri):
        return
    scheme = scheme_of(uri)
    parts = urlsplit(uri)
    host, port = parts.hostname or "", parts.port or PORTS[scheme]
    page = f"{parts.path.rstrip('/')}/health"
    try:
        with socket.create_connection((host, port), timeout=PROBE_S) as link:
            if scheme == "http":  # TLS is left to MLflow, which knows the certificates
                link.settimeout(ANSWER_S)
                link.sendall(f"GET {page} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
                if not link.recv(1):
                    raise OSError("the connection was closed")
    except OSError as error:
        raise Unreachable(
            f"no answer from the tracking server {redact(uri)} ({scrub(error, uri)})"
        ) from None


# ---------------------------------------------------------------------- opening


@contextmanager
def quiet_mlflow() -> Iterator[None]:
    """MLflow with short timeouts, without telemetry, and with nothing on standard output."""
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic", "urllib3")]
    levels = [logger.level for logger in loggers]
    os.environ.update(ENVIRONMENT)
    try:
        with redirect_stdout(sys.stderr):
            import mlflow.tracking  # noqa: F401  (it sets its own logging up)

            for logger in loggers:
                logger.setLevel(logging.CRITICAL)  # what went wrong is in the exception
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """An exclusive lock between processes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def open_store(uri: str) -> MlflowClient:
    """A client of a store that is there, made first where it is SQLite. Within `quiet_mlflow`."""
    from mlflow.tracking import MlflowClient

    path = None if is_server(uri) else sqlite_path(uri)
    if path is not None:
        with file_lock(path.with_name(f".{path.name}.lock")):
            if not path.exists() or not path.stat().st_size:
                _make_sqlite(path)
    return MlflowClient(tracking_uri=uri)


def _make_sqlite(path: Path) -> None:
    """Move an empty store of this version of MLflow into place, complete.

    The first one is kept beside the datasets, where a folder there can be written: MLflow's
    migrations take as long as many small sweeps.
    """
    import mlflow

    from ...datasets.source import cache_dir

    empty = cache_dir() / "mlflow" / f"{mlflow.__version__}.db"
    with suppress(OSError), file_lock(empty.with_suffix(".lock")):
        if not empty.exists():
            with _whole(empty) as fresh:
                _migrate(fresh)
    with _whole(path) as fresh:
        if empty.exists():
            shutil.copyfile(empty, fresh)
        else:
            _migrate(fresh)


def _migrate(path: Path) -> None:
    """Make an empty store by MLflow's own migrations, unsynced."""
    import mlflow

    with _pragma("synchronous=OFF"):
        client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{path}")
        client.search_experiments(max_results=1)


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A file that is written beside `path` and, once it is whole and on the disk, moved there."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.fresh")
    _remove(fresh)
    try:
        yield fresh
        with open(fresh, "rb") as file:
            os.fsync(file.fileno())
        os.replace(fresh, path)
    finally:
        _remove(fresh)


def _remove(path: Path) -> None:
    for name in (path.name, f"{path.name}-journal", f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


@contextmanager
def _pragma(text: str) -> Iterator[None]:
    """Every SQLite connection that SQLAlchemy opens meanwhile starts with this pragma."""
    import sqlite3

    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def set_it(connection: Any, _: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute(f"PRAGMA {text}")

    event.listen(Engine, "connect", set_it)
    try:
        yield
    finally:
        event.remove(Engine, "connect", set_it)


@contextmanager
def writing(uri: str, run: Path) -> Iterator[None]:
    """Within: a run's own SQLite store is not synced to disk.

    It can be rebuilt, and its waiting would slow the ledger's. A file that the user named may hold
    other people's experiments and keeps SQLite's default.
    """
    if uri != default_uri(run):
        yield
        return
    with _pragma("synchronous=OFF"):
        yield
