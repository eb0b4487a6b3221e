"""Two runs of one artifact, seed and order: how far they are apart, and where they part.

Under the clock two runs never see the same learning rates, because those follow charged time; the difference is the
noise that a contest pays for. A run of a fixed number of steps repeats bit for bit on one machine, or something in it
is not deterministic.
"""

from __future__ import annotations

import dataclasses

from ffsim import recipe
from ffsim.contest import Contest
from ffsim.errors import RunError
from ffsim.records import CurvePoint, Run


@dataclasses.dataclass(frozen=True)
class Repeat:
    """What a repetition showed.

    Parameters
    ----------
    run_id, repeat_of
        The new run and the first one.
    bpb_difference, steps_difference
        New - first, on the rehearsal text; null without two scores.
    first_diverging_step
        The first step whose loss both recorded and that differs; null if none does.
    last_equal_step
        The last recorded step before it.
    steps_compared
        How many steps both recorded.
    """

    run_id: str
    repeat_of: str
    bpb_difference: float | None
    steps_difference: int | None
    first_diverging_step: int | None
    last_equal_step: int | None
    steps_compared: int


def compare(contest: Contest, first: Run, again: Run) -> Repeat:
    """How two runs of one artifact differ."""
    text = contest.text("rehearsal")
    scores = [run.scores[text].bpb if text in run.scores else None for run in (first, again)]
    steps = [run.steps for run in (first, again)]
    diverging, equal, compared = _parting(first.curves.loss, again.curves.loss)
    return Repeat(
        run_id=again.run_id,
        repeat_of=first.run_id,
        bpb_difference=None if scores[0] is None or scores[1] is None else scores[1] - scores[0],
        steps_difference=None if steps[0] is None or steps[1] is None else steps[1] - steps[0],
        first_diverging_step=diverging,
        last_equal_step=equal,
        steps_compared=compared,
    )


def require_same(run: Run, artifact_sha256: str) -> None:
    """Refuse to call something a repetition that runs another artifact.

    Raises
    ------
    RunError
        If it is another artifact.
    """
    if run.artifact_sha256 != artifact_sha256:
        raise RunError(
            f"{run.run_id} ran the artifact {run.artifact_sha256[:12]}, this is {artifact_sha256[:12]}; "
            "only the same file, or the same recipe and trainer version, is a repetition"
        )


def artifact(contest: Contest, run: Run, trainer_version: str) -> str:
    """The artifact that this installation's trainer would make of a run's knobs."""
    return recipe.artifact_of(contest.name, contest.knobs.normal(run.knobs), trainer_version)


def _parting(a: tuple[CurvePoint, ...], b: tuple[CurvePoint, ...]) -> tuple[int | None, int | None, int]:
    ours, theirs = ({step: loss for step, _, loss in curve} for curve in (a, b))
    common = sorted(set(ours) & set(theirs))
    equal: int | None = None
    for step in common:
        if ours[step] != theirs[step]:
            return step, equal, len(common)
        equal = step
    return None, equal, len(common)
