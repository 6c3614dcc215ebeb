"""MLflow stores: which addresses are allowed, and how one is opened without harm.

SQLite under the run folder by default, or a server. A fresh SQLite store is put in its place whole,
under a file lock: several first users at once would otherwise break it.
"""

from __future__ import annotations

import fcntl
import getpass
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from ...common.files import write_atomically
from ...common.network import ask_loopback_directly, is_loopback, proxy_of

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

INSECURE = "TABSWEEP_ALLOW_INSECURE_TRACKING"
SERVERS = ("http", "https")
REFUSALS = ("PERMISSION_DENIED", "UNAUTHENTICATED")  # MLflow's words

# What MLflow reads when it is asked to do something.
ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # a run whose making was not answered may exist
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SQLALCHEMYSTORE_POOLCLASS": "NullPool",  # else a deleted file stays open in the pool
}


class TrackingError(Exception):
    """The tracking store was refused or could not be used; the ledger is not affected."""


class Refused(TrackingError):
    """The store answered and refuses what it is given. Trying again later does not help."""


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
    return scheme_of(uri) in SERVERS


def check(uri: str) -> str:
    """The address itself, or TrackingError where it may not be used."""
    scheme = scheme_of(uri)
    if scheme == "sqlite":
        path = uri.partition(":///")[2]
        if not path or path.startswith(":memory:") or "?" in path:
            raise TrackingError(
                f"{redact(uri)} names no SQLite file that can be used: write "
                "sqlite:////absolute/path/mlflow.db, without '?'"
            )
        return uri
    if scheme not in SERVERS:
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
    if scheme == "https" or is_loopback(host):
        return uri
    clear = f"{redact(uri)} would send results and credentials in the clear"
    if os.environ.get(INSECURE) != "1":
        raise TrackingError(
            f"{clear}{through_proxy(uri)}: use https, or set {INSECURE}=1 where the network is "
            "trusted"
        )
    if through_proxy(uri):
        raise TrackingError(f"{clear}{through_proxy(uri)}: use https, or name {host} in NO_PROXY")
    return uri


def through_proxy(uri: str) -> str:
    """ " through the proxy ..." where requests to an address go through one, else ""."""
    proxy = proxy_of(uri)
    return f" through the proxy {redact(proxy)}" if proxy else ""


def sqlite_path(uri: str) -> Path:
    """The file of a SQLite address."""
    return Path(uri.partition(":///")[2])


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
    """One line of an error message without anything secret of an address that may be used."""
    line = " ".join(str(text).split()).replace(uri, redact(uri))
    if has_secret(uri):
        for secret in (urlsplit(uri).password or "", *urlsplit(uri).query.split("&")):
            for form in {secret, unquote(secret), secret.partition("=")[2]}:
                if form:
                    line = line.replace(form, "***")
    return re.sub(r"(://)[^/\s@]*@", r"\1***@", line)[:500]


# ---------------------------------------------------------------------- opening


def user_of(uri: str) -> str:
    """The name that runs are written under: the server's user where one is named, else the
    system's."""
    if is_server(uri):
        from mlflow.utils.credentials import read_mlflow_creds

        named = unquote(urlsplit(uri).username or "") or read_mlflow_creds().username
        if named:
            return named
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"uid {os.getuid()}"


@contextmanager
def opened(uri: str, run: Path) -> Iterator[MlflowClient]:
    """MLflow's client of a store, which is made first where it is SQLite. Within, nothing goes to
    standard output, and whatever goes wrong becomes a TrackingError.

    MLflow's short timeouts and its silence last as long as the process. A run's own SQLite store is
    not synced to disk: it can be rebuilt, and its waiting would slow the ledger's. A file that the
    user named may hold other people's experiments and keeps SQLite's default.
    """
    os.environ.update(ENVIRONMENT)
    ask_loopback_directly()
    with redirect_stdout(sys.stderr), _unsynced() if uri == default_uri(run) else nullcontext():
        from mlflow.tracking import MlflowClient

        for name in ("mlflow", "alembic", "urllib3"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # the exception says what is wrong
        try:
            if not is_server(uri):
                _make_sqlite(sqlite_path(uri))
            yield MlflowClient(tracking_uri=uri)
        except TrackingError:
            raise
        except Exception as error:
            raise _explained(error, uri) from None


def _explained(error: Exception, uri: str) -> TrackingError:
    """The error of a store in one line without secrets."""
    from mlflow.exceptions import MlflowException

    text = scrub(error, uri) or type(error).__name__
    if not is_server(uri):
        return TrackingError(
            f"cannot write {sqlite_path(uri)} ({text}): sync again, and if that does not help, "
            "delete the file: it is rebuilt from the ledger"
        )
    if getattr(error, "error_code", None) in REFUSALS or "error code 401" in text:
        return Refused(
            f"the tracking server {redact(uri)} refuses {user_of(uri)!r}{through_proxy(uri)} "
            f"({text}): check MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        )
    cause: BaseException = error
    while deeper := cause.__cause__ or cause.__context__:
        cause = deeper
    if isinstance(error, MlflowException) and isinstance(cause, OSError):
        return Unreachable(
            f"no answer from the tracking server {redact(uri)}{through_proxy(uri)} "
            f"({scrub(cause, uri)})"
        )
    return TrackingError(f"the tracking server {redact(uri)}{through_proxy(uri)} failed ({text})")


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """An exclusive lock between processes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make_sqlite(path: Path) -> None:
    """Put an empty store in place, complete, where there is none."""
    with file_lock(path.with_name(f".{path.name}.lock")):
        if not path.exists() or not path.stat().st_size:
            write_atomically(path, _empty_store())


def _empty_store() -> bytes:
    """An empty SQLite store of this version of MLflow.

    The first one is kept beside the datasets, where a folder there can be written: MLflow's
    migrations take as long as many small sweeps.
    """
    import mlflow

    from ...datasets.source import cache_dir

    kept = cache_dir() / "mlflow" / f"{mlflow.__version__}.db"
    with suppress(OSError):
        return kept.read_bytes()
    with tempfile.TemporaryDirectory(prefix="tabsweep-") as folder, _unsynced():
        fresh = Path(folder, "mlflow.db")
        mlflow.MlflowClient(tracking_uri=f"sqlite:///{fresh}").search_experiments(max_results=1)
        empty = fresh.read_bytes()
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, empty)
    return empty


@contextmanager
def _unsynced() -> Iterator[None]:
    """SQLite does not wait for the disk on connections that SQLAlchemy opens meanwhile."""
    import sqlite3

    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def set_it(connection: Any, _: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous=OFF")

    event.listen(Engine, "connect", set_it)
    try:
        yield
    finally:
        event.remove(Engine, "connect", set_it)
