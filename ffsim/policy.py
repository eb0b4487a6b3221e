"""The clock policy of a contest: which seconds count against the budget, and when a trainer has to stop.

The policy is data: the ``clock`` section of a contest file. `ffsim.clock.ChargedClock` executes it, for a real
run and for a replay of one.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from ffsim.errors import ContestError

Spending = Literal["late_compiles", "save", "evaluation"]
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Seconds = Annotated[float, msgspec.Meta(ge=0, lt=1e9)]

STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "median": statistics.median,
    "max": max,
    "mean": statistics.fmean,
}


class Foresight(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One estimate of the next step: `times` x a statistic of the last `window` steps."""

    of: Literal["median", "max", "mean"]
    window: Annotated[int, msgspec.Meta(ge=1)]
    times: Annotated[float, msgspec.Meta(gt=0, le=1000)] = 1.0

    def seconds(self, step_seconds: Sequence[float]) -> float:
        """The estimate from the durations of the steps so far, of which there is at least one."""
        return self.times * STATISTICS[self.of](step_seconds[-self.window :])


class Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A run stops once charged + the least estimate + `margin_s` reaches the target.

    Without an estimate it stops at the first step that ends at or after the target.
    """

    estimate: tuple[Foresight, ...] = ()
    margin_s: Seconds = 0.0


class Startup(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Start-up is free up to `cap_s`; what exceeds it is charged.

    `margin_s` is counted as start-up too: what the organiser needs to launch before the trainer's first line.
    """

    cap_s: Seconds
    margin_s: Seconds = 0.0


class ClockPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a contest counts against the budget and how a trainer foresees the end of it.

    Parameters
    ----------
    time
        ``cpu``: seconds of the process, its children and their compile processes; ``wall``: monotonic seconds.
    counts
        ``elapsed``: all seconds since the clock started; ``steps``: only those between the start and the end of a
        step.
    warmup_steps
        Steps that are run and undone before the clock starts.
    free_steps
        First steps that are kept and not charged: the clock starts when the last of them ends.
    startup
        Where a start-up is charged above a cap; null where it is free.
    charged
        What else counts: ``late_compiles`` (compiles after the free steps), ``save``, ``evaluation``.
    recompiles
        Whether ffsim's own trainer goes on (``allowed``) or ends the run (``refused``) when a graph is compiled
        after the free steps.
    stop
        When to stop.
    """

    time: Literal["cpu", "wall"]
    counts: Literal["elapsed", "steps"] = "elapsed"
    warmup_steps: Count = 0
    free_steps: Count = 0
    startup: Startup | None = None
    charged: tuple[Spending, ...] = ("late_compiles",)
    recompiles: Literal["allowed", "refused"] = "allowed"
    stop: Stop

    @classmethod
    def from_dict(cls, policy: Mapping[str, Any]) -> ClockPolicy:
        """Read the ``clock`` section of a contest file.

        Raises
        ------
        ContestError
            A key is missing or unknown, or a value has the wrong type or range; the text names it.
        """
        try:
            return msgspec.convert(policy, cls)
        except msgspec.ValidationError as error:
            raise ContestError(f"clock: {error}") from None

    def foresee(self, step_seconds: Sequence[float]) -> float:
        """Seconds that the next step is expected to take, from those before it: the least of the estimates."""
        if not step_seconds:
            return 0.0
        return min((estimate.seconds(step_seconds) for estimate in self.stop.estimate), default=0.0)
