"""How much each run counts in a fit: the weight of a run, and the contributors whose own effect is estimated."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ffsim.records import Run


@dataclasses.dataclass(frozen=True)
class Trust:
    """Weights and contributor effects of the runs of a fit.

    Parameters
    ----------
    weights
        Run id -> how many observations it counts as; a run that is not in it counts as one.
    outsiders
        Run id -> its contributor, of the runs that nobody vouched for. What all runs of one contributor share, a
        wrong byte count or another text, goes into an effect of its own that no prediction contains.
    """

    weights: Mapping[str, float]
    outsiders: Mapping[str, str]

    def of(self, runs: Sequence[Run]) -> list[float] | None:
        """The weights of these runs, or None if all are one."""
        found = [self.weights.get(run.run_id, 1.0) for run in runs]
        return None if all(weight == 1.0 for weight in found) else found

    def effect(self, run: Run) -> dict[str, float]:
        """The feature of the run's contributor, if its effect is estimated."""
        name = self.outsiders.get(run.run_id)
        return {} if name is None else {f"by:{name.casefold()}": 1.0}


EQUAL = Trust({}, {})
