"""How many optimizer steps fit in the budget: a model of the step time.

ln(mean charged seconds of a step) is linear in the knobs that move steps, plus effects of the host block and of
the trainer version. For now a plain ridge; the analytic term and the schedule walk replace it in this place.
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
from ffsim.trust import EQUAL, Trust


@dataclasses.dataclass(frozen=True)
class StepModel:
    """Step time of a recipe on a host block.

    Parameters
    ----------
    linear
        ln(mean step time in s) on knob features, ``host:<block>`` and ``trainer:<version>`` indicators.
    """

    linear: Linear

    @classmethod
    def fit(cls, contest: Contest, runs: Sequence[Run], trust: Trust = EQUAL) -> StepModel:
        """Fit on the runs that `timed` lets through.

        Parameters
        ----------
        contest
            Whose knob table makes the features.
        runs
            Any runs; official ones are never read.
        trust
            The weight of each run, and the contributors whose own effect is estimated.

        Raises
        ------
        ModelError
            If there are fewer than two.
        """
        rows, y, weights = observations(contest, timed(runs), trust)
        return cls(Linear.fit(rows, y, features.varied(rows), weights))

    def step_time(
        self, contest: Contest, knobs: Mapping[str, Any], block: str, version: str | None = None
    ) -> tuple[float, float]:
        """(median of the predicted mean step time in s, SD of its logarithm); by default of the latest trainer."""
        mean, sd = self.linear.predict([row(contest, knobs, block, version)])
        return math.exp(float(mean[0])), float(sd[0])

    def steps(
        self, contest: Contest, knobs: Mapping[str, Any], block: str, budget_s: float, version: str | None = None
    ) -> tuple[float, float]:
        """(steps that fit in `budget_s`, SD of their logarithm); by default of the latest trainer."""
        seconds, sd = self.step_time(contest, knobs, block, version)
        return max(1.0, budget_s / seconds), sd


def timed(runs: Sequence[Run]) -> list[Run]:
    """The comparable rehearsals and screens that timed their steps. Never an official run."""
    return [run for run in runs if run.comparable and run.kind != "official" and step_time_s(run) is not None]


def observations(
    contest: Contest, chosen: Sequence[Run], trust: Trust = EQUAL
) -> tuple[list[dict[str, float]], list[float], list[float] | None]:
    """(features, ln of the mean step time in s, weights) of runs that are `timed`, as `Linear` takes them."""
    rows = [{**row(contest, run.knobs, run.host.block, run.trainer_version), **trust.effect(run)} for run in chosen]
    return rows, [math.log(step_time_s(run) or math.nan) for run in chosen], trust.of(chosen)


def step_time_s(run: Run) -> float | None:
    """Mean charged seconds of a step over all batch phases, or None if the run timed none."""
    count = sum(phase.count for phase in run.step_times.values())
    if count == 0 or run.status != "finished":
        return None
    return sum(phase.count * phase.mean_s for phase in run.step_times.values()) / count


def row(contest: Contest, knobs: Mapping[str, Any], block: str, version: str | None = None) -> dict[str, float]:
    """Features of a recipe on a host block, trained by a version of the trainer (default: the latest)."""
    lineage = f"trainer:{version or contest.trainers.latest}"
    return {**features.of(contest.knobs, knobs, "steps"), f"host:{block}": 1.0, lineage: 1.0}
