"""A sweep in which every study is a planned absence: why, and which models would run."""

from __future__ import annotations

from calls import bench


def line_of(err: str) -> str:
    (line,) = [line for line in err.splitlines() if "nothing runs" in line]
    return line


def test_a_sweep_of_nothing_but_absences_says_why_and_names_models_that_can(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = ("sweep", "--suite", "smoke", "--dataset", "diabetes", "--model", "naive-bayes")
    planned = bench(*one, "--dry-run")
    assert planned.code == 0 and "naive-bayes has no regression form" in line_of(planned.err)
    way = line_of(planned.err).partition("models that can: ")[2].split(", ")
    assert "adaboost" in way and "naive-bayes" not in way and "discriminant-analysis" not in way
    ran = bench(*one, "--workers", "0", "--tracking-uri", "none")
    assert ran.code == 0 and line_of(ran.err) == line_of(planned.err)
    both = bench(*one, "--model", "knn", "--dry-run")
    assert both.code == 0 and "nothing runs" not in both.err
