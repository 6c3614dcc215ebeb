"""The documentation as a site, built strictly, with every page and model; its examples run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from repo import ROOT

EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
(NOTEBOOK,) = (ROOT / "docs" / "examples").glob("*.ipynb")


@pytest.mark.nightly  # minutes; continuous integration builds it on every change
def test_the_site_is_built_without_a_warning_and_has_every_document_and_estimator(
    tmp_path: Path,
) -> None:
    import tabsweep

    for name in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(name, reason=f"needs {name}, of the extra docs")
    words = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    words += ["-d", str(tmp_path / "doctrees"), "docs", str(tmp_path / "html")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    site = tmp_path / "html"
    documents = (ROOT / "docs").glob("**/*.md")
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in documents}
    assert len(pages) > 20
    assert [page for page in sorted(pages) if not (site / page).exists()] == []
    described = [site / "api.html", *(site / "api-models").glob("*.html")]
    text = "".join(path.read_text("utf-8") for path in described)
    assert {*tabsweep.__all__} <= set(re.findall(r'id="tabsweep\.(\w+)"', text))


@pytest.mark.parametrize(
    "example",
    [EXAMPLES[0], *(pytest.param(path, marks=pytest.mark.nightly) for path in EXAMPLES[1:])],
    ids=lambda path: path.stem,
)
def test_an_example_runs_at_a_small_size(example: Path, tmp_path: Path) -> None:
    small = {"TABSWEEP_EXAMPLE_ROWS": "80", "TABSWEEP_EXAMPLE_TRIALS": "1"}
    text = example.read_text(encoding="utf-8")
    assert text.startswith("# %% [markdown]") and any(name in text for name in small)
    words = [sys.executable, "-W", "ignore", str(example)]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=600, env=os.environ | small
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.nightly  # half a minute
def test_the_cells_of_the_notebook_print_what_is_stored(tmp_path: Path) -> None:
    """Texts that cells print; its numbers hold on every machine where the printed digits do."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    codes = [cell for cell in cells if cell["cell_type"] == "code"]
    outputs = [out for cell in codes for out in cell["outputs"]]
    assert {out["output_type"] for out in outputs} <= {"stream", "execute_result"}
    program = "\n".join(as_python("".join(cell["source"])) for cell in codes)
    words = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    streams = ["".join(out["text"]) for out in outputs if out["output_type"] == "stream"]
    printed = [text for text in streams if not text.startswith("Writing")]
    assert len(printed) == 2 and done.stdout == "".join(printed)


def as_python(cell: str) -> str:
    """A cell as Python runs it; its magic may be the one that writes a file."""
    magic, _, body = cell.partition("\n")
    if not magic.startswith("%%writefile "):
        return cell
    return f"open({magic.split()[1]!r}, 'w').write({body!r})"
