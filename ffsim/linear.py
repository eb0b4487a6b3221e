"""A linear Gaussian model that knows how sure it is, kept as JSON and applied with numpy alone.

Fitting is scikit-learn's `BayesianRidge` (Tipping 2001; MacKay 1992): the shrinkage and the noise are
learned from the data by evidence maximisation. What is stored is what a prediction needs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ffsim import features
from ffsim.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclasses.dataclass(frozen=True)
class Linear:
    """A fitted model: prediction = intercept + (x - center) . coefficients.

    Parameters
    ----------
    names
        The features, in order, n of them.
    center
        Their means in the training data, shape (n,).
    coefficients
        Shape (n,).
    covariance
        Of the coefficients, shape (n, n).
    intercept
        Prediction at the center.
    noise_var
        Variance of one observation around its mean.
    n_rows
        Rows it was fitted on.
    """

    names: tuple[str, ...]
    center: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    covariance: NDArray[np.float64]
    intercept: float
    noise_var: float
    n_rows: int

    @classmethod
    def fit(cls, rows: Sequence[Mapping[str, float]], y: Sequence[float], names: Sequence[str]) -> Linear:
        """Fit on rows of features.

        Parameters
        ----------
        rows
            One mapping of features a row.
        y
            What to predict, shape (n_rows,).
        names
            The features to use; none gives the mean.

        Raises
        ------
        ModelError
            If there are fewer than two rows.
        """
        import numpy as np
        from sklearn.linear_model import BayesianRidge

        target = np.asarray(y, dtype=float)
        if len(target) < 2:
            raise ModelError(f"{len(target)} runs: a model needs at least 2; add some with `ffsim add-run`")
        if not names:
            return cls((), np.zeros(0), np.zeros(0), np.zeros((0, 0)), float(target.mean()),
                       float(target.var(ddof=1)), len(target))  # fmt: skip
        x = features.matrix(rows, names)
        center = x.mean(axis=0)
        # Unit scales, so that one shrinkage serves all features; undone in what is stored.
        scale = np.where((spread := x.std(axis=0)) > 0, spread, 1.0)
        model = BayesianRidge(max_iter=2000, tol=1e-6, fit_intercept=False)
        model.fit((x - center) / scale, target - target.mean())
        return cls(
            names=tuple(names),
            center=center,
            coefficients=model.coef_ / scale,
            covariance=model.sigma_ / np.outer(scale, scale),
            intercept=float(target.mean()),
            noise_var=float(1.0 / model.alpha_),
            n_rows=len(target),
        )

    def predict(self, rows: Sequence[Mapping[str, float]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of one new observation a row, each of shape (n_rows,)."""
        import numpy as np

        x = features.matrix(rows, self.names) - self.center
        mean = self.intercept + x @ self.coefficients
        variance = self.noise_var * (1.0 + 1.0 / self.n_rows) + np.einsum("ij,jk,ik->i", x, self.covariance, x)
        return mean, np.sqrt(variance)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "names": list(self.names),
            "center": self.center.tolist(),
            "coefficients": self.coefficients.tolist(),
            "covariance": self.covariance.tolist(),
            "intercept": self.intercept,
            "noise_var": self.noise_var,
            "n_rows": self.n_rows,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Linear:
        """The model of `to_dict`.

        Raises
        ------
        ModelError
            If a part is missing or of the wrong shape.
        """
        import numpy as np

        try:
            n = len(value["names"])
            model = cls(
                names=tuple(value["names"]),
                center=np.array(value["center"], dtype=float).reshape(n),
                coefficients=np.array(value["coefficients"], dtype=float).reshape(n),
                covariance=np.array(value["covariance"], dtype=float).reshape(n, n),
                intercept=float(value["intercept"]),
                noise_var=float(value["noise_var"]),
                n_rows=int(value["n_rows"]),
            )
        except (KeyError, TypeError, ValueError):
            raise ModelError("the model file is damaged; make it again with `dvc repro`") from None
        return model
