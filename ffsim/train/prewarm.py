"""Making every graph and every buffer of a run before its clock starts, and putting everything back.

A batch phase, an average of the weights: what a run first does in the middle of its budget is compiled, paged in
or allocated there. So each is done once in the steps that cost nothing, and then weights, optimizer state, average
and random state are what they were: a run with it is bit for bit the run without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import nn


class Resettable(Protocol):
    """State that can be made new in place."""

    def zero_state(self) -> None:
        """Forget everything."""


def undone(model: nn.Module, states: Sequence[Resettable], work: Callable[[], None]) -> None:
    """Do `work` on a model that has not been trained yet, and put everything back.

    Parameters
    ----------
    model
        Its weights and buffers are restored.
    states
        Optimizer and average: made new, as they were before the first step.
    work
        Steps and updates; it must use a data source of its own.
    """
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    rng_state = torch.get_rng_state()
    work()
    model.load_state_dict(weights)
    for state in states:
        state.zero_state()
    torch.set_rng_state(rng_state)
