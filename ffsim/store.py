"""Adding files to the dataset: written whole, tracked by DVC, pushed, staged, or not at all.

One lock serialises writers. `dvc add` is granular (the files, never the folder): on a clone that has
not pulled, adding the folder would silently drop every entry that is not on disk.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ffsim import journal, jsonio, listing, verdicts
from ffsim.errors import FfsimError, StoreError
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


def add(project: Project, files: Mapping[str, str], *, replace: bool = False, remove: Collection[str] = ()) -> None:
    """Add files to the dataset and take runs out of it, all of them or none. The caller holds the lock (`locked`).

    Parameters
    ----------
    project
        The project.
    files
        Path below data/ -> content.
    replace
        Whether a file that is there already may be replaced (an upload that gets its score).
    remove
        Runs to take out, as paths below data/. Each needs a verdict that says `removed`, in the dataset or in
        `files`. The run's object stays in the store: history keeps it.

    Raises
    ------
    StoreError
        If a file exists, a run may not leave, or DVC or git refuse; the dataset is then as it was.
    """
    known = listing.read(project)
    _require_free(project, files, known, replace=replace)
    _require_removable(project, files, known, remove)
    targets = {project.data / name: text for name, text in {**_skeleton(project, files, known), **files}.items()}
    first = not (project.root / listing.POINTER).is_file()
    entry = journal.begin(project, [*(path.relative_to(project.data).as_posix() for path in targets), *remove])
    try:
        for path, text in targets.items():
            jsonio.write_atomic(path, text, scratch=project.scratch / "tmp")
        _track(project, list(targets), remove, first=first)
        for name in remove:
            (project.data / name).unlink(missing_ok=True)
        # With another remote there is no embedded store to stage; strays of somebody else are not ours.
        project.git("add", "--", listing.POINTER, *sorted(journal.untracked(project) - set(entry["strays"])))
    except BaseException:
        journal.undo(project, entry)
        raise
    # Only now: an undo must find the listing that the old data.dvc names.
    journal.end(project, _superseded(project, entry["pointer"]))


def _require_free(project: Project, files: Mapping[str, str], known: Mapping[str, str], *, replace: bool) -> None:
    folded = {name.casefold(): name for name in known}
    for name in files:
        path = project.data / name
        if not path.resolve().is_relative_to(project.data.resolve()):
            raise StoreError(f"{path} is outside of {DATA}/")
        # On a clone that has not pulled, the listing knows what the disk does not.
        twin = folded.get(name.casefold(), name if path.exists() else None)
        if twin is not None and (twin != name or not replace):
            raise StoreError(f"{DATA}/{twin} exists; a file of the dataset never changes (case does not count)")


def _require_removable(
    project: Project, files: Mapping[str, str], known: Mapping[str, str], remove: Collection[str]
) -> None:
    for name in remove:
        if name not in known:
            raise StoreError(f"{DATA}/{name} is not in the dataset; `ffsim runs` lists what is")
        verdict = verdicts.path_for(name)
        blob: str | bytes | None = None
        if verdict is not None:
            blob = files.get(verdict) or listing.content(project, verdict, known)
        if verdict is None or not verdicts.removes(blob, verdict):
            raise StoreError(f"{DATA}/{name} stays: only a run leaves, and only with a verdict that says `removed`")


def _track(project: Project, paths: list[Path], remove: Collection[str], *, first: bool) -> None:
    """`dvc add` and `dvc push` of the paths, in process: starting DVC twice would cost a second."""
    names = [DATA] if first else [str(path.relative_to(project.root)) for path in paths]
    with _dvc(project) as repo:
        if names:
            repo.add(names)
        if remove:
            _unlist(project, repo, remove)
        if names:
            repo.push(names)
        if remove:
            _publish_listing(project, repo)


def pull(project: Project) -> None:
    """Put data/ as data.dvc lists it. The caller holds the lock.

    Raises
    ------
    StoreError
        If DVC refuses, e.g. because a file there was changed by hand.
    """
    with _dvc(project) as repo:
        repo.pull([DATA])


@contextlib.contextmanager
def _dvc(project: Project) -> Iterator[Any]:
    """DVC in process, its words turned into ours."""
    os.environ.setdefault("DVC_NO_ANALYTICS", "1")
    from dvc.repo import Repo

    with _quiet(), contextlib.chdir(project.root):
        repo: Any = None
        try:
            repo = Repo(str(project.root))
            yield repo
        except FfsimError:
            raise
        except Exception as error:  # a remote's driver raises what it likes: ImportError, OSError, its own
            words = " ".join(str(error).split())
            if "is busy" in words:
                words = "another DVC command is running (a `dvc repro` that trains?); try again when it has ended"
            raise StoreError(f"DVC refused: {words[:200] or type(error).__name__}; nothing was changed") from None
        finally:
            if repo is not None:
                repo.close()


def publish(project: Project) -> None:
    """Push what data.dvc names to a remote that is not embedded; with an embedded one there is nothing to do.

    Raises
    ------
    StoreError
        If the remote did not take it.
    """
    if not listing.is_embedded(project):
        with _dvc(project) as repo:
            _publish_listing(project, repo)


def _unlist(project: Project, repo: Any, remove: Collection[str]) -> None:
    """Write the listing without some entries: DVC can only do so from a folder that is all there."""
    entries = {name: md5 for name, md5 in listing.read(project).items() if name not in remove}
    sizes = [_size(project, repo, md5) for md5 in entries.values()]
    known = [size for size in sizes if size is not None]
    left = sum(known) if len(known) == len(sizes) else None
    text, md5 = listing.dump(entries)
    scratch = project.scratch / "tmp"
    jsonio.write_atomic(Path(repo.cache.local.oid_to_path(md5)), text, scratch=scratch)
    jsonio.write_atomic(project.root / listing.POINTER, listing.pointer_text(md5, left, len(entries)), scratch=scratch)


def _size(project: Project, repo: Any, md5: str) -> int | None:
    places = (project.root / listing.store_path(md5), Path(repo.cache.local.oid_to_path(md5)))
    return next((path.stat().st_size for path in places if path.is_file()), None)


def _publish_listing(project: Project, repo: Any) -> None:
    """Put the listing that data.dvc names into the store, after everything that it lists.

    Raises
    ------
    StoreError
        If the remote is another one and lacks files that are not here either.
    """
    md5 = listing.directory_md5(listing.pointer(project) or "") or ""
    if listing.is_embedded(project):
        cached = Path(repo.cache.local.oid_to_path(md5))
        jsonio.write_atomic(
            project.root / listing.store_path(md5), cached.read_bytes(), scratch=project.scratch / "tmp"
        )
        return
    repo.push([DATA])
    if not repo.cloud.get_remote_odb().exists(md5):
        raise StoreError("the remote did not take the new listing; run `dvc pull data`, then try again")


def _skeleton(project: Project, files: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """A README.md in each folder of a contest that has none: git and DVC keep no empty folder."""
    contests = {Path(name).parts[1] for name in files if Path(name).parts[0] in KINDS}
    wanted = {f"{kind}/{contest}/README.md": f"The {kind} of {contest}.\n" for contest in contests for kind in KINDS}
    return {name: text for name, text in wanted.items() if name not in known and not (project.data / name).exists()}


def _superseded(project: Project, old_pointer: str | None) -> list[str]:
    """The listing that the new one replaces, unless a commit holds it: each is 88 KB at 900 files."""
    old = listing.directory_md5(old_pointer) if old_pointer is not None else None
    new = listing.directory_md5((project.root / listing.POINTER).read_text())
    if old is None or old == new:
        return []
    path = listing.store_path(old)
    return [] if project.git("cat-file", "-e", f"HEAD:{path}", check=False) is not None else [path]


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
