"""How well the guard holds on this dataset: attacks on it, and its own honest runs replayed in time order."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import msgspec

from ffsim import attacks, dataset, evidence, influence, quarantine
from ffsim.attacks import Attack
from ffsim.contest import Contest
from ffsim.errors import ModelError
from ffsim.evidence import Evidence
from ffsim.influence import Pin
from ffsim.project import Guard, Project
from ffsim.records import Run
from ffsim.shape import plural
from ffsim.trust import EQUAL

PORTIONS = 20
NEWCOMERS = 4


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What an attack did.

    Parameters
    ----------
    attack
        Its name.
    runs, quarantined
        How many runs it consists of, and how many of them are held back.
    moved_before_sd, moved_sd
        Largest move of a pinned prediction without and with the guard, in SDs of one recipe's scores. With the
        guard: the worse of all runs at once and one run after the other (a flood in portions).
    rules
        Rules that found something.
    """

    attack: str
    runs: int
    quarantined: int
    moved_before_sd: float
    moved_sd: float
    rules: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Replay:
    """The honest runs of the dataset, entered one by one in the order of time.

    Parameters
    ----------
    by
        Whose they are taken to be.
    runs, quarantined
        How many, and which were held back; a maintainer accepts each of these.
    asked
        Runs for which the models could be asked, because enough runs came before.
    """

    by: str
    runs: int
    asked: int
    quarantined: tuple[str, ...]

    def line(self) -> str:
        """The outcome in one line."""
        share = f"{len(self.quarantined) / self.runs:.1%}" if self.runs else "none"
        return (
            f"{plural(self.runs, 'honest run')} in time order, {self.by}, {self.asked} of them held against the "
            f"models: {len(self.quarantined)} in quarantine ({share})"
        )


COLUMNS = ("attack", "runs", "held back", "moves, no guard", "moves, guard", "rules")


def rows(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """The outcomes as cells of a table with `COLUMNS`; moves in SDs of one recipe's scores."""
    return [
        (o.attack, str(o.runs), str(o.quarantined), f"{o.moved_before_sd:.2f}", f"{o.moved_sd:.2f}", ", ".join(o.rules))
        for o in outcomes
    ]


def audit(
    project: Project,
    contest: Contest,
    progress: Callable[[str], None] = lambda _name: None,
    *,
    maintainers: bool = True,
) -> tuple[list[Outcome], list[Replay]]:
    """Try every attack on the project's dataset, and replay its own runs. Nothing is stored.

    They are replayed twice: as they are, and as if those of the second half came from newcomers.

    Parameters
    ----------
    project, contest
        Whose guard is tried.
    progress
        Told the name of what begins.
    maintainers
        Whether those of params.yaml count.

    Raises
    ------
    ModelError
        If the dataset is too small for the models to be asked.
    """
    dataset.require_complete(project)
    limits, known = project.params().guard, evidence.load(project, contest)
    if not maintainers:
        limits = msgspec.structs.replace(limits, maintainers=())
        known = evidence.weigh(contest, known.runs, known.uploads, frozenset(), limits)
    stored = dataset.load_runs(project, contest.name)
    pins = quarantine.pins(project, contest, known, {run.run_id: run.knobs for run in stored})
    if len(known.runs) < limits.min_runs or not pins:
        raise ModelError(f"{len(known.runs)} runs and {len(pins)} pinned recipes are too few to try the guard on")
    outcomes = []
    for attack in attacks.all_of(contest, known, pins, limits):
        progress(attack.name)
        outcomes.append(attempt(contest, known, stored, attack, pins, limits))
    progress("the dataset's own runs in time order")
    return outcomes, [replay(contest, known, pins, limits, newcomers) for newcomers in (0, NEWCOMERS)]


def replay(contest: Contest, known: Evidence, pins: Sequence[Pin], limits: Guard, newcomers: int = 0) -> Replay:
    """Enter the honest runs one by one, those of the second half as the runs of so many newcomers."""
    runs = sorted((r for r in known.runs if r.kind != "official"), key=lambda r: (r.created_utc, r.run_id))
    if newcomers:
        half = len(runs) // 2
        late = [msgspec.structs.replace(r, contributor=f"newcomer{i % newcomers}") for i, r in enumerate(runs[half:])]
        runs = [*runs[:half], *late]
    so_far = evidence.weigh(contest, [], known.uploads, frozenset(), limits)
    held: list[str] = []
    asked = 0
    for i, run in enumerate(runs):
        checks = quarantine.weigh(contest, so_far, runs[:i], [run], pins, limits)[run.run_id]
        asked += any(check.rule == "surprise" and check.outcome != "unverified" for check in checks)
        if quarantine.quarantined(checks):
            held.append(run.run_id)
        so_far = evidence.weigh(contest, [*so_far.runs, run], known.uploads, frozenset(held), limits)
    by = f"the second half by {newcomers} newcomers" if newcomers else "by their contributors"
    return Replay(by, len(runs), asked, tuple(held))


def attempt(
    contest: Contest, known: Evidence, stored: Sequence[Run], attack: Attack, pins: Sequence[Pin], limits: Guard
) -> Outcome:
    """What an attack does to pinned predictions, without and with the guard."""
    unguarded = dataclasses.replace(known, runs=[*known.runs, *attack.runs], trust=EQUAL)
    at_once = quarantine.weigh(contest, known, stored, attack.runs, pins, limits)
    entered = [run for run in attack.runs if not quarantine.quarantined(at_once[run.run_id])]
    together = evidence.weigh(contest, [*known.runs, *entered], known.uploads, known.vouched, limits)
    one_by_one, rules = known, {c.rule for checks in at_once.values() for c in checks if c.outcome == "found"}
    held = 0
    size = math.ceil(len(attack.runs) / PORTIONS)
    for i in range(0, len(attack.runs), size):
        part, before = attack.runs[i : i + size], [*stored, *attack.runs[:i]]
        found = quarantine.weigh(contest, one_by_one, before, part, pins, limits)
        rules |= {check.rule for checks in found.values() for check in checks if check.outcome == "found"}
        passed = [run for run in part if not quarantine.quarantined(found[run.run_id])]
        held += len(part) - len(passed)
        one_by_one = evidence.weigh(contest, [*one_by_one.runs, *passed], known.uploads, known.vouched, limits)
    return Outcome(
        attack.name,
        len(attack.runs),
        min(held, len(attack.runs) - len(entered)),
        _moved(contest, dataclasses.replace(known, trust=EQUAL), unguarded, pins),
        max(_moved(contest, known, after, pins) for after in (together, one_by_one)),
        tuple(sorted(rules)),
    )


def _moved(contest: Contest, before: Evidence, after: Evidence, pins: Sequence[Pin]) -> float:
    unit = influence.one_recipe_sd(contest, before)
    version = influence.trainer_of(contest, before)
    pairs = zip(*(influence.predictions(contest, known, pins, version) for known in (before, after)), strict=True)
    return float(max(abs(b - a) for a, b in pairs) / unit)
