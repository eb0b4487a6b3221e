"""Found by trying to break it: figures that cannot be, lost wardens, files in the way, contest files that lie."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from test_submission import GOOD, STEPS, SUMMARY, rehearse

from ffsim import caches, records, submission
from ffsim import contest as contests
from ffsim import rehearse as own
from ffsim.contest import Contest
from ffsim.errors import ContestError, RunError
from ffsim.project import Project
from ffsim.walk import walk

pytest_plugins = ["test_submission"]


@pytest.mark.parametrize(
    "figures",
    [
        {"seconds": "-5.0"},
        {"bpb": "1e-300"},
        {"bpb": "1e15"},
        {"bpb": "0.1"},
    ],
)
def test_figures_that_cannot_be_are_a_crash(project: Project, quick: Contest, figures: dict[str, str]) -> None:
    run = rehearse(project, quick, STEPS + SUMMARY.format(**{"bpb": "1.39", "seconds": "10.0", **figures}))
    assert (run.status, run.scores) == ("crashed", {})


def events(**changes: Any) -> str:
    clock = {"train_charged_s": 10.0} | changes.pop("clock", {})
    result = {"event": "result", "steps": 1, "tokens": 10, "clock": clock, "scores": {"val": {"bpb": 2.1}}, **changes}
    step = {"event": "step", "step": 1, "charged_s": 1.0, "loss_nats": 2.0, "fraction": 0.5, "left_s": 1}
    return "\n".join(f"print({json.dumps(json.dumps(event))})" for event in (step, result))


@pytest.fixture
def spoken(project: Project, quick: Contest) -> Contest:
    """`quick` in the dialect of ffsim's own trainer."""
    document = {"extends": "quick", "contest": "spoken", "launch": {"log": "events"}}
    (project.contests / "spoken.yaml").write_text(yaml.safe_dump(document))
    return project.contest("spoken")


def test_events_that_hold_together_are_a_result(project: Project, spoken: Contest) -> None:
    assert rehearse(project, spoken, events()).status == "finished"


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 0},
        {"steps": -3},
        {"clock": {"train_charged_s": -1.0}},
        {"scores": {"val": {"bpb": 2.1, "bytes": -5}}},
        {"scores": {"val": {"bpb": 2.1, "nats": -5.0}}},
        {"step_times": {"1": {"count": -5, "median_s": 1.0, "mean_s": 1.0, "p95_s": 1.0}}},
        {"curves": {"loss": [[-1, -2.0, 3.0]]}},
    ],
)
def test_a_result_with_impossible_parts_is_a_crash(project: Project, spoken: Contest, changes: dict[str, Any]) -> None:
    run = rehearse(project, spoken, events(**changes))
    assert (run.status, run.scores) == ("crashed", {})
    assert run.message


@pytest.mark.parametrize("last", [{"event": "error", "message": "loss is nan"}, {"event": "interrupted"}])
def test_a_trainer_that_says_it_failed_has_no_result(project: Project, spoken: Contest, last: dict[str, Any]) -> None:
    run = rehearse(project, spoken, f"{events()}\nprint({json.dumps(json.dumps(last))})")
    assert (run.status, run.scores) == ("crashed", {})


def test_how_far_over_the_budget_is_not_the_logs_own_percentile_to_say(project: Project, spoken: Contest) -> None:
    times = {"1": {"count": 20, "median_s": 1.0, "mean_s": 1.0, "p95_s": 2000.0}}
    run = rehearse(project, spoken, events(steps=20, clock={"train_charged_s": 20.0}, step_times=times))
    assert run.status == "over_budget"


def test_which_device_a_file_took_is_unknown_where_there_is_a_choice(project: Project) -> None:
    (project.root / "train.py").write_text(GOOD)
    contest = contests.load("autoresearch")
    plan = submission.Plan(
        entry=submission.read(contest, project.root / "train.py"), out=project.root / "x", run_id="r"
    )
    draft = submission._draft(project, plan)
    assert (draft.host.device_used, draft.host.block) == ("unknown", "unknown")


def test_a_killed_warden_leaves_a_record_and_no_process(project: Project, quick: Contest) -> None:
    code = "import subprocess\nfor _ in range(3): subprocess.Popen(['sleep', '602'], start_new_session=True)\n"
    (project.root / "train.py").write_text(f"{code}{STEPS}\nsys.stdout.flush()\ntime.sleep(600)")
    out = project.outbox / "r.json"
    command = [sys.executable, "-m", "ffsim", "rehearse", "./train.py", "--contest", "quick", "--out", str(out)]
    started = subprocess.Popen(command, cwd=project.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    deadline, log = time.monotonic() + 60, out.with_suffix(".log")
    while not (log.is_file() and b"00050" in log.read_bytes()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    family = psutil.Process(started.pid).children(recursive=True)
    warden = next(child for child in family if "ffsim.warden" in " ".join(child.cmdline()))
    os.kill(warden.pid, signal.SIGKILL)
    started.communicate(timeout=60)
    run = records.read_run(out)
    assert (run.status, run.scores, run.steps) == ("crashed", {}, 51)
    while any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in family):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("beside", ["r.json", "r.log"])
def test_nothing_is_written_over(project: Project, quick: Contest, beside: str) -> None:
    project.outbox.mkdir(exist_ok=True)
    (project.outbox / beside).write_text("precious")
    with pytest.raises(RunError, match="exists; choose another"):
        rehearse(project, quick, GOOD)
    assert (project.outbox / beside).read_text() == "precious"


def test_a_refused_run_keeps_the_caches_of_another(project: Project) -> None:
    contest = project.contest()
    recipe = project.recipe(contest, "base")
    plan = own.Plan(
        contest=contest, recipe=recipe, kind="screen", seed=1, order=1, out=project.outbox / "r.json", run_id="r",
        steps=2, keep_caches=True,
    )  # fmt: skip
    draft = own._draft(project, plan)
    kept = own.caches_of(project, contest.name, draft.artifact_sha256)
    kept.mkdir(parents=True)
    (kept / "artifact").touch()
    project.outbox.mkdir(exist_ok=True)
    plan.out.touch()
    with pytest.raises(RunError, match="exists"):
        own.run(project, plan)
    assert caches.artifacts(kept) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"launch": {"wall_limit_factor": float("inf")}},
        {"launch": {"wall_limit_factor": float("nan")}},
        {"launch": {"wall_limit_startup_s": -1.0}},
        {"launch": {"cache_folders": ["../../zz"]}},
        {"launch": {"environment": {"A=B": "x"}}},
        {"launch": {"environment": {"A": "x\0y"}}},
        {"artifact": {"file": "job.json"}},
        {"artifact": {"file": "home"}},
        {"artifact": {"max_bytes": 10**30}},
        {"tokens_per_step": [0]},
        {"schedule": {"size": float("inf")}},
        {"schedule": {"size": 1.5}},
        {"schedule": {"full_steps": -5}},
        {"schedule": {"full_steps": float("nan")}},
        {"clock": {"free_steps": 10**9}},
        {"clock": {"stop": {"estimate": [{"of": "max", "window": 5, "times": 1e308}]}}},
    ],
)
def test_a_contest_file_with_absurd_values_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "absurd.yaml"
    path.write_text(yaml.safe_dump({"extends": "laptop", "contest": "absurd", **change}))
    with pytest.raises(ContestError) as caught:
        contests.load(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("startup_s", [float("nan"), float("inf"), 1e18, -1.0])
def test_a_walk_ends_whatever_the_start_up_is(startup_s: float) -> None:
    laptop = contests.load("laptop")
    with pytest.raises(RunError, match="the start-up is"):
        walk(laptop, laptop.knobs.defaults(), {"1": 0.01}, startup_s=startup_s)


@pytest.mark.parametrize("seconds", [10**400, 1e18, float("inf")])
def test_a_step_time_beyond_all_clocks_is_refused(seconds: float) -> None:
    laptop = contests.load("laptop")
    with pytest.raises(RunError, match="give seconds above 0"):
        walk(laptop, laptop.knobs.defaults(), {"1": seconds})
