"""Makes the pictures of docs/gallery.md (pages as Chromium shows them, LaTeX as pdflatex sets it)
and the terminal's text in it.

python docs/make_gallery.py     # needs chromium, pdflatex and pdftoppm; minutes
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageChops

FOLDER = Path(__file__).with_name("pictures")
BENCH = str(Path(sys.executable).with_name("bench"))
STUDY = "uci-small-reference"
MODELS = ("lightgbm", "xgboost", "random-forest", "linear", "knn", "svm", "resnet")
WIDTH = 900  # of a picture, pixels
QUALITY = 80
PORT = "5071"


def run(*words: str, folder: Path | None = None) -> str:
    """A command's standard output."""
    done = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def small(source: Path, name: str) -> None:
    """Keep a picture, WIDTH wide."""
    picture = Image.open(source).convert("RGB")
    picture = picture.resize((WIDTH, round(picture.height * WIDTH / picture.width)))
    picture.save((FOLDER / name).with_suffix(".webp"), quality=QUALITY, method=6)


def page(address: str, name: str, place: Path, height: int = 900, width: int = 1280) -> None:
    """The first screen of a page."""
    shot = place / name
    run(
        *("chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"),
        *(f"--window-size={width},{height}", "--virtual-time-budget=30000"),
        *("--run-all-compositor-stages-before-draw", f"--screenshot={shot}", address),
    )
    small(shot, name)


def houses(path: Path, n: int = 600) -> None:
    """A table as users have them: numbers, a category with gaps, a date."""
    chance = np.random.default_rng(0)
    area, floors = chance.uniform(35, 220, n), chance.integers(1, 8, n)
    built = pd.Timestamp("1900-01-01") + pd.to_timedelta(chance.integers(0, 44_000, n), unit="D")
    place = pd.Series(chance.choice(["Altstadt", "Nordend", "Ostend", "Westend"], n))
    worth = 3_500 + 1_500 * (place == "Westend") + 8 * (built.year - 1900)
    price = (area * worth * np.exp(chance.normal(0, 0.1, n))).round(-2)
    gaps = chance.random(n) < 0.05
    table = {"area": area.round(1), "place": place.mask(gaps), "built": built, "floors": floors}
    pd.DataFrame({**table, "price": price}).to_csv(path, index=False)


def own_table(place: Path) -> None:
    """The page of one table, and that of a model."""
    houses(place / "houses.csv")
    words = ["sweep", "--csv", "houses.csv", "--target", "price", "--workers", "0"]
    models = [word for name in MODELS for word in ("--model", name)]
    run(BENCH, *words, *models, "--tracking-uri", "none", "--quiet", folder=place)
    html = place / "runs" / "csv-houses-quick" / "report" / "html"
    page((html / "index.html").as_uri(), "own-table.png", place, 1250)
    page((html / "model-xgboost.html").as_uri(), "model.png", place, 1400)


def smoke(place: Path) -> None:
    """What the terminal shows at the end of a sweep, and MLflow's first view of the run."""
    told = run(BENCH, "sweep", "--suite", "smoke", "--workers", "0", "--no-color", folder=place)
    tables = told[told.index("Test ") : told.index("\ntables:")].rpartition("\n\n")[0]
    gallery = Path(__file__).with_name("gallery.md")
    before, _, after = gallery.read_text(encoding="utf-8").partition("```text\n")
    after = after.partition("```\n")[2]
    gallery.write_text(f"{before}```text\n{tables}\n```\n{after}", encoding="utf-8")
    words = [BENCH, "ui", "runs/smoke-quick", "--port", PORT]
    with subprocess.Popen(words, cwd=place, stdout=subprocess.PIPE, text=True) as server:
        found = (re.search(r"http://\S+", line) for line in server.stdout or ())
        address = next(match[0] for match in found if match)
        page(address, "mlflow.png", place, width=1800)
        server.terminate()


def paper(report: Path, place: Path) -> None:
    """Two figures, as a document has them."""
    names = ("profiles", "pairwise-wins")
    inputs = "".join(f"\\input{{{name}}}" for name in names)
    packages = "\\usepackage{pgfplots}\\pgfplotsset{compat=1.16}\\pagestyle{empty}"
    text = f"\\documentclass{{article}}{packages}\\begin{{document}}{inputs}\\end{{document}}\n"
    (report / "paper" / "figures.tex").write_text(text, encoding="utf-8")
    run("pdflatex", "-interaction=nonstopmode", "figures", folder=report / "paper")
    run("pdftoppm", "-r", "150", "-png", "figures.pdf", str(place / "f"), folder=report / "paper")
    sheets = [_cut(Image.open(path)) for path in sorted(place.glob("f-*.png"))]
    whole = Image.new("RGB", (max(s.width for s in sheets), sum(s.height for s in sheets)), "white")
    for i, sheet in enumerate(sheets):
        whole.paste(sheet, (0, sum(s.height for s in sheets[:i])))
    whole.save(place / "paper.png")
    small(place / "paper.png", "paper.png")


def _cut(sheet: Image.Image) -> Image.Image:
    """What is printed on a sheet, with a margin."""
    sheet = sheet.convert("RGB")
    box = ImageChops.invert(sheet).getbbox() or (0, 0, *sheet.size)
    return sheet.crop((box[0] - 20, box[1] - 20, box[2] + 20, box[3] + 20))


def main() -> None:
    """Write all of them."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run(BENCH, "report", "--beside", STUDY, "--out", str(place / "report"), "--quiet")
        page((place / "report" / "html" / "index.html").as_uri(), "page.png", place)
        paper(place / "report", place)
        own_table(place)
        smoke(place)


if __name__ == "__main__":
    main()
