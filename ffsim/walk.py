"""A replay of a recipe's schedule, step for step, on a virtual clock.

Step times of one machine and the contest's clock policy say how many steps fit in the budget, where the batch
phases switch and how many tokens are seen: the same loop as a trainer's, with made-up seconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ffsim.clock import ChargedClock, VirtualTime
from ffsim.contest import Contest
from ffsim.errors import RunError

MOST_STEPS = 10_000_000
LONGEST_S = 1e9


@dataclasses.dataclass(frozen=True)
class Switch:
    """A batch phase and the index of its first step."""

    phase: str
    step: int
    charged_s: float


@dataclasses.dataclass(frozen=True)
class Walk:
    """What a replay found.

    Parameters
    ----------
    steps, tokens
        Optimizer steps completed, and the training tokens they saw.
    charged_s, target_s
        Charged at the end of the last step, and planned.
    startup_s, excess_s
        Before the clock started, free steps included, and what of it was charged.
    switches
        The first step of every batch phase, in order; the first phase starts at step 0.
    steps_by_phase
        Steps of each phase, free ones included.
    """

    steps: int
    tokens: int
    charged_s: float
    target_s: float
    startup_s: float
    excess_s: float
    switches: tuple[Switch, ...]
    steps_by_phase: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


def walk(
    contest: Contest,
    knobs: Mapping[str, Any],
    step_times_s: Mapping[str, float],
    *,
    budget_s: float | None = None,
    startup_s: float = 0.0,
) -> Walk:
    """Replay the schedule of a recipe.

    Parameters
    ----------
    contest
        Its clock policy and its batch schedule.
    knobs
        The recipe.
    step_times_s
        Mean seconds of one step, by phase.
    budget_s
        Instead of the contest's; the recipe's own target still holds where it is smaller.
    startup_s
        Seconds from the launch to the first step.

    Raises
    ------
    RunError
        A phase has no step time or one that is not above 0, or the budget holds too many steps.
    """
    schedule = contest.schedule.batches(knobs)
    seconds = checked(step_times_s, {str(size) for size in schedule.sizes})
    target_s = contest.schedule.target(knobs, budget_s or contest.budget_s)
    for name, value in (("the budget", target_s), ("the start-up", startup_s)):
        if not 0 <= value <= LONGEST_S:
            raise RunError(f"{name} is {value:g} s; give seconds up to {LONGEST_S:g}")
    if target_s / min(seconds.values()) + contest.clock_policy.free_steps > MOST_STEPS:
        raise RunError(f"step times of {min(seconds.values()):g} s: more than {MOST_STEPS:,} steps in {target_s:g} s")
    time = VirtualTime()
    clock = ChargedClock(contest.clock_policy, target_s, now=time, launched_s=0.0)
    time.spend(startup_s)
    clock.start()
    micro_tokens = contest.step_tokens(knobs)
    switches: list[Switch] = []
    by_phase: dict[str, int] = {}
    tokens = 0
    while not clock.should_stop():
        size = schedule.at(clock.steps, clock.fraction)
        phase = str(size)
        if not switches or switches[-1].phase != phase:
            switches.append(Switch(phase, clock.steps, clock.charged_s))
        clock.step_started()
        time.spend(seconds[phase])
        clock.step_done()
        by_phase[phase] = by_phase.get(phase, 0) + 1
        tokens += size * micro_tokens
    return Walk(
        steps=clock.steps,
        tokens=tokens,
        charged_s=clock.charged_s,
        target_s=target_s,
        startup_s=clock.startup_s,
        excess_s=clock.excess_s,
        switches=tuple(switches),
        steps_by_phase=by_phase,
    )


def checked(step_times_s: Mapping[str, Any], phases: set[str]) -> dict[str, float]:
    """Step times of all `phases`.

    Raises
    ------
    RunError
        Naming the phase that is missing, or whose time is no number above 0.
    """
    if missing := sorted(phases - set(step_times_s), key=int):
        known = ", ".join(sorted(step_times_s)) or "none"
        raise RunError(f"no step time of phase {missing[0]}; the recipe has phases {_listed(phases)}, given: {known}")
    for phase in sorted(phases):
        value = step_times_s[phase]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST_S:
            raise RunError(f"the step time of phase {phase} is {value!r}; give seconds above 0")
    return {phase: float(step_times_s[phase]) for phase in phases}


def _listed(phases: set[str]) -> str:
    return ", ".join(sorted(phases, key=int))
