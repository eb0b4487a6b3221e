"""The journal of a change to the dataset: what to put back if the process dies in the middle.

A change touches files below data/, data.dvc, the embedded store and git's index, and no file system can
change all four at once. What was there before is therefore written down first; the entry is removed when
the change is complete. An entry that is found by the next command belongs to a process that was killed:
the change is undone, and said so.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ffsim import jsonio, listing
from ffsim.errors import ProjectError, RecordError, StoreError
from ffsim.project import Project

DVC_TEMPORARY = re.compile(r"\.[A-Za-z0-9_-]{20,24}\.tmp")  # what DVC writes beside a file before it renames it
GIT_WAIT_S = 5.0
log = logging.getLogger("ffsim")
Entry = dict[str, Any]


def begin(project: Project, names: Iterable[str]) -> Entry:
    """Write down what a change of these files (paths below data/) may have to put back.

    Returns
    -------
    dict
        The entry, for `undo`.
    """
    pointer = project.root / listing.POINTER
    entry: Entry = {
        "committed": _committed(project),
        "files": {name: _text(project.data / name) for name in names},
        "pointer": _text(pointer),
        "tracked": bool(project.git("ls-files", "--", listing.POINTER, check=False)),
        "strays": sorted(untracked(project)),
    }
    jsonio.write_atomic(_path(project), jsonio.pretty(entry))
    return entry


def end(project: Project, superseded: Sequence[str] = ()) -> None:
    """The change is complete.

    Parameters
    ----------
    project
        The project.
    superseded
        Files of the embedded store that nothing needs any more; they are removed, by the next command if need be.
    """
    if superseded:
        jsonio.write_atomic(_path(project), jsonio.pretty({"superseded": list(superseded)}))
        _discard(project, superseded)
    _path(project).unlink(missing_ok=True)


def undo(project: Project, entry: Entry) -> None:
    """Put everything back as `begin` found it, and close the entry. Doing it twice changes nothing more.

    Raises
    ------
    ProjectError
        If git cannot be brought to undo its part (another git is running, or left its lock); the entry stays.
    """
    scratch = project.scratch / "tmp"
    for name, text in entry["files"].items():
        path = project.data / name
        if text is None:
            path.unlink(missing_ok=True)
        elif _text(path) != text:
            jsonio.write_atomic(path, text, scratch=scratch)
    for path in project.data.rglob("*.tmp"):
        if DVC_TEMPORARY.fullmatch(path.name):
            path.unlink(missing_ok=True)
    pointer = project.root / listing.POINTER
    if entry["pointer"] is None:
        pointer.unlink(missing_ok=True)
    elif _text(pointer) != entry["pointer"]:
        jsonio.write_atomic(pointer, entry["pointer"], scratch=scratch)
    _await_git(project)
    staged = set(_staged(project))
    made = (staged | untracked(project)) - set(entry["strays"]) - _listed(project)
    for name in made:
        (project.root / name).unlink(missing_ok=True)
    if made & staged:
        project.git("rm", "-q", "--cached", "--ignore-unmatch", "--", *sorted(made & staged))
    known = bool(project.git("ls-files", "--", listing.POINTER))
    if entry["tracked"] and project.git("diff", "--quiet", "--", listing.POINTER, check=False) is None:
        project.git("add", "--", listing.POINTER)
    elif known and not entry["tracked"]:
        project.git("rm", "-q", "--cached", "--ignore-unmatch", "--", listing.POINTER)
    end(project)


def pending(project: Project) -> bool:
    """Whether a change was begun and not completed: by a running command, or by one that was killed."""
    return _path(project).is_file()


def recover(project: Project) -> None:
    """Undo what a killed command had begun. The caller holds the lock, so nobody else is in the middle.

    Raises
    ------
    StoreError
        If the half change has been committed.
    """
    _mend_rwlock(project)
    if not pending(project):
        return
    try:
        entry = jsonio.load_file(_path(project))
    except RecordError:
        # The journal is written whole before anything else is touched.
        end(project)
        return
    if "superseded" in entry:
        _discard(project, entry["superseded"])
        end(project)
        log.warning("repaired: a listing that the last change superseded was left; it is removed")
        return
    names = ", ".join(list(entry["files"])[:3])
    now, committed = _text(project.root / listing.POINTER), _committed(project)
    if now != entry["pointer"] and now == committed and _whole(project):
        # Somebody committed the change as it was; every object is in the store, so it is complete.
        end(project)
        return
    if now != entry["pointer"] and committed != entry["committed"]:
        raise StoreError(
            f"a change of {names} was cut off, and {listing.POINTER} was committed since without all its objects; "
            f"restore it (git checkout HEAD~1 -- {listing.POINTER}) and remove .ffsim/journal.json"
        )
    try:
        undo(project, entry)
    except ProjectError as error:
        raise StoreError(
            f"a change of {names} was cut off and is not all undone: {error}; if no git is running, remove its lock"
        ) from None
    log.warning("repaired: an earlier change of %s was cut off; it has been undone, make it again", names)
    lock = _git_lock(project)
    if lock is not None and lock.exists():
        log.warning("git was cut off too and left %s; if no git is running, remove it", lock)


def untracked(project: Project) -> set[str]:
    """Files of the embedded store that git does not know yet."""
    said = project.git("ls-files", "-z", "--others", "--exclude-standard", "--", listing.STORE, check=False)
    return {name for name in (said or "").split("\0") if name}


def _discard(project: Project, superseded: Iterable[str]) -> None:
    """Remove files of the store, unless a commit or data.dvc holds them by now."""
    for path in set(superseded) - _listed(project):
        if project.git("cat-file", "-e", f"HEAD:{path}", check=False) is None:
            (project.root / path).unlink(missing_ok=True)
            project.git("rm", "-q", "--cached", "--ignore-unmatch", "--", path, check=False)


def _mend_rwlock(project: Project) -> None:
    """DVC writes its table of locks in place: a kill there leaves half of it, and no DVC command runs again."""
    path = project.root / ".dvc/tmp/rwlock"
    if not path.is_file() or _is_json(path):
        return
    from dvc.lock import make_lock

    with make_lock(str(path.with_name("rwlock.lock")), tmp_dir=str(path.parent)):
        if not _is_json(path):
            path.unlink(missing_ok=True)
            log.warning("repaired: DVC's table of locks was cut off; it starts anew")


def _is_json(path: Path) -> bool:
    try:
        jsonio.load_file(path)
    except RecordError:
        return False
    return True


def _await_git(project: Project) -> None:
    """A git that a killed command had started may still be writing its index."""
    lock, end_s = _git_lock(project), time.monotonic() + GIT_WAIT_S
    while lock is not None and lock.exists() and time.monotonic() < end_s:
        time.sleep(0.05)


def _git_lock(project: Project) -> Path | None:
    name = (project.git("rev-parse", "--git-path", "index.lock", check=False) or "").strip()
    return project.root / name if name else None


def _staged(project: Project) -> set[str]:
    said = project.git("diff", "--cached", "--name-only", "--diff-filter=A", "-z", "--", listing.STORE, check=False)
    return {name for name in (said or "").split("\0") if name}


def _listed(project: Project) -> set[str]:
    """Objects of the store that data.dvc, as it is now, needs."""
    pointer = _text(project.root / listing.POINTER)
    directory = listing.directory_md5(pointer) if pointer else None
    names = {listing.store_path(md5) for md5 in listing.read(project).values()}
    return names | ({listing.store_path(directory)} if directory else set())


def _committed(project: Project) -> str | None:
    return project.git("show", f"HEAD:{listing.POINTER}", check=False)


def _whole(project: Project) -> bool:
    return all((project.root / name).is_file() for name in _listed(project))


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _path(project: Project) -> Path:
    return project.scratch / "journal.json"
