"""The worker speaks strict JSON lines, and says every mistake in one of them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ffsim.train import loop, worker


def main(arguments, capsys):
    status = worker.main(arguments)
    lines = capsys.readouterr().out.splitlines()
    return status, [json.loads(line, parse_constant=pytest.fail) for line in lines]


@pytest.fixture(autouse=True)
def _no_death_with_the_parent(monkeypatch):
    monkeypatch.setattr(worker, "_die_with_parent", lambda: None)


def written(tmp_path, job):
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job))
    return str(path)


def test_a_run_in_a_process_of_its_own(tmp_path, job):
    command = [sys.executable, "-m", "ffsim.train.worker", written(tmp_path, job)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events[:2]] == ["runtime", "start"]
    assert events[-1]["event"] == "result"
    assert events[-1]["scores"]["public"]["bytes"] == 500


def test_a_mistake_in_the_job_is_one_line(tmp_path, job, capsys):
    job["knobs"]["tempo"] = 1
    status, events = main([written(tmp_path, job)], capsys)
    assert status == 1
    assert events[-1]["event"] == "error"
    assert "tempo" in events[-1]["message"]


@pytest.mark.parametrize("content", ["", "[]", "{", "\xff"])
def test_a_file_that_is_no_job_is_one_line(tmp_path, content, capsys):
    path = tmp_path / "job.json"
    path.write_text(content, encoding="latin-1")
    status, events = main([str(path)], capsys)
    assert (status, events[0]["event"]) == (1, "error")


@pytest.mark.parametrize("arguments", [[], ["/nowhere/job.json"], ["a", "b"]])
def test_a_missing_job_is_one_line(arguments, capsys):
    status, events = main(arguments, capsys)
    assert (status, events[0]["event"]) == (1, "error")


def test_an_interrupt_is_said(tmp_path, job, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "train", interrupted)
    status, events = main([written(tmp_path, job)], capsys)
    assert (status, events[-1]) == (130, {"event": "interrupted"})


def test_a_worker_whose_parent_has_changed_ends(tmp_path, job, monkeypatch):
    parents = iter([100])
    monkeypatch.setattr(worker.os, "getppid", lambda: next(parents, 1))
    with pytest.raises(SystemExit):
        worker.main([written(tmp_path, job)])
