#!/usr/bin/env python3
"""In the image as `healthy`: a container's health check that ends what does not recover.

healthy URL...   exit code 0 where all answer

Docker marks a container as unhealthy and leaves it so. After `TRIES` failures in a row of a service
that was healthy before, this ends the container's own processes, and docker's restart policy starts
it again: first in order, and three checks later by SIGKILL.
"""

from __future__ import annotations

import os
import signal
import sys
import urllib.request
from pathlib import Path

TRIES = 12
FAILURES = Path(os.environ.get("TMPDIR", "/tmp")) / ".unhealthy"  # there once it was healthy


def in_container() -> bool:
    """Whether process 1 is the image's own tini: nothing else is ever ended."""
    return Path("/proc/1/comm").read_text().strip() == "tini" and os.getuid() != 0


def main() -> int:
    """Ask every address; returns the exit code."""
    try:
        for url in sys.argv[1:]:
            urllib.request.urlopen(url, timeout=5).close()
    except (OSError, ValueError) as error:
        print(error)
        if in_container() and FAILURES.exists():
            failures = int(FAILURES.read_text() or 0) + 1
            FAILURES.write_text(str(failures))
            if failures >= TRIES + 3:
                os.kill(-1, signal.SIGKILL)  # all but process 1, which then ends
            elif failures >= TRIES:
                os.kill(1, signal.SIGTERM)
        return 1
    if in_container():
        FAILURES.write_text("0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
