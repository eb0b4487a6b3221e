"""A moving average of the weights, blended into them at the end.

The average smooths the noise of the last steps, as a cooldown does (Izmailov et al. 2018, "Averaging weights leads
to wider optima and better generalization"; exponential form: Polyak & Juditsky 1992).

The trap is the first update: its kernel is new, and where graphs are compiled that costs charged seconds in the
middle of a run (`ffsim.train.prewarm` makes it before the clock starts). Buffers are made at construction.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ffsim.train.job import Knobs

Wrap = Callable[[str, Callable[..., None]], Callable[..., None]]


class WeightAverage:
    """Exponential moving average of a model's parameters; does nothing where the decay is 0.

    Parameters
    ----------
    model
        Its parameters are averaged, and changed by `blend`.
    knobs
        ema (decay per update), ema_every (steps) and ema_blend are read here.
    wrap
        Compiles the update, under a name for the compile ledger.
    """

    def __init__(self, model: nn.Module, knobs: Knobs, wrap: Wrap = lambda name, function: function) -> None:
        self.every = knobs.ema_every if knobs.ema > 0 else 0
        self._decay, self._share = knobs.ema, knobs.ema_blend
        self._weights = [parameter.detach() for parameter in model.parameters()] if self.every else []
        self._average = [torch.zeros_like(weight) for weight in self._weights]
        self._updates = 0
        self._update = wrap("average", _update)

    def after(self, step: int) -> None:
        """Take in the weights after the step with index `step`, if it is the turn of one."""
        if self.every and step > 0 and step % self.every == 0:
            self.update()

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights as they are."""
        if self._updates == 0:
            torch._foreach_copy_(self._average, self._weights)
        self._update(self._average, self._weights, self._decay)
        self._updates += 1

    @torch.no_grad()
    def blend(self) -> None:
        """Move the weights towards their average."""
        if self._updates:
            torch._foreach_lerp_(self._weights, self._average, self._share)

    def zero_state(self) -> None:
        """Forget all updates: the next one starts from the weights."""
        self._updates = 0


def _update(average: list[Tensor], weights: list[Tensor], decay: float) -> None:
    torch._foreach_lerp_(average, weights, 1.0 - decay)
