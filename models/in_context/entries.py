"""Models whose weights are a file of the user's: pretrained in-context models, listed apart.

They stand beside the registry's own models: no suite has them by default, and without their file
they cannot be fitted at all.
"""

from __future__ import annotations

from ..model_spec import ModelSpec
from ..policy import Policy

PRETRAINED = "a pretrained Transformer that reads the training rows"
IN_CONTEXT: dict[str, ModelSpec] = {
    "tabicl": ModelSpec(
        name="tabicl",
        target="tabsweep.models.in_context.tabicl:TabICL",
        family="row attention",
        libraries=("tabicl", "torch", "numpy", "pandas", "scikit-learn"),
        told={
            "summary": f"{PRETRAINED} (extra `tabicl`, your file)",
            "paper": "Qu et al. 2025, arXiv:2502.05564",
        },
        preprocessing=Policy("none", "ordinal", "impute", "standard"),
        memory_bytes_per_cell=20_000.0,
        checkpoint=True,
    ),
    "tabpfn": ModelSpec(
        name="tabpfn",
        target="tabsweep.models.in_context.tabpfn:TabPFN",
        family="row attention",
        libraries=("tabpfn", "torch", "numpy", "pandas", "scikit-learn"),
        max_rows=50_000,
        max_classes=10,
        told={
            "summary": f"{PRETRAINED} (extra `tabpfn`, your file)",
            "paper": "Hollmann et al. 2025, doi:10.1038/s41586-024-08328-6",
        },
        preprocessing=Policy("none", "ordinal", "impute", "standard"),
        memory_bytes_per_cell=20_000.0,
        checkpoint=True,
    ),
}
