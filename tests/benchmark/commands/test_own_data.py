"""Datasets of the user, through the real commands: inspected, added, in suites, several at once."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tabsweep
from calls import bench
from small_sweeps import FAST, answer
from tabsweep.benchmark.planning.plan_record import plan_in
from tabsweep.benchmark.results.evidence_builder import load_results
from tabsweep.datasets import catalog
from tabsweep.datasets.added import store
from tabsweep.models.persistence.model_file import load_model
from tabsweep.sweeps.store.ledger import Ledger

pytestmark = pytest.mark.usefixtures("work", "own_store")

MODELS = ("--model", "linear", "--model", "constant", "--trials", 1, "--folds", 1)
SUITE = """
name = "mine"
title = "Own data"
datasets = ["iris", "added"]
[file.flats]
path = "flats.csv.gz"
target = "price"
group = "owner"
drop = ["id"]
[budgets.quick]
models = ["constant"]
folds = 1
trials = 1
"""


def houses(n: int = 80) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "id": range(1000, 1000 + n),
            "area": rng.integers(500, 250000, n) / 10,
            "rooms": np.where(np.arange(n) % 9 == 0, -999, rng.integers(1, 6, n)),
            "city": rng.choice(["Zürich", "Genève", "unknown"], n),
            "owner": rng.integers(0, 9, n),
            "sold": pd.date_range("2020-01-01", periods=n).strftime("%Y-%m-%d"),
        }
    )
    return frame.assign(price=rng.normal(size=n).round(3) * 100 + frame["rooms"].clip(0) * 30)


def zipped(data: bytes, *names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, data)
    return stream.getvalue()


def columnar(frame: pd.DataFrame, how: str) -> bytes:
    stream = io.BytesIO()
    getattr(frame, how)(stream)
    return stream.getvalue()


@pytest.mark.fault(14)
def test_a_file_is_the_same_table_in_every_format_and_encoding():
    frame = houses()
    text = frame.to_csv(index=False)
    us = frame.assign(area=[f"{value:,.1f}" for value in frame["area"]])
    german = frame.assign(
        area=[str(value).replace(".", ",") for value in frame["area"]],
        price=[str(value).replace(".", ",") for value in frame["price"]],
    )
    plain = text.encode()
    written = {
        "houses.csv": plain,
        "a.csv.gz": gzip.compress(plain),
        "a.csv.bz2": bz2.compress(plain),
        "a.csv.xz": lzma.compress(plain),
        "a.zip": zipped(plain, "inner/houses.csv", "__MACOSX/._houses.csv"),
        "a.parquet": columnar(frame, "to_parquet"),
        "a.feather": columnar(frame, "to_feather"),
        "named-csv-but-parquet.csv": columnar(frame, "to_parquet"),
        "utf16.csv": text.encode("utf-16"),
        "utf16-without-mark.csv": text.encode("utf-16-le"),
        "latin.csv": text.encode("latin-1"),
        "us.tsv": us.to_csv(index=False, sep="\t").encode(),
        "german.csv": german.to_csv(index=False, sep=";").encode("cp1252"),
    }
    noticed = {
        "utf16.csv": "read as UTF-16",
        "utf16-without-mark.csv": "read as UTF-16",
        "latin.csv": "read as Windows-1252 (line ",
        "us.tsv": "commas between thousands in column 'area'",
        "german.csv": "decimal commas in columns ",
    }
    first = None
    for name, data in written.items():
        Path(name).write_bytes(data)
        found = answer("data", "inspect", name, "--target", "price")
        said = " ".join(found["warnings"])
        assert (noticed[name] in said) if name in noticed else "read as" not in said, (name, said)
        for column in found["columns"].values():
            column.pop("style")  # how its numbers are written
        facts = {key: found[key] for key in ("task", "target", "n_rows", "sizes", "columns")}
        first = first or facts
        assert facts == first, name
    for stored in ("a.parquet", "german.csv"):
        dataset = stored.partition(".")[0]
        added = ("data", "add", stored, "--target", "price", "--name", dataset)
        assert bench(*added).code == 0
        pd.testing.assert_frame_equal(
            catalog.load_dataset(dataset).frame, catalog.load_dataset("a").frame
        )


REFUSED = {
    "empty.csv.gz": (gzip.compress(b""), "file in it is empty"),
    "cut.csv.gz": (gzip.compress(b"a,y\n1,2\n" * 99)[:-9], "gzip file is damaged or cut short"),
    "cut.csv.xz": (lzma.compress(b"a,y\n1,2\n" * 99)[:-9], "xz file is damaged or cut short"),
    "twice.gz": (gzip.compress(gzip.compress(b"a,y\n1,2\n")), "compressed twice"),
    "two.zip": (zipped(b"a,y\n1,2\n", "a.csv", "b.csv"), "a zip of 2 files (a.csv, b.csv"),
    "none.zip": (zipped(b""), "a zip of 0 files"),
    "sheet.xlsx": (zipped(b"x", "xl/workbook.xml"), "an Excel workbook"),
    "old.xls": (b"\xd0\xcf\x11\xe0" + b"x" * 99, "an Excel workbook"),
    "page.csv": (b"\n<!DOCTYPE html><html>", "an HTML page"),
    "lfs.csv": (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    "x.json": (b'{"a": [1, 2]}', "JSON"),
    "x.pkl": (b"\x80\x04\x95" + b"x" * 99, "a pickle"),
    "x.zst": (b"(\xb5/\xfd" + b"x" * 99, "Zstandard"),
    "no.parquet": (b"PAR1" + b"x" * 99, "damaged Parquet file"),
    "no.feather": (b"ARROW1" + b"\0\0x" * 99, "damaged Arrow file"),
    "huge.csv": (b"a,y\n" + b"".join(b"%d,1e%d\n" % (k, k) for k in range(-300, 301, 9)), "1e+30"),
    "tiny.csv": (b"a,y\n" + b"".join(b"%d,%d.5e-300\n" % (k, k) for k in range(30)), "1e-30"),
    "lists.parquet": (
        columnar(pd.DataFrame({"a": [[1], [2]], "y": [1.5, 2.5]}), "to_parquet"),
        "column 'a' holds list",
    ),
}


@pytest.mark.fault(14, 22)
def test_what_is_no_table_is_refused_in_one_line_that_says_what_it_is():
    for name, (data, said) in REFUSED.items():
        Path(name).write_bytes(data)
        ran = bench("sweep", "--csv", name, "--target", "y", *FAST)
        assert (ran.code, len(ran.err.splitlines())) == (2, 1), ran
        assert said in ran.err and "BENCH-E007" in ran.err, ran.err
    assert not Path("runs").exists()


def test_inspect_shows_kinds_marks_target_and_problems_before_anything_is_swept():
    frame = houses(400)
    frame.assign(tax=frame["price"] * 2 + frame["owner"]).to_csv("h.csv", index=False)
    without = answer("data", "inspect", "h.csv")
    assert "task" not in without and without["columns"]["rooms"]["kind"] == "numeric"
    assert any("'rooms': -999" in text for text in without["warnings"])
    marks = ("--missing", "unknown", "--missing", -999)
    found = answer("data", "inspect", "h.csv", "--target", "price", "--group", "owner", *marks)
    columns = found["columns"]
    assert columns["rooms"]["n_missing"] == 45 and columns["city"]["marks"] == ["unknown"]
    assert [columns[name]["role"] for name in ("price", "owner")] == ["target", "group"]
    assert (found["task"], found["protocol"], found["n_folds"]) == ("regression", "grouped", 9)
    leak = next(flag for flag in found["flags"] if flag["id"] == "single-feature-leak")
    assert leak["detail"].startswith("tax alone predicts the target with skill 1.000")
    for option in ("--group", "--time", "--drop", "--weight"):  # without a target, too
        wrong = bench("data", "inspect", "h.csv", option, "nope")
        assert wrong.code == 2 and "has no column 'nope'" in wrong.out
    shown = bench("data", "inspect", "h.csv", "--target", "city", "--drop", "tax")
    assert shown.code == 0 and "Zürich " in shown.out and "multiclass" in shown.out
    wrong = bench("data", "inspect", "h.csv", "--target", "prize")
    assert wrong.code == 2 and "did you mean 'price'" in wrong.out


def test_a_file_is_added_with_a_card_and_used_by_suites_beside_files_of_their_own():
    frame = houses()
    frame.to_csv("h.csv", index=False)
    frame.to_csv("flats.csv.gz", index=False)
    Path("mine.toml").write_text(SUITE)
    how = ("--time", "sold", "--drop", "id", "--missing", "unknown", "--missing", -999)
    how += ("--categorical", "rooms", "--name", "added")
    added = answer("data", "add", "h.csv", "--target", "price", *how)["added"][0]
    assert added["new"] and added["protocol"] == "temporal"
    assert added["kinds"]["rooms"] == "categorical"
    folded = ("data", "add", "h.csv", "--target", "price", "--name", "folded")
    assert [answer(*folded)["added"][0]["new"] for _ in range(2)] == [True, False]
    other = bench(*folded, "--protocol", "holdout")
    assert other.code == 2 and "'folded' is a dataset with the protocol kfold: remove" in other.err
    card = tomllib.loads(Path(added["card"]).read_text())
    assert card["categorical"] == ["rooms", "city"] and card["target"] == "price"
    assert card["options"]["missing"] == ["unknown", "-999"]
    Path("h.csv").unlink()
    table = catalog.load_dataset("added")
    assert list(table.frame["city"].cat.categories) == ["Genève", "Zürich"]
    assert table.frame["rooms"].isna().sum() == 9
    asked = ("sweep", "--suite", "mine.toml", *FAST, "--folds", 3, "--dry-run")
    assert answer(*asked)["notes"] == ["Of the 3 folds that --folds asks for: added has 1."]
    listed = {one["name"]: one for one in answer("data", "list")}
    assert listed["added"]["origin"] == "h.csv" and bench("data", "verify", "added").code == 0

    swept = answer("sweep", "--suite", "mine.toml", *FAST, "--dataset", "added", "--name", "m")
    assert swept["done"] == swept["planned"] == 1
    swept = answer("sweep", "--suite", "mine.toml", *FAST, "--name", "m")  # extended by the others
    assert (swept["done"], swept["ran"]) == (3, 2)
    plan = plan_in(Ledger(Path("runs/m")))
    protocols = {name: one.protocol for name, one in plan.datasets.items()}
    assert protocols == {"iris": "kfold", "added": "temporal", "flats": "grouped"}
    assert bench("resume", "runs/m", *FAST[:4]).code in (0, 5)
    for dataset in ("added", "flats"):
        model = bench("fit", "runs/m", "--dataset", dataset, "--out", "m.tabsweep").out.split()[-1]
        frame.head(3).to_csv("new.csv", index=False)
        assert bench("predict", model, "new.csv", "--out", "out.csv").code == 0
        kept = pd.read_csv("out.csv")
        assert kept["id"].tolist() == [1000, 1001, 1002] and kept["prediction"].notna().all()
    data = store.folder() / "added" / "data.csv"
    data.write_bytes(data.read_bytes() + b"\n")
    assert "WRONG" in bench("data", "verify", "added").out


def test_several_files_make_one_run_and_their_doubts_are_told_by_the_sweep():
    frame = houses(400)
    frame.assign(tax=frame["price"] * 3 + frame["owner"]).to_csv("a.csv", index=False)
    frame.rename(columns={"price": "rent"}).to_csv("b.csv", index=False, encoding="latin-1")
    files = ("sweep", "--csv", "a.csv", "--csv", "b.csv")
    for targets in ((), ("x", "y", "z")):
        ran = bench(*files, *(word for t in targets for word in ("--target", t)), *FAST)
        assert ran.code == 2 and "--target" in ran.err
    ran = bench(*files, "--target", "price", "--target", "rent", "--drop", "id", *FAST, *MODELS)
    assert ran.code == 0, ran
    assert "warning: a: tax alone predicts the target with skill 1.000" in ran.err
    assert "warning: b: b.csv: not UTF-8; read as Windows-1252" in ran.err
    plan = plan_in(Ledger(Path("runs/csv-a-b-quick")))
    assert list(plan.datasets) == ["a", "b"]
    scores = Path("runs/csv-a-b-quick/report/scores.md").read_text()
    assert "| a " in scores and "| b " in scores
    assert "(see bench data inspect)" in scores and "passport" not in scores
    command = answer("explain", "scores", "b", "linear", "--run", "runs/csv-a-b-quick")["command"]
    again = json.dumps(command)
    assert "--target rent" in again and "--drop id" in again
    same = bench("sweep", "--csv", "a.csv", "--csv", "./a.csv.gz", "--target", "price", *FAST)
    assert same.code == 2 and "'a'" in same.err


def test_a_file_is_read_once_a_run_and_its_report_reads_no_feature():
    houses(80).to_csv("a.csv", index=False)
    sweep = ("sweep", "--csv", "a.csv", "--target", "price", "--drop", "id", *FAST, *MODELS)
    assert bench(*sweep).code == 0
    run, [table] = Path("runs/csv-a-quick"), Path("runs/.tables").glob("*.arrow")
    kept, scores = table.read_bytes(), (run / "report/scores.csv").read_bytes()
    assert bench(*sweep).code == 0 and table.read_bytes() == kept
    Path("a.csv").rename("b.csv")
    assert bench("report", run).code == 0  # by the targets that are kept
    assert (run / "report/scores.csv").read_bytes() == scores
    assert "were not compared" not in (run / "report/about.md").read_text()
    table.unlink()
    assert bench("report", run).code == 0
    assert "were not compared" in (run / "report/about.md").read_text()
    Path("b.csv").rename("a.csv")
    assert bench("resume", run, "--tracking-uri", "none").code == 0
    assert table.is_file() and (run / "report/scores.csv").read_bytes() == scores


def test_the_metric_that_is_asked_for_selects_ranks_and_is_scored_again_from_predictions():
    frame = houses(200).assign(dear=lambda f: np.where(f["price"] > 120, "dear", "other"))
    frame.drop(columns=["price", "id"]).to_csv("h.csv", index=False)
    asked = ("sweep", "--csv", "h.csv", "--target", "dear", *FAST, "--folds", 1)
    models = ("--model", "knn", "--model", "constant", "--trials", 3)
    ran = bench(*asked, *models, "--metric", "f1", "--positive", "dear", "--name", "f1")
    assert ran.code == 0 and "f1 ↑ on" in ran.out.lower(), ran
    rows = load_results("runs/f1").query("model == 'knn'")
    assert rows["val_f1"].nunique() > 1
    assert rows.loc[rows["selected"], "val_f1"].item() == rows["val_f1"].max()
    costs = ("--metric", "cost", "--cost", "dear=8", "--cost", "dear:other=9")
    assert bench(*asked, *models, *costs, "--positive", "dear", "--name", "cost").code == 0
    own = load_results("runs/cost").query("model == 'constant'").iloc[0]
    n_dear = (frame["dear"] == "dear").sum()
    assert n_dear / 200 < 0.9 and own["test_cost"] == pytest.approx(1 - n_dear / 200, abs=0.06)
    assert own["id"] in set(load_results("runs/f1")["id"])  # another metric, the same trial
    assert bench("resume", "runs/cost", "--workers", 0).code == 0
    assert bench("fit", "runs/cost", "--model", "knn", "--out", "m").code == 0
    assert load_model("m").about["costs"] == [[0, 1], [9, 0]]
    assert "test_f1" in tabsweep.leaderboard("runs/f1")
    for words, said in (
        ("--metric f", "did you mean"),
        ("--metric mape", "'mape' is no metric for binary tasks"),
        ("--metric f1 --name cost", "metric of binary was 'cost', is 'f1'"),
        ("--metric cost --name cost --cost dear=3 --positive dear", "costs of h were"),
        ("--cost dear=9", "--metric cost"),
        ("--metric cost --cost dear=many", "'dear=many' is not CLASS=NUMBER"),
        ("--metric cost --cost dear:cheap=2", "no class 'dear:cheap'"),
        ("--metric f1 --positive daer", "did you mean 'dear'"),
    ):
        ran = bench(*asked, *models, *words.split())
        assert (ran.code, len(ran.err.splitlines())) == (2, 1) and said in ran.err, ran


def test_a_pinball_loss_trains_the_models_that_have_a_quantile_on_it_and_no_other():
    houses(120).drop(columns="id").to_csv("h.csv", index=False)
    asked = ("sweep", "--csv", "h.csv", "--target", "price", *FAST, "--folds", 1)
    models = ("--model", "knn", "--model", "lightgbm", "--trials", 2)
    for name in ("rmse", "pinball_90"):
        assert bench(*asked, *models, "--metric", name, "--name", name).code == 0
    ids = {}
    for name in ("rmse", "pinball_90"):
        rows = load_results(f"runs/{name}").query("stage == 'tune'")  # bags are of the chosen one
        ids[name] = rows.groupby("model")["id"].agg(set)
        given = rows.set_index("model")["config"].map(lambda text: json.loads(text).get("quantile"))
        assert given["knn"].isna().all() and given["lightgbm"].eq(0.9).all() == (name != "rmse")
    assert ids["rmse"]["knn"] == ids["pinball_90"]["knn"]
    assert not ids["rmse"]["lightgbm"] & ids["pinball_90"]["lightgbm"]
    plan = plan_in(Ledger(Path("runs/pinball_90")))
    (said,) = (note for note in plan.notes if "quantile" in note)
    assert said.endswith("trained on this quantile: lightgbm; trained as for the mean: knn.")
    plans = {name: plan_in(Ledger(Path("runs", name))) for name in ids}
    constant = {name: one.datasets["h"].constant[name] for name, one in plans.items()}
    assert constant["pinball_90"] < 0.7 * constant["rmse"]
    assert said in Path("runs/pinball_90/report/html/index.html").read_text()


def test_a_transformed_target_is_part_of_the_trials_and_its_scores_are_in_its_units():
    frame = houses(120)[["area", "city"]].assign(price=lambda f: np.exp(f["area"] / 5000))
    frame.to_csv("h.csv", index=False)
    asked = ("sweep", "--csv", "h.csv", *FAST, "--folds", 1, "--model", "linear", "--trials", 1)
    found = {}
    for name in ("none", "rank", "log"):
        how = () if name == "none" else ("--target-transform", name)
        assert bench(*asked, "--target", "price", *how, "--name", name).code == 0
        found[name] = load_results(f"runs/{name}")
    assert len({id for rows in found.values() for id in rows["id"]}) == 6  # three of them bags
    rmse = {name: rows["test_rmse"].iloc[0] for name, rows in found.items()}
    assert 0 < rmse["log"] < 0.2 * rmse["none"] and rmse["rank"] < 0.5 * rmse["none"]
    assert "the normal values of its ranks" in Path("runs/rank/report/html/index.html").read_text()
    frame.assign(price=frame["price"] - 9).to_csv("h.csv", index=False)
    says = {("price", "log"): "use --target-transform rank", ("city", "rank"): "alone"}
    for (target, how), said in says.items():
        ran = bench(*asked, "--target", target, "--target-transform", how, "--name", "no")
        assert (ran.code, len(ran.err.splitlines())) == (2, 1) and said in ran.err, ran


def test_rows_without_a_target_are_predicted_at_the_end_and_gaps_that_tell_it_are_shown_first():
    frame = houses(200).assign(churn=lambda f: np.where(f["price"] > 100, "yes", "no"))
    left = (frame["churn"] == "yes") & (np.arange(200) % 9 > 0)
    frame = frame.assign(reason=np.where(left, "moved", None)).drop(columns="price")
    frame["churn"] = frame["churn"].where(np.arange(200) % 20 > 0, None)
    frame.to_csv("c.csv", index=False)
    asked = ("sweep", "--csv", "c.csv", "--target", "churn", "--drop", "id", *FAST, *MODELS)
    ran = bench(*asked, "--predict-missing")
    assert ran.code == 2 and "--drop-missing-target" in ran.err
    ran = bench(*asked, "--drop-missing-target", "--predict-missing", "--name", "c")
    assert ran.code == 0, ran
    found = pd.read_csv("runs/c/c-without-target.csv")
    gone = frame[frame["churn"].isna()]
    assert found["id"].tolist() == gone["id"].tolist() and found["churn"].isna().all()
    assert set(found["prediction"]) <= {"yes", "no"}
    first = pd.read_csv("runs/c/report/look-first.csv")
    first = first[first["check"] == "a feature tells the target"]
    assert set(first["model"]) == {"linear", "constant"}
    assert first["seen"].str.contains("reason").all()
    Path("runs/c/c-without-target.csv").unlink()
    assert bench("resume", "runs/c", "--workers", 0).code == 0
    assert Path("runs/c/c-without-target.csv").exists()


def test_roles_of_columns_that_make_no_sense_are_refused():
    houses().to_csv("h.csv", index=False)
    wrong = [
        ("--group owner --time sold", "exclude each other"),
        ("--drop price", "'price' cannot be the target and left out"),
        ("--group price", "'price' cannot be the target and the group"),
        ("--group ownr", "did you mean 'owner'"),
        ("--time city", "'city': "),
        ("--numeric city", "'city': 'unknown' on line"),
        ("--protocol grouped", "needs --group"),
        ("--time sold --protocol kfold", "--time 'sold' is for protocol 'temporal'"),
        ("--name iris", "built-in"),
        ("--task binary", "classes, task 'binary' needs two"),
    ]
    for words, said in wrong:
        ran = bench("data", "add", "h.csv", "--target", "price", *words.split())
        assert (ran.code, len(ran.err.splitlines())) == (2, 1) and said in ran.err, ran
    assert "--target COLUMN is missing" in bench("data", "add", "h.csv").err
    for role in ("--group", "--time", "--weight"):  # a variable of the shell that is not set
        ran = bench("data", "add", "h.csv", "--target", "price", role, "")
        assert ran.code == 2 and "no column ''" in ran.err, ran
    assert "no column ''" in bench("sweep", "--csv", "h.csv", "--target", "", *FAST).err
    assert "--target is for a file" in bench("data", "add", ".", "--target", "price").err
    assert "--month-first is for a file" in bench("data", "add", ".", "--month-first").err
    Path("wrong.toml").write_text(SUITE.replace("group =", "grup ="))
    assert "file.flats.grup: unknown key" in bench("sweep", "--suite", "wrong.toml", *FAST).err
    Path("wrong.toml").write_text(SUITE.replace("[file.flats]", "[file.wine]"))
    assert "name of a built-in" in bench("sweep", "--suite", "wrong.toml", *FAST).err
    assert store.names() == []


@pytest.mark.parametrize("positive", [[], ["--positive", "apple"]])
def test_the_page_counts_the_rows_of_each_class_under_its_own_name(positive):
    rng = np.random.default_rng(0)
    fruit = np.repeat(["apple", "pear"], [18, 282])
    frame = pd.DataFrame({"x": rng.normal(size=300) + 9.0 * (fruit == "apple"), "fruit": fruit})
    frame.to_csv("fruit.csv", index=False)
    asked = ("sweep", "--csv", "fruit.csv", "--target", "fruit", *FAST, "--model", "knn", *positive)
    assert bench(*asked, "--trials", 1, "--folds", 3, "--name", "fruit").code == 0
    page = Path("runs/fruit/report/html/index.html").read_text(encoding="utf-8")
    table = page.partition("<figcaption>Confusion")[2].partition("</table>")[0]
    head, *rows = re.findall(r"<tr.*?</tr>", table, re.S)
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", head)[1:]
    cells = [re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row) for row in rows]
    counts = {name: [int(count) for count in line] for name, *line in cells}
    n_apples = sum(counts["apple"])
    assert heads == list(counts) and n_apples < sum(counts["pear"]) / 5
    assert counts["apple"][heads.index("apple")] == n_apples  # nine deviations apart
