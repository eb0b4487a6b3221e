"""The final weights as a file of plain arrays by name: nothing in it runs when it is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from torch import nn


def save(model: nn.Module, path: Path) -> None:
    """Write a model's parameters as NPZ."""
    with path.open("wb") as file:
        np.savez(file, **{name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()})
