"""Near-duplicates: runs that share numbers which no two runs share by chance.

A copy under another name, seed or recipe, with its score shifted or not, still carries the clock readings or
the loss curve of the run it was made from. Two honest runs of one recipe differ in their training losses by
the noise of the mini-batches, which is far above what is looked for here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ffsim.records import Run
from ffsim.verdicts import Check

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Numbers with fewer digits coincide by chance: foreign logs round to tenths of a second.
DIGITS = 6
# SD in nats of the difference of two loss curves, a straight line taken out: a tenth of the noise of a mini-batch.
CURVE_SD_NATS = 0.005
CURVE_POINTS = 8
RULE = "near_duplicate"
FIX = "add each run once, as it was measured; if it is another run, a maintainer accepts it"


def check(run: Run, others: Iterable[Run]) -> Check:
    """Whether a run shares numbers with another one that it cannot share by chance.

    Parameters
    ----------
    run
        The new run.
    others
        Every run of the contest, whatever its standing, and the other new ones.
    """
    return Known(others).check(run)


class Known:
    """The runs that a new one may be a copy of, prepared once for many comparisons.

    Parameters
    ----------
    runs
        As the `others` of `check`.
    """

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._clocks: dict[float, list[Run]] = {}
        self._scores: dict[tuple[str, float], list[Run]] = {}
        self._curves: list[tuple[Run, NDArray[np.float64]]] = []
        for run in runs:
            self.add(run)

    def add(self, run: Run) -> None:
        """Enter a run."""
        for reading in _clock(run):
            self._clocks.setdefault(reading, []).append(run)
        for score in _scores(run):
            self._scores.setdefault(score, []).append(run)
        curve = _curve(run)
        if curve is not None:
            self._curves.append((run, curve))

    def check(self, run: Run) -> Check:
        """Whether the run shares numbers with one that was entered."""
        shared = self._shared(run)
        if shared is None:
            return Check(rule=RULE, outcome="passed")
        what, other = shared
        return Check(rule=RULE, outcome="found", message=f"has the {what} of {other.run_id}", fix=FIX)

    def _shared(self, run: Run) -> tuple[str, Run] | None:
        for reading in sorted(_clock(run)):
            for other in self._clocks.get(reading, ()):
                if other.run_id != run.run_id:
                    return "clock readings", other
        for score in sorted(_scores(run)):
            for other in self._scores.get(score, ()):
                if _may_differ(run, other):
                    return "score to the last digit", other
        curve = _curve(run)
        for other, known in self._curves if curve is not None else ():
            if _may_differ(run, other) and _distance(curve, known) < CURVE_SD_NATS:
                return "loss curve", other
        return None


def _may_differ(run: Run, other: Run) -> bool:
    """The same seed and order give the same numbers again wherever arithmetic is reproducible."""
    return run.run_id != other.run_id and _training(run) != _training(other)


def _training(run: Run) -> tuple[str, str | None, int | None, int | None]:
    return run.recipe_hash, run.trainer_version, run.seed, run.order


def _clock(run: Run) -> set[float]:
    """Readings of the clock that no other run has: sums over many steps, with all their digits."""
    readings = [run.clock.train_charged_s, *(phase.mean_s for phase in run.step_times.values())]
    return {value for value in readings if value is not None and _digits(value) >= DIGITS}


def _scores(run: Run) -> set[tuple[str, float]]:
    return {(name, score.bpb) for name, score in run.scores.items() if _digits(score.bpb) >= DIGITS}


def _digits(value: float) -> int:
    return len(repr(value).split("e")[0].replace(".", "").strip("-0"))


def _curve(run: Run) -> NDArray[np.float64] | None:
    """The loss curve as (step, loss) columns, one point a step; None where it has too few to compare."""
    import numpy as np

    points = {step: loss for step, _, loss in run.curves.loss}
    return np.array(list(points.items()), dtype=float) if len(points) >= CURVE_POINTS else None


def _distance(a: NDArray[np.float64] | None, b: NDArray[np.float64]) -> float:
    """SD of the difference of two curves over the steps that both cover, a straight line taken out."""
    import numpy as np

    if a is None:
        return math.inf
    steps = a[a[:, 0] <= b[-1, 0], 0]
    if len(steps) < CURVE_POINTS:
        return math.inf
    difference = a[: len(steps), 1] - np.interp(steps, b[:, 0], b[:, 1])
    x, y = steps - steps.mean(), difference - difference.mean()
    rest = y - x * (x @ y / (x @ x))
    return float(np.sqrt(np.mean(rest**2)))
