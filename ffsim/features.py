"""Knob values as numbers: the features of every model, made from the contest's knob table alone.

A feature is zero at the knob's default, so a recipe that leaves a knob alone is untouched by what the
model knows of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ffsim.knobs import Knob, KnobTable, Move

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def values(knob: Knob, value: Any) -> dict[str, float]:
    """The features of one knob: a difference, a log2 ratio, an indicator, and a square for a bowl."""
    if knob.type == "bool":
        return {knob.name: float(bool(value) != bool(knob.default))}
    if knob.type == "choice":
        return {f"{knob.name}={c}": float(value == c) for c in knob.choices if c != knob.default}
    default = float(knob.default)
    x = math.log2(value / default) if knob.scale == "log" else (value - default) / knob.unit_step
    return {knob.name: x, f"{knob.name}^2": x * x} if knob.bowl else {knob.name: x}


def of(knobs: KnobTable, recipe: Mapping[str, Any], moves: Move) -> dict[str, float]:
    """All features of a recipe from the knobs that can move `moves` (``steps`` or ``value``).

    A knob that is younger than the recipe is at its default, which means as before.
    """
    return {
        name: x
        for knob in knobs
        if moves in knob.moves
        for name, x in values(knob, recipe.get(knob.name, knob.default)).items()
    }


def matrix(rows: Sequence[Mapping[str, float]], names: Sequence[str]) -> NDArray[np.float64]:
    """The named features of every row, shape (n_rows, n_names); an absent one is zero."""
    import numpy as np

    return np.array([[row.get(name, 0.0) for name in names] for row in rows], dtype=float).reshape(
        len(rows), len(names)
    )


def varied(rows: Sequence[Mapping[str, float]]) -> list[str]:
    """Names of the features that differ between rows, in the order of the table."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [name for name in names if len({row.get(name, 0.0) for row in rows}) > 1]
