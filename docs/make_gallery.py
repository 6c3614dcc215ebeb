"""Makes the pictures of docs/gallery.md from the reference study that comes with the package: the
page as Chromium shows it, and figures of `report/paper/` as pdflatex sets them.

python docs/make_gallery.py     # needs chromium, pdflatex and pdftoppm
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageChops

FOLDER = Path(__file__).with_name("pictures")
STUDY = "uci-small-reference"
WIDTH = 900  # of a picture, pixels
COLOURS = 200


def run(*words: str, folder: Path | None = None) -> str:
    """A command's standard output."""
    done = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def small(source: Path, name: str) -> None:
    """Keep a picture: WIDTH wide, few colours."""
    picture = Image.open(source).convert("RGB")
    picture = picture.resize((WIDTH, round(picture.height * WIDTH / picture.width)))
    picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(FOLDER / name, optimize=True)


def page(report: Path, place: Path) -> None:
    """The first screen of the report's page."""
    shot = place / "page.png"
    run(
        *("chromium", "--headless", "--no-sandbox", "--hide-scrollbars"),
        *("--window-size=1280,900", f"--screenshot={shot}"),
        (report / "html" / "index.html").as_uri(),
    )
    small(shot, "page.png")


def paper(report: Path, place: Path) -> None:
    """Two figures, as a document has them."""
    inputs = "".join(f"\\input{{{name}}}" for name in ("profiles", "rank-against-cost"))
    packages = "\\usepackage{pgfplots}\\pgfplotsset{compat=1.16}\\pagestyle{empty}"
    text = f"\\documentclass{{article}}{packages}\\begin{{document}}{inputs}\\end{{document}}\n"
    (report / "paper" / "figures.tex").write_text(text, encoding="utf-8")
    run("pdflatex", "-interaction=nonstopmode", "figures", folder=report / "paper")
    run("pdftoppm", "-r", "150", "-png", "figures.pdf", str(place / "f"), folder=report / "paper")
    sheet = Image.open(next(place.glob("f-*.png"))).convert("RGB")
    box = ImageChops.invert(sheet).getbbox() or (0, 0, *sheet.size)
    sheet.crop((box[0] - 20, box[1] - 20, box[2] + 20, box[3] + 20)).save(place / "figures.png")
    small(place / "figures.png", "paper.png")


def main() -> None:
    """Write all of them."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        bench = str(Path(sys.executable).with_name("bench"))
        run(bench, "report", "--beside", STUDY, "--out", str(place / "report"), "--quiet")
        page(place / "report", place)
        paper(place / "report", place)


if __name__ == "__main__":
    main()
