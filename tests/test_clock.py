"""Properties of the charged clock, on a time source that the tests turn by hand."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffsim.clock import ChargedClock, ClockPolicy, cpu_seconds
from ffsim.errors import ContestError

POLICY = {"time": "cpu", "warmup_steps": 1, "stop": {"estimate": "median", "window": 50, "margin_s": 0.0}}


class HandClock:
    def __init__(self) -> None:
        self.now_s = 1234.5

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


def clock_of(budget_s: float, **stop) -> tuple[ChargedClock, HandClock]:
    hand = HandClock()
    policy = ClockPolicy.from_dict({**POLICY, "stop": {**POLICY["stop"], **stop}})
    clock = ChargedClock(policy, budget_s, now=hand)
    clock.start()
    return clock, hand


durations = st.floats(0.0, 10.0)


@given(
    st.lists(durations, min_size=1, max_size=60),
    st.floats(0.1, 50.0),
    st.sampled_from(["median", "max", "mean"]),
    st.integers(1, 8),
    st.floats(0.0, 2.0),
)
def test_no_run_ends_more_than_one_step_past_its_budget(steps_s, budget_s, estimate, window, margin_s):
    clock, hand = clock_of(budget_s, estimate=estimate, window=window, margin_s=margin_s)
    for step_s in steps_s:
        if clock.should_stop():
            break
        hand.advance(step_s)
        clock.step_done()
    assert clock.charged_s - clock.last_step_s <= budget_s
    assert sum(clock.step_seconds) == pytest.approx(clock.charged_s, abs=1e-9)


@given(st.lists(st.tuples(st.sampled_from(["run", "pause", "step"]), durations), max_size=60))
def test_pauses_never_charge_and_charged_time_never_decreases(moves):
    clock, hand = clock_of(10.0)
    expected_s, before_s = 0.0, 0.0
    for kind, seconds in moves:
        if kind == "pause":
            frozen_s = clock.charged_s
            with clock.paused(), clock.paused():
                hand.advance(seconds)
                assert clock.charged_s == frozen_s
        else:
            hand.advance(seconds)
            expected_s += seconds
        if kind == "step":
            clock.step_done()
        assert clock.charged_s >= before_s
        assert 0.0 <= clock.fraction <= 1.0
        before_s = clock.charged_s
    assert clock.charged_s == pytest.approx(expected_s, abs=1e-9)


def test_the_first_step_always_runs():
    clock, hand = clock_of(1.0)
    hand.advance(5.0)
    assert not clock.should_stop()


def test_a_step_that_would_end_after_the_budget_is_not_begun():
    clock, hand = clock_of(10.0)
    for _ in range(3):
        hand.advance(3.0)
        clock.step_done()
    assert clock.should_stop()


def test_a_step_that_would_end_exactly_at_the_budget_is_begun():
    clock, hand = clock_of(9.0)
    for _ in range(2):
        hand.advance(3.0)
        clock.step_done()
    assert not clock.should_stop()


def test_the_margin_is_kept_free():
    clock, hand = clock_of(9.0, margin_s=0.1)
    for _ in range(2):
        hand.advance(3.0)
        clock.step_done()
    assert clock.should_stop()


@pytest.mark.parametrize(("estimate", "stops"), [("median", False), ("mean", True), ("max", True)])
def test_estimates_differ_on_one_slow_step(estimate, stops):
    clock, hand = clock_of(13.0, estimate=estimate)
    for step_s in (8.0, 1.0, 1.0):
        hand.advance(step_s)
        clock.step_done()
    hand.advance(0.5)
    assert clock.should_stop() is stops


def test_the_estimate_forgets_steps_before_its_window():
    clock, hand = clock_of(20.0, estimate="max", window=2)
    for step_s in (15.0, 1.0, 1.0):
        hand.advance(step_s)
        clock.step_done()
    assert not clock.should_stop()
    assert clock.longest_step_s == 15.0


def test_time_before_the_start_is_not_charged():
    clock, hand = clock_of(20.0)
    hand.advance(7.0)
    clock.step_done()
    clock.start()
    assert (clock.charged_s, clock.step_seconds, clock.last_step_s) == (0.0, [], 0.0)


def test_a_pause_ends_with_an_exception_in_it():
    clock, hand = clock_of(20.0)
    with pytest.raises(ZeroDivisionError), clock.paused():
        raise ZeroDivisionError
    hand.advance(1.0)
    assert clock.charged_s == 1.0


def test_cpu_seconds_resolve_less_than_a_tick_of_os_times():
    before_s = cpu_seconds()
    while (now_s := cpu_seconds()) == before_s:
        pass
    assert now_s - before_s < 0.01


@pytest.mark.parametrize("budget_s", [0.0, -1.0, float("nan")])
def test_a_budget_that_is_not_positive_is_refused(budget_s):
    with pytest.raises(ContestError, match="budget_s"):
        ChargedClock(ClockPolicy.from_dict(POLICY), budget_s)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("time", "sundial"),
        ("time", ["cpu"]),
        ("warmup_steps", -1),
        ("warmup_steps", True),
        ("warmup_steps", 1.0),
        ("stop", None),
        ("stop.estimate", "mode"),
        ("stop.window", 0),
        ("stop.window", "50"),
        ("stop.margin_s", -0.1),
        ("stop.margin_s", float("nan")),
        ("stop.margin_s", False),
        ("stop.marginn_s", 0.0),
        ("tiem", "cpu"),
    ],
)
def test_a_wrong_policy_is_refused_by_name(path, value):
    policy = copy.deepcopy(POLICY)
    *parents, key = path.split(".")
    section = policy
    for parent in parents:
        section = section[parent]
    section[key] = value
    with pytest.raises(ContestError, match=key):
        ClockPolicy.from_dict(policy)


@pytest.mark.parametrize("key", ["time", "warmup_steps", "stop"])
def test_a_missing_key_is_refused_by_name(key):
    with pytest.raises(ContestError, match=key):
        ClockPolicy.from_dict({k: v for k, v in POLICY.items() if k != key})
