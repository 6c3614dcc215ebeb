"""Perturbation of a configuration for PBT, and the state that travels from trial to trial."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tabsweep.sweeps.ray_tune.pbt import perturb
from tabsweep.sweeps.ray_tune.trial_state import Track
from tabsweep.sweeps.search.space import Space

SPACE = Space.parse(
    {
        "params": {
            "rate": {"kind": "log-uniform", "low": 1e-4, "high": 1.0},
            "share": {"kind": "uniform", "low": 0.0, "high": 1.0},
            "depth": {"kind": "int", "low": 2, "high": 9},
            "leaves": {"kind": "int", "low": 4, "high": 512, "log": True},
            "penalty": {
                "kind": "optional",
                "value": 0.0,
                "of": {"kind": "log-uniform", "low": 1e-3, "high": 10.0},
            },
            "booster": {"kind": "choice", "values": ["tree", "line"]},
            "steps": {"kind": "fixed", "value": 9},
        }
    }
)

# ---------------------------------------------------------------------- what PBT changes


@given(seed=st.integers(0, 2**32 - 1))
def test_a_perturbed_configuration_stays_in_its_space_and_keeps_what_is_no_number(seed):
    config = SPACE.sample(np.random.default_rng(seed))
    found = perturb(SPACE, config, np.random.default_rng(seed))
    assert found in SPACE
    assert found["booster"] == config["booster"] and found["steps"] == config["steps"]
    assert (found["penalty"] == 0.0) == (config["penalty"] == 0.0)


def test_a_perturbation_moves_a_logarithmic_number_by_a_factor_and_a_flat_one_by_a_share():
    config = {"rate": 0.01, "share": 0.5, "depth": 5}
    found = [perturb(SPACE, config, np.random.default_rng(seed)) for seed in range(200)]
    factors = Counter(round(other["rate"] / 0.01, 6) for other in found)
    assert {0.8, 1.2} == {factor for factor, n in factors.items() if n > 1}
    shares = Counter(round(other["share"], 6) for other in found)
    assert {0.3, 0.7} == {share for share, n in shares.items() if n > 1}
    assert all(other["depth"] != 5 for other in found if other["depth"] in (3, 4, 6, 7))


def test_a_perturbation_never_changes_the_length_of_a_schedule():
    space = Space.parse({"params": {"steps": {"kind": "int", "low": 10, "high": 1000}}})
    for seed in range(20):
        changed = perturb(space, {"steps": 100}, np.random.default_rng(seed))
        kept = perturb(
            space, {"steps": 100}, np.random.default_rng(seed), unchanged=lambda c: c["steps"]
        )
        assert changed != {"steps": 100} and kept == {"steps": 100}


# ---------------------------------------------------------------------- what travels


@given(state=st.none() | st.binary(), rate=st.floats(allow_nan=False, allow_infinity=False))
def test_a_track_survives_being_written_down(state, rate):
    track = Track(3, {"rate": rate, "list": [1, None]}, 9, 3, 6, [(3, 0.5), (6, None)], state=state)
    found = Track.unpack(track.pack())
    assert (found.config, found.step, found.state) == (track.config, 6, state)
    assert [tuple(point) for point in found.curve] == track.curve


def test_bytes_that_are_no_track_are_refused():
    for data in (b"", b"\n", b"[]\n", b"{}\n", b'{"index": 1}\nx', b"\x80\x04."):
        with pytest.raises(ValueError):
            Track.unpack(data)


def test_a_copied_track_says_where_it_comes_from_and_what_was_changed():
    donor = Track(4, {"rate": 0.1, "depth": 3}, 9, 3, 6, costs={"fit_s": 9.0}, elapsed_s=9.0)
    own = Track(1, {"rate": 0.5, "depth": 2}, 9, 3, 3, costs={"fit_s": 1.0}, elapsed_s=1.0)
    copy = donor.copied_to(1, {"rate": 0.12, "depth": 3}, own)
    assert copy.history == [{"step": 6, "from": 4, "changes": {"rate": [0.1, 0.12]}}]
    assert (copy.index, copy.step, copy.costs, copy.elapsed_s) == (1, 6, {"fit_s": 1.0}, 1.0)
    assert copy.descends_from(copy) and not own.descends_from(copy)
    assert not donor.history
