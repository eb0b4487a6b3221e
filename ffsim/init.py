"""`ffsim init`: a project of one's own, made from the installed package alone.

Nothing that exists is overwritten: everything that could stand in the way is looked at before the first
write, and a mistake that shows later (a remote that refuses) takes back what was written. After a
`kill -9` the same command completes the project: each file is written whole, one that is already as it
shall be is kept, and dvc.yaml and params.yaml, which make a folder a project, come last.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ffsim import blueprint, dataset, driver, journal, jsonio, store
from ffsim.blueprint import CONFIG, IGNORE, PARAMS, PIPELINE, Blueprint
from ffsim.errors import InitError, ProjectError
from ffsim.project import DATA, Project

# Where later commands write: files of somebody else's would be overwritten, or ignored by git from now on.
WRITTEN = (DATA, "build", "runs", "metrics", "rehearsed", "dvc.lock")
TEXTS = f"{DATA}/texts"


def init(
    folder: Path,
    contest: str | None = None,
    texts: Path | None = None,
    remote: str | None = None,
    maintainer: str | None = None,
) -> Blueprint:
    """Make a project: files, git repository, DVC, dataset pushed to its store, everything staged.

    Parameters
    ----------
    folder
        Where; it may not exist yet, and may be a git repository with other files.
    contest
        A contest file (``*.yaml``) or the name of a packaged contest (default: the one whose texts the package
        carries).
    texts
        Folder with the contest's texts (default: that of the contest file).
    remote
        URL or path of the default DVC remote (default: the embedded store, a folder of the repository).
    maintainer
        Handle of the first maintainer, whose runs are the reference (default: none yet).

    Returns
    -------
    Blueprint
        What was made.

    Raises
    ------
    InitError
        If the folder is a project already, or a file stands where one has to be written.
    ContestError
        If the contest file does not hold together, or a text is missing or another one.
    StoreError
        If the remote refuses; what was written is taken back.
    """
    project = Project(folder.resolve())
    _check_folder(project)
    plan = blueprint.draw(project, contest, texts, remote, maintainer)
    _check_free(project, plan)
    project.root.mkdir(parents=True, exist_ok=True)
    _repository(project, plan)
    with _taken_back(project, plan), store.locked(project):
        for name, blob in plan.files.items():
            if name not in {PIPELINE, PARAMS}:
                _write(project, name, blob)
        for name, source in plan.texts.items():
            _copy(project, source, project.texts / name)
        if not (project.root / dataset.POINTER).is_file():
            store.add(project, plan.entries)
    _write(project, PIPELINE, plan.files[PIPELINE])
    driver.install(project)
    project.git("add", "--", ".gitattributes", *(name for name in plan.files if name != PARAMS))
    _write(project, PARAMS, plan.files[PARAMS])
    project.git("add", "--", PARAMS)
    return plan


def _repository(project: Project, plan: Blueprint) -> None:
    """The git repository, and what it has to know before the first file is added."""
    if project.git("rev-parse", "--show-toplevel", check=False) is None:
        project.git("init", "-q")
    staged = [*plan.files, dataset.POINTER, dataset.store_path("0" * 32)]
    hidden = project.git("check-ignore", "--", *staged, check=False)
    if hidden:
        name = hidden.splitlines()[0]
        raise InitError(f"git would ignore {name}: `git check-ignore -v {name}` there shows the line to change")


def _check_folder(project: Project) -> None:
    """Refuse a folder that cannot be a project of its own."""
    root = project.root
    if (root / PARAMS).is_file() and (root / PIPELINE).is_file():
        raise InitError(f"{root} is a project already; `ffsim status` there shows it, or choose another folder")
    there = next(path for path in (root, *root.parents) if path.exists())
    if not there.is_dir():
        raise InitError(f"{there} is a file; choose a folder")
    top = Project(there).git("rev-parse", "--show-toplevel", check=False)
    if top is not None and Path(top.rstrip("\n")).resolve() != root:
        raise InitError(
            f"{root} lies inside the git repository {top.strip()} and needs one of its own: "
            f"`git init {root}` first, or choose a folder outside"
        )
    tracked = project.git("ls-files", "--", *WRITTEN, check=False) if top is not None else None
    if tracked:
        raise InitError(f"git tracks {tracked.splitlines()[0]}, where ffsim writes; move it, or choose another folder")


def _check_free(project: Project, plan: Blueprint) -> None:
    """Refuse what stands in the way; a file that is already as it shall be does not."""
    root = project.root
    for name in (*plan.files, f"{TEXTS}/x", f"{dataset.STORE}/x", ".ffsim/x"):
        for path in (root / folder for folder in Path(name).parents if folder.name):
            if os.path.lexists(path) and (path.is_symlink() or not path.is_dir()):
                raise InitError(f"{path} is no folder; move it, or choose another folder")
    for name, blob in plan.files.items():
        path = root / name
        if name != IGNORE and os.path.lexists(path) and not (path.is_file() and path.read_bytes() == blob):
            hint = " (another --remote than before?)" if name == CONFIG else ""
            raise InitError(f"{path} exists and is not what would be written{hint}; move it, or choose another folder")
    for name, source in plan.texts.items():
        path = project.texts / name
        if os.path.lexists(path) and not (path.is_file() and jsonio.sha256_file(path) == jsonio.sha256_file(source)):
            raise InitError(f"{path} exists and is not the contest's; move it, or choose another folder")
    if journal.pending(project):
        return  # an `init` was killed while it added to the dataset; that is undone before anything is written
    for path in sorted(project.data.rglob("*")):
        name = path.relative_to(project.data).as_posix()
        if name not in plan.dataset and (path.is_symlink() or not path.is_dir()):
            raise InitError(f"{path} exists, and {DATA}/ holds the dataset only; move it, or choose another folder")
    if os.path.lexists(root / dataset.POINTER) and not _lists(project, plan):
        raise InitError(f"{root / dataset.POINTER} exists; move it, or choose another folder")


def _lists(project: Project, plan: Blueprint) -> bool:
    """Whether data.dvc is the one of this plan, from an `init` that was killed later."""
    try:
        return set(dataset.listing(project)) == plan.dataset
    except ProjectError:
        return False


def _write(project: Project, name: str, blob: bytes) -> None:
    path = project.root / name
    if not path.is_file() or path.read_bytes() != blob:
        jsonio.write_atomic(path, blob, scratch=project.scratch / "tmp")


def _copy(project: Project, source: Path, target: Path) -> None:
    """Copy a text so that it is there whole or not at all; it may be too large for the memory."""
    if not target.exists():
        part = project.scratch / "tmp" / "text"
        for folder in (part.parent, target.parent):
            folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, part)
        part.replace(target)


@contextlib.contextmanager
def _taken_back(project: Project, plan: Blueprint) -> Iterator[None]:
    """On an error, remove the files that were not there before, and the folders that are empty then."""
    root = project.root
    written = [root / name for name in (*plan.files, *(f"{TEXTS}/{path}" for path in plan.texts))]
    new = [path for path in written if not os.path.lexists(path)]
    tools = [path for path in (root / ".dvc", project.scratch) if not path.exists()]
    ignore = (root / IGNORE).read_bytes() if (root / IGNORE).is_file() else None
    try:
        yield
    except BaseException:
        for path in new:
            path.unlink(missing_ok=True)
        if ignore is not None:
            (root / IGNORE).write_bytes(ignore)
        for path in tools:
            shutil.rmtree(path, ignore_errors=True)
        for name in (DATA, dataset.STORE, "schemas", "contests"):
            _drop_empty(root / name)
        raise


def _drop_empty(top: Path) -> None:
    for path in (*sorted(top.rglob("*"), reverse=True), top):
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()
