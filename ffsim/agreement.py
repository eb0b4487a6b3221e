"""How far a contributor's runs agree with everybody else's, and what they may weigh because of that.

The runs of the maintainers, and those that a maintainer accepted or imported, are the reference. All other
runs count less the worse the reference predicts them, and all runs of one contributor together never more
than a share of the reference, however many there are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ffsim import quality
from ffsim.contest import Contest
from ffsim.errors import ModelError
from ffsim.linear import Linear
from ffsim.project import Guard
from ffsim.records import Run
from ffsim.trust import Trust

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Observations that the belief "agrees as well as the reference with itself" is worth before any run is seen.
PRIOR_RUNS = 4.0


@dataclasses.dataclass(frozen=True)
class Contributor:
    """One contributor's standing.

    Parameters
    ----------
    name
        The handle, as first written; case does not count.
    runs, vouched
        Runs that may be fitted, and how many of them belong to the reference.
    mean_z
        Mean of (score - prediction of the reference) / SD over the other runs; far from 0 is a constant error.
    agreement
        Weight of one of the other runs before the cap, 0 to 1; None where the reference is too small to tell.
    weight
        Weight of all runs together in a fit.
    """

    name: str
    runs: int
    vouched: int
    mean_z: float | None
    agreement: float | None
    weight: float


def learn(
    contest: Contest, runs: Sequence[Run], vouched: Collection[str], limits: Guard
) -> tuple[Trust, list[Contributor]]:
    """Weights and effects of the runs that enter a model.

    Parameters
    ----------
    contest
        Whose runs they are.
    runs
        All runs that may be fitted.
    vouched
        Ids of runs that a maintainer accepted or imported.
    limits
        Who the maintainers are, and the caps.

    References
    ----------
    A run's weight is the posterior mean precision of its contributor's z under a Gamma prior worth
    `PRIOR_RUNS` runs (the scale-mixture view of Student-t noise; Lange, Little & Taylor 1989), at most 1.
    """
    chosen = quality.usable(contest, runs)
    maintainers = {name.casefold() for name in limits.maintainers}
    inside = {r.run_id for r in chosen if r.contributor.casefold() in maintainers or r.run_id in vouched}
    groups: dict[str, list[Run]] = {}
    for run in chosen:
        groups.setdefault(run.contributor.casefold(), []).append(run)
    reference = [run for run in chosen if run.run_id in inside]
    weights: dict[str, float] = {}
    outsiders: dict[str, str] = {}
    found: list[Contributor] = []
    for members in groups.values():
        others = [run for run in members if run.run_id not in inside]
        name, total, mean_z, agreement = members[0].contributor, float(len(others)), None, None
        if others and len(reference) >= limits.min_runs:
            z = standardised(contest, reference, others)
            mean_z = float(z.mean())
            agreement = min(1.0, (PRIOR_RUNS + len(others)) / (PRIOR_RUNS + float((z**2).sum())))
            total = min(agreement * len(others), limits.share * len(reference))
            weights |= {run.run_id: total / len(others) for run in others}
            outsiders |= {run.run_id: name for run in others}
        vouched_runs = len(members) - len(others)
        found.append(Contributor(name, len(members), vouched_runs, mean_z, agreement, vouched_runs + total))
    crowd = sum(weights.values())
    if crowd > limits.crowd * len(reference):
        # Many handles are cheap: all of them together have a cap as well.
        shrink = limits.crowd * len(reference) / crowd
        weights = {run_id: weight * shrink for run_id, weight in weights.items()}
        found = [dataclasses.replace(c, weight=c.vouched + (c.weight - c.vouched) * shrink) for c in found]
    return Trust(weights, outsiders), found


def standardised(contest: Contest, reference: Sequence[Run], others: Sequence[Run]) -> NDArray[np.float64]:
    """(score - prediction) / SD of runs, each predicted by a model of the reference alone; shape (n_others,)."""
    import numpy as np

    rows, y, _ = quality.observations(contest, reference)
    new, truth, _ = quality.observations(contest, others)
    try:
        mean, sd = Linear.foresee(rows, y, new)
    except ModelError:
        return np.zeros(len(others))
    return (np.array(truth) - mean) / sd
