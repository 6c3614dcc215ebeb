"""HTTP downloads with bounded size and bounded waiting, from networks that may fail in any way."""

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
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from ..common.text import one_line

ATTEMPTS = 5
PATIENCE_S = 13.0  # time that failures may take, all hosts together; one host: half of it
PROBE_S = 4.0
STALL_S = 5.0  # a connection that sends nothing for so long has failed
SLOWEST_BYTES_PER_S = 20_000
VERDICT_S = 120.0  # after this time without a failure, hosts that were given up are tried again
CHUNK = 1 << 16
Host = tuple[str, int]


class Unreachable(Exception):
    """A download failed for good; the message gives the reason, in one line."""


class Refused(Unreachable):
    """The server answered with an error of its own, which no retry mends: HTTP status `code`, the
    answer's first bytes in `body`."""

    def __init__(self, message: str, code: int, body: bytes) -> None:
        super().__init__(message)
        self.code = code
        self.body = body


class _Transient(Exception):
    """A failure that is worth a retry; `wait_s` is the server's Retry-After in seconds."""

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
    """Seconds that a Retry-After header asks for (a number, or a date after `now`); None where it
    is absent or neither."""
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
    """Whether an answer is a web page (a login form, an error page) in place of the file."""
    head = start.lstrip()[:200].lower()
    return "html" in kind.lower() or head.startswith((b"<!doctype html", b"<html"))


def _start(answer: Any) -> bytes:
    """The first bytes of an answer; none where the connection breaks."""
    try:
        return bytes(answer.read(CHUNK))
    except (OSError, http.client.HTTPException):
        return b""


def endpoint(url: str) -> tuple[str, int]:
    """Host and port that a request for `url` connects to: the URL's own or the proxy's."""
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


class NetworkAccess:
    """Downloads with a time budget for failures.

    Each host is probed once before its first request; a host that fails is given up, so that a
    hundred files from it cost one probe. The time that failures take (probes, failed attempts and
    the waits between them) is limited to PATIENCE_S for all hosts together and to half of that
    for one host. VERDICT_S after the last failure, the budget is full again and every host is
    tried again. Requests are made one at a time (a lock), so an object may be shared by threads.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._verdicts: dict[Host, str] = {}  # why a host was given up; "" where it was not
        self._lost_s: dict[Host, float] = {}
        self._failed_at = time.monotonic()
        self._kept: dict[str, bytes] = {}
        self._opener = urllib.request.build_opener(_CarefulRedirects())

    def _left_s(self, host: Host) -> float:
        every = PATIENCE_S - sum(self._lost_s.values())
        return min(every, PATIENCE_S / 2 - self._lost_s.get(host, 0.0))

    def _lose(self, host: Host, since: float) -> None:
        self._failed_at = time.monotonic()
        self._lost_s[host] = self._lost_s.get(host, 0.0) + self._failed_at - since

    def _probe(self, host: Host) -> None:
        """Raise Unreachable for a host that was given up, or that fails its first probe."""
        if time.monotonic() - self._failed_at > VERDICT_S:
            self._verdicts.clear()
            self._lost_s.clear()
        if self._verdicts.get(host):
            raise Unreachable(self._verdicts[host])
        if self._left_s(host) <= 0:
            raise Unreachable(f"{host[0]}: not tried, earlier failures took too much time")
        if host not in self._verdicts:
            start = time.monotonic()
            self._verdicts[host] = connects(*host, timeout_s=min(PROBE_S, self._left_s(host)))
            if self._verdicts[host]:
                self._lose(host, start)
                raise Unreachable(self._verdicts[host])

    def get(self, url: str, *, limit: int, expected: int | None = None) -> bytes:
        """The bytes at `url`, at most `limit` + 1 of them.

        A timeout, a broken connection, HTTP 429 and 5xx are retried, ATTEMPTS times in all, with
        exponential, jittered backoff or after the time that Retry-After asks for. Other errors, and
        web pages, are final (Unreachable; Refused for an HTTP status). `expected` is the size where
        it is known: fewer bytes from a server that sends no Content-Length count as a broken
        connection.
        """
        with self._lock:
            host = endpoint(url)
            self._probe(host)
            for attempt in range(1, ATTEMPTS + 1):
                start = time.monotonic()
                patience = max(0.5, min(STALL_S, self._left_s(host)))
                try:
                    return self._attempt(url, limit, expected, patience, start + patience)
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
        """As `get`, cached for this object's life; for a mirror's manifest."""
        with self._lock:
            if url not in self._kept:
                self._kept[url] = self.get(url, limit=limit)
            return self._kept[url]

    def _attempt(
        self, url: str, limit: int, expected: int | None, stall_s: float, begin: float
    ) -> bytes:
        request = urllib.request.Request(url, headers={"User-Agent": "tabsweep"})
        try:
            with self._opener.open(request, timeout=stall_s) as answer:
                kind = answer.headers.get("Content-Type") or ""
                length = answer.headers.get("Content-Length") or ""
                due = min(limit, int(length)) if length.isdigit() else limit
                deadline = begin + due / SLOWEST_BYTES_PER_S
                data = bytearray()
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
                raise Refused(f"HTTP {error.code} for {url}", error.code, _start(error)) from None
        except (OSError, http.client.HTTPException) as error:
            cause = getattr(error, "reason", error)
            raise _Transient(one_line(cause, 100) or type(error).__name__) from None
        stated = int(length) if length.isdigit() else expected
        if stated is not None and len(data) < min(stated, limit):
            raise _Transient(f"cut off after {len(data)} of {stated} bytes")
        return bytes(data)


@cache
def network() -> NetworkAccess:
    """The NetworkAccess that all datasets of this process share: each host is probed once."""
    return NetworkAccess()
