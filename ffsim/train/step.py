"""One optimizer step: forward pass, loss, backward pass, limit of the gradient, update.

Two functions are worth compiling, `loss_of` and the optimizer's update, and apart from each other: the
backward pass lies between them, and so does filling in the learning rate. The traps:

* The learning rate reaches a compiled update as a tensor, never as a number (see `ffsim.train.optimizers`).
* The loss stays a tensor: reading it waits for the device, and when to wait is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ffsim.train.model import GPT
from ffsim.train.optimizers import Optimizer

Wrap = Callable[[str, Callable[..., Any]], Callable[..., Any]]


def loss_of(model: GPT, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean loss in nats per byte, without dimensions; inputs and targets (batch, sequence), int64."""
    return model.loss(inputs, targets)


class Step:
    """Makes optimizer steps.

    Parameters
    ----------
    model, optimizer
        Changed in place.
    wrap
        Turns `loss_of` and the optimizer's update, each with a name for the compile ledger, into faster functions of
        the same arguments (`ffsim.train.compiles.Ledger.wrap`); by default they stay as they are.
    """

    def __init__(self, model: GPT, optimizer: Optimizer, wrap: Wrap = lambda name, function: function) -> None:
        self._model, self._optimizer = model, optimizer
        self._loss_of, optimizer.apply = wrap("loss", loss_of), wrap("optimizer", optimizer.update)

    def __call__(self, inputs: Tensor, targets: Tensor, lr_scale: float) -> Tensor:
        """Make one step at `lr_scale` times the peak learning rates.

        Parameters
        ----------
        inputs, targets
            int64, shape (batch, sequence) each.
        lr_scale
            From the schedule, see `ffsim.train.schedule.lr_multiplier`.

        Returns
        -------
        Tensor
            The loss before the step in nats per byte, without dimensions and without a graph.
        """
        loss: Tensor = self._loss_of(self._model, inputs, targets)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step(lr_scale)
        return loss.detach()
