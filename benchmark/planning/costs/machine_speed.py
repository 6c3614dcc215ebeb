"""How fast this machine is: CPU seconds of a fixed small work, in less than a second."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cache


@cache
def probe_s() -> float:
    """CPU seconds of one thread on three small works (Python, products of matrices, sorting): their
    geometric mean, each the fastest of some repeats, so that a busy machine changes it little."""
    import numpy as np
    from threadpoolctl import threadpool_limits

    random = np.random.default_rng(0)
    square = random.standard_normal((192, 192), dtype=np.float32)
    numbers = random.standard_normal(100_000)

    def python() -> None:
        sums: dict[int, int] = {}
        for number in range(20_000):
            sums[number % 97] = sums.get(number % 89, 0) + number

    def products() -> None:
        for _ in range(8):
            np.tanh(square @ square)

    def sorting() -> None:
        np.sort(numbers)

    with threadpool_limits(1):
        times = [_fastest(work) for work in (python, products, sorting)]
    return math.exp(sum(math.log(seconds) for seconds in times) / len(times))


def _fastest(work: Callable[[], None], repeats: int = 12) -> float:
    times = []
    for _ in range(repeats):
        began = time.thread_time()
        work()
        times.append(time.thread_time() - began)
    return max(min(times), 1e-6)
