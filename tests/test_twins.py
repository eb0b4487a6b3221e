"""Near-duplicates: what a copy still carries, and what two honest runs may share."""

from __future__ import annotations

import random

import factories
import msgspec
import pytest

from ffsim import twins
from ffsim.contest import Contest
from ffsim.records import Run


@pytest.fixture
def run(mini: Contest) -> Run:
    return factories.trained(mini, "one", 2.6123456789, random.Random(1))


def _renamed(run: Run, **changes: object) -> Run:
    return msgspec.structs.replace(run, **{"run_id": "other", "seed": 77, **changes})  # type: ignore[arg-type]


def _score(run: Run, bpb: float) -> dict[str, object]:
    return {"public": msgspec.structs.replace(run.scores["public"], bpb=bpb, nats=None)}


def _clock(run: Run, seconds: float) -> dict[str, object]:
    clock = msgspec.structs.replace(run.clock, train_charged_s=seconds)
    phase = msgspec.structs.replace(run.step_times["1"], mean_s=seconds / (run.steps or 1))
    return {"clock": clock, "step_times": {"1": phase}}


def test_a_copy_with_a_shifted_score_still_has_the_clock_readings(run: Run) -> None:
    copy = _renamed(run, scores=_score(run, 2.5), curves=type(run.curves)())
    check = twins.check(copy, [run])
    assert (check.outcome, "clock readings of one" in check.message) == ("found", True)


def test_a_copy_with_another_clock_still_has_the_score(run: Run) -> None:
    copy = _renamed(run, **_clock(run, 0.2871234567))
    assert "score to the last digit" in twins.check(copy, [run]).message


def test_a_copy_with_another_clock_and_score_still_has_the_loss_curve(run: Run) -> None:
    shifted = tuple((step, at, loss - 0.05 - 1e-5 * step) for step, at, loss in run.curves.loss)
    curves = msgspec.structs.replace(run.curves, loss=shifted)
    copy = _renamed(run, curves=curves, scores=_score(run, 2.5), **_clock(run, 0.2871234567))
    assert "loss curve" in twins.check(copy, [run]).message


def test_the_same_seed_and_order_may_give_the_same_numbers_again(run: Run) -> None:
    again = msgspec.structs.replace(run, run_id="again", **_clock(run, 0.2871234567))  # type: ignore[arg-type]
    assert twins.check(again, [run]).outcome == "passed"


def test_two_seeds_of_one_recipe_are_no_copies(mini: Contest, run: Run) -> None:
    other = factories.trained(mini, "two", 2.6123, random.Random(2), seed=2)
    assert twins.check(other, [run]).outcome == "passed"


def test_rounded_numbers_may_coincide(run: Run) -> None:
    rounded = msgspec.structs.replace(run, scores=_score(run, 2.612), curves=type(run.curves)(), **_clock(run, 0.3))  # type: ignore[arg-type]
    phase = msgspec.structs.replace(rounded.step_times["1"], mean_s=0.0004)
    rounded = msgspec.structs.replace(rounded, step_times={"1": phase})
    assert twins.check(_renamed(rounded), [rounded]).outcome == "passed"


def test_no_run_is_its_own_copy(run: Run) -> None:
    assert twins.check(run, [run]).outcome == "passed"


def test_honest_runs_of_a_campaign_are_no_copies(mini: Contest) -> None:
    runs = factories.campaign(mini, 60)
    assert all(twins.check(run, runs).outcome == "passed" for run in runs)


def test_a_curve_of_many_points_at_one_step_is_no_curve(mini: Contest) -> None:
    one, other = (factories.trained(mini, n, 5.1 + i, random.Random(i), steps=1, seed=i) for i, n in enumerate("ab"))
    assert twins.check(other, [one]).outcome == "passed"
