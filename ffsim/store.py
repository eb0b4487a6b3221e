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

from ffsim import dataset, jsonio
from ffsim.errors import StoreError
from ffsim.project import DATA, Project

LOCK_WAIT_S = 300.0


@contextlib.contextmanager
def locked(project: Project) -> Iterator[None]:
    """Hold the project's one writer lock.

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
    targets = {project.data / name: text for name, text in files.items()}
    for path in targets:
        if not path.resolve().is_relative_to(project.data.resolve()):
            raise StoreError(f"{path} is outside of {DATA}/")
        if path.exists() and not replace:
            raise StoreError(f"{path.relative_to(project.root)} exists; a file of the dataset never changes")
    before = {path: path.read_bytes() if path.exists() else None for path in targets}
    pointer = project.root / dataset.POINTER
    old_pointer = pointer.read_bytes() if pointer.is_file() else None
    try:
        for path, text in targets.items():
            jsonio.write_atomic(path, text, scratch=project.scratch / "tmp")
        _track(project, list(targets), first=old_pointer is None)
        _drop_superseded(project, old_pointer)
        # With another remote there is no embedded store to stage.
        staged = [dataset.POINTER] + [dataset.STORE] * (project.root / dataset.STORE).is_dir()
        project.git("add", "--", *staged)
    except BaseException:
        for path, content in before.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                jsonio.write_atomic(path, content, scratch=project.scratch / "tmp")
        if old_pointer is not None:
            jsonio.write_atomic(pointer, old_pointer, scratch=project.scratch / "tmp")
        raise


def _track(project: Project, paths: list[Path], *, first: bool) -> None:
    """`dvc add` and `dvc push` of the paths, in process: starting DVC twice would cost a second."""
    os.environ.setdefault("DVC_NO_ANALYTICS", "1")
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    names = [DATA] if first else [str(path.relative_to(project.root)) for path in paths]
    with _quiet(), contextlib.chdir(project.root):
        repo: Any = None
        try:
            repo = Repo(str(project.root))
            repo.add(names)
            repo.push(names)
        except DvcException as error:
            raise StoreError(f"DVC refused: {' '.join(str(error).split())[:200]}; nothing was added") from None
        finally:
            if repo is not None:
                repo.close()


def _drop_superseded(project: Project, old_pointer: bytes | None) -> None:
    """Delete the listing that the new one replaces, unless a commit holds it: each is 88 KB at 900 files."""
    old = dataset.directory_md5(old_pointer.decode()) if old_pointer is not None else None
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
