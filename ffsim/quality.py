"""What a recipe scores in a rehearsal, given its steps: bpb on ln(steps) and the knobs.

For now a plain ridge with one price for all steps; the full surrogate replaces it in this place.
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

LN_STEPS = "ln_steps"


@dataclasses.dataclass(frozen=True)
class QualityModel:
    """Rehearsal bpb of a recipe that makes a number of steps.

    Parameters
    ----------
    linear
        bpb on ``ln_steps`` and knob features.
    """

    linear: Linear

    @classmethod
    def fit(cls, contest: Contest, runs: Sequence[Run], *, knobs: bool = True, trust: Trust = EQUAL) -> QualityModel:
        """Fit on the runs that `usable` lets through.

        Parameters
        ----------
        contest
            Whose knob table makes the features.
        runs
            Any runs; official ones are never read.
        knobs
            Whether the knobs enter; without them it is the steps-only baseline.
        trust
            The weight of each run, and the contributors whose own effect is estimated.

        Raises
        ------
        ModelError
            If there are fewer than two usable runs.
        """
        chosen = usable(contest, runs)
        rows, y, weights = observations(contest, chosen, trust)
        return cls(Linear.fit(rows, y, features.varied(rows) if knobs else [LN_STEPS], weights))

    def predict(self, contest: Contest, knobs: Mapping[str, Any], steps: float) -> tuple[float, float]:
        """(mean, SD) of the rehearsal bpb of one run."""
        mean, sd = self.linear.predict([row(contest, knobs, steps)])
        return float(mean[0]), float(sd[0])

    def price(self) -> float | None:
        """Bpb per unit of ln(steps), or None if the steps never varied."""
        if LN_STEPS not in self.linear.names:
            return None
        return float(self.linear.coefficients[self.linear.names.index(LN_STEPS)])


def observations(
    contest: Contest, chosen: Sequence[Run], trust: Trust = EQUAL
) -> tuple[list[dict[str, float]], list[float], list[float] | None]:
    """(features, bpb, weights) of runs that are `usable`, as `Linear` takes them."""
    rows = [{**row(contest, run.knobs, run.steps or 1), **trust.effect(run)} for run in chosen]
    return rows, [bpb(contest, run) for run in chosen], trust.of(chosen)


def usable(contest: Contest, runs: Sequence[Run]) -> list[Run]:
    """Finished, comparable rehearsals and screens with a score on the rehearsal text. Never an official run."""
    text = contest.text("rehearsal")
    return [
        run
        for run in runs
        if run.comparable and run.kind != "official" and run.status == "finished" and text in run.scores and run.steps
    ]


def bpb(contest: Contest, run: Run) -> float:
    """The run's score on the rehearsal text."""
    return run.scores[contest.text("rehearsal")].bpb


def row(contest: Contest, knobs: Mapping[str, Any], steps: float) -> dict[str, float]:
    """Features of a recipe at a number of steps."""
    return {LN_STEPS: math.log(steps), **features.of(contest.knobs, knobs, "value")}
