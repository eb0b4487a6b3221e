"""A process that dies in the middle of a change: the next command undoes it and says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import factories
import pytest

from ffsim import contribute, dataset, journal, jsonio, listing, store
from ffsim.errors import StoreError
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


def _run(project: Project, folder: Path, name: str, bpb: float) -> Path:
    return factories.write(folder / f"{name}.json", factories.run(project.contest(), name, bpb=bpb))


def _killed(project: Project, n: int, file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", KILLER, str(n), "add-run", str(file)]
    return subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("start", [1, 4, 7])
def test_killed_at_any_point_nothing_is_torn_and_the_next_command_repairs(
    dvc_project: Project, tmp_path: Path, start: int
) -> None:
    """Every eighth point from `start` on, until the command survives; `scripts/torture.py --every` has them all."""
    file = factories.write(tmp_path / "a.json", factories.run(dvc_project.contest(), "a", bpb=2.6))
    before = _state(dvc_project)
    for n in range(start, 200, 8):
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


@pytest.mark.parametrize("start", [1, 4, 7])
def test_a_removal_that_is_killed_at_any_point_is_undone_whole(
    dvc_project: Project, tmp_path: Path, start: int
) -> None:
    contribute.add_runs(dvc_project, [str(_run(dvc_project, tmp_path, "a", 2.6))])
    dvc_project.git("commit", "-q", "-m", "a")
    before, text = _state(dvc_project), (dvc_project.data / "runs/mini/a.json").read_text()
    for n in range(start, 200, 8):
        command = [sys.executable, "-c", KILLER, str(n), "remove", "a", "--by", "tester", "--why", "a test"]
        done = subprocess.run(command, cwd=dvc_project.root, capture_output=True, text=True, check=False)
        assert done.returncode in {0, 9}, done.stderr
        with store.locked(dvc_project):
            pass
        assert not journal.pending(dvc_project)
        if "runs/mini/a.json" not in dataset.listing(dvc_project):
            break
        assert done.returncode == 9
        assert _state(dvc_project) == before
        assert (dvc_project.data / "runs/mini/a.json").read_text() == text
    assert not (dvc_project.data / "runs/mini/a.json").exists()
    assert (dvc_project.data / "verdicts/mini/a.json").is_file()
    assert listing.not_stored(dvc_project) == []
    said = subprocess.run(
        ["dvc", "status", "data.dvc"], cwd=dvc_project.root, capture_output=True, text=True, check=True
    )
    assert "up to date" in said.stdout


def test_a_lock_table_that_dvc_was_killed_in_is_made_anew(
    dvc_project: Project, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """DVC truncates .dvc/tmp/rwlock before it writes it; then it refuses every command."""
    (dvc_project.root / ".dvc/tmp/rwlock").write_text('{"write": {"')
    assert contribute.add_runs(dvc_project, [str(_run(dvc_project, tmp_path, "a", 2.6))]).run_ids == ["a"]
    assert "table of locks was cut off" in caplog.text


def test_temporary_files_that_dvc_left_in_data_are_removed(dvc_project: Project) -> None:
    """They would become data with the next `dvc add data`."""
    journal.begin(dvc_project, ["runs/mini/half.json"])
    left = dvc_project.data / "runs/mini/.90iTaaSnPUTMSrkT52XSLQ.tmp"
    left.write_text("{")
    store.repair(dvc_project)
    assert not left.exists()


def test_a_lock_that_git_left_is_named_though_nothing_needed_it(
    dvc_project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journal, "GIT_WAIT_S", 0.0)
    journal.begin(dvc_project, ["runs/mini/half.json"])
    (dvc_project.root / ".git/index.lock").touch()
    store.repair(dvc_project)
    assert "repaired: " in caplog.text
    assert "index.lock; if no git is running, remove it" in caplog.text


def test_a_superseded_listing_goes_though_the_process_died_before_it_did(
    dvc_project: Project, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    contribute.add_runs(dvc_project, [str(_run(dvc_project, tmp_path, "a", 2.6))])
    old = listing.store_path(listing.directory_md5(listing.pointer(dvc_project) or "") or "")
    text = (dvc_project.root / old).read_text()
    contribute.add_runs(dvc_project, [str(_run(dvc_project, tmp_path, "b", 2.7))])
    (dvc_project.root / old).write_text(text)
    jsonio.write_atomic(dvc_project.scratch / "journal.json", jsonio.pretty({"superseded": [old]}))
    store.repair(dvc_project)
    assert not (dvc_project.root / old).exists()
    assert "repaired" in caplog.text
    assert {"runs/mini/a.json", "runs/mini/b.json"} < set(listing.read(dvc_project))


def test_an_undo_that_git_does_not_let_happen_is_made_later(
    dvc_project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed together with its git, which leaves .git/index.lock: nothing may be forgotten."""
    monkeypatch.setattr(journal, "GIT_WAIT_S", 0.0)
    before = _state(dvc_project)
    entry = journal.begin(dvc_project, ["runs/mini/a.json"])
    journal.end(dvc_project)
    contribute.add_runs(dvc_project, [str(_run(dvc_project, tmp_path, "a", 2.6))])
    jsonio.write_atomic(dvc_project.scratch / "journal.json", jsonio.pretty(entry))
    lock = dvc_project.root / ".git/index.lock"
    lock.touch()
    with pytest.raises(StoreError, match=r"not all undone: .*index\.lock.*remove its lock"):
        store.repair(dvc_project)
    lock.unlink()
    store.repair(dvc_project)
    assert _state(dvc_project) == before


@pytest.mark.slow
def test_kills_at_random_moments_and_many_writers_tear_and_lose_nothing() -> None:
    root = Path(__file__).parent.parent
    command = [sys.executable, str(root / "scripts/torture.py"), "--kills", "6", "--writers", "4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 kills" in done.stdout
    assert "4 of 4 writers added; 0 torn, 0 lost, 0 other faults" in done.stdout


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


def test_an_unrelated_commit_does_not_save_a_half_change(dvc_project: Project, tmp_path: Path) -> None:
    """Killed in the push, then an empty commit: the half run must not be carried along by the next add."""
    file = factories.write(tmp_path / "a.json", factories.run(dvc_project.contest(), "a", bpb=2.6))
    code = KILLER.replace("Repo.push = deadly(Repo.push)", "Repo.push = lambda *a, **k: os._exit(9)")
    command = [sys.executable, "-c", code, "999", "add-run", str(file)]
    assert subprocess.run(command, cwd=dvc_project.root, check=False).returncode == 9
    dvc_project.git("commit", "-q", "--allow-empty", "-m", "unrelated")
    other = factories.write(tmp_path / "b.json", factories.run(dvc_project.contest(), "b", bpb=2.7))
    assert contribute.add_runs(dvc_project, [str(other)]).run_ids == ["b"]
    assert "runs/mini/a.json" not in dataset.listing(dvc_project)


def test_a_change_that_was_committed_whole_stays(dvc_project: Project, tmp_path: Path) -> None:
    entry = journal.begin(dvc_project, ["runs/mini/a.json"])
    journal.end(dvc_project)
    file = factories.write(tmp_path / "a.json", factories.run(dvc_project.contest(), "a", bpb=2.6))
    contribute.add_runs(dvc_project, [str(file)])
    dvc_project.git("commit", "-q", "-m", "a")
    jsonio.write_atomic(dvc_project.scratch / "journal.json", jsonio.pretty(entry))
    store.repair(dvc_project)
    assert "runs/mini/a.json" in dataset.listing(dvc_project)
    assert (dvc_project.data / "runs/mini/a.json").is_file()
    assert not journal.pending(dvc_project)


def test_a_half_change_that_was_committed_is_refused_loudly(dvc_project: Project, tmp_path: Path) -> None:
    entry = journal.begin(dvc_project, ["runs/mini/a.json"])
    journal.end(dvc_project)
    file = factories.write(tmp_path / "a.json", factories.run(dvc_project.contest(), "a", bpb=2.6))
    contribute.add_runs(dvc_project, [str(file)])
    lost = dataset.store_path(dataset.listing(dvc_project)["runs/mini/a.json"])
    dvc_project.git("rm", "-q", "-f", lost)
    dvc_project.git("commit", "-q", "-m", "half")
    jsonio.write_atomic(dvc_project.scratch / "journal.json", jsonio.pretty(entry))
    with pytest.raises(StoreError, match="committed since without all its objects"), store.locked(dvc_project):
        pass


def test_an_undo_keeps_an_earlier_change_that_is_not_committed(dvc_project: Project, tmp_path: Path) -> None:
    """The listing of the first change is superseded by the second, and needed again when that is undone."""
    contest = dvc_project.contest()
    one, two = (
        factories.write(tmp_path / f"{n}.json", factories.run(contest, n, bpb=2.6 + i / 9)) for i, n in enumerate("ab")
    )
    contribute.add_runs(dvc_project, [str(one)])
    before = _state(dvc_project)
    for n in range(1, 200, 6):
        done = _killed(dvc_project, n, two)
        with store.locked(dvc_project):
            pass
        if done.returncode == 0 or "runs/mini/b.json" in dataset.listing(dvc_project):
            break
        assert _state(dvc_project) == before
    dvc_project.git("commit", "-q", "-m", "both")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(dvc_project.root), str(clone)], check=True)
    subprocess.run(["dvc", "pull", "-q", "data"], cwd=clone, check=True)
    assert {path.stem for path in dataset.run_files(Project(clone), "mini")} == {"a", "b"}


def test_the_very_first_change_is_undone_too(dvc_project: Project) -> None:
    dvc_project.git("rm", "-q", "--cached", "data.dvc")
    dvc_project.git("commit", "-q", "-m", "no data yet")
    pointer = (dvc_project.root / "data.dvc").read_text()
    (dvc_project.root / "data.dvc").unlink()
    journal.begin(dvc_project, ["runs/mini/a.json"])
    (dvc_project.root / "data.dvc").write_text(pointer)
    dvc_project.git("add", "data.dvc")
    store.repair(dvc_project)
    assert "data.dvc" not in (dvc_project.git("status", "--porcelain") or "")
