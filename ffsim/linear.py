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

# No score or ln(seconds) is known better than to 1e-6: equal ones leave an error, and no division by zero.
MIN_VAR = 1e-12


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
        Rows it was fitted on, each counted by its weight.
    """

    names: tuple[str, ...]
    center: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    covariance: NDArray[np.float64]
    intercept: float
    noise_var: float
    n_rows: float

    @classmethod
    def fit(
        cls,
        rows: Sequence[Mapping[str, float]],
        y: Sequence[float],
        names: Sequence[str],
        weights: Sequence[float] | None = None,
    ) -> Linear:
        """Fit on rows of features.

        Parameters
        ----------
        rows
            One mapping of features a row.
        y
            What to predict, shape (n_rows,).
        names
            The features to use; none gives the mean.
        weights
            How many observations each row counts as, shape (n_rows,), each above 0 (default: one each).

        Raises
        ------
        ModelError
            If there are fewer than two rows.
        """
        return _fit(rows, y, names, weights)[0]

    def predict(self, rows: Sequence[Mapping[str, float]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of one new observation a row, each of shape (n_rows,)."""
        import numpy as np

        x = features.matrix(rows, self.names) - self.center
        mean = self.intercept + x @ self.coefficients
        variance = self.noise_var * (1.0 + 1.0 / self.n_rows) + np.einsum("ij,jk,ik->i", x, self.covariance, x)
        return mean, np.sqrt(variance)

    @classmethod
    def held_out(
        cls,
        rows: Sequence[Mapping[str, float]],
        y: Sequence[float],
        names: Sequence[str],
        groups: Sequence[str],
        weights: Sequence[float] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Every row predicted by the model that has not seen its group.

        The shrinkage and the noise are learned once, from all rows; everything else is fitted again without the
        group. That is a hundred times faster than fitting anew, and slightly kind to the model.

        Parameters
        ----------
        rows, y, names, weights
            As in `fit`.
        groups
            What is left out together, shape (n_rows,).

        Returns
        -------
        tuple
            (mean, SD of one new observation), each of shape (n_rows,).

        Raises
        ------
        ModelError
            If there are fewer than two rows, or only one group.
        """
        import numpy as np

        if len(set(groups)) < 2:
            raise ModelError("one group of runs: leaving it out leaves nothing to learn from")
        _, prior = _fit(rows, y, names, weights)
        x, target, w = features.matrix(rows, names), np.asarray(y, dtype=float), _weights(weights, len(y))
        scale, label = _scale(x, w), np.asarray(groups)
        mean, sd = np.empty(len(target)), np.empty(len(target))
        for group in dict.fromkeys(groups):
            held = label == group
            model = _posterior(x[~held], target[~held], w[~held], names, prior, scale)
            mean[held], sd[held] = model.predict([row for row, out in zip(rows, held, strict=True) if out])
        return mean, sd

    @classmethod
    def foresee(
        cls,
        rows: Sequence[Mapping[str, float]],
        y: Sequence[float],
        new: Sequence[Mapping[str, float]],
        weights: Sequence[float] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """New rows, each by itself, which may move features that no row has moved.

        Such a feature has the prior of all others, so its effect is unknown and not zero.

        Parameters
        ----------
        rows, y, weights
            As in `fit`.
        new
            The features of the new rows, shape (n_new,).

        Returns
        -------
        tuple
            (mean, SD of the new observation), each of shape (n_new,).

        Raises
        ------
        ModelError
            If there are fewer than two rows to learn from.
        """
        import numpy as np

        _, prior = _fit(rows, y, features.varied(rows), weights)
        target, w = np.asarray(y, dtype=float), np.append(_weights(weights, len(y)), 1.0)
        mean, sd = np.empty(len(new)), np.empty(len(new))
        for i, row in enumerate(new):
            names = features.varied([*rows, row])
            x = features.matrix([*rows, row], names)
            model = _posterior(x[:-1], target, w[:-1], names, prior, _scale(x, w))
            mean[i : i + 1], sd[i : i + 1] = model.predict([row])
        return mean, sd

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
                n_rows=float(value["n_rows"]),
            )
        except (KeyError, TypeError, ValueError):
            raise ModelError("the model file is damaged; make it again with `dvc repro`") from None
        return model


# Precision of the noise; precision of each coefficient of a feature of unit scale.
Prior = tuple[float, float]


def _fit(
    rows: Sequence[Mapping[str, float]], y: Sequence[float], names: Sequence[str], weights: Sequence[float] | None
) -> tuple[Linear, Prior]:
    import numpy as np
    from sklearn.linear_model import BayesianRidge

    target = np.asarray(y, dtype=float)
    if len(target) < 2:
        raise ModelError(f"{len(target)} runs: a model needs at least 2; add some with `ffsim add-run`")
    w = _weights(weights, len(target))
    mean = float(np.average(target, weights=w))
    if not names:
        variance = float(np.average((target - mean) ** 2, weights=w)) * len(target) / (len(target) - 1)
        variance = max(variance, MIN_VAR)
        alone = Linear((), np.zeros(0), np.zeros(0), np.zeros((0, 0)), mean, variance, float(w.sum()))
        return alone, (1.0 / variance, 1.0 / variance)
    x = features.matrix(rows, names)
    center = np.average(x, axis=0, weights=w)
    # Unit scales, so that one shrinkage serves all features; undone in what is stored.
    scale = _scale(x, w)
    model = BayesianRidge(max_iter=2000, tol=1e-6, fit_intercept=False)
    model.fit((x - center) / scale, target - mean, sample_weight=None if weights is None else w)
    fitted = Linear(
        names=tuple(names),
        center=center,
        coefficients=model.coef_ / scale,
        covariance=model.sigma_ / np.outer(scale, scale),
        intercept=mean,
        noise_var=float(1.0 / model.alpha_),
        n_rows=float(w.sum()),
    )
    return fitted, (float(model.alpha_), float(model.lambda_))


def _posterior(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    w: NDArray[np.float64],
    names: Sequence[str],
    prior: Prior,
    scale: NDArray[np.float64],
) -> Linear:
    """The model with known precisions (Rasmussen & Williams 2006, section 2.1.1), centred on its own rows."""
    import numpy as np

    noise, shrinkage = prior
    center: NDArray[np.float64] = np.average(x, axis=0, weights=w).astype(float)
    mean = float(np.average(y, weights=w))
    centred = x - center
    precision = np.diag(shrinkage * scale**2) + noise * (centred * w[:, None]).T @ centred
    covariance = np.asarray(np.linalg.inv(precision), dtype=float)
    coefficients = np.asarray(noise * (covariance @ (centred.T @ (w * (y - mean)))), dtype=float)
    return Linear(tuple(names), center, coefficients, covariance, mean, 1.0 / noise, float(w.sum()))


def _scale(x: NDArray[np.float64], w: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted spread of each feature, shape (n,); 1 where it never varies."""
    import numpy as np

    spread = np.sqrt(np.average((x - np.average(x, axis=0, weights=w)) ** 2, axis=0, weights=w))
    return np.where(spread > 0, spread, 1.0)


def _weights(weights: Sequence[float] | None, n_rows: int) -> NDArray[np.float64]:
    import numpy as np

    return np.ones(n_rows) if weights is None else np.asarray(weights, dtype=float)
