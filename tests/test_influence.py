"""Influence and trust: what one contributor can move, all at once or in small steps, and what the cap leaves."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import factories
import msgspec
import pytest

from ffsim import agreement, evidence, influence, quality, quarantine
from ffsim.contest import Contest
from ffsim.evidence import Evidence
from ffsim.influence import Pin
from ffsim.project import Guard
from ffsim.records import Run
from ffsim.verdicts import Check

LIMITS = Guard(maintainers=("tester",))
MUON = {"optimizer": "muon", "width": 16}


@pytest.fixture(scope="module")
def honest(mini: Contest) -> list[Run]:
    return factories.campaign(mini, 60)


@pytest.fixture(scope="module")
def known(mini: Contest, honest: list[Run]) -> Evidence:
    return _evidence(mini, honest)


@pytest.fixture(scope="module")
def pins(honest: list[Run]) -> list[Pin]:
    run = next(run for run in honest if run.knobs["optimizer"] == "muon" and run.knobs["width"] == 16)
    return [Pin("muon", run.recipe.hash, dict(run.knobs))]


def _evidence(
    mini: Contest, runs: Sequence[Run], limits: Guard = LIMITS, vouched: frozenset[str] = frozenset()
) -> Evidence:
    return evidence.weigh(mini, list(runs), [], vouched, limits)


def _others(mini: Contest, n: int, off: float, contributor: str = "mallory", seed: int = 3) -> list[Run]:
    """Runs of one recipe, each off by `off` bpb."""
    rng = random.Random(seed)
    made = []
    for i in range(n):
        steps = round(727 * math.exp(rng.gauss(0, 0.02)))
        bpb = 2.6 - 0.2 * math.log(steps / 800) + off + rng.gauss(0, 0.002)
        made.append(
            factories.trained(
                mini, f"{contributor}-{i}", bpb, rng, steps=steps, seed=900 + i, knobs=MUON, contributor=contributor
            )
        )
    return made


def _moved(mini: Contest, before: Evidence, after: Evidence, pins: Sequence[Pin]) -> float:
    (a,), (b,) = (influence.predictions(mini, known, pins) for known in (before, after))
    return abs(b - a) / influence.one_recipe_sd(mini, before)


def test_equal_weight_would_let_many_runs_move_a_prediction_and_trust_does_not(
    mini: Contest, honest: list[Run], known: Evidence, pins: list[Pin]
) -> None:
    false = _others(mini, 20, -0.03)
    equal = _evidence(mini, [*honest, *false], Guard(maintainers=("tester", "mallory")))
    trusted = _evidence(mini, [*honest, *false])
    assert _moved(mini, known, equal, pins) > 1.0
    assert _moved(mini, known, trusted, pins) < 0.25


def test_all_runs_of_one_outsider_weigh_no_more_than_the_share(mini: Contest, honest: list[Run]) -> None:
    known = _evidence(mini, [*honest, *_others(mini, 200, 0.0)])
    (mallory,) = [c for c in known.contributors if c.name == "mallory"]
    assert mallory.weight == pytest.approx(LIMITS.share * len(honest))
    assert sum(known.trust.of(_others(mini, 200, 0.0)) or []) == pytest.approx(mallory.weight)


def test_many_handles_together_weigh_no_more_than_the_crowd(mini: Contest, honest: list[Run]) -> None:
    others = [run for i in range(20) for run in _others(mini, 10, 0.0, f"sybil{i}", seed=i)]
    known = _evidence(mini, [*honest, *others])
    assert sum(known.trust.of(others) or []) == pytest.approx(LIMITS.crowd * len(honest))
    assert sum(c.weight for c in known.contributors if c.vouched == 0) == pytest.approx(LIMITS.crowd * len(honest))


def test_who_disagrees_weighs_less(mini: Contest, honest: list[Run]) -> None:
    def weight(off: float) -> float:
        known = _evidence(mini, [*honest, *_others(mini, 6, off)])
        return next(c for c in known.contributors if c.name == "mallory").weight

    weights = [weight(off) for off in (0.0, 0.03, 0.1)]
    assert weights[0] == pytest.approx(6)
    assert weights == sorted(weights, reverse=True)
    assert weights[2] < 1.5


def test_a_constant_error_shows_as_the_mean_z_of_its_contributor(mini: Contest, honest: list[Run]) -> None:
    known = _evidence(mini, [*honest, *_others(mini, 10, 0.02)])
    (mallory,) = [c for c in known.contributors if c.name == "mallory"]
    assert (mallory.mean_z or 0) > 1
    assert next(c for c in known.contributors if c.name == "tester").mean_z is None


def test_the_reference_and_accepted_runs_keep_their_full_weight(mini: Contest, honest: list[Run]) -> None:
    others = _others(mini, 3, 0.05)
    known = _evidence(mini, [*honest, *others], vouched=frozenset(run.run_id for run in others))
    assert known.trust.of([*honest, *others]) is None
    assert all(known.trust.effect(run) == {} for run in others)


def test_without_a_reference_everybody_counts_alike(mini: Contest, honest: list[Run]) -> None:
    known = _evidence(mini, [*honest, *_others(mini, 5, 0.05)], Guard())
    assert known.trust.of(known.runs) is None


def test_a_handle_in_other_letters_is_the_same_contributor(mini: Contest, honest: list[Run]) -> None:
    named = [msgspec.structs.replace(run, contributor="TESTER") for run in honest]
    assert _evidence(mini, named).trust.of(named) is None


def _influence(
    mini: Contest, known: Evidence, new: Sequence[Run], pins: Sequence[Pin], limits: Guard
) -> dict[str, Check]:
    return {check.rule: check for check in influence.checks(mini, known, new, pins, limits)}


def _names(known: Evidence) -> set[str]:
    return {run.run_id for run in known.runs}


def test_small_steps_in_one_direction_are_counted_together(mini: Contest, honest: list[Run]) -> None:
    """New runs are held against the evidence without any of that contributor's."""
    false = _others(mini, 6, -0.03)
    known = _evidence(mini, [*honest, *false])
    assert _names(influence.without(mini, known, "Mallory", LIMITS)) == {run.run_id for run in honest}


def test_what_was_accepted_is_no_longer_held_against_its_contributor(mini: Contest, honest: list[Run]) -> None:
    false = _others(mini, 6, -0.03)
    known = _evidence(mini, [*honest, *false], vouched=frozenset({false[0].run_id}))
    assert _names(influence.without(mini, known, "mallory", LIMITS)) == {run.run_id for run in [*honest, false[0]]}


@pytest.mark.parametrize(("contributor", "limits"), [("tester", LIMITS), ("mallory", Guard())])
def test_a_maintainer_and_a_project_without_any_are_held_against_all_runs(
    mini: Contest, honest: list[Run], contributor: str, limits: Guard
) -> None:
    known = _evidence(mini, [*honest, *_others(mini, 3, 0.0)], limits)
    assert influence.without(mini, known, contributor, limits) is known


def test_a_recipe_that_has_hardly_been_run_is_not_pinned(mini: Contest, known: Evidence) -> None:
    knobs = mini.knobs.defaults() | {"width": 48}
    check = _influence(mini, known, _others(mini, 1, 0.0), [Pin("wide", "0" * 64, knobs)], LIMITS)["influence"]
    assert check.outcome == "unverified"


def test_too_few_runs_of_others_say_nothing(mini: Contest, honest: list[Run], pins: list[Pin]) -> None:
    found = _influence(mini, _evidence(mini, honest[:10]), _others(mini, 1, 0.0), pins, LIMITS)
    assert {check.outcome for check in found.values()} == {"unverified"}


def test_noise_that_spoils_the_predictions_of_others_is_held_back(
    mini: Contest, honest: list[Run], pins: list[Pin]
) -> None:
    limits = Guard(maintainers=("tester", "mallory"))
    rng = random.Random(5)
    wild = [
        factories.trained(mini, f"wild-{i}", 2.6 + (-1) ** i * 0.8, rng, steps=300 + 20 * i, seed=i,
                          contributor="mallory", knobs={"optimizer": "muon", "width": (16, 24, 32)[i % 3]})
        for i in range(12)
    ]  # fmt: skip
    found = _influence(mini, _evidence(mini, honest, limits), wild, pins, limits)
    assert found["held_out"].outcome == "found"


def test_runs_without_a_score_move_nothing(mini: Contest, known: Evidence, pins: list[Pin]) -> None:
    crashed = msgspec.structs.replace(_others(mini, 1, 0.0)[0], status="crashed", scores={})
    assert _influence(mini, known, [crashed], pins, LIMITS)["influence"].value == 0.0


def test_what_is_held_back_for_another_reason_is_not_charged_with_influence(
    mini: Contest, known: Evidence, honest: list[Run], pins: list[Pin]
) -> None:
    new = _others(mini, 1, -0.4)
    checks = quarantine.weigh(mini, known, honest, new, pins, LIMITS)["mallory-0"]
    assert quarantine.quarantined(checks)
    assert "influence" not in {check.rule for check in checks}


def test_an_honest_newcomer_enters(mini: Contest, known: Evidence, honest: list[Run], pins: list[Pin]) -> None:
    new = factories.campaign(mini, 10, seed=11, contributor="newcomer")
    found = quarantine.weigh(mini, known, honest, new, pins, LIMITS)
    assert not [run_id for run_id, checks in found.items() if quarantine.quarantined(checks)]
    assert {check.rule for check in found[new[0].run_id]} >= {"near_duplicate", "surprise", "influence", "held_out"}


def test_the_z_of_honest_runs_is_standard_normal(mini: Contest, honest: list[Run]) -> None:
    z = agreement.standardised(mini, honest, quality.usable(mini, factories.campaign(mini, 300, seed=21)))
    assert abs(z.mean()) < 0.35
    assert 0.7 < z.std() < 1.3
