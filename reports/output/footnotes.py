"""Notes that every table carries so that it can be read alone: setting, protocol, subset, gaps."""

from __future__ import annotations

from collections.abc import Iterable

from ...common.counting import count as count
from ...common.text import first_few
from ..evidence import Evidence
from ..metrics import METRICS
from ..statistics.ranking import TIES as TIES
from ..statistics.wilcoxon import EXACT_UP_TO
from . import escape

TASK_TITLES = {
    "binary": "binary classification",
    "multiclass": "multiclass classification",
    "regression": "regression",
    "classification": "classification",
    "all tasks": "all tasks",
}

# The three kinds of claim, which no table mixes: what each is about, and what it is not about.
CLAIMS = {
    "seeds": "Across seeds: whether a difference remains under other seeds on this one split. It "
    "says nothing about other rows or other datasets.",
    "folds": "Across folds: whether a difference remains on other rows of the same dataset. It "
    "says nothing about other datasets.",
    "datasets": "Across datasets: whether a difference remains on other datasets like these; each "
    "dataset counts once, however many folds and seeds it has.",
}

# How the report computes Wilcoxon's signed-rank test.
WILCOXON = (
    f"Two-sided, exact over all sign patterns (a normal approximation with more than "
    f"{EXACT_UP_TO} datasets); datasets without a difference are ranked and then left out (Pratt), "
    "ties share their rank."
)


_ABOUT = {
    "results": "title",
    "suite": "suite",
    "hash of the suite or file": "suite_hash",
    "budget": "budget",
    "sampler": "sampler",
    "seed": "seed",
    "code": "code",
    "lock file": "lock",
    "last record (UTC)": "last_record_utc",
}


def about(evidence: Evidence) -> dict[str, object]:
    """{title: value} of what is known of the run."""
    known = {title: getattr(evidence.facts, key) for title, key in _ABOUT.items()}
    return {title: value for title, value in known.items() if value not in (None, "")}


def arrow(direction: str) -> str:
    """↑ for a metric where higher is better, ↓ where lower is."""
    return "↑" if direction == "max" else "↓"


def metric_title(name: str) -> str:
    """Name of a metric with its direction, and its unit where that is percent."""
    unit = ", %" if METRICS[name].percent else ""
    return f"{METRICS[name].label}{unit} {arrow(METRICS[name].direction)}"


def headlines(evidence: Evidence, tasks: Iterable[str]) -> str:
    """The tasks with the metrics that their tables show: "regression by RMSE; ..."."""
    return "; ".join(
        f"{TASK_TITLES[task]} by {METRICS[evidence.headline(task)].label}" for task in tasks
    )


def setting(evidence: Evidence) -> list[str]:
    """The suite's own notes, then suite, budget, sampler and seed, then what was left out and
    which cells rest on fewer seeds than others."""
    facts = evidence.facts
    words = [escape.visible(word) for word in (facts.title, facts.title and facts.budget) if word]
    words = words or [
        f"{key} {escape.visible(str(value))}"
        for key in ("suite", "budget", "sampler", "seed")
        if (value := getattr(facts, key)) not in (None, "")
    ]
    apart = [f"Not of this run: {escape.visible(told)}" for told in facts.tuned.values()]
    line = [" ".join(["Setting: " + ", ".join(words) + ".", *apart])] if words else apart
    notes = [*facts.notes, *line, *_left_out(evidence)]
    return [*notes, *fewer_seeds(evidence)]


def fewer_seeds(evidence: Evidence) -> list[str]:
    """One note that names the cells with fewer evaluation seeds than other models have there."""
    cells = evidence.fewer_seeds
    datasets: dict[tuple[str, int, int], list[str]] = {}
    for (dataset, model), (n, most) in sorted(cells.items()):
        datasets.setdefault((model, n, most), []).append(dataset)
    named = [
        f"{escape.label(model)} on {join(on, 4)} (s{n}, others {most})"
        for (model, n, most), on in datasets.items()
    ]
    few = first_few(named, 8, "; ")
    return [f"sN: only N seeds, fewer than other models have there: {few}."] if named else []


def few_mark(evidence: Evidence, dataset: object, model: object) -> str:
    """The mark of a cell with fewer seeds than others, such as 's14', or ''."""
    found = evidence.fewer_seeds.get((str(dataset), str(model)))
    return f"s{found[0]}" if found else ""


def _left_out(evidence: Evidence) -> list[str]:
    left_out = evidence.facts.left_out
    if not left_out:
        return []
    reasons: dict[str, list[str]] = {}
    for name in sorted(left_out):
        reasons.setdefault(str(left_out[name]), []).append(name)
    parts = [f"{join(names)} ({reason})" for reason, names in sorted(reasons.items())]
    return ["Left out of the suite: " + "; ".join(parts) + "."]


def left_out_of_subset(evidence: Evidence) -> str:
    """The datasets that are not in the subset, and the reason if it is known."""
    names = sorted(set(evidence.datasets()) - set(evidence.subset))
    why = evidence.facts.subset_note
    if all(name in why for name in names):
        return why
    return f"Not in the subset: {join(names)}. {why}".strip()


def protocols(evidence: Evidence, datasets: Iterable[str]) -> list[str]:
    """One note per protocol text; with several protocols each names its datasets."""
    protocol = evidence.facts.protocol
    texts: dict[str, list[str]] = {}
    for dataset in sorted(datasets):
        if protocol.get(dataset):
            texts.setdefault(str(protocol[dataset]), []).append(dataset)
    ordered = sorted(texts.items(), key=lambda item: (-len(item[1]), item[0]))
    if len(ordered) == 1:
        return [f"Protocol: {ordered[0][0].rstrip('.')}."]
    return [
        f"Protocol of {join(names)}: {text.rstrip('.')}."
        if number
        else f"Protocol: {text.rstrip('.')}, unless noted otherwise."
        for number, (text, names) in enumerate(ordered)
    ]


def join(names: Iterable[str], limit: int = 12, *, whole: bool = False) -> str:
    """Names joined for a sentence; after `limit` of them their number. whole: they are labels
    already, and none is cut."""
    shown = list(names) if whole else [escape.label(n) for n in names]
    if len(shown) > limit:
        return first_few(shown, limit)
    return ", ".join(shown[:-1]) + " and " + shown[-1] if len(shown) > 1 else "".join(shown)
