"""A process that dies in the middle of a change: the next command undoes it and says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import factories
import pytest

from ffsim import dataset, journal, store
from ffsim.project import Project

# Kills the process after the n-th call of anything that changes the disk, DVC or git.
KILLER = """
import os, sys
from pathlib import Path
left = int(sys.argv.pop(1))
def deadly(function):
    def call(*args, **options):
        global left
        result = function(*args, **options)
        left -= 1
        if left == 0:
            os._exit(9)
        return result
    return call
from dvc.repo import Repo
from ffsim.project import Project
from ffsim import jsonio, cli
os.fsync = deadly(os.fsync)
Path.replace = deadly(Path.replace)
Path.unlink = deadly(Path.unlink)
Repo.add = deadly(Repo.add)
Repo.push = deadly(Repo.push)
Project.git = deadly(Project.git)
cli.main(sys.argv[1:])
print("left", left)
"""


def _state(project: Project) -> tuple[dict[str, str], str, list[str]]:
    store_files = sorted(str(p) for p in (project.root / "dvcstore").rglob("*") if p.is_file())
    return dataset.listing(project), project.git("status", "--porcelain") or "", store_files


def _killed(project: Project, n: int, file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", KILLER, str(n), "add-run", str(file)]
    return subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("start", [1, 2, 3, 4])
def test_killed_at_any_point_nothing_is_torn_and_the_next_command_repairs(
    dvc_project: Project, tmp_path: Path, start: int
) -> None:
    """Every fourth point from `start` on, until the command survives; then the run is in, whole."""
    file = factories.write(tmp_path / "a.json", factories.run(dvc_project.contest(), "a", bpb=2.6))
    before = _state(dvc_project)
    for n in range(start, 200, 4):
        done = _killed(dvc_project, n, file)
        if done.returncode == 0:
            assert "added 1 run" in done.stdout
            break
        assert done.returncode == 9
        with store.locked(dvc_project):
            pass
        assert not journal.pending(dvc_project)
        after = _state(dvc_project)
        complete = "runs/mini/a.json" in after[0]
        assert complete or after == before
        if complete:  # killed after the change was complete
            break
    assert "runs/mini/a.json" in dataset.listing(dvc_project)
    assert dataset.missing(dvc_project) == []
    dvc_project.git("commit", "-q", "-m", "a")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(dvc_project.root), str(clone)], check=True)
    subprocess.run(["dvc", "pull", "-q", "data"], cwd=clone, check=True)
    assert (clone / "data/runs/mini/a.json").is_file()


def test_any_command_repairs_and_says_so(dvc_project: Project, caplog: pytest.LogCaptureFixture) -> None:
    from ffsim.cli import output

    journal.begin(dvc_project, ["runs/mini/half.json"])
    (dvc_project.data / "runs/mini/half.json").write_text("{")
    output.project()
    assert not (dvc_project.data / "runs/mini/half.json").exists()
    assert "repaired: an earlier change of runs/mini/half.json was cut off" in caplog.text
    assert not journal.pending(dvc_project)


def test_a_change_that_runs_is_not_repaired_by_another_process(dvc_project: Project) -> None:
    with store.locked(dvc_project):
        journal.begin(dvc_project, ["runs/mini/half.json"])
        code = "from ffsim.cli import output; output.project()"
        subprocess.run([sys.executable, "-c", code], cwd=dvc_project.root, check=True)
        assert journal.pending(dvc_project)


def test_a_change_that_was_committed_since_is_not_undone(
    dvc_project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    journal.begin(dvc_project, ["recipes/mini/base.yaml"])
    dvc_project.git("commit", "-q", "--allow-empty", "-m", "since")
    (dvc_project.data / "recipes/mini/base.yaml").write_text("contest: mini\nknobs: {lr: 0.02}\n")
    store.repair(dvc_project)
    assert "lr: 0.02" in (dvc_project.data / "recipes/mini/base.yaml").read_text()
    assert "committed since" in caplog.text
