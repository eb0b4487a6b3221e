"""Recorded runs of Trainium Frontier walked again from their own logs: the steps that they made, on a virtual clock."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ffsim import contest as contests
from ffsim import logs
from ffsim.cli.walk import walk_command
from ffsim.errors import RunError
from ffsim.walk import walk


# Target: the time target of the run's log and, for the second, the last value in its overrides.
@pytest.mark.parametrize(
    ("name", "target_s", "switches", "steps"),
    [("C40_cold_K59", 1793.0, [20, 336, 828], 2357), ("0816_R_g7lk35_s73", 1760.0, [20, 333, 820], 2326)],
)
def test_a_recorded_run_is_walked_again(
    external: Path, name: str, target_s: float, switches: list[int], steps: int
) -> None:
    contest = contests.load("frontier")
    reading = logs.read(external / "frontier_logs" / name, "frontier", contest.clock_policy.free_steps)
    assert reading.target_s == target_s
    found = walk(contest, contest.knobs.defaults() | {"time_target": target_s}, logs.phase_means(reading))
    assert found.steps == reading.steps == steps
    assert [switch.phase for switch in found.switches] == ["4", "1", "2", "4"]
    for walked, recorded in zip(found.switches[1:], switches, strict=True):
        assert abs(walked.step - recorded) <= 2


def test_the_command_takes_a_folder_and_a_changed_knob(external: Path) -> None:
    folder = str(external / "frontier_logs" / "0816_R_g7lk35_s73")
    arguments = ["defaults", "--contest", "frontier", "--step-times", folder, "--set", "time_target=1760"]
    done = CliRunner().invoke(walk_command, arguments)
    assert done.exit_code == 0, done.output
    assert "2,326 steps" in done.output


def test_a_log_without_phases_gives_no_step_times(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("step 00000 | loss 9.0 | lrm 0.1 | dt 1.0s | tok/s 65,536 | charged 1s\n")
    arguments = ["defaults", "--contest", "frontier", "--step-times", str(tmp_path / "run.log")]
    with pytest.raises(RunError, match="did not finish"):
        CliRunner().invoke(walk_command, arguments, catch_exceptions=False, standalone_mode=False)
