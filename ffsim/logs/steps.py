"""The step lines of a log: curve, step times by batch phase, and steps that were suspiciously slow.

The traps: logs are thinned (every tenth step), so a mean over their lines is not the mean over the run and puts
a predicted end 5 to 20 steps off; the charged seconds at which a phase began and ended are of all of its steps,
and `phase_means` uses those. The first and the last phase can be the same one (warm-up at the final size).
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping

from ffsim.logs.parser import STEPS_MAX, Parser
from ffsim.logs.reading import SLOW_STEP, Compile, Reading, Switch
from ffsim.records import CurvePoint, StepTime

CLOCK_UNIT_S = 1.0  # charged seconds of a step line are rounded to this at worst
JITTER = 0.02  # of a phase's time may lie beyond its medians; 0.3 to 1.1 % were seen (two recorded Frontier runs)


class StepLines:
    """What was printed for single steps.

    Parameters
    ----------
    parser
        Is told of problems.
    """

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.last: int | None = None
        self.lines = 0
        self.loss: list[CurvePoint] = []
        self.seconds: list[tuple[int, str, float]] = []
        self.marks: list[tuple[int, str, float]] = []  # step, its phase, charged seconds at its end

    def add(self, step: int, phase: str, seconds: float | None, charged_s: float | None, loss: float | None) -> None:
        """Take the line of one step in; a loss without a place on the clock makes no point of the curve."""
        if self.last is not None and step <= self.last:
            self.parser.problem(f"step {step} is printed after step {self.last}: more than one run in this log")
        self.last, self.lines = step, self.lines + 1
        if self.lines > STEPS_MAX:
            self.parser.problem(f"more than {STEPS_MAX:,} step lines; the rest of them is not looked at")
            return
        if seconds is not None:
            self.seconds.append((step, phase, seconds))
        if charged_s is not None:
            self.marks.append((step, phase, charged_s))
        if loss is not None and charged_s is not None:
            self.loss.append((step, charged_s, loss))

    @property
    def steps(self) -> int | None:
        """Last index + 1."""
        return None if self.last is None else self.last + 1

    @property
    def thinned(self) -> bool:
        """Whether steps were not printed."""
        return self.last is not None and self.lines <= self.last

    def compiles(self, free_steps: int, medians: Mapping[str, float]) -> tuple[Compile, ...]:
        """The slow steps, printed or not; `medians` of a summary stand before those of the lines."""
        known = {phase: statistics.median(values) for phase, values in self._by_phase(free_steps).items()}
        known |= medians
        found = [
            Compile(step=step, phase=phase, seconds=seconds, source="step line", charged=step >= free_steps)
            for step, phase, seconds in self.seconds
            if phase in known and seconds > SLOW_STEP * known[phase]
        ]
        printed = {compile_.step for compile_ in found}
        for (before, phase, from_s), (step, same, until_s) in itertools.pairwise(self.marks):
            # What is charged between two lines beyond the medians of their steps was spent in one that is not printed.
            count = step - before
            if phase != same or phase not in known or count < 2 or before < free_steps - 1 or step in printed:
                continue
            expected_s = count * known[phase]
            seconds = until_s - from_s - expected_s + known[phase]
            if seconds > SLOW_STEP * known[phase] + CLOCK_UNIT_S + JITTER * expected_s:
                source = f"charged between the lines of steps {before} and {step}"
                found.append(Compile(step=before + 1, phase=phase, seconds=seconds, source=source, charged=True))
        return tuple(sorted(found, key=lambda compile_: compile_.step))

    def step_times(
        self, free_steps: int, medians: Mapping[str, float], means: Mapping[str, tuple[int, float]]
    ) -> dict[str, StepTime]:
        """Step times of the phases that have a line; `means` is (count, mean_s) of all of a phase's steps."""
        found = {}
        for phase, values in self._by_phase(free_steps).items():
            count, mean_s = means.get(phase, (len(values), statistics.fmean(values)))
            p95_s = sorted(values)[math.ceil(0.95 * len(values)) - 1]
            median_s = medians.get(phase, statistics.median(values))
            found[phase] = StepTime(count=count, median_s=median_s, mean_s=mean_s, p95_s=p95_s)
        return found

    def _by_phase(self, free_steps: int) -> dict[str, list[float]]:
        charged: dict[str, list[float]] = {}
        for step, phase, seconds in self.seconds:
            if step >= free_steps:
                charged.setdefault(phase, []).append(seconds)
        return charged


def phase_means(reading: Reading) -> dict[str, float]:
    """Mean charged seconds of one optimizer step in each batch phase, over all of its steps.

    Parameters
    ----------
    reading
        Of a finished run.

    Returns
    -------
    dict
        Phase label -> seconds; empty if the log does not say at which charged second each phase began, or the
        run did not finish.
    """
    if reading.first_phase is None or reading.steps is None or reading.trained_s is None:
        return {}
    spans = phase_spans(reading.first_phase, reading.switches, reading.free_steps, reading.steps, reading.trained_s)
    return {phase: mean_s for phase, (_, mean_s) in spans.items()}


def phase_spans(
    first_phase: str, switches: tuple[Switch, ...], free_steps: int, steps: int, trained_s: float
) -> dict[str, tuple[int, float]]:
    """Phase -> charged steps and their mean seconds; empty where a place on the clock is missing."""
    marks = [(first_phase, 0, 0.0)]
    for switch in switches:
        if switch.charged_s is None:
            return {}
        marks.append((switch.label, switch.step, switch.charged_s))
    marks.append(("", steps, trained_s))
    counts: dict[str, int] = {}
    seconds: dict[str, float] = {}
    for (phase, first, from_s), (_, end, until_s) in itertools.pairwise(marks):
        count = end - max(first, free_steps)
        if count > 0 and until_s >= from_s:
            counts[phase] = counts.get(phase, 0) + count
            seconds[phase] = seconds.get(phase, 0.0) + until_s - from_s
    return {phase: (count, seconds[phase] / count) for phase, count in counts.items() if seconds[phase] > 0}
