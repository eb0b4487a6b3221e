"""Rehearsals: a process of its own, a record whatever happens, nothing left running."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from ffsim import attempt, guard, jobs, outbox, records, rehearse
from ffsim import contest as contests
from ffsim.errors import FfsimError, RunError
from ffsim.guard import Source
from ffsim.identity import Index
from ffsim.project import Project
from ffsim.rehearse import Plan


def make_plan(project: Project, **changes: Any) -> Plan:
    contest = project.contest()
    values: dict[str, Any] = {
        "contest": contest,
        "recipe": project.recipe(contest, "base"),
        "kind": "screen",
        "seed": 1,
        "order": 1,
        "out": project.outbox / "r.json",
        "run_id": "r",
        "steps": 8,
    }
    return Plan(**(values | changes))


@pytest.fixture
def fake_trainer(project: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Project]:
    """Makes the contest launch a trainer with the given source instead of ffsim's own."""

    def install(source: str) -> Project:
        (project.root / "fake_trainer.py").write_text(textwrap.dedent(source))
        path = project.root / "contests/mini.yaml"
        document = yaml.safe_load(path.read_text())
        document["launch"]["trainer"] = "fake_trainer"
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        monkeypatch.setenv("PYTHONPATH", str(project.root))
        return project

    return install


def test_a_fixed_number_of_steps_is_the_same_twice_and_passes_the_guard(project: Project) -> None:
    events: list[str] = []
    one = rehearse.run(project, make_plan(project), lambda event: events.append(event["event"]))
    two = rehearse.run(project, make_plan(project, run_id="s", out=project.outbox / "s.json"))
    assert one.status == two.status == "finished"
    assert one.weights_sha256 == two.weights_sha256
    assert one.scores["public"].bpb == two.scores["public"].bpb
    assert (one.steps, one.step_limit, one.budget_s) == (8, 8, None)
    assert one.start.observed == "cold"
    assert events[0] == "caches"
    assert events[-2:] == ["result", "caches"]
    assert "hidden" not in one.scores
    blob = (project.outbox / "r.json").read_bytes()
    assert guard.judge(project, [Source("r", blob)], Index()).violations == []
    assert records.read_run(project.outbox / "r.json") == one
    assert not list((project.scratch / "jobs").iterdir()), "the job's folder is gone"


def test_a_rehearsal_under_the_clock_ends_within_a_step_of_its_budget(project: Project) -> None:
    plan = make_plan(project, kind="rehearsal", steps=None, budget_s=0.3)
    run = rehearse.run(project, plan)
    assert run.status == "finished"
    assert run.clock.train_charged_s is not None
    assert run.clock.last_step_s is not None
    assert run.clock.train_charged_s <= 0.3 + run.clock.last_step_s
    assert guard.judge(project, [Source("r", plan.out.read_bytes())], Index()).violations == []


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise SystemExit(3)", "exit code 3"),
        ("raise ValueError('out of memory')", "ValueError: out of memory"),
        ('print(\'{"event": "error", "message": "the loss is nan at step 4"}\'); raise SystemExit(1)', "nan at step 4"),
        ("print('hello')", "ended without a result"),
        ('print(\'{"event": "step", "step": "x"}\')', "damaged event"),
        ('print(\'{"event": "result", "clock": 3}\')', "damaged event"),
        (
            'print(\'{"event": "result", "clock": {"train_charged_s": 1.0, "last_step_s": 1.0}, "x": 1}\')',
            "unknown keys: x",
        ),
        (
            'print(\'{"event": "result", "clock": {"train_charged_s": 1.0, "last_step_s": 1.0}, "steps": "x"}\')',
            "not a valid run",
        ),
        ('print(\'{"event": "result", "clock": {}}\')', "does not say what it charged"),
        ('print(\'{"event": "step", "step": 1, "charged_s": 0.1, "loss_nats": NaN}\')', "damaged event"),
        ("raise ValueError('cannot read /home/alice/secret/train.txt')", "cannot read train.txt"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "exit code -9"),
    ],
)
def test_a_crash_is_a_record_without_a_score(fake_trainer: Callable[[str], Project], source: str, message: str) -> None:
    project = fake_trainer(source)
    plan = make_plan(project)
    run = rehearse.run(project, plan)
    assert run.status == "crashed"
    assert message in (run.message or "")
    assert run.scores == {}
    assert guard.judge(project, [Source("r", plan.out.read_bytes())], Index()).violations == []


HANGING = """
    import json, subprocess, sys, time
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(json.dumps({"event": "step", "step": 7, "charged_s": 0.1, "fraction": 0.3, "loss_nats": 3.0, "left_s": 1}))
    print(json.dumps({"event": "child", "pid": child.pid}), flush=True)
    time.sleep(600)
"""


def _alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_an_interrupt_leaves_a_cut_off_record_and_no_process(fake_trainer: Callable[[str], Project]) -> None:
    project = fake_trainer(HANGING)
    children: list[int] = []

    def interrupt(event: dict[str, Any]) -> None:
        if event["event"] == "child":
            children.append(event["pid"])
            os.kill(os.getpid(), signal.SIGTERM)

    plan = make_plan(project)
    with pytest.raises(KeyboardInterrupt, match=r"record of the attempt is .*r\.json"):
        rehearse.run(project, plan, interrupt)
    run = records.read_run(plan.out)
    assert (run.status, run.steps, run.scores, run.message) == ("cut_off", 7, {}, "interrupted")
    assert len(run.curves.loss) == 1
    assert not _alive(children[0])


def test_a_run_that_hangs_is_ended_by_the_wall_limit(fake_trainer: Callable[[str], Project]) -> None:
    project = fake_trainer(HANGING)
    contest = project.contest()
    contest.launch = dataclasses_replace(contest.launch, wall_limit_factor=1.0, wall_limit_startup_s=0.0)
    children: list[int] = []
    plan = make_plan(project, contest=contest, kind="rehearsal", steps=None, budget_s=contest.budget_s)
    run = rehearse.run(
        project, plan, lambda event: children.append(event["pid"]) if event["event"] == "child" else None
    )
    contests._parse.cache_clear()  # the contest was changed in place
    assert run.status == "crashed"
    assert "by the wall" in (run.message or "")
    assert not any(_alive(pid) for pid in children)


def dataclasses_replace(value: Any, **changes: Any) -> Any:
    import msgspec

    return msgspec.structs.replace(value, **changes)


def test_a_running_rehearsal_saves_what_it_has(
    fake_trainer: Callable[[str], Project], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a `kill -9` loses a few seconds of the curve and not all of it."""
    project = fake_trainer(HANGING)
    monkeypatch.setattr(outbox, "SAVE_EVERY_S", 0.0)
    plan = make_plan(project)
    seen: list[records.Run] = []

    def look(event: dict[str, Any]) -> None:
        if event["event"] == "child":
            seen.append(records.read_run(plan.out))
            assert jobs.running(project) == {"r"}
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rehearse.run(project, plan, look)
    assert (seen[0].status, seen[0].steps) == ("cut_off", 7)
    assert jobs.running(project) == set()


def test_a_killed_rehearsal_has_left_its_record_and_takes_its_trainer_along(
    fake_trainer: Callable[[str], Project],
) -> None:
    project = fake_trainer(HANGING)
    code = f"""
        from pathlib import Path
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_rehearse import make_plan
        from ffsim import rehearse
        from ffsim.project import Project
        project = Project(Path({str(project.root)!r}))
        rehearse.run(project, make_plan(project), lambda event: print(event, flush=True))
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "child" in line:
            break
    process.kill()
    process.wait()
    process.stdout.close()
    run = json.loads((project.outbox / "r.json").read_text())
    assert (run["status"], run["scores"]) == ("cut_off", {})
    assert "killed" in run["message"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"device": "cuda"}, "runs on cpu"),
        ({"start": "warm"}, "nothing was kept"),
        ({"start": "mixed"}, "starts cold"),
        ({"step_times_s": {}}, "no step time of phase 1"),
        ({"contributor": "me@host"}, "short handle"),
        ({"notes": "x" * 3000}, "a record takes 2,000"),
    ],
)
def test_what_cannot_run_is_refused_without_a_record(project: Project, changes: dict[str, Any], words: str) -> None:
    plan = dataclasses.replace(make_plan(project), **changes)
    with pytest.raises(FfsimError, match=words):
        rehearse.run(project, plan)
    assert not plan.out.exists()


def test_a_record_is_never_written_over(project: Project) -> None:
    plan = make_plan(project, steps=2)
    plan.out.parent.mkdir()
    plan.out.write_text("mine")
    with pytest.raises(RunError, match="exists; choose another"):
        rehearse.run(project, plan)
    assert plan.out.read_text() == "mine"


def test_what_a_killed_run_left_is_removed_by_the_next(project: Project) -> None:
    left = project.scratch / "jobs/killed.999999999-1"
    reused = project.scratch / f"jobs/reused.{os.getppid()}-1"
    running = project.scratch / f"jobs/other.one.{os.getppid()}-{psutil.Process(os.getppid()).create_time():.0f}"
    for folder in (left, reused, running):
        folder.mkdir(parents=True)
    assert jobs.running(project) == {"other.one"}
    rehearse.run(project, make_plan(project, steps=2))
    assert not left.exists()
    assert not reused.exists()
    assert running.exists()


def test_a_missing_text_names_the_remedy(project: Project) -> None:
    (project.texts / "mini/train.txt").unlink()
    with pytest.raises(RunError, match="dvc pull data"):
        rehearse.run(project, make_plan(project))


def test_run_ids_are_valid_and_differ(project: Project) -> None:
    ids = {rehearse.new_run_id("a" * 80, 4294967295, 4294967295) for _ in range(20)}
    assert len(ids) > 10
    assert all(records.RUN_ID.fullmatch(run_id) for run_id in ids)


def test_a_long_run_that_is_cut_off_keeps_an_evenly_thinned_curve() -> None:
    points = [(i, i / 10, 5.0) for i in range(1, 5001)]
    thin = attempt.thinned(points)
    assert len(thin) == attempt.CURVE_POINTS
    assert (thin[0], thin[-1]) == (points[0], points[-1])
    assert len({b[0] - a[0] for a, b in itertools.pairwise(thin)}) <= 2


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("text /home/a/b/train.txt is short", "text train.txt is short"),
        ("C:\\Users\\me\\x.py failed", "x.py failed"),
        ("lr 1/2 of nats/byte", "lr 1/2 of nats/byte"),
        ("('/srv/x', 3)", "('x', 3)"),
    ],
)
def test_messages_name_no_folders(text: str, kept: str) -> None:
    assert attempt.without_paths(text) == kept


def test_weights_that_cannot_be_saved_are_refused_before_the_run(project: Project, tmp_path: Path) -> None:
    there = tmp_path / "there.npz"
    there.touch()
    for weights, words in ((there, "exists"), (tmp_path / "no/w.npz", "its folder is not there")):
        with pytest.raises(RunError, match=words):
            rehearse.run(project, dataclasses.replace(make_plan(project), weights=weights))
    assert not list(project.outbox.glob("*"))


def test_kept_caches_belong_to_one_run_at_a_time(project: Project) -> None:
    """A second cold run on them would find what the first one makes, and be called cold."""
    plan = dataclasses.replace(make_plan(project), keep_caches=True)
    with rehearse._kept_caches(project, plan, "a" * 64) as kept:
        assert kept is not None
        for start in ("cold", "warm"):
            kept.mkdir(exist_ok=True)
            (kept / "artifact").touch()
            other = dataclasses.replace(plan, start=start)
            with pytest.raises(RunError, match="another run uses"), rehearse._kept_caches(project, other, "a" * 64):
                pass
        assert (kept / "artifact").is_file()
