"""What a new project consists of: its files in git, its texts, its first recipe.

The pipeline and the DVC settings are the repository's own, as they travel in the package. Contracts are not
copied: an upgrade of ffsim shall bring its own. A contest file of the user's is, because runs belong to it.
"""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from ffsim import contest as contests
from ffsim import jsonio, packaged, records, yamlio
from ffsim import recipe as recipes
from ffsim.contest import Contest, Text
from ffsim.errors import ContestError, InitError
from ffsim.project import DATA, KINDS, Candidate, Params, Project

BASE = "base"  # the recipe of the contest's defaults
PARTS = ("contests", "candidates", "predict", "guard")
PIPELINE, PARAMS, CONFIG, IGNORE = "dvc.yaml", "params.yaml", ".dvc/config", ".gitignore"
IGNORED = (f"/{DATA}", "/build", "/runs", "/.ffsim", "/dvc_plots")
CONTRACTS = """\
The data contracts of this project.

A contract that stands here (run.yaml, upload.yaml) wins over the one that ffsim brings. None needs to: without
one, an upgrade of ffsim brings its own contracts along. `ffsim schema run` shows what holds.
"""


@dataclasses.dataclass(frozen=True)
class Blueprint:
    """A project that is not there yet.

    Parameters
    ----------
    contest
        Its contest.
    files
        Path below the project -> content, of everything that git keeps; .gitignore comes first.
    texts
        Path below data/texts -> the file to copy it from.
    entries
        Path below data/ -> content, of its first recipe.
    """

    contest: Contest
    files: dict[str, bytes]
    texts: dict[str, Path]
    entries: dict[str, str]

    @property
    def dataset(self) -> set[str]:
        """Paths below data/ of everything that the dataset will hold."""
        readmes = {f"{kind}/{self.contest.name}/README.md" for kind in KINDS}
        return {f"texts/{path}" for path in self.texts} | readmes | {*self.entries}


def draw(
    project: Project, contest: str | None, texts: Path | None, remote: str | None, maintainer: str | None = None
) -> Blueprint:
    """Read everything that a new project needs, and check it; nothing is written. For the parameters see `init`.

    Raises
    ------
    ContestError
        If the contest file does not hold together, or a text is missing or another one.
    InitError
        If the remote's URL is none, the handle is none, or the package is incomplete.
    """
    if maintainer is not None and not records.CONTRIBUTOR.fullmatch(maintainer):
        raise InitError(f"--maintainer {maintainer[:40]!r}: a handle is letters, digits, space, _ . and -, 40 at most")
    chosen = contests.load(default_contest() if contest is None else contest, project.contests)
    recipe = recipes.make(chosen, BASE, {}, "the contest's defaults")
    # The pipeline reads data/texts, and DVC keeps no empty folder.
    no_texts = {} if chosen.held_texts else {"texts/README.md": f"{chosen.name} has no texts here.\n"}
    return Blueprint(
        contest=chosen,
        files=_files(project, chosen, remote, maintainer),
        texts=_texts(chosen, (project.texts, texts if texts is not None else chosen.source.parent)),
        entries={f"recipes/{chosen.name}/{BASE}.yaml": recipes.text_of(chosen, recipe), **no_texts},
    )


def default_contest() -> str:
    """The name of the packaged contest that is embedded: the package carries its texts too.

    Raises
    ------
    InitError
        If there is not exactly one.
    """
    texts = packaged.files("texts")
    known = [one for one in map(contests.load, contests.available()) if one.embedded]
    names = [one.name for one in known if all(text.path in texts for text in one.texts.values())]
    if len(names) != 1:
        raise InitError(f"which contest? --contest takes a file, or one of {', '.join(contests.available())}")
    return names[0]


def _files(project: Project, contest: Contest, remote: str | None, maintainer: str | None) -> dict[str, bytes]:
    template = {name: path.read_bytes() for name, path in packaged.files("template").items()}
    if not {PIPELINE, CONFIG} <= template.keys():
        raise InitError("the package is incomplete (no pipeline in it); install it again")
    files = {IGNORE: _ignore(project.root / IGNORE), **template}
    if remote is not None:
        files[CONFIG] = _config(project, template[CONFIG], remote)
    files["schemas/README.md"] = CONTRACTS.encode()
    if contest.source.parent != contests.PACKAGED.resolve():
        files[f"contests/{contest.name}.yaml"] = contest.source.read_bytes()
    files[PARAMS] = _params(contest, maintainer).encode()
    return files


def _ignore(path: Path) -> bytes:
    """The .gitignore that is there, and the lines that it lacks."""
    old = path.read_bytes() if path.is_file() else b""
    known = {line.strip() for line in old.splitlines()}
    new = "".join(f"{line}\n" for line in IGNORED if line.encode() not in known)
    return old + (b"\n" if old and not old.endswith(b"\n") else b"") + new.encode()


def _params(contest: Contest, maintainer: str | None) -> str:
    # Where ffsim has no trainer there is nothing that the pipeline could rehearse.
    candidates_ = {contest.name: Candidate(recipe=BASE)} if contest.launch.trainer else {}
    params = Params(contests=(contest.name,), candidates=candidates_)
    document: dict[str, Any] = msgspec.to_builtins(params)
    document["contests"] = list(document["contests"])
    for candidate in document["candidates"].values():
        del candidate["device"]  # the contest's first
    document["guard"] = {"maintainers": [] if maintainer is None else [maintainer]}
    first, candidates, predict, guard = (yamlio.dump({key: document[key]}) for key in PARTS)
    return (
        f"{first}\n# What `dvc repro` rehearses on this host and predicts the official score of.\n"
        f"# For nothing at all write `candidates: {{}}`.\n{candidates}\n"
        f"# interval: the probability that a printed interval holds the official score.\n{predict}\n"
        f"# maintainers: handles of those whose runs are the reference, and who accept and remove runs. While there\n"
        f"# are none, everybody's runs count alike and everybody may accept.\n{guard}"
    )


def _config(project: Project, template: bytes, remote: str) -> bytes:
    """The DVC configuration with another default remote, checked and spelt by DVC."""
    from dvc.config import Config, ConfigError

    url = remote.strip()
    if not url:
        raise InitError("--remote is empty; give a URL or a path, or leave it out for the embedded store")
    if not re.match(r"\w+://", url):  # DVC's own test
        path = Path(url).expanduser().resolve()
        inside = path.is_relative_to(project.root)
        url = Path("..", path.relative_to(project.root)).as_posix() if inside else path.as_posix()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config"
        file.write_bytes(template)
        try:
            with Config(dvc_dir=folder).edit("repo") as settings:
                # A path is kept as it is: DVC would make it relative to this temporary folder.
                settings["remote"][settings["core"]["remote"]] = {"url": url}
        except ConfigError as error:
            raise InitError(f"--remote {remote[:80]!r}: {' '.join(str(error).split())[:200]}") from None
        return file.read_bytes()


def _texts(contest: Contest, folders: Iterable[Path]) -> dict[str, Path]:
    """Path below data/texts -> where it is: in one of the folders, or carried by the package."""
    carried = packaged.files("texts")
    found: dict[str, Path] = {}
    for name, text in contest.held_texts.items():
        paths = [folder / path for folder in folders for path in (text.path, PurePosixPath(text.path).name)]
        paths += [carried[text.path]] if text.path in carried else []
        found[text.path] = _fitting(name, text, paths)
        about = (PurePosixPath(text.path).parent / "README.md").as_posix()
        if about in carried and jsonio.sha256_file(carried[text.path]) == text.sha256:
            found[about] = carried[about]
    return found


def _fitting(name: str, text: Text, paths: list[Path]) -> Path:
    there = [path for path in paths if path.is_file()]
    for path in there:
        if jsonio.sha256_file(path) == text.sha256:
            if path.stat().st_size != text.bytes:
                raise ContestError(f"text {name}: {path} has {path.stat().st_size} bytes; correct `bytes:` of it")
            return path
    what = f"{there[0]} has another sha256" if there else f"{text.path} is not there (looked for {paths[2]})"
    raise ContestError(
        f"text {name}: {what}; --texts FOLDER names the folder of the file with the sha256 {text.sha256}"
    )
