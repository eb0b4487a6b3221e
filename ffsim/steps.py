"""How many optimizer steps fit in the budget: a model of the step time.

ln(mean charged seconds of a step) is linear in the knobs that move steps, plus an effect of the host
block. For now a plain ridge; the analytic term and the schedule walk replace it in this place.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ffsim import features
from ffsim.contest import Contest
from ffsim.linear import Linear
from ffsim.records import Run


@dataclasses.dataclass(frozen=True)
class StepModel:
    """Step time of a recipe on a host block.

    Parameters
    ----------
    linear
        ln(mean step time in s) on knob features and ``host:<block>`` indicators.
    """

    linear: Linear

    @classmethod
    def fit(cls, contest: Contest, runs: Sequence[Run]) -> StepModel:
        """Fit on the rehearsals and screens that timed their steps; official runs are never read.

        Raises
        ------
        ModelError
            If there are fewer than two.
        """
        timed = [run for run in runs if run.kind != "official" and step_time_s(run) is not None]
        rows = [_row(contest, run.knobs, run.host.block) for run in timed]
        y = [math.log(step_time_s(run) or math.nan) for run in timed]
        return cls(Linear.fit(rows, y, features.varied(rows)))

    def step_time(self, contest: Contest, knobs: Mapping[str, Any], block: str) -> tuple[float, float]:
        """(median of the predicted mean step time in s, SD of its logarithm)."""
        mean, sd = self.linear.predict([_row(contest, knobs, block)])
        return math.exp(float(mean[0])), float(sd[0])

    def steps(self, contest: Contest, knobs: Mapping[str, Any], block: str, budget_s: float) -> tuple[float, float]:
        """(steps that fit in `budget_s`, SD of their logarithm)."""
        seconds, sd = self.step_time(contest, knobs, block)
        return max(1.0, budget_s / seconds), sd


def step_time_s(run: Run) -> float | None:
    """Mean charged seconds of a step over all batch phases, or None if the run timed none."""
    count = sum(phase.count for phase in run.step_times.values())
    if count == 0 or run.status != "finished":
        return None
    return sum(phase.count * phase.mean_s for phase in run.step_times.values()) / count


def _row(contest: Contest, knobs: Mapping[str, Any], block: str) -> dict[str, float]:
    return {**features.of(contest.knobs, knobs, "steps"), f"host:{block}": 1.0}
