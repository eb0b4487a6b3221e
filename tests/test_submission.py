"""Submissions that ffsim did not write: six kinds of file, six correct records or refusals, and no process left."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from ffsim import guard, records, repeat, submission
from ffsim.contest import Contest
from ffsim.errors import RunError
from ffsim.guard import Source
from ffsim.project import Project
from ffsim.records import Run

STEPS = """
import os, sys, time
for step in range(51):
    sys.stdout.write(f"\\rstep {step:05d} ({step / 0.51:.1f}%) | loss: {9 - step / 10:.6f} | lrm: 1.00 | dt: 250ms | "
                     f"tok/sec: 65,536 | mfu: 1.0% | epoch: 1 | remaining: {(51 - step) / 4:.0f}s    ")
print()
"""
SUMMARY = """
print('''---
val_bpb:          {bpb}
training_seconds: {seconds}
total_seconds:    15.5
peak_vram_mb:     602.2
mfu_percent:      1.00
total_tokens_M:   0.7
num_steps:        51
num_params_M:     11.5
depth:            4''')
"""
GOOD = STEPS + SUMMARY.format(bpb="1.393552", seconds="10.0")
MARK = "FFSIM_TEST_MARK"


@pytest.fixture
def quick(project: Project) -> Contest:
    """autoresearch with a budget of 10 s, and 4 s by the wall for everything."""
    document = {"extends": "autoresearch", "contest": "quick", "budget_s": 10.0, "artifact": {"max_bytes": 4000}}
    document["launch"] = {"devices": ["cpu"], "wall_limit_startup_s": 4.0, "wall_limit_factor": 0.0}
    document["hosts"] = {"flags": [MARK]}  # passed on to the submission: the tests find its processes by it
    project.contests.mkdir(exist_ok=True)
    (project.contests / "quick.yaml").write_text(yaml.safe_dump(document))
    params = yaml.safe_load((project.root / "params.yaml").read_text())
    params["contests"].append("quick")
    (project.root / "params.yaml").write_text(yaml.safe_dump(params))
    return project.contest("quick")


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A value in the environment of everything that a submission starts."""
    monkeypatch.setenv(MARK, str(tmp_path))
    return str(tmp_path)


def rehearse(project: Project, contest: Contest, code: str, name: str = "train.py", **changes: Any) -> Run:
    file = project.root / name
    file.write_text(textwrap.dedent(code))
    plan = submission.Plan(entry=submission.read(contest, file), out=project.outbox / "r.json", run_id="r", **changes)
    run = submission.run(project, plan)
    assert records.read_run(plan.out) == run
    assert (project.outbox / "r.log").is_file()
    return run


def processes(mark: str) -> list[psutil.Process]:
    """Everything that runs with the mark in its environment, this process and its tools aside."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get("HOME", "").startswith(mark):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_a_good_file_is_a_record_with_its_own_word_and_no_recipe(project: Project, quick: Contest, mark: str) -> None:
    run = rehearse(project, quick, GOOD)
    # It is a tenth of a second of printing that claims ten.
    assert (run.status, run.exit_code) == ("finished", 0)
    assert run.message is not None
    assert run.message.startswith("it says 10.0 charged s, and ran for 0.")
    assert run.scores["val"].bpb == 1.393552
    assert (run.steps, run.tokens, run.clock.train_charged_s) == (51, None, 10.0)  # 0.7 M is rounded
    assert run.artifact_sha256 == hashlib.sha256(GOOD.encode()).hexdigest()
    assert run.artifact == records.Artifact(file="train.py", bytes=len(GOOD))
    assert (run.recipe, run.knobs, run.trainer_version, run.seed) == (None, {}, None, None)
    assert run.start == records.Start(requested="cold", observed="cold")
    assert run.clock.first_step_s is not None
    assert run.clock.wall_s is not None
    assert run.peak_memory_bytes is not None
    assert not run.comparable
    assert processes(mark) == []


def test_its_record_passes_the_guard_and_is_never_fitted(project: Project, quick: Contest) -> None:
    from ffsim import quality, steps

    run = rehearse(project, quick, GOOD)
    record = records.as_json(run)

    def broken() -> list[str]:
        verdict = guard.judge(project, [Source("r.json", json.dumps(record).encode())])
        return [violation.rule for violation in verdict.violations]

    assert broken() == ["charged_within_wall"]
    record["clock"]["wall_s"] = 15.5
    assert broken() == []
    assert quality.usable(quick, [run]) == steps.timed([run]) == []


def test_a_crash_is_a_record_without_a_score(project: Project, quick: Contest, mark: str) -> None:
    run = rehearse(project, quick, STEPS + "raise ValueError('out of memory in /home/me/x.py')")
    assert (run.status, run.exit_code, run.scores) == ("crashed", 1, {})
    assert run.message == "exit code 1: ValueError: out of memory in x.py"
    assert run.steps == 51
    assert processes(mark) == []


def test_a_crash_after_the_summary_has_no_score_either(project: Project, quick: Contest) -> None:
    run = rehearse(project, quick, GOOD + "\nimport os; os._exit(3)")
    assert (run.status, run.exit_code, run.scores) == ("crashed", 3, {})


def test_a_file_that_hangs_is_ended_with_all_its_children(project: Project, quick: Contest, mark: str) -> None:
    code = (
        STEPS
        + """
import signal, subprocess
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", child])
subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
sys.stdout.flush()
time.sleep(600)
"""
    )
    run = rehearse(project, quick, code)
    assert (run.status, run.scores) == ("cut_off", {})
    assert run.message == "ended after 4 s by the wall, the contest's limit"
    assert run.steps == 51
    assert processes(mark) == []


@pytest.mark.parametrize("bpb", ["nan", "inf", "-1.0", "1e999", "", "none"])
def test_a_score_that_is_no_number_is_no_score(project: Project, quick: Contest, bpb: str) -> None:
    run = rehearse(project, quick, STEPS + SUMMARY.format(bpb=bpb, seconds="10.0"))
    assert (run.status, run.scores, run.exit_code) == ("crashed", {}, 0)
    assert run.message


def test_a_file_above_the_limit_is_refused_without_a_record(project: Project, quick: Contest) -> None:
    with pytest.raises(RunError, match="the limit of quick is 4,000; make it smaller"):
        rehearse(project, quick, GOOD + "#" * 4000)
    assert list(project.outbox.glob("*")) == []


def test_it_cannot_write_outside_its_folder(project: Project, quick: Contest, mark: str, tmp_path: Path) -> None:
    outside = project.data / "runs" / "planted.json"
    run = rehearse(
        project, quick, STEPS + f"open('inside.txt', 'w').write('x')\nopen({str(outside)!r}, 'w').write('x')"
    )
    assert not outside.exists()
    assert (run.status, run.exit_code) == ("crashed", 1)
    assert run.message is not None
    assert "Permission" in run.message
    run_again = rehearse_as(
        project, quick, "import shutil, os\ntry:\n    open('../../x', 'w')\nexcept OSError: pass\n" + GOOD
    )
    assert run_again.status == "finished"
    assert not (project.scratch / "jobs" / "x").exists()
    assert processes(mark) == []


def rehearse_as(project: Project, contest: Contest, code: str) -> Run:
    file = project.root / "other.py"
    file.write_text(code)
    plan = submission.Plan(entry=submission.read(contest, file), out=project.outbox / "r2.json", run_id="r2")
    return submission.run(project, plan)


def test_a_run_over_the_budget_says_so_and_keeps_its_score(project: Project, quick: Contest) -> None:
    run = rehearse(project, quick, STEPS + SUMMARY.format(bpb="1.4", seconds="12.5"))
    assert (run.status, run.scores["val"].bpb) == ("over_budget", 1.4)


def test_no_secret_of_the_environment_reaches_it(project: Project, quick: Contest, monkeypatch: Any) -> None:
    monkeypatch.setenv("A_TOKEN", "hush")
    code = "import os\nassert 'A_TOKEN' not in os.environ\nassert os.environ['HOME'].endswith('/work/home')\n" + GOOD
    assert rehearse(project, quick, code).status == "finished"


def test_what_ran_is_what_was_hashed(project: Project, quick: Contest) -> None:
    """The file may change on disk between the hash and the launch: the bytes that were read are the ones that run."""
    file = project.root / "train.py"
    file.write_text(GOOD)
    entry = submission.read(quick, file)
    file.write_text("raise SystemExit(9)")
    run = submission.run(project, submission.Plan(entry=entry, out=project.outbox / "r.json", run_id="r"))
    assert (run.status, run.artifact_sha256) == ("finished", hashlib.sha256(GOOD.encode()).hexdigest())


@pytest.mark.parametrize(("name", "code", "words"), [("none.py", None, "is no file"), ("empty.py", "", "is empty")])
def test_what_is_no_submission_is_refused(
    project: Project, quick: Contest, name: str, code: str | None, words: str
) -> None:
    if code is not None:
        (project.root / name).write_text(code)
    with pytest.raises(RunError, match=words):
        submission.read(quick, project.root / name)


def test_a_launcher_that_is_not_here_leaves_no_record(project: Project, quick: Contest) -> None:
    path = project.contests / "quick.yaml"
    document = yaml.safe_load(path.read_text())
    document["launch"]["command"] = ["no-such-launcher", "{artifact}"]
    (project.contests / "quick2.yaml").write_text(yaml.safe_dump(document | {"contest": "quick2"}))
    with pytest.raises(RunError, match="no-such-launcher cannot be started"):
        rehearse(project, project.contest("quick2"), GOOD)
    assert list(project.outbox.glob("*.json")) == []


def test_an_unknown_dialect_is_refused_before_anything_runs(project: Project, quick: Contest) -> None:
    golf = project.contest("parameter-golf")
    (project.root / "train_gpt.py").write_text(GOOD)
    with pytest.raises(Exception, match="no log dialect 'parameter-golf'"):
        submission.read(golf, project.root / "train_gpt.py")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_it_is_interrupted_nothing_is_left(project: Project, quick: Contest, mark: str, how: int) -> None:
    code = STEPS + "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\nsys.stdout.flush()\n"
    (project.root / "train.py").write_text(code + "time.sleep(600)")
    out = project.outbox / "r.json"
    command = [sys.executable, "-m", "ffsim", "rehearse", "./train.py", "--contest", "quick", "--out", str(out)]
    started = subprocess.Popen(
        command, cwd=project.root, env={**os.environ, MARK: mark}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    deadline = time.monotonic() + 60
    while not (out.with_suffix(".log").is_file() and b"00050" in out.with_suffix(".log").read_bytes()):
        assert started.poll() is None, started.stdout.read()  # type: ignore[union-attr]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    started.send_signal(how)
    started.communicate()
    while processes(mark):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    run = records.read_run(out)
    assert (run.status, run.scores) == ("cut_off", {})
    if how != signal.SIGKILL:
        assert started.returncode == 130
        assert run.message == "interrupted"
        assert run.steps == 51


def test_a_repetition_is_of_the_same_bytes(project: Project, quick: Contest) -> None:
    first = rehearse(project, quick, GOOD)
    second = rehearse_as(project, quick, GOOD)
    found = repeat.compare(quick, first, second)
    assert (found.bpb_difference, found.steps_difference, found.first_diverging_step) == (0.0, 0, None)
    assert found.steps_compared > 10
    with pytest.raises(RunError, match="is a repetition"):
        repeat.require_same(first, hashlib.sha256(b"other").hexdigest())


def test_its_official_score_is_predicted_from_its_rehearsal_alone(project: Project, quick: Contest) -> None:
    from ffsim import predict
    from ffsim.models import Models
    from ffsim.oracle import MeanOffset

    run = rehearse(project, quick, GOOD)
    fitted = Models(None, None, MeanOffset.fit([0.01, 0.012, 0.011]), {}, "")
    found = predict.predict(quick, fitted, run, 0.8)
    assert found.predicted_bpb == pytest.approx(1.393552 + 0.011)
    assert found.from_recipe_bpb is None
