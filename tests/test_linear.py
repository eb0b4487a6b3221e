"""The linear model: weights, held-out predictions in closed form, and features that no row has moved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from ffsim.errors import ModelError
from ffsim.linear import Linear

NAMES = ["a", "b"]


def _data(n: int = 40, seed: int = 0, noise: float = 0.1) -> tuple[list[dict[str, float]], list[float]]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    y = 1.0 + x @ [0.5, -0.2] + rng.normal(scale=noise, size=n)
    return [dict(zip(NAMES, row, strict=True)) for row in x.tolist()], y.tolist()


def _close(a: Linear, b: Linear, rel: float = 1e-6) -> None:
    row = {"a": 0.3, "b": -0.8}
    for one, other in zip(a.predict([row]), b.predict([row]), strict=True):
        assert one == pytest.approx(other, rel=rel)


def test_weight_one_is_no_weight() -> None:
    rows, y = _data()
    _close(Linear.fit(rows, y, NAMES), Linear.fit(rows, y, NAMES, [1.0] * len(y)))


def test_weight_two_is_the_row_twice() -> None:
    rows, y = _data()
    doubled = Linear.fit([*rows, *rows[:10]], [*y, *y[:10]], NAMES)
    _close(Linear.fit(rows, y, NAMES, [2.0] * 10 + [1.0] * 30), doubled, rel=1e-3)


def test_a_weight_near_zero_is_no_row() -> None:
    rows, y = _data()
    wild = [*y[:30], *(value + 50 for value in y[30:])]
    _close(Linear.fit(rows, wild, NAMES, [1.0] * 30 + [1e-9] * 10), Linear.fit(rows[:30], y[:30], NAMES), rel=1e-3)


def test_held_out_predictions_are_those_of_a_ridge_with_the_same_shrinkage() -> None:
    """Known answer: scikit-learn's Ridge with alpha = shrinkage / noise precision, refitted without each group."""
    from ffsim import features
    from ffsim.linear import _fit

    rows, y = _data()
    groups = [str(i % 8) for i in range(len(y))]
    mean, _ = Linear.held_out(rows, y, NAMES, groups)
    _, (noise, shrinkage) = _fit(rows, y, NAMES, None)
    x = features.matrix(rows, NAMES)
    scaled = x / x.std(axis=0)
    for group in set(groups):
        held = np.array([g == group for g in groups])
        ridge: Any = Ridge(alpha=shrinkage / noise).fit(scaled[~held], np.array(y)[~held])
        assert mean[held] == pytest.approx(ridge.predict(scaled[held]), rel=1e-6)


def test_held_out_errors_are_honest_where_the_fit_flatters_itself() -> None:
    """Pure noise and many features: the residuals of the fit are small, the held-out errors are not."""
    rng = np.random.default_rng(3)
    names = [f"f{i}" for i in range(30)]
    rows = [dict(zip(names, row, strict=True)) for row in rng.normal(size=(40, 30)).tolist()]
    y = rng.normal(size=40).tolist()
    mean, sd = Linear.held_out(rows, y, names, [str(i) for i in range(40)])
    assert np.std(np.array(y) - mean) >= 0.95 * np.std(y)
    assert 0.6 < np.std((np.array(y) - mean) / sd) < 1.6


def test_one_group_cannot_be_left_out() -> None:
    rows, y = _data()
    with pytest.raises(ModelError, match="one group"):
        Linear.held_out(rows, y, NAMES, ["same"] * len(y))


def test_a_known_row_is_foreseen_as_the_fit_predicts_it() -> None:
    rows, y = _data()
    new = {"a": 0.3, "b": -0.8}
    mean, sd = Linear.foresee(rows, y, [new])
    fitted = Linear.fit(rows, y, NAMES).predict([new])
    assert mean == pytest.approx(fitted[0], rel=1e-2)
    assert sd == pytest.approx(fitted[1], rel=1e-2)


def test_an_unmoved_feature_is_unknown_and_not_zero() -> None:
    rows, y = _data()
    known, unknown = {"a": 0.3, "b": -0.8}, {"a": 0.3, "b": -0.8, "new": 1.0}
    mean, sd = Linear.foresee(rows, y, [known, unknown])
    assert mean[1] == pytest.approx(mean[0], abs=1e-3)
    assert sd[1] > 2 * sd[0]


def test_rows_are_foreseen_each_by_itself() -> None:
    rows, y = _data()
    new = [{"a": 0.3, "b": -0.8}, {"a": 1.3, "b": 0.1, "new": 1.0}]
    together = Linear.foresee(rows, y, new)
    alone = [Linear.foresee(rows, y, [row]) for row in new]
    assert together[0] == pytest.approx([float(mean[0]) for mean, _ in alone])
    assert together[1] == pytest.approx([float(sd[0]) for _, sd in alone])


def test_no_features_give_the_weighted_mean() -> None:
    model = Linear.fit([{}] * 3, [1.0, 2.0, 6.0], [], [1.0, 1.0, 2.0])
    assert model.intercept == pytest.approx(3.75)
