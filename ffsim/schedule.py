"""The batch schedule of a recipe: how many micro-batches an optimizer step takes, by charged fraction.

Phases are named by that number, ``"1"``, ``"2"``, ``"4"``: a step time belongs to one of them. Which knobs carry
the schedule stands in the contest file, so that a replay works for any contest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec

from ffsim.errors import RecipeError

Setting = str | int | float
"""A knob's name, or a fixed number."""


class RampPhase(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One phase of a ramp: `size` micro-batches per step `until` a charged fraction (0: no such phase)."""

    size: Setting
    until: Setting


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The ``schedule`` section of a contest file: knob names or numbers.

    Parameters
    ----------
    size
        Micro-batches of a step once the ramp is over.
    full_steps
        First steps, which are at the final size whatever the ramp says.
    ramp
        Phases in their order.
    target_s
        Charged second at which the trainer plans to stop; null where that is the budget.
    """

    size: Setting = 1
    full_steps: Setting = 0
    ramp: tuple[RampPhase, ...] = ()
    target_s: Setting | None = None

    def names(self) -> set[str]:
        """The knobs it names."""
        settings = [self.size, self.full_steps, self.target_s]
        settings += [value for phase in self.ramp for value in (phase.size, phase.until)]
        return {setting for setting in settings if isinstance(setting, str)}

    def batches(self, knobs: Mapping[str, Any]) -> BatchSchedule:
        """The batch schedule of a recipe.

        Raises
        ------
        RecipeError
            A size is no whole number above 0.
        """
        ramp = tuple((int(_value(p.size, knobs)), float(_value(p.until, knobs))) for p in self.ramp)
        sizes = [_value(self.size, knobs), *(_value(p.size, knobs) for p in self.ramp), _value(self.full_steps, knobs)]
        if bad := [size for size in sizes if size != int(size)]:
            raise RecipeError(f"the batch schedule has {bad[0]:g} micro-batches or steps; give whole numbers")
        made = BatchSchedule(
            size=int(_value(self.size, knobs)),
            full_steps=int(_value(self.full_steps, knobs)),
            ramp=tuple((size, until) for size, until in ramp if until > 0),
        )
        if made.full_steps < 0:
            raise RecipeError(f"the batch schedule has {made.full_steps} full steps; give 0 or more")
        if min(made.sizes) < 1:
            raise RecipeError(f"the batch schedule has a phase of {min(made.sizes)} micro-batches; give 1 or more")
        return made

    def target(self, knobs: Mapping[str, Any], budget_s: float) -> float:
        """Charged second at which a run of a recipe plans to stop."""
        return budget_s if self.target_s is None else min(budget_s, float(_value(self.target_s, knobs)))


@dataclasses.dataclass(frozen=True)
class BatchSchedule:
    """Micro-batches of every optimizer step.

    Parameters
    ----------
    size
        After the ramp.
    full_steps
        First steps, at `size` too.
    ramp
        (size, until) with `until` a charged fraction, in order.
    """

    size: int = 1
    full_steps: int = 0
    ramp: tuple[tuple[int, float], ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """All sizes that occur, ascending."""
        return tuple(sorted({self.size, *(size for size, _ in self.ramp)}))

    def at(self, step: int, fraction: float) -> int:
        """Micro-batches of the step with index `step`, begun at a charged fraction."""
        if step < self.full_steps:
            return self.size
        return next((size for size, until in self.ramp if fraction < until), self.size)


def _value(setting: Setting, knobs: Mapping[str, Any]) -> Any:
    return knobs[setting] if isinstance(setting, str) else setting
