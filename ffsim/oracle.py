"""From a rehearsal to the official score: an offset, and how far it may be off.

official = rehearsal + offset + error. For now the offset is the mean over scored uploads and the error is
Student-t with n - 1 degrees of freedom; the hierarchical oracle replaces it in this place.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ffsim.errors import ModelError


@dataclasses.dataclass(frozen=True)
class Forecast:
    """A predicted official score.

    Parameters
    ----------
    bpb
        The prediction.
    sd_bpb
        Scale of the Student-t predictive distribution.
    dof
        Its degrees of freedom.
    """

    bpb: float
    sd_bpb: float
    dof: float

    def interval(self, level: float) -> tuple[float, float]:
        """The central interval that holds the official score with probability `level`."""
        from scipy.stats import t

        half = float(t.ppf(0.5 + level / 2, self.dof)) * self.sd_bpb
        return self.bpb - half, self.bpb + half


@dataclasses.dataclass(frozen=True)
class MeanOffset:
    """The frozen mean of the offsets.

    Parameters
    ----------
    mean_bpb, sd_bpb
        Mean and standard deviation (n - 1) of official - rehearsal.
    n
        Scored uploads.
    """

    mean_bpb: float
    sd_bpb: float
    n: int

    @classmethod
    def fit(cls, offsets: Sequence[float]) -> MeanOffset:
        """Fit on official - rehearsal of scored uploads, in bpb.

        Raises
        ------
        ModelError
            If there are fewer than two: one offset says nothing of the error.
        """
        n = len(offsets)
        if n < 2:
            raise ModelError(f"{n} scored uploads: an offset with an error needs at least 2")
        mean = math.fsum(offsets) / n
        variance = math.fsum((offset - mean) ** 2 for offset in offsets) / (n - 1)
        return cls(mean, math.sqrt(variance), n)

    def forecast(self, rehearsal_bpb: float, extra_sd_bpb: float = 0.0) -> Forecast:
        """The official score of a rehearsal.

        Parameters
        ----------
        rehearsal_bpb
            Its score, or a simulated one.
        extra_sd_bpb
            Standard deviation of `rehearsal_bpb` itself, where it is simulated.

        References
        ----------
        Predictive distribution of one new observation from a normal sample: Student-t with scale
        sd sqrt(1 + 1/n), e.g. Gelman et al., Bayesian Data Analysis (3rd ed.), section 3.2. Sum of two
        errors: Satterthwaite 1946, "An approximate distribution of estimates of variance components".
        """
        own = self.sd_bpb * math.sqrt(1 + 1 / self.n)
        scale = math.hypot(own, extra_sd_bpb)
        # Welch-Satterthwaite: the simulated part is normal and has no degrees of freedom to lose.
        dof = (self.n - 1) * (scale / own) ** 4 if own > 0 else math.inf
        return Forecast(rehearsal_bpb + self.mean_bpb, scale, dof if extra_sd_bpb > 0 else self.n - 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> MeanOffset:
        """The model of `to_dict`.

        Raises
        ------
        ModelError
            If a part is missing.
        """
        try:
            return cls(float(value["mean_bpb"]), float(value["sd_bpb"]), int(value["n"]))
        except (KeyError, TypeError, ValueError):
            raise ModelError("the oracle's file is damaged; make it again with `dvc repro`") from None
