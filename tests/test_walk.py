"""The replay of a schedule on a virtual clock, and the batch schedules that contest files declare."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from ffsim import contest as contests
from ffsim.cli.walk import walk_command
from ffsim.contest import Contest
from ffsim.errors import ContestError, FfsimError, RecipeError, RunError
from ffsim.schedule import BatchSchedule, RampPhase, Schedule
from ffsim.walk import walk

FRONTIER = contests.load("frontier")
# Per-phase means of the recorded run C40_cold_K59 of the campaign "Rehearse, Don't Guess" (10.5281/zenodo.24015046).
MEANS = {"1": 0.296835, "2": 0.510163, "4": 0.934132}


def frontier(times: dict[str, float], **options: Any) -> Any:
    return walk(FRONTIER, FRONTIER.knobs.defaults(), times, **options)


def test_the_recorded_run_is_walked_step_for_step() -> None:
    found = frontier(MEANS)
    assert [(switch.phase, switch.step) for switch in found.switches] == [("4", 0), ("1", 20), ("2", 336), ("4", 828)]
    assert (found.steps, found.tokens) == (2357, 491_257_856)
    assert found.steps_by_phase == {"1": 316, "2": 492, "4": 1549}


def test_steps_that_are_shorter_by_a_part_in_700_give_four_more() -> None:
    found = frontier({phase: seconds * 0.9985 for phase, seconds in MEANS.items()})
    assert (found.steps, found.tokens) == (2361, 492_175_360)


def test_a_start_up_above_the_cap_costs_steps() -> None:
    slow, fast = frontier(MEANS, startup_s=900.0), frontier(MEANS, startup_s=500.0)
    # The five free steps belong to the start-up: 900 + 5 x 0.93 + 60 - 900.
    assert slow.excess_s == pytest.approx(60.0 + 5 * MEANS["4"])
    assert fast.excess_s == 0.0
    assert slow.steps < fast.steps


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ({"1": 0.3, "4": 0.9}, "no step time of phase 2"),
        ({"1": 0.3, "2": 0.5, "4": 0.0}, "give seconds above 0"),
        ({"1": 0.3, "2": 0.5, "4": math.inf}, "give seconds above 0"),
        ({"1": 0.3, "2": 0.5, "4": "1"}, "give seconds above 0"),
        ({"1": 0.3, "2": 0.5, "4": True}, "give seconds above 0"),
        ({"1": 1e-9, "2": 0.5, "4": 0.9}, "more than 10,000,000 steps"),
    ],
)
def test_bad_step_times_are_refused_by_phase(times: dict[str, Any], words: str) -> None:
    with pytest.raises(RunError, match=words):
        frontier(times)


def test_a_target_below_the_budget_ends_the_walk() -> None:
    knobs = FRONTIER.knobs.defaults() | {"time_target": 100.0}
    found = walk(FRONTIER, knobs, MEANS)
    assert found.target_s == 100.0
    assert 90.0 < found.charged_s <= 95.0  # 5 s of margin
    assert walk(FRONTIER, knobs, MEANS, budget_s=50.0).target_s == 50.0


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=3), st.floats(1.0, 30.0))
def test_steps_tokens_and_phases_add_up(times: list[float], budget_s: float) -> None:
    laptop = contests.load("laptop")
    knobs = laptop.knobs.defaults() | {"accumulate": len(times), "ramp1_until": 0.3}
    found = walk(laptop, knobs, {str(i + 1): s for i, s in enumerate(times)}, budget_s=budget_s)
    assert sum(found.steps_by_phase.values()) == found.steps
    assert found.tokens == sum(int(p) * n for p, n in found.steps_by_phase.items()) * laptop.step_tokens(knobs)
    assert found.charged_s == pytest.approx(sum(times[int(p) - 1] * n for p, n in found.steps_by_phase.items()))
    assert found.charged_s - max(times) <= budget_s  # the first step of a larger phase is not foreseen


def test_a_ramp_runs_through_its_phases_once() -> None:
    schedule = BatchSchedule(size=4, full_steps=2, ramp=((1, 0.1), (2, 0.4)))
    fractions = [0.0, 0.0, 0.01, 0.05, 0.1, 0.39, 0.4, 1.0]
    assert [schedule.at(step, f) for step, f in enumerate(fractions)] == [4, 4, 1, 1, 2, 2, 4, 4]
    assert schedule.sizes == (1, 2, 4)


def test_a_phase_that_ends_at_nothing_does_not_exist() -> None:
    section = Schedule(size="k", ramp=(RampPhase(size="k1", until="u1"),))
    assert section.batches({"k": 2, "k1": 1, "u1": 0.0}).sizes == (2,)
    assert section.batches({"k": 2, "k1": 1, "u1": 0.5}).sizes == (1, 2)
    with pytest.raises(RecipeError, match="0 micro-batches"):
        section.batches({"k": 0, "k1": 1, "u1": 0.5})


def test_a_schedule_names_knobs_of_the_table(laptop_file: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_bytes(msgspec.yaml.encode(laptop_file | {"schedule": {"size": "acumulate"}}))
    with pytest.raises(ContestError, match="did you mean accumulate"):
        contests.load(str(path))


def run_command(*arguments: str) -> Any:
    return CliRunner().invoke(walk_command, list(arguments))


def test_the_command_needs_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("times.json").write_text(json.dumps(MEANS))
    Path("late.yaml").write_text("contest: frontier\nname: late\nknobs: {time_target: 1760}\n")
    done = run_command("defaults", "--contest", "frontier", "--step-times", "times.json")
    assert done.exit_code == 0, done.output
    assert "2,357 steps, 491,257,856 tokens" in done.output
    done = run_command("late.yaml", "--step-times", "times.json", "--json")
    assert json.loads(done.output)["target_s"] == 1760.0
    for arguments in (["nothing", "--contest", "frontier"], ["defaults"], ["defaults", "--contest", "frontier"]):
        with pytest.raises(FfsimError):
            CliRunner().invoke(
                walk_command, [*arguments, "--step-times", "none.json"], catch_exceptions=False, standalone_mode=False
            )


def _contest_of(name: str) -> Contest:
    return contests.load(name)


# One test a packaged contest: what its rules say, in the words of the policy.


def test_laptop_charges_cpu_seconds_after_one_step_that_is_undone() -> None:
    policy = _contest_of("laptop").clock_policy
    assert (policy.time, policy.warmup_steps, policy.free_steps, policy.startup) == ("cpu", 1, 0, None)
    assert policy.foresee([9.0] + [1.0] * 50) == 1.0


def test_the_compile_lane_charges_the_first_compile() -> None:
    contest = _contest_of("laptop-compile")
    policy = contest.clock_policy
    assert (contest.budget_s, policy.time, policy.warmup_steps, policy.free_steps) == (60.0, "wall", 0, 0)
    assert "late_compiles" in policy.charged
    assert policy.recompiles == "allowed"
    assert "torch_compile" in contest.knobs
    assert "torch_compile" not in _contest_of("laptop").knobs


def test_the_other_compile_lane_differs_in_its_free_steps_only() -> None:
    lane, free = _contest_of("laptop-compile"), _contest_of("laptop-compile-free5")
    changed = msgspec.structs.replace(lane.clock_policy, free_steps=5, recompiles="refused")
    assert free.clock_policy == changed
    assert free.knobs.defaults() == lane.knobs.defaults()
    assert free.budget_s == lane.budget_s


def test_frontier_frees_five_steps_and_charges_the_save_and_late_compiles() -> None:
    policy = FRONTIER.clock_policy
    assert (policy.time, policy.free_steps, set(policy.charged)) == ("wall", 5, {"late_compiles", "save"})
    assert policy.startup is not None
    assert (policy.startup.cap_s, policy.startup.margin_s, policy.stop.margin_s) == (900.0, 60.0, 5.0)
    assert policy.foresee([1.0] * 30 + [40.0]) == 3.0  # 3 x median, not the one late compile
    assert policy.foresee([1.0] * 30 + [2.0]) == 2.0  # the longest of the last 20
    assert FRONTIER.artifact.max_bytes == 262_143


def test_autoresearch_charges_the_time_inside_steps_from_the_twelfth_on() -> None:
    contest = _contest_of("autoresearch")
    policy = contest.clock_policy
    assert (contest.budget_s, policy.counts, policy.free_steps) == (300.0, "steps", 11)
    found = walk(contest, contest.knobs.defaults(), {"1": 0.5})
    assert found.steps == 11 + 600  # stops once 300 s are charged, without an estimate


def test_parameter_golf_undoes_twenty_steps_and_limits_the_artifact() -> None:
    contest = _contest_of("parameter-golf")
    policy = contest.clock_policy
    assert (contest.budget_s, policy.warmup_steps, policy.free_steps) == (600.0, 20, 0)
    assert contest.artifact.max_bytes == 16_000_000
    found = walk(contest, contest.knobs.defaults(), {"1": 0.0435})
    assert found.charged_s >= 600.0 > found.charged_s - 0.0435  # it stops after the step that reaches the cap
