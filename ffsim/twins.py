"""Near-duplicates: runs that share numbers which no two runs share by chance.

A copy under another name, seed or recipe, with its score shifted or not, still carries the clock readings or
the loss curve of the run it was made from. Two honest runs of one recipe differ in their training losses by
the noise of the mini-batches, which is far above what is looked for here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ffsim.records import Run
from ffsim.verdicts import Check

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Numbers with fewer digits coincide by chance: foreign logs round to tenths of a second.
DIGITS = 6
# SD in nats of the difference of two loss curves, a straight line taken out. Honest pairs of `laptop`: 0.043 or more.
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
    for other in others:
        shared = "" if other.run_id == run.run_id else _shared(run, other)
        if shared:
            return Check(rule=RULE, outcome="found", message=f"has the {shared} of {other.run_id}", fix=FIX)
    return Check(rule=RULE, outcome="passed")


def _shared(run: Run, other: Run) -> str:
    if _clock(run) and _clock(run) & _clock(other):
        return "clock readings"
    if _training(run) == _training(other):
        # The same seed and order give the same numbers again wherever arithmetic is reproducible.
        return ""
    if _scores(run) and _scores(run) & _scores(other):
        return "score to the last digit"
    distance = _curve_distance(run.curves.loss, other.curves.loss)
    return "loss curve" if distance is not None and distance < CURVE_SD_NATS else ""


def _training(run: Run) -> tuple[str, str, int, int]:
    return run.recipe.hash, run.trainer_version, run.seed, run.order


def _clock(run: Run) -> set[float]:
    """Readings of the clock that no other run has: sums over many steps, with all their digits."""
    readings = [run.clock.train_charged_s, *(phase.mean_s for phase in run.step_times.values())]
    return {value for value in readings if value is not None and _digits(value) >= DIGITS}


def _scores(run: Run) -> set[tuple[str, float]]:
    return {(name, score.bpb) for name, score in run.scores.items() if _digits(score.bpb) >= DIGITS}


def _digits(value: float) -> int:
    return len(repr(value).split("e")[0].replace(".", "").strip("-0"))


def _curve_distance(a: Sequence[tuple[int, float, float]], b: Sequence[tuple[int, float, float]]) -> float | None:
    """SD of the difference of two curves over the steps that both cover, a straight line taken out."""
    import numpy as np

    if min(len(a), len(b)) < CURVE_POINTS:
        return None
    x, y = np.array(a, dtype=float), np.array(b, dtype=float)
    steps: NDArray[np.float64] = x[x[:, 0] <= y[-1, 0], 0]
    if len(steps) < CURVE_POINTS:
        return None
    difference = np.interp(steps, x[:, 0], x[:, 2]) - np.interp(steps, y[:, 0], y[:, 2])
    line = np.column_stack([np.ones(len(steps)), steps])
    return float(np.std(difference - line @ np.linalg.lstsq(line, difference, rcond=None)[0]))
