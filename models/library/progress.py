"""A progress bar of one fit on the standard error, for terminals, notebooks and log files."""

from __future__ import annotations

import math
import sys
import time

WIDTH = 24
EVERY_S = 30.0  # between two lines where the stream is no terminal


class FitProgress:
    """Shows steps, the validation loss and the time of a fit; call `step`, then `end`.

    total: steps at most; unit: what they are called. Where the stream is no terminal there is a
    line every 30 seconds and one at the end.
    """

    def __init__(self, name: str, total: int, unit: str) -> None:
        self.name, self.total, self.unit = name, total, unit
        self.stream = sys.stderr
        self.live = hasattr(self.stream, "isatty") and self.stream.isatty() or in_notebook()
        self.started = self.last = time.monotonic()
        self.best, self.best_step, self.at, self.width = math.inf, 0, 0, 0

    def step(self, step: int, loss: float) -> bool:
        """Takes the validation loss after a step; always False, so that the fit goes on."""
        self.at = step
        if loss < self.best:
            self.best, self.best_step = loss, step
        now = time.monotonic()
        if self.live or now - self.last >= EVERY_S:
            self.last = now
            self._show(self._line(loss, now))
        return False

    def end(self, n_iter: int | None = None) -> None:
        """The last line: how many steps ran and how long they took."""
        text = f"{self.name}: fitted"
        if n_iter is not None:
            text += f" in {n_iter} {self.unit}"
        if self.best_step:
            text += f", best at {self.best_step} (validation loss {self.best:.4g})"
        self._show(f"{text}, {time.monotonic() - self.started:.1f} s")
        if self.live:
            self.stream.write("\n")
        self.stream.flush()

    def _line(self, loss: float, now: float) -> str:
        return (
            f"{self.name} {bar(self.at, self.total)} {self.at}/{self.total} {self.unit}, "
            f"validation loss {loss:.4g} (best {self.best:.4g} at {self.best_step}), "
            f"{now - self.started:.0f} s"
        )

    def _show(self, text: str) -> None:
        """Writes over the line before on a terminal, else a line of its own."""
        if not self.live:
            self.stream.write(f"{text}\n")
            return
        self.stream.write(f"\r{text.ljust(self.width)}")
        self.width = len(text)
        self.stream.flush()


def bar(at: int, total: int) -> str:
    """How much of `total` is done, as a bar of text.

    >>> bar(3, 4)
    '██████████████████░░░░░░'
    """
    done = round(WIDTH * min(1.0, at / max(1, total)))
    return "█" * done + "░" * (WIDTH - done)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which shows a carriage return as one."""
    return "ipykernel" in sys.modules
