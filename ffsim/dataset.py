"""The dataset below data/: its files, what of it is missing here, and its runs as a table.

A fresh clone has data.dvc but no data/. A pipeline on half a dataset would silently commit the
half, so everything that computes asks `missing` first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ffsim import jsonio, records, verdicts
from ffsim.contest import Contest
from ffsim.errors import ProjectError, RecordError
from ffsim.identity import Index
from ffsim.listing import POINTER, STORE, blobs, content, directory_md5, object_of, store_path
from ffsim.listing import parse as entries
from ffsim.listing import read as listing
from ffsim.project import DATA, Project
from ffsim.records import Run, Upload

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["POINTER", "STORE", "blobs", "content", "directory_md5", "entries", "listing", "store_path"]


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


def find_run(project: Project, run_id: str) -> tuple[Run, Path]:
    """A run by id or the start of one, of the dataset, of one's own records in runs/, or of rehearsed/; or by its file.

    Raises
    ------
    RecordError
        If there is none, or more than one run starts so.
    """
    if run_id.endswith(".json") and Path(run_id).is_file():
        return records.read_run(Path(run_id)), Path(run_id)
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
    known = set(listing(project) if names is None else names)
    for name in known:
        parts = Path(name).parts
        if len(parts) == 3 and parts[0] == "runs" and name.endswith(".json"):
            found.ids[Path(name).stem.casefold()] = Path(name).stem
    for contest in project.contest_names():
        for stem, blob in blobs(project, "runs", contest).items():
            # Another branch's files may lie about; where there is a listing, it says what is in.
            if not known or f"runs/{contest}/{stem}.json" in known:
                found.add(_quick(blob, f"{stem}.json"))
    return found


def _quick(blob: bytes, name: str) -> dict[str, Any]:
    """A file that passed the guard when it entered: read ten times faster than a foreign one."""
    try:
        value: dict[str, Any] = msgspec.json.decode(blob, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise RecordError(f"{name}: is damaged ({error}); get it back with `dvc checkout data`") from None
    return value


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

    Entries are lost if HEAD or one of its parents lists them and data.dvc does not, unless they are runs that a
    verdict removes. A parent that is not here (a shallow clone) is passed over.

    Raises
    ------
    ProjectError
        With how many entries are missing and how to get them.
    """
    gone = missing(project)
    if gone:
        raise ProjectError(f"{len(gone)} files of the dataset are not here (e.g. {gone[0]}); run `dvc pull data`")
    if not project.git("rev-parse", "--verify", "-q", "HEAD", check=False):
        return
    here = listing(project)
    _require_nothing_lost(project, here, "HEAD", f"git checkout HEAD -- {POINTER} && dvc pull data")
    parents = (project.git("rev-parse", "HEAD^@", check=False) or "").split()
    for number in range(1, len(parents) + 1):
        remedy = f"git checkout HEAD^ -- {POINTER} && dvc pull data, then add again what HEAD added"
        if len(parents) > 1:
            remedy = f"git reset --keep HEAD^1 && ffsim merge {parents[max(number, 2) - 1][:12]}"
        _require_nothing_lost(project, here, f"HEAD^{number}", remedy)


def _require_nothing_lost(project: Project, here: Mapping[str, str], revision: str, restore: str) -> None:
    try:
        before = listing(project, revision)
    except ProjectError:
        if revision == "HEAD":
            raise
        return
    gone = verdicts.lost(before, here, lambda md5: object_of(project, md5))
    # A merge drops what a branch says of its own runs.
    stale = [] if "^2" in revision else verdicts.overwritten(before, here, lambda md5: object_of(project, md5))
    if stale:
        raise ProjectError(
            f"the dataset has another content than {revision} in {len(stale)} runs or verdicts that never change (e.g. "
            f"{stale[0]}); files of before a pull, or edited by hand? restore them: {restore}"
        )
    if gone:
        raise ProjectError(
            f"the dataset lost {len(gone)} entries against {revision} (e.g. {gone[0]}), and no verdict removes them; "
            f"restore them: {restore}"
        )


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
