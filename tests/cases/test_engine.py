"""Small inputs of search, statistics and reports that failed once: the right value of each.

The folder that TABSWEEP_CASES names has them, with the command and the reason for the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from calls import Ran, bench, working_in
from case_folders import copy_of
from report_cases import pdflatex


def one_outlier_decides_no_signed_rank_test(folder: Path) -> None:
    reported("r2_outlier.csv")
    tests = pd.read_csv("out/tests.csv")
    mine = tests[(tests["scope"] == "regression") & (tests["test"] == "wilcoxon")].iloc[0]
    # scipy.stats.wilcoxon of the same differences
    assert (mine["n_zero"], mine["w_plus"], mine["p"]) == (0, 78, 0.00048828125)


def two_long_names_have_their_own_numbers_in_a_paper(folder: Path) -> None:
    reported("labels.csv")
    rows = printed_rows("out/paper/scores-binary.tex")
    assert rows["d0"] == ["90.43", "74.01", "61.18"]
    assert rows["mean rank"] == ["1.00", "2.00", "3.00"]
    costs = printed_rows("out/paper/costs.tex")
    first, xgboost, last = costs
    assert [row[1] for row in costs.values()] == ["90.000", "70.000", "60.000"]
    assert xgboost == "XGBoost" and first != last

    own = [f"models_for_the_paper.py:{size}ModelWithAttention" for size in ("Small", "Large")]
    models = [part for name in (*own, "knn") for part in ("--model", name)]
    how = ("--trials", 4, "--folds", 2, "--workers", 0, "--tracking-uri", "none", "--runs", "runs")
    found = bench("sweep", "--suite", "smoke", "--name", "ow", *models, *how)
    assert found.code == 0, found
    scores = pd.read_csv("runs/ow/report/scores.csv")
    scores = scores[(scores["metric"] == "accuracy") & (scores["task"] == "multiclass")]
    want = {
        (d, m.split(":")[1]): f"{100 * v:.2f}"
        for d, m, v in zip(scores["dataset"], scores["model"], scores["mean"], strict=True)
        if ":" in m
    }
    text = Path("runs/ow/report/paper/scores-multiclass.tex").read_text(encoding="utf-8")
    for (_, model), score in want.items():
        assert f"{model}{{*}}" in text and score in text
    gains = Path("runs/ow/report/default-and-tuned.md").read_text(encoding="utf-8")
    part = gains.split("\n## Gain")[1].split("*from tuned")[0]
    named = [line.split("|")[1].strip() for line in part.splitlines() if "odels" in line]
    assert len(set(named)) == 2
    heads = found.out.splitlines()
    assert any(line.count("models") == 2 and len(set(line.split())) >= 3 for line in heads)


def names_in_other_letters_are_readable_in_latex(folder: Path) -> None:
    reported("greek.csv", "greek")
    assert r"$\beta$-VAE ($\lambda$=0.1)" in Path("greek/paper/ranks.tex").read_text("utf-8")
    reported("cyr.csv")
    files = [path.read_text(encoding="utf-8") for path in Path("out").rglob("*.tex")]
    assert not any("U+" in text for text in files)
    assert "линейная модель & " in Path("out/paper/ranks.tex").read_text("utf-8")
    assert "lualatex" in Path("out/paper/main.tex").read_text("utf-8")
    log = pdflatex(folder / "out" / "paper", "main")
    assert "Overfull \\hbox" not in log and "Missing character" not in log


def lines_that_sum_up_folds_are_no_folds(folder: Path) -> None:
    said = reported("results.csv")
    assert "Mean and Std" in said.err or "Mean, Std" in said.err
    scores = pd.read_csv("out/scores.csv").set_index(["dataset", "model"])
    assert scores.loc[("a", "lr"), "mean"] == pytest.approx((0.8025 + 0.7974 + 0.8128) / 3)
    assert set(scores["n_folds"]) == {3}


# {folder of the case: what must hold in a copy of it, which is the working directory}
CASES: dict[str, Callable[[Path], None]] = {
    "01_wilcoxon_outlier": one_outlier_decides_no_signed_rank_test,
    "03_long_names": two_long_names_have_their_own_numbers_in_a_paper,
    "06_greek_cyrillic_latex": names_in_other_letters_are_readable_in_latex,
    "15_mean_std_rows": lines_that_sum_up_folds_are_no_folds,
}


@pytest.mark.parametrize("case", CASES)
def test_the_value_of_the_case_is_right(case: str, tmp_path: Path) -> None:
    with working_in(copy_of("engine", case, tmp_path)) as folder:
        CASES[case](folder)


def reported(file: str, out: str = "out") -> Ran:
    """The report of a CSV of another tool, without a page."""
    found = bench("report", "--from", file, "--out", out, "--no-html")
    assert found.code == 0, found
    return found


def printed_rows(file: str) -> dict[str, list[str]]:
    """{first cell: the others} of a LaTeX table, without marks and uncertainties."""
    text = Path(file).read_text(encoding="utf-8")
    text = text[text.index(r"\midrule") : text.index(r"\bottomrule")]
    text = re.sub(r"\\(?:textbf|underline)\{([^{}]*)\}|\$.*?\$", r"\1", text)
    lines = [
        line.strip().removesuffix(r"\\").split("&") for line in text.splitlines() if "&" in line
    ]
    return {line[0].strip(): [cell.strip() for cell in line[1:]] for line in lines}
