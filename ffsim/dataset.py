"""The dataset below data/: its files, what of it is missing here, and its runs as a table.

A fresh clone has data.dvc but no data/. A pipeline on half a dataset would silently commit the
half, so everything that computes asks `missing` first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ffsim import jsonio, records
from ffsim.contest import Contest
from ffsim.errors import ProjectError, RecordError
from ffsim.identity import Index
from ffsim.project import DATA, KINDS, Project
from ffsim.records import Run, Upload

if TYPE_CHECKING:
    import pandas as pd

POINTER = f"{DATA}.dvc"
PLACES = {*KINDS, "texts", "ledger"}
STORE = "dvcstore"


def run_files(project: Project, contest: str) -> list[Path]:
    """The files of a contest's runs, sorted by name."""
    return sorted(project.folder("runs", contest).glob("*.json"))


def load_runs(project: Project, contest: str) -> list[Run]:
    """The runs of a contest that are on disk, sorted by id.

    Raises
    ------
    RecordError
        If a file is not a run record.
    """
    return [records.read_run(path) for path in run_files(project, contest)]


def load_uploads(project: Project, contest: str) -> list[Upload]:
    """The uploads of a contest that are on disk, in the order of their submission.

    Raises
    ------
    RecordError
        If a file is not an upload record.
    """
    return _in_time(records.read_upload(path) for path in project.folder("uploads", contest).glob("*.json"))


def stored_runs(project: Project, contest: str) -> list[Run]:
    """As `load_runs`, with those that are only in the store."""
    return [records.run_of(blob, where=stem) for stem, blob in blobs(project, "runs", contest).items()]


def stored_uploads(project: Project, contest: str) -> list[Upload]:
    """As `load_uploads`, with those that are only in the store."""
    return _in_time(records.upload_of(blob, where=stem) for stem, blob in blobs(project, "uploads", contest).items())


def _in_time(uploads: Iterable[Upload]) -> list[Upload]:
    return sorted(uploads, key=lambda upload: (upload.submitted_utc, upload.name))


def blobs(project: Project, kind: str, contest: str) -> dict[str, bytes]:
    """The ``*.json`` of a contest by file name without its ending, wherever they are: on disk, else in the store.

    Parameters
    ----------
    project
        The project; nothing needs to be pulled.
    kind, contest
        As in `Project.folder`.
    """
    found = {path.stem: path.read_bytes() for path in sorted(project.folder(kind, contest).glob("*.json"))}
    known = listing(project)
    for name in known:
        path = Path(name)
        if path.parent.as_posix() == f"{kind}/{contest}" and path.suffix == ".json" and path.stem not in found:
            blob = content(project, name, known)
            if blob is not None:
                found[path.stem] = blob
    return dict(sorted(found.items()))


def find_run(project: Project, run_id: str) -> tuple[Run, Path]:
    """A run by id or the start of one, of the dataset, of one's own records in runs/, or of rehearsed/.

    Raises
    ------
    RecordError
        If there is none, or more than one run starts so.
    """
    folders = [*(project.folder("runs", name) for name in project.contest_names()), project.outbox]
    known = {path.stem: path for folder in reversed(folders) for path in sorted(folder.glob("*.json"))}
    for path in sorted(project.rehearsed.glob("*.json")):
        known.setdefault(records.read_run(path).run_id, path)
    full = match(run_id, known)
    if full is None:
        raise RecordError(f"no run {run_id[:80]!r} in data/runs, runs/ or rehearsed/; {_where(project)}")
    return records.read_run(known[full]), known[full]


def match(run_id: str, known: Collection[str]) -> str | None:
    """The one of these ids that is meant by an id or the start of one; None if there is none.

    Raises
    ------
    RecordError
        If more than one starts so.
    """
    if run_id in known:
        return run_id
    found = sorted(name for name in known if name.startswith(run_id)) if records.RUN_ID.fullmatch(run_id) else []
    if len(found) > 1:
        raise RecordError(f"{len(found)} runs start with {run_id!r}: {', '.join(found[:4])} ...; write more")
    return found[0] if found else None


def _where(project: Project) -> str:
    return "run `dvc pull data` first" if missing(project) else "`ffsim runs` lists them"


def index(project: Project, names: Iterable[str] | None = None) -> Index:
    """Ids and contents of every run of the dataset; of a run that is in no store here, its id.

    Parameters
    ----------
    project
        The project.
    names
        The entries that count (default: those of data.dvc).
    """
    found = Index()
    for name in listing(project) if names is None else names:
        parts = Path(name).parts
        if len(parts) == 3 and parts[0] == "runs" and name.endswith(".json"):
            found.ids[Path(name).stem.casefold()] = Path(name).stem
    for contest in project.contest_names():
        for stem, blob in blobs(project, "runs", contest).items():
            if stem.casefold() in found.ids or names is None:
                found.add(_quick(blob, f"{stem}.json"))
    return found


def _quick(blob: bytes, name: str) -> dict[str, Any]:
    """A file that passed the guard when it entered: read ten times faster than a foreign one."""
    try:
        value: dict[str, Any] = msgspec.json.decode(blob, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise RecordError(f"{name}: is damaged ({error}); get it back with `dvc checkout data`") from None
    return value


def listing(project: Project, revision: str | None = None) -> dict[str, str]:
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
    text = _pointer(project, revision)
    if text is None:
        return {}
    md5 = directory_md5(text)
    if md5 is None:
        return {}
    blob = _blob(project, md5, revision)
    if blob is None:
        raise ProjectError(f"the listing {md5} of {POINTER} is in no store; fetch it with `dvc fetch data`")
    return entries(blob, md5)


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
    md5 = (listing(project) if known is None else known).get(name)
    if md5 is None:
        return None
    path = project.data / name
    return path.read_bytes() if path.is_file() else _blob(project, md5, None)


def entries(text: str | bytes, name: str) -> dict[str, str]:
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


def missing(project: Project, revision: str | None = None) -> list[str]:
    """Paths below data/ that data.dvc lists (here or at a revision) and that are not on disk."""
    return [path for path in listing(project, revision) if not (project.data / path).is_file()]


def unreadable(project: Project, contest: str) -> int:
    """How many runs, uploads and verdicts of a contest are neither on disk nor in a store here."""
    known = listing(project)
    names = (name for name in known if Path(name).suffix == ".json" and name.split("/")[1:2] == [contest])
    return sum(content(project, name, known) is None for name in names)


def unlisted(project: Project) -> list[str]:
    """Paths below data/ that are on disk and that data.dvc does not list: another revision's, or by hand."""
    known = listing(project)
    files = (path for path in sorted(project.data.rglob("*")) if path.is_file())
    return [name for path in files if (name := path.relative_to(project.data).as_posix()) not in known]


def require_complete(project: Project) -> None:
    """Refuse to compute on a dataset that is not all there.

    Raises
    ------
    ProjectError
        With how many entries are missing and how to get them.
    """
    lost = missing(project)
    if lost:
        raise ProjectError(f"{len(lost)} files of the dataset are not here (e.g. {lost[0]}); run `dvc pull data`")
    if project.git("rev-parse", "--verify", "-q", "HEAD", check=False):
        listed = listing(project)
        lost = [path for path in listing(project, "HEAD") if path not in listed or not (project.data / path).is_file()]
        if lost:
            raise ProjectError(
                f"the dataset lost {len(lost)} entries against HEAD (e.g. {lost[0]}); "
                f"restore them: git checkout HEAD -- {POINTER} && dvc pull data"
            )


def directory_md5(pointer: str) -> str | None:
    """The MD5 (``....dir``) that the text of a .dvc file names, or None."""
    import yaml

    try:
        document = yaml.safe_load(pointer)
    except yaml.YAMLError:
        raise ProjectError(
            f"{POINTER} is in conflict or damaged; `git merge --abort`, then `ffsim merge BRANCH`"
        ) from None
    outs = document.get("outs") if isinstance(document, dict) else None
    md5 = outs[0].get("md5") if outs else None
    return str(md5) if md5 and str(md5).endswith(".dir") else None


def store_path(md5: str) -> str:
    """Path of an object in the embedded store, relative to the project."""
    return f"{STORE}/files/md5/{md5[:2]}/{md5[2:]}"


def _pointer(project: Project, revision: str | None) -> str | None:
    if revision is not None:
        return project.git("show", f"{revision}:{POINTER}", check=False)
    path = project.root / POINTER
    return path.read_text() if path.is_file() else None


def _blob(project: Project, md5: str, revision: str | None) -> bytes | None:
    for place in (project.root / store_path(md5), project.root / ".dvc/cache/files/md5" / md5[:2] / md5[2:]):
        if place.is_file():
            return place.read_bytes()
    text = project.git("show", f"{revision or 'HEAD'}:{store_path(md5)}", check=False)
    return None if text is None else text.encode()


def table(runs: Sequence[Run]) -> pd.DataFrame:
    """The runs as a frame: one row a run, scalar fields as dotted columns, in a fixed order."""
    import pandas as pd

    rows = [flat(run) for run in runs]
    columns = sorted({column for row in rows for column in row})
    return pd.DataFrame({column: [row.get(column) for row in rows] for column in columns})


def flat(record: Run | Upload) -> dict[str, Any]:
    """The scalar fields of a record by dotted path; curves and lists are left out."""
    result: dict[str, Any] = {}

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{prefix}.{key}" if prefix else key, inner)
        elif not isinstance(value, list | tuple):
            result[prefix] = value

    walk("", records.as_json(record))
    return result


def texts_problems(project: Project, contest_texts: Iterable[tuple[str, Any]]) -> list[str]:
    """What is wrong with a contest's texts on disk; empty if each is there with its hash."""
    problems = []
    for name, text in contest_texts:
        path = project.texts / text.path
        if not path.is_file():
            problems.append(f"text {name}: {DATA}/texts/{text.path} is not here; run `dvc pull data`")
        elif jsonio.sha256_file(path) != text.sha256:
            problems.append(f"text {name}: {DATA}/texts/{text.path} is not the contest's text (sha256 differs)")
    return problems


def uploads_problems(contest: Contest, uploads: Sequence[Upload], runs: Sequence[Run]) -> list[str]:
    """What is wrong between uploads and runs: a missing rehearsal, another artifact, seed, order or score."""
    by_id = {run.run_id: run for run in runs}
    problems = []
    for upload in uploads:
        run = by_id.get(upload.run_id)
        if run is None:
            problems.append(f"upload {upload.name}: its rehearsal {upload.run_id} is not in the dataset")
        elif (run.artifact_sha256, run.seed, run.order) != (
            upload.artifact_sha256,
            upload.seed,
            upload.order,
        ):
            problems.append(f"upload {upload.name}: artifact, seed or order differ from rehearsal {upload.run_id}")
        if upload.official.run_id is not None:
            problems += _official_problems(contest, upload, by_id.get(upload.official.run_id))
    return problems


def _official_problems(contest: Contest, upload: Upload, run: Run | None) -> list[str]:
    if run is None:
        return [f"upload {upload.name}: its official run {upload.official.run_id} is not in the dataset"]
    same = (run.artifact_sha256, run.seed, run.order) == (upload.artifact_sha256, upload.seed, upload.order)
    if run.kind != "official" or not same:
        return [f"upload {upload.name}: {run.run_id} is no official run of its artifact, seed and order"]
    score = run.scores.get(contest.text("official"))
    if score is None or score.bpb != upload.official.bpb:
        return [f"upload {upload.name}: its score is not the one of its official run {run.run_id}"]
    return []
