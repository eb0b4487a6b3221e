"""False and one-sided contributions, made from a dataset's own runs: what `ffsim audit` tries on the guard.

The attacker knows the dataset, the models and every limit. What it makes up is consistent: new seeds, clock
readings and mini-batch noise of its own, nats that fit the score. Only the numbers are wrong.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Sequence

import msgspec

from ffsim import quality, steps
from ffsim.contest import Contest
from ffsim.evidence import Evidence
from ffsim.influence import Pin
from ffsim.project import Guard
from ffsim.records import Curves, Run, Score
from ffsim.surprise import Surprise

HANDLE = "newcomer"
LN2 = math.log(2)
CAREFUL = 0.9  # of the surprise limit: as far as one can lie without being noticed


@dataclasses.dataclass(frozen=True)
class Attack:
    """Some runs that somebody contributes.

    Parameters
    ----------
    name
        What is tried, in a few words.
    runs
        In the order of contribution.
    honest
        Whether the runs are true: then they must not be lost.
    """

    name: str
    runs: list[Run]
    honest: bool = False


def all_of(contest: Contest, known: Evidence, pins: Sequence[Pin], limits: Guard, seed: int = 1) -> list[Attack]:
    """Every attack on this evidence; `pins` are its targets."""
    forge = _Forge(contest, known, limits, random.Random(seed))  # noqa: S311  (no secret hangs on it)
    target = forge.template(pins)
    found = [
        Attack("a copy, score -5 %", [forge.copy(target, 0.95)]),
        Attack("20 copies, score -5 %", [forge.copy(run, 0.95) for run in forge.some(20)]),
        Attack("a copy under another seed, same score", [forge.renamed(target)]),
        Attack("5 forged runs of a pinned recipe, score -5 %", [forge.scaled(target, 0.95) for _ in range(5)]),
    ]
    many = (2, 4, 8)
    found += [Attack(f"slope: {n} runs, each within the surprise limit", forge.slope(target, n)) for n in many]
    found += [Attack(f"level: {n} runs of a pinned recipe, each within it", forge.level(target, n)) for n in many]
    found += [
        Attack("slope: 8 runs far beyond the steps seen", forge.slope(target, 8, 1 / 16, 16.0)),
        Attack("slope: 8 runs under 8 handles", forge.sybils(forge.slope(target, 8))),
        Attack("level: 8 runs under 8 handles", forge.sybils(forge.level(target, 8))),
        Attack("speed: 8 runs with 10 % more steps", [forge.faster(target, 1.10) for _ in range(8)]),
        Attack("units: 10 runs, nats for bits", [forge.scaled(run, LN2) for run in forge.some(10)]),
        Attack("units: 10 runs, bytes off by 6 %", [forge.scaled(run, 1.06) for run in forge.some(10)]),
        Attack("units: 10 runs, bytes off by 1 %", [forge.scaled(run, 1.01) for run in forge.some(10)]),
        Attack("flood: 200 true runs of one recipe, the lucky half", forge.flood(200, target), honest=True),
        Attack("flood: 200 true runs, the lucky half", forge.flood(200, None), honest=True),
        Attack("one honest outlier", [forge.outlier(target)], honest=True),
    ]
    return found


class _Forge:
    """Makes consistent runs with chosen numbers."""

    def __init__(self, contest: Contest, known: Evidence, limits: Guard, rng: random.Random) -> None:
        self.contest, self.limits, self.rng, self.count = contest, limits, rng, 0
        self.text = contest.text("rehearsal")
        self.real = [run for run in quality.usable(contest, known.runs) if run.kind == "rehearsal"]
        self.surprise = Surprise.of(contest, known.runs, known.trust, limits)
        self.noise_sd = quality.QualityModel.fit(contest, known.runs, trust=known.trust).linear.noise_var ** 0.5
        self.speed_sd = steps.StepModel.fit(contest, known.runs, known.trust).linear.noise_var ** 0.5

    def template(self, pins: Sequence[Pin]) -> Run:
        """A run of the pinned recipe that has most of them."""
        counts = {pin.hash: sum(run.recipe_hash == pin.hash for run in self.real) for pin in pins}
        best = max(counts, key=lambda key: (counts[key], key), default=None)
        return next((run for run in self.real if run.recipe_hash == best), self.real[0])

    def some(self, n: int) -> list[Run]:
        """Some of the real runs."""
        return [self.rng.choice(self.real) for _ in range(n)]

    def copy(self, run: Run, factor: float) -> Run:
        """The run under another name, its score changed and everything else as it was."""
        score = run.scores[self.text]
        scores = {**run.scores, self.text: _score(score, score.bpb * factor)}
        return msgspec.structs.replace(self.renamed(run), scores=scores)

    def renamed(self, run: Run) -> Run:
        """The run under another name and seed."""
        self.count += 1
        return msgspec.structs.replace(
            run, run_id=f"{HANDLE}-{self.count}", contributor=HANDLE, seed=self.rng.randrange(10**6), control_of=None
        )

    def forged(self, run: Run, bpb: float, n_steps: int | None = None) -> Run:
        """A run like this one that was never made: a score, a number of steps, noise of its own everywhere."""
        made = self.renamed(run)
        bpb += self.rng.gauss(0, 1e-4)
        n = n_steps or run.steps or 1
        charged = (run.budget_s or run.clock.train_charged_s or 1.0) * self.rng.uniform(0.998, 1.0)
        shift = (bpb - run.scores[self.text].bpb) * LN2
        ratio = n / (run.steps or 1)
        loss = tuple(
            (max(1, round(step * ratio)), at * ratio, value + shift + self.rng.gauss(0, 0.05))
            for step, at, value in run.curves.loss
        )
        phases = {
            name: msgspec.structs.replace(
                phase, count=n, mean_s=charged / n, median_s=charged / n * 0.99, p95_s=charged / n * 1.1
            )
            for name, phase in list(run.step_times.items())[:1]
        }
        clock = msgspec.structs.replace(run.clock, train_charged_s=charged)
        tokens = n * self.contest.step_tokens(run.knobs)
        scores = {self.text: _score(run.scores[self.text], bpb)}
        return msgspec.structs.replace(
            made, steps=n, tokens=tokens, clock=clock, step_times=phases, scores=scores, curves=Curves(loss=loss)
        )

    def scaled(self, run: Run, factor: float) -> Run:
        """A forged run whose score is wrong by a factor."""
        return self.forged(run, run.scores[self.text].bpb * factor * math.exp(self.rng.gauss(0, 0.003)))

    def faster(self, run: Run, factor: float) -> Run:
        """A forged run with more steps, its score as others' runs say for so many."""
        n = round((run.steps or 1) * factor * math.exp(self.rng.gauss(0, self.speed_sd / 4)))
        mean, _ = self.expected(run, n)
        return self.forged(run, mean, n)

    def slope(self, run: Run, n: int, shortest: float = 1 / 4, longest: float = 2.0) -> list[Run]:
        """Budgets from `shortest` to `longest` times the full one, the scores off towards a steeper slope."""
        made = []
        for i in range(n):
            x = -1 + 2 * i / (n - 1)
            factor = shortest**-x if x < 0 else longest**x
            steps_ = max(1, round((run.steps or 1) * factor))
            mean, sd = self.expected(run, steps_)
            kind, budget = ("screen", self.contest.budget_s * factor) if abs(x) > 1e-9 else ("rehearsal", run.budget_s)
            other = msgspec.structs.replace(run, kind=kind, budget_s=budget)
            made.append(self.forged(other, mean - CAREFUL * self.limits.surprise_z * sd * x, steps_))
        return made

    def level(self, run: Run, n: int) -> list[Run]:
        """One recipe, every score better by as much as is not noticed."""
        mean, sd = self.expected(run, run.steps or 1)
        return [self.forged(run, mean - CAREFUL * self.limits.surprise_z * sd) for _ in range(n)]

    def sybils(self, runs: Sequence[Run]) -> list[Run]:
        """The same runs, each under a handle of its own."""
        return [msgspec.structs.replace(run, contributor=f"{HANDLE}{i}") for i, run in enumerate(runs)]

    def flood(self, n: int, run: Run | None) -> list[Run]:
        """True runs: the model's scores with its noise, of which only the better half is contributed."""
        choose: Callable[[], Run] = (lambda: run) if run is not None else (lambda: self.rng.choice(self.real))
        made = []
        for _ in range(n):
            of = choose()
            count = round((of.steps or 1) * math.exp(self.rng.gauss(0, self.speed_sd)))
            mean, _ = self.expected(of, count)
            made.append(self.forged(of, mean - abs(self.rng.gauss(0, self.noise_sd)), count))
        return made

    def outlier(self, run: Run) -> Run:
        """A true run that nothing known explains: twice the surprise limit away."""
        mean, sd = self.expected(run, run.steps or 1)
        return self.forged(run, mean - 2 * self.limits.surprise_z * sd)

    def expected(self, run: Run, n_steps: int) -> tuple[float, float]:
        """(mean, SD) of the score of such a run, by the models that everybody can fit."""
        mean, sd = self.surprise.expected([msgspec.structs.replace(run, steps=n_steps)])
        return float(mean[0]), float(sd[0])


def _score(score: Score, bpb: float) -> Score:
    """The score with another bpb, and the nats that fit it."""
    nats = None if score.bytes is None or score.nats is None else bpb * LN2 * score.bytes
    return msgspec.structs.replace(score, bpb=bpb, nats=nats)
