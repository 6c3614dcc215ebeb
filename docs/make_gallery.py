"""Makes the pictures of docs/gallery.md (pages as Chromium shows them, LaTeX as pdflatex sets it),
the terminal's text in it, and README.md's pictures of the terminal and of a page.

python docs/make_gallery.py     # needs chromium, pdflatex and pdftoppm; minutes
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd
from PIL import Image, ImageChops
from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).with_name("pictures")
BENCH = str(Path(sys.executable).with_name("bench"))
STUDY = "uci-small-reference"
MODELS = ("lightgbm", "xgboost", "random-forest", "linear", "knn", "svm", "resnet")
WIDTH = 900  # of a picture, pixels
QUALITY = 80
PORT = "5071"
COLUMNS, LETTER, LINE = 69, 6.0, 15  # of the terminal's picture; pixels of a letter and of a line


def run(*words: str, folder: Path | None = None) -> str:
    """A command's standard output."""
    done = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def small(source: Path, name: str) -> None:
    """Keep a picture, WIDTH wide."""
    picture = Image.open(source).convert("RGB")
    picture = picture.resize((WIDTH, round(picture.height * WIDTH / picture.width)))
    picture.save((FOLDER / name).with_suffix(".webp"), quality=QUALITY, method=6)


def page(address: str, name: str, place: Path, height: int = 1000, width: int = 1280) -> None:
    """The first screen of a page."""
    shot = place / name
    run(
        *("chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"),
        *(f"--window-size={width},{height}", "--virtual-time-budget=30000"),
        *("--run-all-compositor-stages-before-draw", f"--screenshot={shot}", address),
    )
    small(shot, name)


def narrow(address: str, part: str, name: str, place: Path, height: int = 1000) -> None:
    """A part of a page on a narrow screen, at most `height` pixels of it."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        sheet = browser.new_page(viewport={"width": 500, "height": 2000}, device_scale_factor=2)
        sheet.goto(address)
        box = sheet.locator(part).bounding_box()
        assert box is not None, part
        clip = {"x": 0, "y": box["y"], "width": 500, "height": min(height, box["height"])}
        sheet.screenshot(path=place / name, clip=clip, full_page=True)  # type: ignore[arg-type]
        browser.close()
    small(place / name, name)


def terminal(command: str, told: str, name: str) -> None:
    """What a terminal shows of a sweep: its first table, the verdict, the next command."""
    table = told[told.index("RMSE") : told.index("\nWhat the sweep cost")]
    end = told[told.rindex("\nhouses: ") + 1 : told.index("page: ")]
    lines = [f"$ {command}", "", *table.splitlines(), "", *end.splitlines()]
    rows = [row for line in lines for row in textwrap.wrap(line, COLUMNS) or [""]]
    width, height = COLUMNS * LETTER + 16, len(rows) * LINE + 16
    texts = [
        f'<text x="8" y="{(i + 1) * LINE + 4}" textLength="{len(row) * LETTER:g}" '
        f'lengthAdjust="spacingAndGlyphs">{escape(row).replace(" ", "&#160;")}</text>'
        for i, row in enumerate(rows)
        if row
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" '
    style = 'width="400" font-family="DejaVu Sans Mono, monospace" font-size="10" fill="#e6e8eb"'
    back = f'<rect width="{width:g}" height="{height}" rx="4" fill="#15171b"/>'
    text = "\n".join([f"{head}{style}>", back, *texts, "</svg>", ""])
    (FOLDER / name).write_text(text, encoding="utf-8")


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
    """What the terminal says of one table; its page, and that of a model."""
    houses(place / "houses.csv")
    words = ["sweep", "--csv", "houses.csv", "--target", "price"]
    command = " ".join(["bench", *words])
    words += ["--workers", "0"]
    told = run(BENCH, *words, "--tracking-uri", "none", "--no-color", folder=place)
    terminal(command, told, "terminal.svg")
    html = place / "runs" / "csv-houses-quick" / "report" / "html"
    narrow((html / "index.html").as_uri(), "#scores", "page-narrow.png", place)
    words += ["--name", "seven", "--tracking-uri", "none", "--quiet"]
    run(BENCH, *words, *(w for m in MODELS for w in ("--model", m)), folder=place)
    html = place / "runs" / "seven" / "report" / "html"
    page((html / "index.html").as_uri(), "own-table.png", place, 1250)
    page((html / "model-xgboost.html").as_uri(), "model.png", place, 1100)


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
