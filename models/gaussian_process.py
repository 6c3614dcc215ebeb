"""Exact Gaussian process regression and classification, for small data."""

from __future__ import annotations

from typing import Any

from .base import SklearnEstimator
from .hyperparameters import Number, OneOf, hyper
from .policy import Policy


class GaussianProcess(SklearnEstimator):
    """Exact Gaussian process (classification: Laplace approximation, one against the rest).

    Notes
    -----
    Time grows with the cube of the rows: the registry limits them to 2,000.

    References
    ----------
    Rasmussen and Williams 2006, Gaussian Processes for Machine Learning.
    """

    example = ""
    policy = Policy(numeric="standard", categorical="one-hot", missing="impute", target="standard")
    uses_pools = True

    kernel: str = hyper(
        "rbf",
        OneOf(("rbf", "matern-1.5", "matern-2.5")),
        "Covariance, with one length scale for all features.",
    )
    length_scale: float = hyper(
        1.0,
        Number(1e-3, 1e3),
        "Start of the length scale for the optimiser of the marginal likelihood, in units of "
        "sqrt(n_features) standard deviations.",
    )
    noise: float = hyper(0.1, Number(1e-8, 1e3), "Start of the noise variance (regression).")

    def _build(self, n_rows: int) -> Any:
        from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

        scale = self.length_scale * float(self.preprocessor_.n_out_) ** 0.5
        bounds = (1e-3, 1e5)
        shape = (
            RBF(scale, bounds)
            if self.kernel == "rbf"
            else Matern(scale, bounds, nu=float(self.kernel.removeprefix("matern-")))
        )
        kernel = ConstantKernel(1.0, (1e-4, 1e4)) * shape
        if self.task == "regression":
            kernel = kernel + WhiteKernel(self.noise, (1e-8, 1e3))
            return GaussianProcessRegressor(kernel, alpha=1e-8, random_state=self.seed)
        return GaussianProcessClassifier(kernel, random_state=self.seed, n_jobs=self.threads)
