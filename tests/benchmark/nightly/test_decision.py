"""The sequential rule of the A/B test, on made-up errors."""

from __future__ import annotations

import numpy as np
from tabsweep.benchmark.nightly.decision import LOOKS, SPENDING, Judge

DATASETS = ("a", "b", "c", "d")


def errors(rng: np.random.Generator, effect: float, noise: float = 0.01) -> dict:
    n = LOOKS[-1]
    found = {}
    for dataset in DATASETS:
        base = 0.3 * (1.0 + noise * rng.normal(size=n))
        found[dataset] = (base, base * (1.0 + effect) * (1.0 + noise * rng.normal(size=n)))
    return found


def judged(models: dict) -> Judge:
    judge = Judge(models)
    while judge.open:
        n = judge.wanted
        judge.look({m: {d: (a[:n], b[:n]) for d, (a, b) in models[m].items()} for m in judge.open})
    return judge


def test_equal_errors_need_one_look_and_a_clear_change_for_worse_few() -> None:
    rng = np.random.default_rng(0)
    same = {d: (a, a.copy()) for d, (a, _) in errors(rng, 0.0).items()}
    judge = judged({"same": same, "worse": errors(rng, 0.05), "better": errors(rng, -0.05)})
    assert judge.verdicts == {"same": "equal", "worse": "worse", "better": "harmless"}
    assert judge.n_seeds["same"] == judge.n_seeds["better"] == LOOKS[0]
    assert judge.n_seeds["worse"] < LOOKS[-1]


def test_a_change_between_harmless_and_worse_is_undecided_after_the_last_look() -> None:
    judge = judged({"noisy": errors(np.random.default_rng(3), 0.012, noise=0.1)})
    assert judge.verdicts == {"noisy": "undecided"}
    assert judge.n_seeds["noisy"] == LOOKS[-1]


def test_a_change_below_the_smallest_effect_is_never_worse() -> None:
    judge = judged({"tiny": errors(np.random.default_rng(0), 0.005, noise=1e-4)})
    assert judge.verdicts == {"tiny": "harmless"}


def test_a_model_without_a_pair_could_not_be_judged_and_does_not_stop_the_others() -> None:
    judge = Judge(["gone", "same"])
    one = np.full(LOOKS[0], 0.2)
    judge.look({"gone": {}, "same": {"a": (one, one)}})
    assert judge.verdicts == {"gone": "no-data", "same": "equal"}


def test_the_alphas_of_the_looks_stay_below_one_percent_a_night() -> None:
    assert len(LOOKS) == len(SPENDING) and 0.0 < sum(SPENDING) < 0.01
