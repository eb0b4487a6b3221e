"""The charged clock: what counts against a contest's budget, and when a trainer has to stop.

A run that stops one step too late is disqualified, one that stops ten steps too early gives away quality. So
the policy of the contest file (`ffsim.policy`) is executed here and nowhere else, by a clock that a training
loop asks before every step. The same clock runs on a `VirtualTime`, where a replay says what a step takes.

Traps that it avoids:

* Evaluation on the way must not cost budget: `ChargedClock.spending` banks what was charged so far, so that
  the reading never goes back by a rounding error.
* One slow step must neither hide in an average nor stop a run for good: the policy says which of the last steps
  foresee the next one.
* A start-up above the contest's cap is charged the moment the clock starts, before the first charged step.

Nothing here imports torch or pandas, so that a simulator can run the same policy on made-up durations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from ffsim.cputime import TreeCPU
from ffsim.errors import ContestError
from ffsim.policy import ClockPolicy, Spending

cpu_seconds = TreeCPU()

TIME_SOURCES: dict[str, Callable[[], float]] = {"cpu": cpu_seconds, "wall": time.monotonic}


class VirtualTime:
    """A time source that stands still until it is told what something took."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Virtual seconds so far."""
        return self.now_s

    def spend(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self.now_s += seconds


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

    def start(self, elapsed_s: float = 0.0) -> None:
        """Start from `elapsed_s`."""
        self._banked_s, self._running_since_s = elapsed_s, self._now()

    def stop(self) -> None:
        """Stand still from now on."""
        self._banked_s, self._running_since_s = self.elapsed_s, None

    def resume(self) -> None:
        """Go on after a stop."""
        if self._running_since_s is None:
            self._running_since_s = self._now()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Measure nothing inside the block; a pause inside a pause changes nothing."""
        was_running = self._running_since_s is not None
        self.stop()
        try:
            yield
        finally:
            if was_running:
                self.resume()


class ChargedClock(Stopwatch):
    """Charges time against a budget by a contest's policy and says when to stop.

    Parameters
    ----------
    policy
        What counts, and how the end is foreseen.
    target_s
        Charged second at which the run plans to stop, at most the budget; infinite for a run that ends by its
        number of steps.
    now
        Time source in seconds; by default the one that the policy names. A replay passes a `VirtualTime`.
    launched_s
        Reading of `now` when the run was launched; by default that of this moment.

    Attributes
    ----------
    step_seconds : list of float
        Charged seconds of every charged step so far.
    free_seconds : list of float
        Seconds of every step that was free.
    startup_s : float
        From the launch to the start of the clock, free steps included; 0 before it started.
    excess_s : float
        What the start-up took above the contest's cap: charged at once.

    Examples
    --------
    >>> clock.start()
    >>> while not clock.should_stop():
    ...     clock.step_started()
    ...     step()
    ...     clock.step_done()
    """

    def __init__(
        self,
        policy: ClockPolicy,
        target_s: float,
        now: Callable[[], float] | None = None,
        launched_s: float | None = None,
    ) -> None:
        if not target_s > 0:
            raise ContestError(f"the budget is {target_s!r} s; a budget is more than 0 seconds")
        super().__init__(now or TIME_SOURCES[policy.time])
        self.policy = policy
        self.target_s = target_s
        self.step_seconds: list[float] = []
        self.free_seconds: list[float] = []
        self.startup_s = self.excess_s = 0.0
        self._launched_s = self._now() if launched_s is None else launched_s
        self._last_step_end_s = 0.0
        self._free_since_s = 0.0

    @property
    def now_s(self) -> float:
        """Reading of the time source."""
        return self._now()

    @property
    def steps(self) -> int:
        """Steps done so far, free ones included."""
        return len(self.free_seconds) + len(self.step_seconds)

    @property
    def free(self) -> bool:
        """Whether the next step is free."""
        return len(self.free_seconds) < self.policy.free_steps

    @property
    def charged_s(self) -> float:
        """Seconds charged so far."""
        return self.elapsed_s

    @property
    def fraction(self) -> float:
        """Charged share of the target, between 0 and 1: what the schedules follow."""
        return min(1.0, max(0.0, self.elapsed_s / self.target_s))

    @property
    def last_step_s(self) -> float:
        """Charged seconds of the latest step; 0 before the first."""
        return self.step_seconds[-1] if self.step_seconds else 0.0

    @property
    def longest_step_s(self) -> float:
        """Charged seconds of the slowest step; 0 before the first."""
        return max(self.step_seconds, default=0.0)

    def start(self, elapsed_s: float = 0.0) -> None:
        """Make ready for the first step: charge from now on, or from the end of the last free step."""
        self.step_seconds, self.free_seconds = [], []
        self._last_step_end_s = 0.0
        self._free_since_s = self._now()
        if not self.free:
            self._start_charging()

    def step_started(self) -> None:
        """Note the start of a step; only where nothing else is charged does it matter."""
        if self.policy.counts == "steps" and not self.free:
            self.resume()

    def step_done(self) -> float:
        """Record the end of a step and return its seconds.

        A step is charged from the end of the one before it, so the durations add up to the whole charge.
        """
        if self.free:
            return self._free_step_done()
        end_s = self.elapsed_s
        self.step_seconds.append(end_s - self._last_step_end_s)
        self._last_step_end_s = end_s
        if self.policy.counts == "steps":
            self.stop()
        return self.step_seconds[-1]

    def should_stop(self) -> bool:
        """Whether the next step is expected to end after the target.

        With no charged step measured there is nothing to expect and the next step always runs; once the target
        is reached the answer is yes whatever the estimate says, so no run goes over by more than one step.
        """
        if not self.step_seconds:
            return False
        charged_s = self.elapsed_s
        expected_s = self.policy.foresee(self.step_seconds) + self.policy.stop.margin_s
        return charged_s >= self.target_s or (expected_s > 0 and charged_s + expected_s >= self.target_s)

    def spending(self, what: Spending) -> Any:
        """A block of evaluation, saving or compiling: charged if the policy says so, else a pause."""
        if what not in self.policy.charged:
            return self.paused()
        # Where only steps count the clock stands still between them; what is charged by name runs it all the same.
        return self._running() if self.policy.counts == "steps" and not self.free else nullcontext()

    @contextmanager
    def _running(self) -> Iterator[None]:
        was_running = self._running_since_s is not None
        self.resume()
        try:
            yield
        finally:
            if not was_running:
                self.stop()

    def _free_step_done(self) -> float:
        now_s = self._now()
        self.free_seconds.append(now_s - self._free_since_s)
        self._free_since_s = now_s
        if len(self.free_seconds) == self.policy.free_steps:
            self._start_charging()
        return self.free_seconds[-1]

    def _start_charging(self) -> None:
        self.startup_s = self._now() - self._launched_s
        cap = self.policy.startup
        self.excess_s = max(0.0, self.startup_s + cap.margin_s - cap.cap_s) if cap else 0.0
        super().start(self.excess_s)
        self._last_step_end_s = self.excess_s
        if self.policy.counts == "steps":
            self.stop()
