"""An HTTP server of this process, whose answers a test decides."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, dict[str, str], bytes]


class LocalServer:
    """Answers at `root` until `close`. `requests`: the paths that were asked for."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append(self.path)
                status, headers, body = outer.answer(self.path, self.headers)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    if value:
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.http.server_port}"
        self.root = f"http://{self.host}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, path: str, headers: Mapping[str, str]) -> Answer:
        """(status, headers, body) of a request; an empty header is not sent."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop answering."""
        self.http.shutdown()
        self.http.server_close()
