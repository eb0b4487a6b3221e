"""The learning-rate schedule: a multiplier between 0 and 1 as a function of the charged fraction.

The schedule follows charged time and not a step count, because nobody knows beforehand how many steps fit
in a budget: a run on a slower machine then still cools down completely. Shape: linear warm-up, constant,
cooldown to zero over the last part of the budget ("WSD", Hu et al. 2024, MiniCPM, section 4.1; the
``one_minus_sqrt`` shape is from Hägele et al. 2024, "Scaling laws and compute-optimal training beyond
fixed training durations", section 3).

The trap: at fraction 0 a linear warm-up is exactly 0 and the first step would be spent on nothing, so the
warm-up has a floor.
"""

from __future__ import annotations

import math
from collections.abc import Callable

WARMUP_FLOOR = 0.01
"""The least multiplier during warm-up: small beside any peak, yet the first step moves the weights."""

COOLDOWN_SHAPES: dict[str, Callable[[float], float]] = {
    "linear": lambda left: left,
    "cosine": lambda left: 0.5 * (1.0 - math.cos(math.pi * left)),
    "one_minus_sqrt": lambda left: 1.0 - math.sqrt(1.0 - left),
}
"""Multiplier as a function of the part of the cooldown that is left, 1 at its start and 0 at its end."""


def lr_multiplier(fraction: float, *, warmup: float, cooldown: float, cooldown_shape: str) -> float:
    """Return what the peak learning rates are multiplied with.

    Parameters
    ----------
    fraction
        Charged share of the budget, or step / steps in a run of fixed length; clipped to [0, 1].
    warmup
        Share of the budget at its start over which the multiplier grows linearly; 0 is no warm-up.
    cooldown
        Share of the budget at its end over which it falls to 0; 0 is no cooldown.
    cooldown_shape
        ``"linear"``, ``"cosine"`` or ``"one_minus_sqrt"``.

    Returns
    -------
    float
        Between 0 and 1. Where warm-up and cooldown overlap, the smaller of the two.
    """
    fraction = min(1.0, max(0.0, fraction))
    rising = max(WARMUP_FLOOR, fraction / warmup) if fraction < warmup else 1.0
    left = (1.0 - fraction) / cooldown if 1.0 - fraction < cooldown else 1.0
    return min(rising, COOLDOWN_SHAPES[cooldown_shape](left))
