"""TCP ports of the loopback interface that nobody listens on now."""

from __future__ import annotations

import socket


def free_ports(n: int) -> list[int]:
    """So many different ports."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports
