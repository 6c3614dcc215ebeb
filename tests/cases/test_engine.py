"""Small inputs of search, statistics and reports that failed once: the right value of each.

The folder that TABSWEEP_CASES names has them, with the command and the reason for the value.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from calls import bench, working_in
from case_folders import copy_of


def one_outlier_decides_no_signed_rank_test(folder: Path) -> None:
    reported("r2_outlier.csv")
    tests = pd.read_csv("out/tests.csv")
    mine = tests[(tests["scope"] == "regression") & (tests["test"] == "wilcoxon")].iloc[0]
    # scipy.stats.wilcoxon of the same differences
    assert (mine["n_zero"], mine["w_plus"], mine["p"]) == (0, 78, 0.00048828125)


# {folder of the case: what must hold in a copy of it, which is the working directory}
CASES: dict[str, Callable[[Path], None]] = {
    "01_wilcoxon_outlier": one_outlier_decides_no_signed_rank_test,
}


@pytest.mark.parametrize("case", CASES)
def test_the_value_of_the_case_is_right(case: str, tmp_path: Path) -> None:
    with working_in(copy_of("engine", case, tmp_path)) as folder:
        CASES[case](folder)


def reported(file: str, out: str = "out") -> None:
    """The report of a CSV of another tool, without a page."""
    found = bench("report", "--from", file, "--out", out, "--no-html")
    assert found.code == 0, found
