"""Which rehearsals are running: a folder each in .ffsim/jobs, named after the run and its process."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from ffsim.project import Project


def start(project: Project, run_id: str) -> Path:
    """Make the empty folder of a run that starts; those of processes that were killed are removed."""
    for folder, alive in _folders(project).items():
        if not alive:
            _remove(folder)
    folder = project.scratch / "jobs" / f"{run_id}.{_owner(os.getpid())}"
    folder.mkdir(parents=True)
    return folder


def end(folder: Path) -> None:
    """Remove the folder of a run that has ended, also where the run has taken its own rights away."""
    _remove(folder)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        return
    for place, _, _ in os.walk(folder, onerror=lambda error: None):
        for path in (Path(place), *Path(place).iterdir()):
            if path.is_dir() and not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def running(project: Project) -> set[str]:
    """Ids of the runs whose process is alive."""
    return {folder.name.rpartition(".")[0] for folder, alive in _folders(project).items() if alive}


def _folders(project: Project) -> dict[Path, bool]:
    """Every folder -> whether its process is alive."""
    jobs = project.scratch / "jobs"
    if not jobs.is_dir():
        return {}
    owners = {folder: folder.name.rpartition(".")[2] for folder in jobs.iterdir()}
    return {folder: owner == _owner(owner.partition("-")[0]) for folder, owner in owners.items()}


def _owner(pid: int | str) -> str | None:
    """A process as ``<pid>-<start in s>``, because pids are used again; None if there is none."""
    import psutil

    try:
        return f"{pid}-{psutil.Process(int(pid)).create_time():.0f}"
    except (ValueError, psutil.Error):
        return None
