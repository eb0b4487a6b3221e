"""What this machine and this project have for a run, what is missing, and how to get it. Nothing is changed.

A finding is ``ok``, ``absent`` (something optional that is not here) or ``broken`` (something that a command of this
project would stumble over).
"""

from __future__ import annotations

import dataclasses
import getpass
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from ffsim import __version__, dataset, driver, host, listing
from ffsim.contest import Contest
from ffsim.errors import FfsimError
from ffsim.project import Project

State = Literal["ok", "absent", "broken"]
LIBRARIES = ("dvc", "numpy", "pandas", "pandera", "pyarrow", "scikit-learn", "scipy")
TORCH = "pip install 'torch==2.13.0' (a plain `torch` may pull several GB), or pip install 'ffsim-lm[train]'"
STUB = "1.0"  # the package index's torch-neuronx is a placeholder of this version
# Where compilers keep what they made when nobody says otherwise: variable, default below the temporary or home folder.
CACHES = (
    ("TORCHINDUCTOR_CACHE_DIR", "{tmp}/torchinductor_{user}"),
    ("TRITON_CACHE_DIR", "{home}/.triton/cache"),
    ("TORCH_NEURONX_NEFF_CACHE_DIR", "{tmp}/neff_cache"),
    ("NEURON_COMPILE_CACHE_URL", "/var/tmp/neuron-compile-cache"),  # noqa: S108  (that is where it is)
)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Parameters
    ----------
    area
        ``versions``, ``devices``, ``caches``, ``store``, ``git`` or a contest's name.
    name, value
        What, and what was found.
    state
        ``ok``, ``absent`` or ``broken``.
    fix
        How to get what is missing.
    """

    area: str
    name: str
    value: str
    state: State = "ok"
    fix: str = ""


def examine(project: Project | None) -> list[Finding]:
    """Look at the machine and, where there is one, at the project."""
    found = [*_versions(), *_devices(), *_caches(project)]
    if project is None:
        return [*found, Finding("project", "project", "none here", "absent", "cd into one, or make one: ffsim init")]
    found += [*_store(project), *_git(project)]
    for name in _names(project, found):
        try:
            found += _contest(project, project.contest(name))
        except FfsimError as error:
            found.append(Finding(name, "contest file", str(error), "broken", "correct the file"))
    return found


def _names(project: Project, found: list[Finding]) -> tuple[str, ...]:
    try:
        return project.contest_names()
    except FfsimError as error:
        found.append(Finding("project", "params.yaml", str(error), "broken", "correct the file"))
        return ()


def _versions() -> Iterator[Finding]:
    yield Finding("versions", "ffsim", __version__)
    yield Finding("versions", "python", platform.python_version())
    for name in LIBRARIES:
        version = _version(name)
        fix = f"pip install {name}"
        yield Finding(
            "versions", name, version or "not installed", "ok" if version else "broken", "" if version else fix
        )
    torch = _version("torch")
    yield Finding("versions", "torch", torch or "not installed", "ok" if torch else "absent", "" if torch else TORCH)
    yield _program("git", "--version", "install git: the dataset's versions are kept with it", "broken")
    yield _program("g++", "-dumpversion", "install a C++ compiler: torch.compile needs one on a CPU", "absent")


def _devices() -> Iterator[Finding]:
    import psutil

    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 0
    memory = psutil.virtual_memory().total / 2**30
    yield Finding("devices", "cpu", f"{host.cpu_model()}, {cores} cores, {memory:.0f} GiB")
    yield _cuda()
    yield _neuron()


def _cuda() -> Finding:
    if importlib.util.find_spec("torch") is None:
        return Finding("devices", "cuda", "cannot be told without torch", "absent", TORCH)
    import torch

    if not torch.cuda.is_available():
        built = "this torch is built without it" if torch.version.cuda is None else "no device answers"
        return Finding("devices", "cuda", built, "absent", "a torch build for CUDA and a driver, if there is a GPU")
    names = {torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())}
    return Finding("devices", "cuda", f"{torch.cuda.device_count()} x {', '.join(sorted(names))}")


def _neuron() -> Finding:
    version, there = _version("torch-neuronx"), Path("/dev/neuron0").exists()
    if version is not None and version.startswith(STUB):
        fix = "pip uninstall torch-neuronx, then install it from AWS's Neuron package repository"
        return Finding("devices", "neuron", f"torch-neuronx {version} is a placeholder", "broken", fix)
    if not there and version is None:
        return Finding("devices", "neuron", "no /dev/neuron0, no torch-neuronx", "absent", "only on AWS Trainium")
    if version is None:
        fix = "install torch-neuronx from AWS's Neuron package repository (Python 3.12 or newer)"
        return Finding("devices", "neuron", "/dev/neuron0 is there, torch-neuronx is not", "absent", fix)
    value = f"torch-neuronx {version}" + ("" if there else ", no /dev/neuron0")
    return Finding("devices", "neuron", value, "ok" if there else "absent", "" if there else "only on AWS Trainium")


def _caches(project: Project | None) -> Iterator[Finding]:
    places = {"tmp": tempfile.gettempdir(), "home": str(Path.home()), "user": getpass.getuser()}
    for variable, default in CACHES:
        yield _folder(variable, Path(os.environ.get(variable) or default.format(**places)))
    if project is not None:
        yield _folder("kept for warm starts", project.scratch / "caches")
        yield _folder("DVC cache", project.root / ".dvc" / "cache")


def _store(project: Project) -> Iterator[Finding]:
    try:
        known = listing.read(project)
        missing, lost, unlisted = dataset.missing(project), listing.not_stored(project), dataset.unlisted(project)
    except FfsimError as error:
        yield Finding("store", "dataset", str(error), "broken", "git checkout HEAD -- data.dvc")
        return
    yield _count("dataset", len(known), "entries", len(missing), "not here", "dvc pull data")
    if listing.is_embedded(project):
        yield _folder(listing.STORE, project.root / listing.STORE, area="store")
        fix = f"dvc push data && git add {listing.STORE}"
        yield _count("objects", len(known), "stored", len(lost), f"not in {listing.STORE}/", fix)
    if unlisted:
        fix = "another revision's? dvc checkout data"
        yield Finding("store", "files", f"{len(unlisted)} below data/ not in data.dvc", "broken", fix)
    if (project.scratch / "journal.json").is_file():
        fix = "any ffsim command repairs it: ffsim status"
        yield Finding("store", "journal", "a killed command left something half done", "broken", fix)


def _git(project: Project) -> Iterator[Finding]:
    top = (project.git("rev-parse", "--show-toplevel", check=False) or "").strip()
    if not top:
        yield Finding("git", "repository", "none", "absent", "git init, or make a project with ffsim init")
        return
    registered = project.git("config", "--local", "merge.ffsim.driver", check=False)
    fix = "" if registered else "ffsim driver install"
    value = "installed" if registered else "not installed: a plain `git merge` cannot merge data.dvc"
    yield Finding("git", "merge driver", value, "ok" if registered else "absent", fix)
    hooks = Path((project.git("rev-parse", "--git-path", "hooks", check=False) or ".git/hooks").strip())
    lacking = [name for name in driver.HOOKS if not (project.root / hooks / name).is_file()]
    if registered and lacking:
        yield Finding("git", "hooks", f"{', '.join(lacking)} not installed", "absent", "ffsim driver install")


def _contest(project: Project, contest: Contest) -> Iterator[Finding]:
    for problem in dataset.texts_problems(project, contest.held_texts.items()):
        what, _, fix = problem.partition("; ")
        yield Finding(contest.name, "texts", what, "broken", fix.removeprefix("run ") or "dvc checkout data")
    if contest.held_texts:
        size = sum(text.bytes or 0 for text in contest.held_texts.values())
        yield Finding(contest.name, "texts", f"{len(contest.held_texts)} declared, {size:,} bytes")
    by = f"trainer {contest.launch.trainer}" if contest.launch.trainer else " ".join(contest.launch.command)
    program = contest.launch.command[0] if contest.launch.command else "{python}"
    needs_program = contest.launch.trainer is None and program != "{python}" and shutil.which(program) is None
    fix = f"{program} is not on the PATH" if needs_program else ""
    yield Finding(contest.name, "launch", by, "absent" if needs_program else "ok", fix)


def _count(name: str, n: int, what: str, n_bad: int, bad: str, fix: str) -> Finding:
    value = f"{n:,} {what}" + (f", {n_bad:,} {bad}" if n_bad else "")
    return Finding("store", name, value, "broken" if n_bad else "ok", fix if n_bad else "")


def _folder(name: str, path: Path, area: str = "caches") -> Finding:
    if not path.is_dir():
        return Finding(area, name, f"{path}: none")
    sizes = [file.lstat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink()]
    return Finding(area, name, f"{path}: {len(sizes):,} files, {sum(sizes) / 2**20:,.1f} MiB")


def _program(name: str, flag: str, fix: str, without: State) -> Finding:
    if shutil.which(name) is None:
        return Finding("versions", name, "not installed", without, fix)
    said = subprocess.run([name, flag], capture_output=True, text=True, check=False).stdout.split()
    return Finding("versions", name, said[-1] if said else "installed")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
