"""The charged clock: what counts against a contest's budget, and when a trainer has to stop.

A run that stops one step too late is disqualified, one that stops ten steps too early gives away
quality. So the policy of the contest file is turned into a clock that a training loop asks before every
step. Traps that it avoids:

* `os.times` ticks every 10 ms, about one step of a small model: CPU time is read from `time.process_time`
  (nanoseconds) plus `resource.getrusage` for children.
* Evaluation on the way must not cost budget: `ChargedClock.paused` banks what was charged so far, so that
  the reading never goes back by a rounding error.
* One slow step must neither hide in an average nor stop a run for good: the estimate covers the last
  `window` steps, by median, mean or maximum, as the contest says.

Nothing here imports torch or pandas, so that a simulator can run the same policy on made-up durations.
"""

from __future__ import annotations

import math
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ffsim.errors import ContestError

ESTIMATES: dict[str, Callable[[list[float]], float]] = {
    "median": statistics.median,
    "max": max,
    "mean": statistics.fmean,
}


@dataclass(frozen=True)
class ClockPolicy:
    """What a contest counts against the budget and how a trainer foresees the end of it.

    Attributes
    ----------
    time
        ``"cpu"``: seconds of the process and its finished children; ``"wall"``: monotonic seconds.
    warmup_steps
        Steps that are run and undone before the clock starts.
    estimate
        How the next step's duration is foreseen from the last ones: ``"median"``, ``"max"`` or ``"mean"``.
    window
        How many of the last steps the estimate looks at.
    margin_s
        Seconds kept free before the end of the budget.
    """

    time: str
    warmup_steps: int
    estimate: str
    window: int
    margin_s: float

    @classmethod
    def from_dict(cls, policy: Mapping[str, Any]) -> ClockPolicy:
        """Read the ``clock`` section of a contest file.

        Parameters
        ----------
        policy
            ``{time, warmup_steps, stop: {estimate, window, margin_s}}``, all of them required.

        Raises
        ------
        ContestError
            A key is missing or unknown, or a value has the wrong type or range.
        """
        _require_keys(policy, {"time", "warmup_steps", "stop"}, "clock")
        stop = policy["stop"]
        _require_keys(stop, {"estimate", "window", "margin_s"}, "clock.stop")
        margin_s = stop["margin_s"]
        if type(margin_s) not in (int, float) or not 0 <= margin_s < math.inf:
            raise ContestError(f"clock.stop.margin_s is {margin_s!r}; give seconds, 0 or more")
        return cls(
            time=_one_of(policy["time"], TIME_SOURCES, "clock.time"),
            warmup_steps=_at_least(policy["warmup_steps"], 0, "clock.warmup_steps"),
            estimate=_one_of(stop["estimate"], ESTIMATES, "clock.stop.estimate"),
            window=_at_least(stop["window"], 1, "clock.stop.window"),
            margin_s=float(margin_s),
        )


class Stopwatch:
    """Seconds of any time source since `start`, less the pauses.

    Parameters
    ----------
    now
        A non-decreasing time source in seconds, such as `cpu_seconds` or `time.monotonic`.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._banked_s = 0.0
        self._running_since_s: float | None = None

    @property
    def elapsed_s(self) -> float:
        """Seconds measured so far; stands still during a pause and never decreases."""
        if self._running_since_s is None:
            return self._banked_s
        return self._banked_s + (self._now() - self._running_since_s)

    def start(self) -> None:
        """Start from zero."""
        self._banked_s, self._running_since_s = 0.0, self._now()

    def stop(self) -> None:
        """Stand still from now on."""
        self._banked_s, self._running_since_s = self.elapsed_s, None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Measure nothing inside the block; a pause inside a pause changes nothing."""
        was_running = self._running_since_s is not None
        self.stop()
        try:
            yield
        finally:
            if was_running:
                self._running_since_s = self._now()


class ChargedClock(Stopwatch):
    """Charges time against a budget and says when to stop.

    Parameters
    ----------
    policy
        What counts, and how the end is foreseen.
    budget_s
        Seconds a run may charge; infinite for a run that ends by its number of steps.
    now
        Time source in seconds; by default the one that the policy names. Tests and simulators pass theirs.

    Attributes
    ----------
    step_seconds : list of float
        Charged seconds of every step so far.

    Examples
    --------
    >>> clock.start()
    >>> while not clock.should_stop():
    ...     step()
    ...     clock.step_done()
    """

    def __init__(self, policy: ClockPolicy, budget_s: float, now: Callable[[], float] | None = None) -> None:
        if not budget_s > 0:
            raise ContestError(f"budget_s is {budget_s!r}; a budget is more than 0 seconds")
        super().__init__(now or TIME_SOURCES[policy.time])
        self.policy = policy
        self.budget_s = budget_s
        self.step_seconds: list[float] = []
        self._last_step_end_s = 0.0

    @property
    def charged_s(self) -> float:
        """Seconds charged so far."""
        return self.elapsed_s

    @property
    def fraction(self) -> float:
        """Charged share of the budget, between 0 and 1: what the schedules follow."""
        return min(1.0, max(0.0, self.elapsed_s / self.budget_s))

    @property
    def last_step_s(self) -> float:
        """Charged seconds of the latest step; 0 before the first."""
        return self.step_seconds[-1] if self.step_seconds else 0.0

    @property
    def longest_step_s(self) -> float:
        """Charged seconds of the slowest step; 0 before the first."""
        return max(self.step_seconds, default=0.0)

    def start(self) -> None:
        """Start charging from zero, with no step measured."""
        self.step_seconds, self._last_step_end_s = [], 0.0
        super().start()

    def step_done(self) -> float:
        """Record the end of a step and return its charged seconds.

        A step is charged from the end of the one before it, so the durations add up to the whole charge.
        """
        end_s = self.elapsed_s
        self.step_seconds.append(end_s - self._last_step_end_s)
        self._last_step_end_s = end_s
        return self.step_seconds[-1]

    def should_stop(self) -> bool:
        """Whether the next step is expected to end after the budget.

        With no step measured there is nothing to expect and the first step always runs; once the budget is
        spent the answer is yes whatever the estimate says, so no run goes over by more than one step.
        """
        if not self.step_seconds:
            return False
        latest_first = reversed(self.step_seconds)
        next_step_s = ESTIMATES[self.policy.estimate](list(islice(latest_first, self.policy.window)))
        charged_s = self.elapsed_s
        return charged_s >= self.budget_s or charged_s + next_step_s + self.policy.margin_s > self.budget_s


def cpu_seconds() -> float:
    """CPU seconds, user and system, of this process and of its finished children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


TIME_SOURCES: dict[str, Callable[[], float]] = {"cpu": cpu_seconds, "wall": time.monotonic}


def _require_keys(section: Any, keys: set[str], name: str) -> None:
    if not isinstance(section, Mapping):
        raise ContestError(f"{name} is {section!r}; it is a mapping with the keys {', '.join(sorted(keys))}")
    if unknown := sorted(str(key) for key in set(section) - keys):
        allowed = ", ".join(sorted(keys))
        raise ContestError(f"{name} has unknown keys: {', '.join(unknown)}; allowed: {allowed}")
    if missing := sorted(keys - set(section)):
        raise ContestError(f"{name} lacks {', '.join(missing)}; add what the contest wants there")


def _one_of(value: Any, allowed: Mapping[str, Any], name: str) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise ContestError(f"{name} is {value!r}; choose one of {', '.join(allowed)}")
    return value


def _at_least(value: Any, least: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ContestError(f"{name} is {value!r}; give a whole number, {least} or more")
    return value
