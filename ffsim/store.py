"""Adding files to the dataset: written whole, tracked by DVC, pushed, staged, or not at all.

One lock serialises writers. `dvc add` is granular (the files, never the folder): on a clone that has
not pulled, adding the folder would silently drop every entry that is not on disk.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ffsim import dataset, journal, jsonio
from ffsim.errors import StoreError
from ffsim.project import DATA, KINDS, Project

LOCK_WAIT_S = 300.0


@contextlib.contextmanager
def locked(project: Project) -> Iterator[None]:
    """Hold the project's one writer lock; what a killed command left half done is undone first.

    Raises
    ------
    StoreError
        If another process holds it for five minutes.
    """
    import filelock

    project.scratch.mkdir(exist_ok=True)
    lock = filelock.FileLock(project.scratch / "lock", timeout=LOCK_WAIT_S)
    try:
        with lock:
            if project.git("rev-parse", "-q", "--verify", "MERGE_HEAD", check=False):
                raise StoreError("a merge is in the middle; finish it, or `git merge --abort` and use `ffsim merge`")
            journal.recover(project)
            yield
    except filelock.Timeout:
        raise StoreError("another ffsim command is changing the dataset; try again when it has ended") from None


def add(project: Project, files: Mapping[str, str], *, replace: bool = False) -> None:
    """Add files to the dataset, all of them or none. The caller holds the lock (`locked`).

    Parameters
    ----------
    project
        The project.
    files
        Path below data/ -> content.
    replace
        Whether a file that is there already may be replaced (an upload that gets its score).

    Raises
    ------
    StoreError
        If a file exists, or DVC or git refuse; the dataset is then as it was.
    """
    known = dataset.listing(project)
    folded = {name.casefold(): name for name in known}
    for name in files:
        path = project.data / name
        if not path.resolve().is_relative_to(project.data.resolve()):
            raise StoreError(f"{path} is outside of {DATA}/")
        # On a clone that has not pulled, the listing knows what the disk does not.
        twin = folded.get(name.casefold(), name if path.exists() else None)
        if twin is not None and (twin != name or not replace):
            raise StoreError(f"{DATA}/{twin} exists; a file of the dataset never changes (case does not count)")
    targets = {project.data / name: text for name, text in {**_skeleton(project, files, known), **files}.items()}
    first = not (project.root / dataset.POINTER).is_file()
    entry = journal.begin(project, [path.relative_to(project.data).as_posix() for path in targets])
    try:
        for path, text in targets.items():
            jsonio.write_atomic(path, text, scratch=project.scratch / "tmp")
        _track(project, list(targets), first=first)
        # With another remote there is no embedded store to stage; strays of somebody else are not ours.
        project.git("add", "--", dataset.POINTER, *sorted(journal.untracked(project) - set(entry["strays"])))
    except BaseException:
        journal.undo(project, entry)
        raise
    journal.end(project)
    # Only now: an undo must find the listing that the old data.dvc names.
    _drop_superseded(project, entry["pointer"])


def _track(project: Project, paths: list[Path], *, first: bool) -> None:
    """`dvc add` and `dvc push` of the paths, in process: starting DVC twice would cost a second."""
    os.environ.setdefault("DVC_NO_ANALYTICS", "1")
    from dvc.repo import Repo

    names = [DATA] if first else [str(path.relative_to(project.root)) for path in paths]
    with _quiet(), contextlib.chdir(project.root):
        repo: Any = None
        try:
            repo = Repo(str(project.root))
            repo.add(names)
            repo.push(names)
        except Exception as error:  # a remote's driver raises what it likes: ImportError, OSError, its own
            words = " ".join(str(error).split())
            if "is busy" in words:
                words = "another DVC command is running (a `dvc repro` that trains?); try again when it has ended"
            raise StoreError(f"DVC refused: {words[:200] or type(error).__name__}; nothing was added") from None
        finally:
            if repo is not None:
                repo.close()


def _skeleton(project: Project, files: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """A README.md in each folder of a contest that has none: git and DVC keep no empty folder."""
    contests = {Path(name).parts[1] for name in files if Path(name).parts[0] in KINDS}
    wanted = {f"{kind}/{contest}/README.md": f"The {kind} of {contest}.\n" for contest in contests for kind in KINDS}
    return {name: text for name, text in wanted.items() if name not in known and not (project.data / name).exists()}


def _drop_superseded(project: Project, old_pointer: str | None) -> None:
    """Delete the listing that the new one replaces, unless a commit holds it: each is 88 KB at 900 files."""
    old = dataset.directory_md5(old_pointer) if old_pointer is not None else None
    new = dataset.directory_md5((project.root / dataset.POINTER).read_text())
    if old is None or old == new:
        return
    path = dataset.store_path(old)
    if project.git("cat-file", "-e", f"HEAD:{path}", check=False) is None:
        project.git("rm", "-q", "--cached", "--ignore-unmatch", "--", path)
        (project.root / path).unlink(missing_ok=True)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep DVC's hints and progress bars out of our output; its errors are raised."""
    logger = logging.getLogger("dvc")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)


def repair(project: Project) -> None:
    """Undo what a killed command left half done, unless a running command is in the middle of it."""
    import filelock

    if journal.pending(project):
        with contextlib.suppress(filelock.Timeout), filelock.FileLock(project.scratch / "lock", timeout=0):
            journal.recover(project)
