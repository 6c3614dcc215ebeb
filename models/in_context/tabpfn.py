"""TabPFN: a Transformer pretrained on synthetic tables (Hollmann et al. 2025), by its library."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ..optional import optional
from .checkpoint_file import without_downloads
from .estimator import InContextEstimator


class TabPFN(InContextEstimator):
    """TabPFN of the library `tabpfn` (extra `tabpfn`), with a checkpoint file of the user's.

    There is no training: the rows are the context of a forward pass. Categories are ordinal codes,
    which the library is told of; gaps are imputed with a 0/1 column. Validation rows are not used.
    A fit cannot be resumed. The library's own limits of rows are not enforced; those of the
    registry are (50,000 rows, 10 classes).

    Examples
    --------
    >>> from tabsweep.models.in_context.tabpfn import TabPFN
    >>> TabPFN(task="regression", n_estimators=4).n_estimators
    4

    References
    ----------
    Hollmann et al. 2025, TabPFN, doi:10.1038/s41586-024-08328-6.
    """

    model = "tabpfn"

    def _made(self) -> Any:
        file = self._file()  # before the library: without a checkpoint it is of no use
        library = optional("tabpfn", model="tabpfn", extra="tabpfn")
        kind = "Regressor" if self.task == "regression" else "Classifier"
        coded = [j for j, is_so in enumerate(self.preprocessor_.categorical_) if is_so]
        return getattr(library, f"TabPFN{kind}")(
            model_path=str(file.path),
            n_estimators=self.n_estimators,
            softmax_temperature=self.softmax_temperature,
            categorical_features_indices=coded,
            ignore_pretraining_limits=True,
            device="cpu",
            random_state=self.seed,
            n_preprocessing_jobs=1,
        )

    def _quiet(self) -> AbstractContextManager[None]:
        names = ("tabpfn.model_loading", "tabpfn.base", "tabpfn.browser_auth")
        return without_downloads(self.model, *names)
