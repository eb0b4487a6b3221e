"""Properties of the charged clock, on a time source that the tests turn by hand."""

from __future__ import annotations

import copy
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffsim.clock import ChargedClock, VirtualTime, cpu_seconds
from ffsim.cputime import TreeCPU
from ffsim.errors import ContestError
from ffsim.policy import ClockPolicy

POLICY = {
    "time": "cpu",
    "warmup_steps": 1,
    "stop": {"estimate": [{"of": "median", "window": 50}], "margin_s": 0.0},
}


class HandClock:
    def __init__(self) -> None:
        self.now_s = 1234.5

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


def clock_of(
    budget_s: float, estimate: str = "median", window: int = 50, margin_s: float = 0.0, **policy
) -> tuple[ChargedClock, HandClock]:
    hand = HandClock()
    stop = {"estimate": [{"of": estimate, "window": window}], "margin_s": margin_s}
    clock = ChargedClock(ClockPolicy.from_dict({**POLICY, "stop": stop, **policy}), budget_s, now=hand)
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


def test_a_step_that_would_end_exactly_at_the_budget_is_not_begun():
    clock, hand = clock_of(9.0)
    for _ in range(2):
        hand.advance(3.0)
        clock.step_done()
    assert clock.should_stop()


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
    with pytest.raises(ContestError, match="budget"):
        ChargedClock(ClockPolicy.from_dict(POLICY), budget_s)


def test_free_steps_are_steps_and_not_charged():
    clock, hand = clock_of(10.0, free_steps=2)
    for seconds in (30.0, 5.0, 1.0, 2.0):
        assert clock.fraction == 0.0 or not clock.free
        assert not clock.should_stop()
        hand.advance(seconds)
        clock.step_done()
    assert (clock.steps, clock.free_seconds, clock.step_seconds) == (4, [30.0, 5.0], [1.0, 2.0])
    assert (clock.charged_s, clock.startup_s, clock.excess_s) == (3.0, 35.0, 0.0)


# allowance = min(now - start, cap), excess = max(0, now - start + margin - cap): the rule of Trainium Frontier.
@pytest.mark.parametrize(("startup_s", "excess_s"), [(500.0, 0.0), (840.0, 0.0), (850.0, 10.0), (1000.0, 160.0)])
def test_start_up_above_the_cap_is_charged_at_once(startup_s, excess_s):
    hand = HandClock()
    policy = ClockPolicy.from_dict({**POLICY, "free_steps": 1, "startup": {"cap_s": 900.0, "margin_s": 60.0}})
    clock = ChargedClock(policy, 1800.0, now=hand)
    clock.start()
    hand.advance(startup_s)
    clock.step_done()
    assert clock.charged_s == clock.excess_s == excess_s
    hand.advance(2.0)
    assert clock.step_done() == 2.0
    assert clock.charged_s == excess_s + 2.0


def test_a_launch_before_the_clock_was_made_counts_as_start_up():
    hand = HandClock()
    policy = ClockPolicy.from_dict({**POLICY, "startup": {"cap_s": 1.0}})
    clock = ChargedClock(policy, 10.0, now=hand, launched_s=hand.now_s - 3.0)
    clock.start()
    assert (clock.startup_s, clock.charged_s) == (3.0, 2.0)


def test_where_steps_count_nothing_between_them_is_charged():
    clock, hand = clock_of(10.0, counts="steps")
    for _ in range(3):
        hand.advance(7.0)
        clock.step_started()
        hand.advance(1.0)
        clock.step_done()
    assert (clock.charged_s, clock.step_seconds) == (3.0, [1.0, 1.0, 1.0])


@pytest.mark.parametrize("what", ["late_compiles", "save", "evaluation"])
@pytest.mark.parametrize("charged", [True, False])
def test_the_policy_says_what_else_is_charged(what, charged):
    clock, hand = clock_of(10.0, charged=[what] if charged else [])
    with clock.spending(what):
        hand.advance(4.0)
    assert clock.charged_s == (4.0 if charged else 0.0)


def test_where_steps_count_what_is_charged_by_name_is_charged_between_them():
    clock, hand = clock_of(100.0, counts="steps", charged=["save"])
    clock.step_started()
    hand.advance(1.0)
    clock.step_done()
    hand.advance(5.0)
    with clock.spending("save"):
        hand.advance(2.0)
    with clock.spending("evaluation"):
        hand.advance(3.0)
    assert clock.charged_s == 3.0


def test_the_least_estimate_counts():
    """min(max of the last 20, 3 x median of the last 50): one recompile must not end a run early."""
    stop = {"estimate": [{"of": "max", "window": 20}, {"of": "median", "window": 50, "times": 3.0}]}
    clock, hand = clock_of(30.0, stop=stop)
    for step_s in (1.0, 1.0, 20.0, 1.0):
        hand.advance(step_s)
        clock.step_done()
    assert not clock.should_stop()
    hand.advance(4.0)
    assert clock.should_stop()


def test_without_an_estimate_a_run_stops_once_the_target_is_reached():
    clock, hand = clock_of(3.0, stop={})
    for _ in range(3):
        assert not clock.should_stop()
        hand.advance(1.0)
        clock.step_done()
    assert clock.should_stop()


@given(st.lists(st.floats(0.01, 3.0), min_size=1, max_size=40), st.integers(0, 4), st.floats(0.0, 20.0))
def test_a_virtual_clock_does_what_a_real_one_does(steps_s, free_steps, startup_s):
    policy = ClockPolicy.from_dict({**POLICY, "free_steps": free_steps, "startup": {"cap_s": 10.0}})
    hand, virtual = HandClock(), VirtualTime()
    clocks = [ChargedClock(policy, 15.0, now=now) for now in (hand, virtual)]
    hand.advance(startup_s)
    virtual.spend(startup_s)
    for clock in clocks:
        clock.start()
    for step_s in steps_s:
        hand.advance(step_s)
        virtual.spend(step_s)
        for clock in clocks:
            clock.step_done()
        assert clocks[0].should_stop() == clocks[1].should_stop()
        assert clocks[0].charged_s == pytest.approx(clocks[1].charged_s, abs=1e-6)


def test_cpu_seconds_hold_those_of_children_while_they_run_and_afterwards():
    busy = "import time; t = time.process_time()\nwhile time.process_time() - t < 0.3: pass"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}]); print(1, flush=True); input()"
    others_s = lambda: TreeCPU()() - time.process_time()  # noqa: E731  (a new one walks the process table at once)
    before_s = others_s()
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"1\n"
    assert others_s() - before_s >= 0.29  # the grandchild has ended, the child has not
    child.communicate(b"\n")
    assert others_s() - before_s >= 0.29


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
        ("stop.estimate", [{"of": "mode", "window": 50}]),
        ("stop.estimate", [{"of": "median", "window": 0}]),
        ("stop.estimate", [{"of": "median", "window": "50"}]),
        ("stop.estimate", [{"of": "median", "window": 50, "times": 0}]),
        ("free_steps", -1),
        ("counts", "minutes"),
        ("charged", ["lunch"]),
        ("recompiles", "perhaps"),
        ("startup", {"cap_s": -1.0}),
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


@pytest.mark.parametrize("key", ["time", "stop"])
def test_a_missing_key_is_refused_by_name(key):
    with pytest.raises(ContestError, match=key):
        ClockPolicy.from_dict({k: v for k, v in POLICY.items() if k != key})
