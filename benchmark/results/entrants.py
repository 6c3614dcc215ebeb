"""Entrants: results of others that come with the package, a folder each with a card and a CSV.

entrant.toml    whose results, from where, under which licence, with the checksum of the CSV
results.csv.gz  the runs themselves, in the form that `csv_import.py` reads
trials.csv.gz   of results of our own: every tuning trial, a row each, for analyses of the search
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import Field

from ...common.counting import count
from ...common.files import file_sha256
from ...common.text import one_line, suggest
from ...datasets import catalog
from ...datasets.errors import DataError
from ...models.registry_entries import MODELS
from ...reports.evidence import STUDY, Evidence
from .. import toml_file
from ..toml_file import Strict
from .csv_import import read_results
from .evidence_builder import independent, of_protocols
from .page_facts import display_name, families_of, of_papers

FOLDER = Path(__file__).resolve().parents[1] / "entrants"
CARD, RESULTS, TRIALS = "entrant.toml", "results.csv.gz", "trials.csv.gz"
NAMED = 3  # models with an unusual number that a sentence names; more are counted


class DatasetFacts(Strict):
    """A dataset of an entrant that is one of ours. ours: our name of it; added: the name of the
    added dataset that has the authors' rows, "" where there is none; sizes: the rows to train,
    validate and test of their split, where they are known. Of results of our own: rows, the sha256
    of the data; drawn, the protocol and the seed of the folds ("" where it does not matter); folds,
    the numbers of those that were run; fits, "bags of K" where the scores are of bags; commit, lock
    (requirements.lock), processor and last_record, where and when they were run; trials, failed,
    cpu_hours of all of them, tuning included."""

    ours: str
    added: str = ""
    sizes: list[int] = Field(default=[], max_length=3)
    rows: str = ""
    drawn: list[str] = Field(default=[], max_length=2)
    folds: list[int] = []
    fits: str = ""
    commit: str = ""
    lock: str = ""
    processor: str = ""
    last_record: str = ""
    trials: int = 0
    failed: int = 0
    cpu_hours: float = 0.0


class Entrant(Strict):
    """The card of an entrant: somebody's published results.

    title, reference: of the publication. source, commit, licence: where its results come from;
    commit is "" if it was not recorded. mark: the word behind the models' names in a table; default
    the entrant's name. sha256: of RESULTS. note: what a reader of the table must know. tasks:
    {dataset: task} if RESULTS does not say it. means_of: the number of runs that a line of RESULTS
    averages, 0 for single runs. models: {method: our model} for methods under another name (`of` in
    a suite). datasets: the datasets that `--beside` can show beside ours."""

    title: str
    reference: str
    source: str
    commit: str = ""
    mark: str = ""
    licence: str
    sha256: str
    note: str = ""
    tasks: dict[str, Literal["binary", "multiclass", "regression"]] = {}
    means_of: int = Field(default=0, ge=0)
    models: dict[str, str] = {}
    datasets: dict[str, DatasetFacts] = {}


PLAIN = Entrant(title="", reference="", source="", licence="", sha256="")  # of a file without one


@dataclass(frozen=True)
class ResultsFile:
    """A file of results. folder: where its report goes by default; card: the entrant's, or
    PLAIN."""

    path: Path
    folder: Path
    card: Entrant = PLAIN

    @property
    def notes(self) -> list[str]:
        """Whose results these are, as far as the card says it."""
        card = self.card
        if card == PLAIN:
            return []
        at = f" at {card.commit[:10]}" if card.commit else ""
        place = f"{card.source}{at}".strip()
        note = f"{card.title} ({card.reference}): {', '.join(filter(None, (place, card.licence)))}."
        return [note, *([card.note] if card.note else [])]

    def evidence(self, untuned: str = "", tasks: Mapping[str, str] | None = None) -> Evidence:
        """The file's evidence. untuned: see `scored_lines`; tasks: of datasets for which neither
        file nor card says one. Raises EvidenceError, DataError."""
        card = self.card
        known = {**(tasks or {}), **card.tasks}
        read = read_results(self.path, untuned=untuned, tasks=known)
        drawn = {name: facts.drawn[0] for name, facts in card.datasets.items() if facts.drawn}
        unknown = (
            f"Results of another tool, from {one_line(self.path.name, 100)}: how its methods were "
            "tuned, and on which rows they were scored, is not recorded here."
        )
        # In our own results, a model with one run per study draws no random numbers.
        n_runs = read.trials.groupby(STUDY).size().groupby("model").max()
        once = n_runs.index[n_runs == 1] if drawn else ()
        if drawn:
            read = read.but(planned=_as_run(read))
        return read.knowing(
            **of_protocols(drawn),
            **self._known(read.models),
            **(self._of_ours() if drawn else {}),
            notes=[*self.notes, *([] if drawn else [unknown]), *read.facts.notes],
            title=card.title or read.facts.title,
            budget=self.budget() if drawn else "",
            seedless=read.models if card.means_of else [*once],
        )

    @property
    def is_ours(self) -> bool:
        """Whether these are the results of a sweep of tabsweep (`bench beside export`)."""
        return any(facts.drawn for facts in self.card.datasets.values())

    def budget(self) -> str:
        """How the models were tuned, in words; of another tool's results it is not known."""
        if not (self.path.parent / TRIALS).is_file():
            return "as their authors did"
        study = ["method", "dataset", "split"]
        tuning = pd.read_csv(self.path.parent / TRIALS, usecols=study)
        runs = pd.read_csv(self.path, usecols=[*study, "seed"])
        (tried, less), (seeds, fewer) = (_each(frame, study) for frame in (tuning, runs))
        folds, some = _each(runs.drop_duplicates(study), study[:2])
        drawn = f"{count(folds, 'fold')}{some}" if some else ""
        searched = f"{count(tried, 'configuration')} a study{less}"
        evaluated = f"{count(seeds, 'evaluation seed')}{fewer}"
        return ", ".join(filter(None, (drawn, searched, evaluated)))

    def _known(self, models: Iterable[str]) -> dict[str, Any]:
        """Families, names and papers of the models that the registry has."""
        ours = {name: self.card.models.get(name, name) for name in models}
        ours = {name: of for name, of in ours.items() if of in MODELS}
        names = {name: display_name(name, of) for name, of in ours.items()}
        return {"families": families_of(ours), "names": names, "of_papers": of_papers(ours)}

    def _of_ours(self) -> dict[str, Any]:
        """The facts of a run that the results of one keep: which datasets are independent and can
        be learned."""
        cards = {n: catalog.card(n) for n in self.card.datasets if n in catalog.built_in()}
        known = {name: (card.learnable, card.overlaps) for name, card in cards.items()}
        subset, why = independent(
            {name: known.get(name, (True, ())) for name in self.card.datasets}
        )
        return {"subset": subset, "subset_note": why}


def _each(rows: pd.DataFrame, keys: list[str]) -> tuple[int, str]:
    """(rows that the groups of most methods have, ' (constant: 1)' of those with others, of many
    ' (15 of 38 models: 6)')."""
    of = rows.groupby(keys).size().groupby("method").max()
    usual = int(of.mode().max())
    others = []
    for n, mine in of[of != usual].groupby(of):
        many = [f"{len(mine)} of {len(of)} models"] if len(mine) > NAMED else mine.index
        others += [f"{who}: {n}" for who in many]
    return usual, f" ({', '.join(others)})" if others else ""


def _as_run(read: Evidence) -> pd.DataFrame:
    """The plan of a sweep of ours: of a dataset's folds, each model those that it has on some."""
    return read.planned.merge(read.trials[["model", "fold"]].drop_duplicates())


def entrant_names() -> list[str]:
    """The entrants that come with the package."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{CARD}"))


def results_file(given: Path) -> ResultsFile:
    """The file that `--from` names: a file, the folder of an entrant, or the name of one that comes
    with the package. Raises DataError."""
    named = not given.exists() and not given.suffix and given.name == str(given)
    if not (given.is_dir() or named):
        return ResultsFile(given, given.parent)
    folder = folder_of(given)
    card, path = read_card(folder), folder / RESULTS
    if not path.is_file():
        raise DataError(f"{path}: there is no such file; an entrant has a {CARD} and this")
    sha256 = file_sha256(path)
    if sha256 != card.sha256:
        raise DataError(f"{path}: sha256 {sha256[:12]}... is not the card's {card.sha256[:12]}...")
    return ResultsFile(path, Path() if named else given, card)


def folder_of(given: Path) -> Path:
    """The folder of an entrant, given by its path or by the name of a built-in one. Raises
    DataError."""
    if (given / CARD).is_file():
        return given
    if given.is_dir():
        raise DataError(f"{one_line(given)} is a folder without {CARD}; name a CSV of results")
    if given.name == str(given) and (FOLDER / given.name / CARD).is_file():
        return FOLDER / given.name
    hint = suggest(given.name, entrant_names())
    raise DataError(f"{one_line(given)}: there is no such file, and no such entrant; {hint}")


def read_card(folder: Path) -> Entrant:
    """The card in an entrant's folder. Raises DataError."""
    path = folder / CARD
    data, lines = toml_file.read(path, "card", DataError)
    return toml_file.checked(Entrant, data, str(path), lines, DataError)
