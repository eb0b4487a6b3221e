"""Surprise: honest runs pass, wrong numbers are found for what they are, and an unknown lever is no surprise."""

from __future__ import annotations

import math
import random
from typing import Any

import factories
import msgspec
import pytest

from ffsim.contest import Contest
from ffsim.errors import ModelError
from ffsim.project import Guard
from ffsim.records import Run
from ffsim.surprise import Surprise
from ffsim.trust import EQUAL
from ffsim.verdicts import Check

LIMITS = Guard()
MUON = {"optimizer": "muon", "width": 16}


@pytest.fixture(scope="module")
def surprise(mini: Contest) -> Surprise:
    return Surprise.of(mini, factories.campaign(mini, 60), EQUAL, LIMITS)


def _run(mini: Contest, bpb: float, steps: int = 727, **changes: Any) -> Run:
    changes = {"knobs": MUON, "seed": 500, **changes}
    return factories.trained(mini, "new", bpb, random.Random(9), steps=steps, **changes)


def _checks(surprise: Surprise, run: Run) -> dict[str, Check]:
    return {check.rule: check for check in surprise.checks([run])[run.run_id]}


def _truth(steps: int) -> float:
    return 2.6 - 0.2 * math.log(steps / 800)


def test_an_honest_run_is_no_surprise(mini: Contest, surprise: Surprise) -> None:
    found = _checks(surprise, _run(mini, _truth(727)))
    assert {check.outcome for check in found.values()} == {"passed"}
    assert set(found) == {"surprise", "unit_bytes", "speed", "loss_gap"}


def test_few_of_many_honest_runs_are_surprises(mini: Contest, surprise: Surprise) -> None:
    found = surprise.checks(factories.campaign(mini, 200, seed=7))
    held = [run for run, checks in found.items() if any(check.outcome == "found" for check in checks)]
    assert len(held) <= 6  # 3 %; four rules look at each run, at 4 SDs


@pytest.mark.parametrize("off", [-0.15, 0.15])
def test_a_score_far_from_what_others_say_is_found_with_both_numbers(
    mini: Contest, surprise: Surprise, off: float
) -> None:
    check = _checks(surprise, _run(mini, _truth(727) + off))["surprise"]
    assert check.outcome == "found"
    assert math.copysign(1, check.value or 0) == math.copysign(1, off)
    assert f"{_truth(727) + off:.4f}" in check.message


@pytest.mark.parametrize(("factor", "words"), [(math.log(2), "nats for bits"), (1 / math.log(2), "ln 2 twice")])
def test_nats_for_bits_are_named(mini: Contest, surprise: Surprise, factor: float, words: str) -> None:
    found = _checks(surprise, _run(mini, _truth(727) * factor))
    assert found["unit_nats"].outcome == "found"
    assert words in found["unit_nats"].message


def test_a_wrong_byte_count_is_suspected_where_nats_are_not_given(mini: Contest, surprise: Surprise) -> None:
    run = _run(mini, _truth(727) * 1.08)
    bare = {"public": msgspec.structs.replace(run.scores["public"], nats=None)}
    run = msgspec.structs.replace(run, scores=bare)
    assert _checks(surprise, run)["unit_bytes"].outcome == "found"
    honest = msgspec.structs.replace(_run(mini, _truth(727)), scores=bare)
    honest = msgspec.structs.replace(
        honest, scores={"public": msgspec.structs.replace(bare["public"], bpb=_truth(727))}
    )
    assert _checks(surprise, honest)["unit_bytes"].outcome == "unverified"


def test_a_lever_that_nobody_moved_may_do_anything_that_levers_do(mini: Contest, surprise: Surprise) -> None:
    known = _checks(surprise, _run(mini, _truth(727) - 0.1))["surprise"]
    new = _checks(surprise, _run(mini, _truth(727) - 0.1, knobs={**MUON, "rope": False}))["surprise"]
    assert known.outcome == "found"
    assert new.outcome == "passed"
    assert abs(new.value or 9) < abs(known.value or 0) / 3


def test_beyond_the_steps_that_a_recipe_was_seen_at_the_slope_is_a_guess(mini: Contest, surprise: Surprise) -> None:
    """The truth bends down where nobody has looked: an honest short screen is not held back for that."""
    inside = _checks(surprise, _run(mini, _truth(727) + 0.2))["surprise"]
    outside = _checks(surprise, _run(mini, _truth(180) + 0.2, steps=180, kind="screen", budget_s=0.075))["surprise"]
    assert (inside.outcome, outside.outcome) == ("found", "passed")
    wild = _checks(surprise, _run(mini, _truth(180) + 2.0, steps=180, kind="screen", budget_s=0.075))["surprise"]
    assert wild.outcome == "found"


def test_more_steps_than_the_host_can_make_are_found_and_fewer_are_not(mini: Contest, surprise: Surprise) -> None:
    assert _checks(surprise, _run(mini, _truth(1400), steps=1400))["speed"].outcome == "found"
    assert _checks(surprise, _run(mini, _truth(500), steps=500))["speed"].outcome == "passed"


def test_a_host_that_no_run_comes_from_may_be_faster_but_not_beyond_reason(mini: Contest, surprise: Surprise) -> None:
    def on_new_host(steps: int) -> Check:
        run = _run(mini, _truth(steps), steps=steps)
        return _checks(surprise, msgspec.structs.replace(run, host=msgspec.structs.replace(run.host, block="new")))[
            "speed"
        ]

    assert on_new_host(1400).outcome == "unverified"
    assert on_new_host(727 * 5).outcome == "found"


def test_a_score_that_its_own_training_loss_denies_is_found(mini: Contest, surprise: Surprise) -> None:
    run = _run(mini, _truth(727))
    curves = msgspec.structs.replace(run.curves, loss=tuple((s, t, x + 0.4) for s, t, x in run.curves.loss))
    assert _checks(surprise, msgspec.structs.replace(run, curves=curves))["loss_gap"].outcome == "found"


def test_a_small_dataset_is_not_asked(mini: Contest) -> None:
    with pytest.raises(ModelError, match="19 runs to compare with, 20 are needed"):
        Surprise.of(mini, factories.campaign(mini, 19), EQUAL, LIMITS)


def test_a_run_without_a_score_has_nothing_to_surprise_with(mini: Contest, surprise: Surprise) -> None:
    run = msgspec.structs.replace(_run(mini, 2.6), status="crashed", scores={})
    assert surprise.checks([run]) == {"new": []}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("at", [2.5, 64.0])
def test_where_all_runs_are_equal_another_score_is_found_and_the_same_is_not(mini: Contest, at: float) -> None:
    """Nothing varies, so nothing can be divided by."""
    equal = [
        factories.trained(mini, f"e{i}", at, random.Random(i), steps=800, seed=i, knobs=MUON)
        for i in range(LIMITS.min_runs)
    ]
    known = Surprise.of(mini, equal, EQUAL, LIMITS)
    assert _checks(known, _run(mini, 2.1, steps=790))["surprise"].outcome == "found"
    same = _checks(known, _run(mini, at, steps=800))["surprise"]
    assert (same.outcome, math.isfinite(same.value or 0.0)) == ("passed", True)
