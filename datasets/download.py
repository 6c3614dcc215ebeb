"""How is one file fetched over HTTP from a network that may be absent, slow, or lying?"""

from __future__ import annotations

import email.utils
import http.client
import random
import socket
import threading
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from ..common.text import one_line

ATTEMPTS = 5
PATIENCE_S = 13.0  # what may be lost on failures, all hosts together; half of it on one
PROBE_S = 4.0
STALL_S = 5.0  # a connection that sends nothing for so long has failed
SLOWEST_BYTES_PER_S = 20_000
VERDICT_S = 120.0  # so long after the last failure, all hosts are asked again
CHUNK = 1 << 16
Host = tuple[str, int]


class Unreachable(Exception):
    """The bytes could not be had from this place; the message says why, in one line."""


class _Transient(Exception):
    """A failure that may pass; `wait_s` is how long the server asks us to wait."""

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class _CarefulRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect to http(s) only, and never from https down to http."""

    max_redirections = 5

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        old, new = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if new not in ("http", "https") or (old == "https" and new == "http"):
            raise Unreachable(f"{req.full_url} redirects to {one_line(newurl, 80)}; not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for: a number, or a date after `now`."""
    if value is None:
        return None
    try:
        return max(0.0, float(int(value.strip())))
    except ValueError:
        pass
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


def looks_like_a_page(kind: str, start: bytes) -> bool:
    """Whether an answer is a web page (a login form, an error) and not the file asked for."""
    head = start.lstrip()[:200].lower()
    return "html" in kind.lower() or head.startswith((b"<!doctype html", b"<html"))


def endpoint(url: str) -> tuple[str, int]:
    """The host and port that a request for `url` connects to: its own or its proxy's."""
    parts = urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.hostname or ""):
        parts = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def connects(host: str, port: int, timeout_s: float) -> str:
    """ "" where a connection opens within `timeout_s`, else why not; name look-up included."""
    outcome = [f"{host} did not answer within {timeout_s:.0f} s"]

    def attempt() -> None:
        try:
            socket.create_connection((host, port), timeout=timeout_s).close()
            outcome[0] = ""
        except OSError as error:
            outcome[0] = f"{host} cannot be reached ({one_line(error, 80)})"

    thread = threading.Thread(target=attempt, daemon=True)  # a name look-up cannot be interrupted
    thread.start()
    thread.join(timeout_s)
    return outcome[0]


class Network:
    """Downloads with bounded patience.

    Each host is probed once before its first request; one that fails is given up, so that a hundred
    files from it cost one probe. All time lost on failures (probes, failed attempts, the waits
    between them) comes out of one budget of `patience_s`, of which one host may take half. What
    was lost and given up is forgotten `verdict_s` after the last failure.
    """

    def __init__(self, *, patience_s: float = PATIENCE_S, verdict_s: float = VERDICT_S) -> None:
        self.patience_s = patience_s
        self.verdict_s = verdict_s
        self._lock = threading.RLock()
        self._verdicts: dict[Host, str] = {}  # "" is a good one
        self._lost_s: dict[Host, float] = {}
        self._failed_at = time.monotonic()
        self._kept: dict[str, bytes] = {}
        self._opener = urllib.request.build_opener(_CarefulRedirects())

    def _left_s(self, host: Host) -> float:
        every = self.patience_s - sum(self._lost_s.values())
        return min(every, self.patience_s / 2 - self._lost_s.get(host, 0.0))

    def _lose(self, host: Host, since: float) -> None:
        self._failed_at = time.monotonic()
        self._lost_s[host] = self._lost_s.get(host, 0.0) + self._failed_at - since

    def _probe(self, host: Host) -> None:
        """Raise Unreachable for a host that is given up, or is so at this first meeting."""
        if time.monotonic() - self._failed_at > self.verdict_s:
            self._verdicts.clear()
            self._lost_s.clear()
        if self._verdicts.get(host):
            raise Unreachable(self._verdicts[host])
        if self._left_s(host) <= 0:
            raise Unreachable(f"{host[0]}: not asked, too much time went into failures before")
        if host not in self._verdicts:
            start = time.monotonic()
            self._verdicts[host] = connects(*host, timeout_s=min(PROBE_S, self._left_s(host)))
            if self._verdicts[host]:
                self._lose(host, start)
                raise Unreachable(self._verdicts[host])

    def get(self, url: str, *, limit: int, expected: int | None = None) -> bytes:
        """The bytes at `url`, at most `limit` + 1 of them.

        A time-out, a cut connection, HTTP 429 and 5xx are tried up to ATTEMPTS times with growing,
        jittered waits, or the wait that Retry-After asks for. Other answers, and web pages, are
        final (Unreachable). `expected` is the size where it is known: fewer bytes from a server
        that names no size are a cut connection.
        """
        with self._lock:
            host = endpoint(url)
            self._probe(host)
            for attempt in range(1, ATTEMPTS + 1):
                start = time.monotonic()
                patience = max(0.5, min(STALL_S, self._left_s(host)))
                deadline = start + patience + limit / SLOWEST_BYTES_PER_S
                try:
                    return self._attempt(url, limit, expected, patience, deadline)
                except Unreachable:
                    self._lose(host, start)
                    raise
                except _Transient as error:
                    self._lose(host, start)
                    reason = f"{host[0]}: {error}"
                    wait = 0.25 * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)
                    if error.wait_s is not None:
                        wait = error.wait_s
                        reason += f", asks to wait {wait:.0f} s"
                if attempt == ATTEMPTS or wait >= self._left_s(host):
                    break
                start = time.monotonic()
                time.sleep(wait)
                self._lose(host, start)
            self._verdicts[host] = f"{reason} ({attempt} attempts)"
            raise Unreachable(self._verdicts[host])

    def get_once(self, url: str, *, limit: int) -> bytes:
        """As `get`, remembered for this object's life; for a mirror's manifest."""
        with self._lock:
            if url not in self._kept:
                self._kept[url] = self.get(url, limit=limit)
            return self._kept[url]

    def _attempt(
        self, url: str, limit: int, expected: int | None, stall_s: float, deadline: float
    ) -> bytes:
        request = urllib.request.Request(url, headers={"User-Agent": "tabsweep"})
        try:
            with self._opener.open(request, timeout=stall_s) as answer:
                kind = answer.headers.get("Content-Type") or ""
                length = answer.headers.get("Content-Length") or ""
                data = b""
                while len(data) <= limit:
                    chunk = answer.read1(min(CHUNK, limit + 1 - len(data)))
                    if not chunk:
                        break
                    if not data and looks_like_a_page(kind, chunk):
                        raise Unreachable(
                            f"{one_line(answer.url, 120)} is a web page, not the file (moved, or a"
                            " network that asks for a login?)"
                        )
                    data += chunk
                    if time.monotonic() > deadline:
                        raise _Transient(f"too slow, {len(data)} bytes so far")
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 429 or error.code >= 500:
                    asked = error.headers.get("Retry-After")
                    wait_s = retry_after_s(asked, datetime.now(UTC))
                    raise _Transient(f"HTTP {error.code}", wait_s) from None
                raise Unreachable(f"HTTP {error.code} for {url}") from None
        except (OSError, http.client.HTTPException) as error:
            cause = getattr(error, "reason", error)
            raise _Transient(one_line(cause, 100) or type(error).__name__) from None
        stated = int(length) if length.isdigit() else expected
        if stated is not None and len(data) < min(stated, limit):
            raise _Transient(f"cut off after {len(data)} of {stated} bytes")
        return data


_shared: Network | None = None


def network() -> Network:
    """The process's one Network, so that what it learnt about a host serves all datasets."""
    global _shared
    if _shared is None:
        _shared = Network()
    return _shared
