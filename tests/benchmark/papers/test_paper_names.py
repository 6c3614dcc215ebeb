"""No code outside of a paper's folder names a table, experiment or suite of that paper."""

from __future__ import annotations

import ast

from repo import ROOT, modules, tree
from tabsweep.benchmark.papers import catalog
from tabsweep.benchmark.planning import suite as suites


def test_no_code_outside_of_a_papers_folder_names_its_tables_experiments_or_suites():
    owners = {}
    for paper in catalog.papers():
        # a model may have its paper's name, and so may a paper's only suite
        own = {*paper.file.entries, *paper.file.experiment, *suites.files_in(paper.folder)}
        owners |= dict.fromkeys(own - {paper.name}, paper.folder)
    wrong = [
        f"{path.relative_to(ROOT)} names {node.value}"
        for path in modules()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and type(node.value) is str and node.value in owners
        if not path.is_relative_to(owners[node.value])
    ]
    assert not wrong
