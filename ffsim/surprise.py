"""How far a new run lies from what the runs of others say: its score, its speed, and its own loss curve.

A surprising run is the one that the models need, so nothing here refuses it: a finding asks for a second look.
Every z is in units of the held-out errors that the models really make, not of those that they claim.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ffsim import features, quality, steps
from ffsim.contest import Contest
from ffsim.errors import ModelError
from ffsim.linear import Linear
from ffsim.project import Guard
from ffsim.quality import QualityModel
from ffsim.records import Run
from ffsim.trust import Trust
from ffsim.verdicts import Check, Outcome

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LN2 = math.log(2)
MAD = 0.6745  # median of |x| of a standard normal variable
NATS_TOLERANCE = 0.06  # of ln(score / prediction) around ln(ln 2)
BYTES_RANGE = (0.04, 0.20)  # a text counted in characters or with line ends doubled is off by this much
LOOK = "check the text, the byte count and the recipe; if all is right, a maintainer accepts it"


@dataclasses.dataclass(frozen=True)
class Surprise:
    """What others' runs say, ready to be held against new ones.

    Parameters
    ----------
    contest, reference, trust, limits
        As in `checks`.
    score_scale, speed_scale
        Robust SD of the held-out z of the reference, at least 1.
    """

    contest: Contest
    reference: Sequence[Run]
    trust: Trust
    limits: Guard
    score_scale: float
    speed_scale: float

    @classmethod
    def of(cls, contest: Contest, reference: Sequence[Run], trust: Trust, limits: Guard) -> Surprise:
        """Learn how wrong the models are on recipes that they have not seen.

        Raises
        ------
        ModelError
            If the reference is smaller than `limits.min_runs`.
        """
        chosen = quality.usable(contest, reference)
        if len(chosen) < limits.min_runs:
            raise ModelError(f"{len(chosen)} runs to compare with, {limits.min_runs} are needed")
        groups = [run.recipe_hash for run in chosen]
        timed = steps.timed(reference)
        return cls(
            contest,
            reference,
            trust,
            limits,
            _scale(quality.observations(contest, chosen, trust), groups),
            _scale(steps.observations(contest, timed, trust), [run.recipe_hash for run in timed]),
        )

    def checks(self, runs: Sequence[Run]) -> dict[str, list[Check]]:
        """Run id -> the outcome of every rule, for runs that are not in the reference."""
        chosen = quality.usable(self.contest, runs)
        found: dict[str, list[Check]] = {run.run_id: [] for run in runs}
        if not chosen:
            return found
        mean, sd = self.expected(chosen)
        speeds, gaps = self._speeds(chosen), self._gaps()
        for run, m, s in zip(chosen, mean.tolist(), sd.tolist(), strict=True):
            score = quality.bpb(self.contest, run)
            found[run.run_id] = [
                self._score(run, score, m, s),
                self._units(run, score, m, s),
                speeds[run.run_id],
                self._gap(run, gaps),
            ]
        return found

    def expected(self, runs: Sequence[Run]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What others' runs say of the score of runs with these knobs and steps.

        Away from the steps at which the recipe has been run (a new recipe: any run), the slope itself is a guess: it
        may be off by as much as it is.

        Returns
        -------
        tuple
            (mean, SD) in bpb, each of shape (n_runs,).
        """
        import numpy as np

        reference = quality.usable(self.contest, self.reference)
        rows, y, weights = quality.observations(self.contest, reference, self.trust)
        new = [quality.row(self.contest, run.knobs, run.steps or 1) for run in runs]
        mean, sd = Linear.foresee(rows, y, new, weights)
        price = QualityModel(Linear.fit(rows, y, features.varied(rows), weights)).price() or 0.0
        away = np.array([self._away(run, reference) for run in runs])
        return mean, np.hypot(sd * self.score_scale, price * away)

    @staticmethod
    def _away(run: Run, reference: Sequence[Run]) -> float:
        """Distance in ln(steps) to the nearest run of the recipe; of a new recipe, to the nearest run of all."""
        own = [other.steps or 1 for other in reference if other.recipe_hash == run.recipe_hash]
        seen = own or [other.steps or 1 for other in reference]
        return min(abs(math.log((run.steps or 1) / steps_)) for steps_ in seen)

    def _score(self, run: Run, score: float, mean: float, sd: float) -> Check:
        z = (score - mean) / sd
        limit = self.limits.surprise_z
        message = f"bpb {score:.4f}, others' runs say {mean:.4f} (z {z:+.1f}, limit {limit:g})"
        return Check(rule="surprise", outcome=_outcome(z, limit), value=z, limit=limit, message=message, fix=LOOK)

    def _units(self, run: Run, score: float, mean: float, sd: float) -> Check:
        """A ratio that a known mistake makes, where the score is not what others' runs say."""
        ratio = math.log(score / max(mean, 1e-9))
        z = abs(score - mean) / sd
        if z > self.limits.surprise_z / 2 and abs(abs(ratio) + math.log(LN2)) < NATS_TOLERANCE:
            word = "nats for bits" if ratio < 0 else "bits divided by ln 2 twice"
            return Check(rule="unit_nats", outcome="found", value=math.exp(ratio), limit=LN2,
                         message=f"bpb {score:.4f} against {mean:.4f} looks like {word}",
                         fix="bits per byte = nats / ln 2 / bytes")  # fmt: skip
        counted = run.scores[self.contest.text("rehearsal")]
        if counted.nats is not None and counted.bytes is not None:
            return Check(rule="unit_bytes", outcome="passed")
        low, high = (math.log1p(value) for value in BYTES_RANGE)
        if z > self.limits.surprise_z / 2 and low <= abs(ratio) <= high:
            return Check(rule="unit_bytes", outcome="found", value=math.exp(ratio),
                         message=f"bpb {score:.4f} against {mean:.4f}, without nats and bytes: a wrong byte count?",
                         fix="give nats and bytes of the scored text")  # fmt: skip
        return Check(rule="unit_bytes", outcome="unverified", message="nats or bytes are not given")

    def _speeds(self, runs: Sequence[Run]) -> dict[str, Check]:
        """Steps that a budget cannot hold: against the same host block and trainer, or against the fastest of all."""
        reference = steps.timed(self.reference)
        rows, y, weights = steps.observations(self.contest, reference, self.trust)
        blocks = sorted({run.host.block for run in reference})
        trainers = {run.trainer_version for run in reference}
        found: dict[str, Check] = {}
        for run in runs:
            seconds = steps.step_time_s(run)
            if seconds is None:
                found[run.run_id] = Check(rule="speed", outcome="unverified", message="no step times")
                continue
            known = run.host.block in blocks and run.trainer_version in trainers
            compared = [run.host.block] if known else blocks
            mean, sd = Linear.foresee(
                rows, y, [steps.row(self.contest, run.knobs, block, run.trainer_version) for block in compared], weights
            )
            z = float((math.log(seconds) - float(mean.min())) / (float(sd[int(mean.argmin())]) * self.speed_scale))
            fastest = float(mean.min()) - math.log(self.limits.speed_factor)
            limit = self.limits.surprise_z
            if known:
                message = f"{seconds:.3g} s a step, others' runs say {math.exp(float(mean[0])):.3g} s (z {z:+.1f})"
                # Too slow is what a busy machine makes of an honest run; too fast is what no machine can do.
                outcome: Outcome = "found" if z < -limit else "passed"
                found[run.run_id] = Check(
                    rule="speed", outcome=outcome, value=z, limit=limit, message=message, fix=_STEPS
                )
            else:
                beyond = math.log(seconds) < fastest
                message = f"{seconds:.3g} s a step on a host, or by a trainer, that no run comes from"
                found[run.run_id] = Check(
                    rule="speed", outcome="found" if beyond else "unverified", value=z, message=message, fix=_STEPS
                )
        return found

    def _gaps(self) -> list[float]:
        gaps = (gap(self.contest, run) for run in quality.usable(self.contest, self.reference))
        return [value for value in gaps if value is not None]

    def _gap(self, run: Run, gaps: Sequence[float]) -> Check:
        """The score against the run's own training loss."""
        own = gap(self.contest, run)
        if own is None or len(gaps) < self.limits.min_runs:
            return Check(rule="loss_gap", outcome="unverified", message="no loss curve, or too few to compare with")
        middle = statistics.median(gaps)
        scale = statistics.median(abs(value - middle) for value in gaps) / MAD
        z, limit = (own - middle) / max(scale, 1e-6), self.limits.surprise_z
        message = f"bpb is {own:+.3f} above the training loss, in others' runs {middle:+.3f} (z {z:+.1f})"
        return Check(rule="loss_gap", outcome=_outcome(z, limit), value=z, limit=limit, message=message, fix=LOOK)


_STEPS = "check steps, step times and host; a faster machine is a host block of its own"


def gap(contest: Contest, run: Run) -> float | None:
    """Score - training loss over the last twentieth of the steps, both in bits per byte of the scored text."""
    score = run.scores.get(contest.text("rehearsal"))
    tail = [loss for step, _, loss in run.curves.loss if run.steps and step > 0.95 * run.steps]
    if score is None or not tail or not score.tokens or not score.bytes:
        return None
    return score.bpb - statistics.fmean(tail) / LN2 * score.tokens / score.bytes


def _outcome(z: float, limit: float) -> Outcome:
    return "passed" if abs(z) <= limit else "found"  # what cannot be computed (NaN) has not passed


def _scale(observed: tuple[list[dict[str, float]], list[float], list[float] | None], groups: Sequence[str]) -> float:
    """Robust SD of held-out z: 1 where the model knows its errors, more where it is too sure of itself."""
    rows, y, weights = observed
    try:
        mean, sd = Linear.held_out(rows, y, features.varied(rows), groups, weights)
    except ModelError:
        return 1.0
    z = [(truth - m) / s for truth, m, s in zip(y, mean.tolist(), sd.tolist(), strict=True)]
    return max(1.0, float(statistics.median(abs(value) for value in z)) / MAD)
