"""Listings: what data.dvc names, one object that holds the MD5 of every file below data/.

A listing is read from the embedded store, from DVC's cache or out of git, so nothing needs to be pulled. It
is written as DVC writes it: its MD5 is its name, so every byte counts.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from ffsim import jsonio
from ffsim.errors import ProjectError, RecordError
from ffsim.project import DATA, KINDS, Project

POINTER = f"{DATA}.dvc"
PLACES = {*KINDS, "texts", "ledger"}
STORE = "dvcstore"
_POINTER_MAX = 10_000  # characters; DVC writes 150, and YAML of megabytes takes minutes
_DAMAGED = (
    f"{POINTER} is in conflict or damaged; `git merge --abort`, then `ffsim merge BRANCH`; "
    f"or `git checkout HEAD -- {POINTER}`"
)


def read(project: Project, revision: str | None = None) -> dict[str, str]:
    """What data.dvc lists: path below data/ -> MD5 of the content.

    Parameters
    ----------
    project
        The project; nothing needs to be pulled.
    revision
        A git revision (default: the working tree).

    Raises
    ------
    ProjectError
        If the listing's object is in neither the cache nor the embedded store.
    """
    text = pointer(project, revision)
    md5 = None if text is None else directory_md5(text)
    if md5 is None:
        return {}
    blob = object_of(project, md5, revision)
    if blob is None:
        raise ProjectError(f"the listing {md5} of {POINTER} is in no store; fetch it with `dvc fetch data`")
    return parse(blob, md5)


def pointer(project: Project, revision: str | None = None) -> str | None:
    """The text of data.dvc, here or at a git revision; None if there is none."""
    if revision is not None:
        blob = project.git_blob(revision, POINTER)
        return None if blob is None else blob.decode(errors="replace")
    path = project.root / POINTER
    return path.read_bytes().decode(errors="replace") if path.is_file() else None


def content(project: Project, name: str, known: Mapping[str, str] | None = None) -> bytes | None:
    """The bytes of an entry of data.dvc, or None if it has none of that name or they are in no store here.

    Parameters
    ----------
    project
        The project; nothing needs to be pulled.
    name
        Path below data/.
    known
        The listing, where the caller has it.
    """
    md5 = (read(project) if known is None else known).get(name)
    if md5 is None:
        return None
    # The file on disk may be another revision's: it counts where it is what the listing says.
    path = project.data / name
    if not (project.root / store_path(md5)).is_file() and path.is_file():
        blob = path.read_bytes()
        if hashlib.md5(blob, usedforsecurity=False).hexdigest() == md5:
            return blob
    return object_of(project, md5)


def blobs(project: Project, kind: str, contest: str) -> dict[str, bytes]:
    """The ``*.json`` of a contest that data.dvc lists, by file name without its ending: from disk, or the store.

    Where there is no data.dvc, those that are on disk.

    Parameters
    ----------
    project
        The project; nothing needs to be pulled.
    kind, contest
        As in `Project.folder`.
    """
    known = read(project)
    if not known:
        return {path.stem: path.read_bytes() for path in sorted(project.folder(kind, contest).glob("*.json"))}
    found: dict[str, bytes] = {}
    for name in sorted(known):
        path = Path(name)
        if path.parent.as_posix() == f"{kind}/{contest}" and path.suffix == ".json":
            blob = content(project, name, known)
            if blob is not None:
                found[path.stem] = blob
    return found


def parse(text: str | bytes, name: str) -> dict[str, str]:
    """The entries of a listing's text: path below data/ -> MD5.

    Raises
    ------
    ProjectError
        If it is damaged, or names a path that would lead out of its place: a listing comes from other people.
    """
    try:
        found = {str(entry["relpath"]): str(entry["md5"]) for entry in jsonio.loads(text, where=name)}
    except (RecordError, TypeError, KeyError):
        raise ProjectError(
            f"the listing {name} of {POINTER} is damaged; fetch it again with `dvc fetch data`"
        ) from None
    for path, md5 in found.items():
        parts = path.split("/")
        plain = all(part not in {"", ".", ".."} and "\\" not in part and "\0" not in part for part in parts)
        if not plain or parts[0] not in PLACES or not re.fullmatch(r"[0-9a-f]{32}", md5):
            raise ProjectError(
                f"the listing {name} names {path[:80]!r}, which is no place of a dataset; do not pull it"
            )
    return found


def dump(entries: Mapping[str, str]) -> tuple[str, str]:
    """A listing as DVC writes it.

    Returns
    -------
    tuple
        (its text, its name: the MD5 of the text and ``.dir``).
    """
    order = sorted(entries, key=lambda path: path.split("/"))
    text = json.dumps([{"md5": entries[path], "relpath": path} for path in order])
    return text, f"{hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()}.dir"


def pointer_text(md5: str, size: int | None, nfiles: int) -> str:
    """data.dvc as DVC writes it.

    Parameters
    ----------
    md5
        The listing's name.
    size
        Bytes of all files together, or None where it is not known; DVC shows it and needs it for nothing.
    nfiles
        How many there are.
    """
    import yaml

    out = {"md5": md5, "size": size, "nfiles": nfiles, "hash": "md5", "path": DATA}
    return yaml.safe_dump({"outs": [{key: value for key, value in out.items() if value is not None}]}, sort_keys=False)


def directory_md5(text: str) -> str | None:
    """The MD5 (``....dir``) that the text of a .dvc file names, or None of an empty one.

    Raises
    ------
    ProjectError
        If git left a conflict in it, or it is damaged: a dataset must not pass for an empty one.
    """
    if not text.strip():
        return None
    md5 = str(_out(text).get("md5"))
    if not re.fullmatch(r"[0-9a-f]{32}\.dir", md5):
        raise ProjectError(_DAMAGED)
    return md5


def store_path(md5: str) -> str:
    """Path of an object in the embedded store, relative to the project."""
    return f"{STORE}/files/md5/{md5[:2]}/{md5[2:]}"


def cache_path(md5: str) -> str:
    """Path of an object in DVC's cache, relative to the project."""
    return f".dvc/cache/files/md5/{md5[:2]}/{md5[2:]}"


def is_embedded(project: Project) -> bool:
    """Whether the default remote is dvcstore/, a folder of the repository."""
    config = configparser.ConfigParser()
    try:
        config.read([project.root / ".dvc/config", project.root / ".dvc/config.local"])
        remote = config["core"]["remote"]
        url = config[f"'remote \"{remote}\"'"]["url"]
    except (KeyError, configparser.Error):
        return False
    return (project.root / ".dvc" / url).resolve() == (project.root / STORE).resolve()


def not_stored(project: Project) -> list[str]:
    """What data.dvc needs and the embedded store lacks; empty if the remote is another one.

    Returns
    -------
    list of str
        Paths below data/, and data.dvc itself for a listing that is not there.
    """
    text = pointer(project)
    if text is None or not is_embedded(project):
        return []
    md5 = directory_md5(text)
    lost = [] if md5 is None or (project.root / store_path(md5)).is_file() else [POINTER]
    return lost + [name for name, md5 in read(project).items() if not (project.root / store_path(md5)).is_file()]


def object_of(project: Project, md5: str, revision: str | None = None) -> bytes | None:
    """The bytes of an object of the embedded store, of DVC's cache or of a revision (HEAD); None if it is nowhere."""
    for place in (project.root / store_path(md5), project.root / cache_path(md5)):
        if place.is_file():
            return place.read_bytes()
    return project.git_blob(revision or "HEAD", store_path(md5))


def not_tracked(project: Project) -> list[str]:
    """Objects of the embedded store that git does not know, though the data.dvc in its index needs them.

    Returns
    -------
    list of str
        Paths in the repository; empty while data.dvc itself is not staged.
    """
    text = pointer(project)
    if text is None or project.git_blob("", POINTER) != text.encode() or not is_embedded(project):
        return []
    said = project.git("ls-files", "-z", "--others", "--", STORE, check=False) or ""
    needed = {store_path(md5) for md5 in (directory_md5(text), *read(project).values()) if md5}
    return sorted(needed & set(said.split("\0")))


def _out(text: str) -> dict[str, object]:
    import yaml

    if len(text) > _POINTER_MAX:
        raise ProjectError(_DAMAGED)
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        raise ProjectError(_DAMAGED) from None
    outs = document.get("outs") if isinstance(document, dict) else None
    out = outs[0] if isinstance(outs, list) and outs else None
    return out if isinstance(out, dict) else {}
