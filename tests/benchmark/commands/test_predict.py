"""`bench predict`: the rows of a CSV through a saved model, and its errors."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
from saved_models import X, Y
from tabsweep.benchmark.errors import FitError
from tabsweep.benchmark.outcome.file_predictions import predict_file
from tabsweep.datasets.errors import DataError
from tabsweep.datasets.infer import Reading, table_from_file
from tabsweep.models import registry
from tabsweep.models.persistence.archive import ModelFileError
from tabsweep.models.persistence.model_file import load_model, save_model
from tabsweep.models.persistence.schema import Schema, SchemaError


@pytest.fixture(scope="module")
def houses(tmp_path_factory):
    """(model file, table, estimator) of a small regression on a CSV's table."""
    folder = tmp_path_factory.mktemp("houses")
    frame = X.assign(price=Y["regression"])
    frame.to_csv(folder / "houses.csv", index=False)
    table = table_from_file(folder / "houses.csv", Reading("price", task="regression"))
    model = registry.make_model("random-forest", task="regression", n_estimators=5)
    model.fit(table.frame, table.target)
    schema = Schema.of(table.frame, "regression", target="price")
    return save_model(model, folder / "m", schema=schema), table, model


def ask(houses, tmp_path, text, **more):
    """(rows, warnings, lines of the output) of `bench predict` on a CSV with this text."""
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(text, encoding="utf-8")
    heard: list[str] = []
    n = predict_file(houses[0], source, out, warn=heard.append, **more)
    return n, heard, out.read_text().splitlines()


def test_a_csv_of_the_training_rows_gives_the_predictions_in_memory(houses, tmp_path):
    _, table, model = houses
    text = table.frame.to_csv(index=False)
    n, heard, lines = ask(houses, tmp_path, text)
    assert (n, heard, lines[0]) == (len(table.frame), [], "prediction")
    assert np.array(lines[1:], dtype=float).tobytes() == model.predict(table.frame).tobytes()


def test_order_of_columns_and_byte_order_mark_do_not_matter_and_unknown_columns_are_kept(
    houses, tmp_path
):
    plain = ask(houses, tmp_path, "size,weight,kind\n1,2,a\n,,\n")[2]
    text = "\ufeffkind,note,id,weight,size\na,=1+1,0070,2.0,1\n,,8,,\n"
    n, heard, kept = ask(houses, tmp_path, text)
    assert n == 2
    assert heard[0].endswith("copied to the output: 'note', 'id'") and len(heard) == 1
    assert kept == [f"{a},{b}" for a, b in zip(["note,id", "'=1+1,0070", ",8"], plain, strict=True)]
    taken = ask(houses, tmp_path, "size,weight,kind,prediction\n1,2,a,7\n,,,7\n")
    assert taken[2] == plain and "left out" in taken[1][1]


def test_unseen_categories_are_counted_and_predicted(houses, tmp_path):
    n, heard, lines = ask(houses, tmp_path, "size,weight,kind\n1,2,q\n1,2,r\n1,2,q\n1,2,a\n")
    assert n == 4 and len(lines) == 5
    (said,) = heard
    assert "'kind': 3 of 4 rows hold a category that training did not know ('q', 'r')" in said


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("size,wieght,kind\n1,2,a\n", SchemaError, "column 'weight' .did you mean 'wieght'"),
        ("size\n1\n", SchemaError, "missing columns 'weight', 'kind'.*needs 3 columns"),
        ("size,weight,kind\n1,,a\n1,many,a\n", SchemaError, r"'weight': 'many' on line 3 \(row 2"),
        ("size,weight,kind\n1,2,a\n1,2\n1,2\n", DataError, "line 3 has 2 fields"),
        ("size,weight,kind\n", DataError, "a header and no rows"),
    ],
)
def test_bad_input_is_one_clear_error_and_the_old_output_stays(
    houses, tmp_path, text, error, message
):
    (tmp_path / "out.csv").write_text("old")
    with pytest.raises(error, match=message) as caught:
        ask(houses, tmp_path, text)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "out.csv").read_text() == "old"


def test_infinite_cells_count_as_missing_with_a_warning(houses, tmp_path):
    n, heard, lines = ask(houses, tmp_path, "size,weight,kind\ninf,2,a\n,2,a\n")
    assert lines[1] == lines[2]
    assert heard == ["column 'size': 1 infinite values count as missing"]


def test_an_output_that_would_replace_the_input_or_has_no_folder_is_refused(houses, tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("size,weight,kind\n1,2,a\n")
    with pytest.raises(FitError, match="would replace what is read"):
        predict_file(houses[0], source, source)
    with pytest.raises(FitError, match="would replace what is read"):
        predict_file(houses[0], source, houses[0])
    with pytest.raises(FitError, match="there is no folder"):
        predict_file(houses[0], source, tmp_path / "no" / "out.csv")
    with pytest.raises(FitError, match="is a folder: name a file"):
        predict_file(houses[0], source, tmp_path)


def test_a_device_or_pipe_is_never_replaced_and_a_link_leads_to_its_file(houses, tmp_path):
    source, pipe, real = tmp_path / "in.csv", tmp_path / "pipe", tmp_path / "real.csv"
    source.write_text("size,weight,kind\n1,2,a\n")
    os.mkfifo(pipe)
    with pytest.raises(FitError, match="a device or a pipe: name a file"):
        predict_file(houses[0], source, pipe)
    assert pipe.is_fifo()
    link, nowhere = tmp_path / "link.csv", tmp_path / "nowhere.csv"
    link.symlink_to(real)
    for _ in range(2):  # the file is not there, then it is
        predict_file(houses[0], source, link)
        assert link.is_symlink() and len(real.read_text().splitlines()) == 2
    nowhere.symlink_to(tmp_path / "no" / "out.csv")
    with pytest.raises(FitError, match="there is no folder"):
        predict_file(houses[0], source, nowhere)


@pytest.mark.fault(13)
def test_classes_that_look_like_formulas_are_inert_and_numbers_stay_numbers(tmp_path):
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0] * 10})
    target = np.array([0, 1, 2] * 10)
    model = registry.make_model("decision-tree", task="multiclass").fit(frame, target)
    classes = ("-1", '=HYPERLINK("x")', "@sum,a")
    schema = Schema.of(frame, "multiclass", classes=classes)
    path = save_model(model, tmp_path / "m", schema=schema)
    (tmp_path / "in.csv").write_text("a\n0\n1\n2\n")
    assert predict_file(path, tmp_path / "in.csv", tmp_path / "out.csv") == 3
    out = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert out["prediction"].tolist() == ["-1", '\'=HYPERLINK("x")', "'@sum,a"]
    assert list(out.columns[1:]) == [f"probability_{name}" for name in classes]
    assert out.iloc[:, 1:].astype(float).to_numpy().tolist() == np.eye(3).tolist()


def test_categories_that_are_numbers_are_found_however_they_are_written(tmp_path):
    kinds = pd.Categorical(["1", "2"] * 10, categories=["1", "2"])
    frame = pd.DataFrame({"k": kinds, "z": pd.Categorical(["01", "1"] * 10)})
    model = registry.make_model("decision-tree", task="binary").fit(frame, np.array([0, 1] * 10))
    schema = Schema.of(frame, "binary", classes=("one", "two"))
    path = save_model(model, tmp_path / "m", schema=schema)
    (tmp_path / "in.csv").write_text("k,z\n1.0,01\n2,1\n2.00,1\n")
    heard: list[str] = []
    predict_file(path, tmp_path / "in.csv", tmp_path / "out.csv", warn=heard.append)
    assert heard == []
    assert pd.read_csv(tmp_path / "out.csv")["prediction"].tolist() == ["one", "two", "two"]


def test_a_class_that_training_did_not_hold_has_probability_zero(tmp_path):
    model = registry.make_model("linear", task="multiclass").fit(X, Y["binary"] * 2)
    schema = Schema.of(X, "multiclass", classes=("low", "mid", "high"))
    fitted = load_model(save_model(model, tmp_path / "m", schema=schema))
    p = fitted.predict_proba(X)
    assert p.shape == (len(X), 3) and not p[:, 1].any()
    assert set(fitted.predict(X)) == {"low", "high"}


def test_a_model_with_costs_predicts_the_cheapest_class(tmp_path):
    frame = pd.DataFrame({"x": [0.0] * 4 + [1.0] * 4})
    target = np.array([0, 0, 0, 1, 0, 1, 1, 1])  # a quarter of each leaf is of the other class
    model = registry.make_model("decision-tree", task="binary", max_depth=1).fit(frame, target)
    frame.to_csv(tmp_path / "in.csv", index=False)
    schema = Schema.of(frame, "binary", classes=("well", "ill"))
    for costs, low in ((None, "well"), ([[0, 1], [2, 0]], "well"), ([[0, 1], [4, 0]], "ill")):
        about = {"costs": costs} if costs else {}
        path = save_model(model, tmp_path / f"m{costs}", schema=schema, about=about)
        predict_file(path, tmp_path / "in.csv", tmp_path / "out.csv")
        told = pd.read_csv(tmp_path / "out.csv")["prediction"].tolist()
        assert told == [low] * 4 + ["ill"] * 4 == list(load_model(path).predict(frame))
    path = save_model(model, tmp_path / "odd", schema=schema, about={"costs": [[1]]})
    with pytest.raises(ModelFileError, match="costs of 1 classes, where 2 are due"):
        predict_file(path, tmp_path / "in.csv", tmp_path / "out.csv")


def linear_of(path):
    """(the table of a CSV, what saves its linear model with these styles of numbers)."""
    table = table_from_file(path, Reading("y", task="regression"))
    model = registry.make_model("linear", task="regression").fit(table.frame, table.target)

    def saved(styles):
        schema = Schema.of(table.frame, "regression", target="y", styles=styles)
        return [save_model(model, path.with_name("m"), schema=schema)]

    return table, saved


def test_the_rows_beside_a_row_do_not_decide_how_its_numbers_are_read(tmp_path):
    values = [1.234, 12.5, 2.5, 7.25, 9.0, 3.75] * 8
    written = "".join(f'"{str(v).replace(".", ",")}",{2 * v}\n' for v in values)
    (tmp_path / "comma.csv").write_text("x,y\n" + written)
    table, saved = linear_of(tmp_path / "comma.csv")
    with_commas = saved(table.styles)
    found, heard, lines = ask(with_commas, tmp_path, 'x\n"1,234"\n"2,500"\n')
    assert found == 2 and "'1,234' is read as 1.234" in heard[0]
    assert ask(with_commas, tmp_path, 'x\n"1,234"\n"2,500"\n"12,5"\n')[2][:3] == lines
    np.testing.assert_allclose(np.array(lines[1:], dtype=float), [2.468, 5], atol=0.3)
    with pytest.raises(SchemaError, match="'1.5' on line 2 .* trained on numbers with decimal com"):
        ask(with_commas, tmp_path, "x\n1.5\n")

    plain = saved({})
    _, heard, lines = ask(plain, tmp_path, 'x\n"1,234"\n7\n')
    assert "1 of 2 cells are no plain numbers ('1,234')" in heard[0]
    assert lines == ask(plain, tmp_path, "x\nNA\n7\n")[2]
    for text in ('x\n"1,234"\n"1,5"\n7\n', 'x\n"12,5"\n', "x;z\n1,234;1\n"):
        with pytest.raises(SchemaError, match=r"on line 2 \(row 1\) .* on plain numbers"):
            ask(plain, tmp_path, text)
    assert ask(plain, tmp_path, "x\n1.234\n7\n")[2][1] == ask(plain, tmp_path, "x\n1.234\n")[2][1]
