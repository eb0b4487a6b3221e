"""A project: the folder with dvc.yaml, params.yaml and data/, and where everything lies in it."""

from __future__ import annotations

import difflib
import subprocess
from pathlib import Path
from typing import Annotated

import msgspec

from ffsim import contest as contests
from ffsim import recipe as recipes
from ffsim import yamlio
from ffsim.contest import Contest
from ffsim.errors import ProjectError, RecipeError
from ffsim.recipe import Recipe
from ffsim.records import StartKind

Seed = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
DATA = "data"
KINDS = ("runs", "uploads", "recipes", "verdicts")


class Candidate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the pipeline rehearses: a recipe, its seeds, the device and the state of the compile caches."""

    recipe: str
    seed: Seed = 1
    order: Seed = 1
    device: str | None = None
    start: StartKind = "cold"


class Predict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`interval`: the probability that a printed interval holds the official score."""

    interval: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.8


Positive = Annotated[float, msgspec.Meta(gt=0)]


class Guard(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of the guard; beyond one of them a run is stored and shown, and fitted once it is accepted.

    Parameters
    ----------
    maintainers
        Contributors whose runs are the reference: their weight is not capped.
    min_runs
        Runs of the reference below which the models are not asked.
    surprise_z
        Robust z of a held-out prediction.
    speed_factor
        Steps against the fastest recorded host, on a host block that no run comes from.
    influence_sd
        How far all runs that one contributor gave, and nobody vouched for, may move a pinned prediction, in SDs of
        one recipe's scores.
    held_out
        How much they may add to the held-out error, as a fraction of it.
    share
        Weight in a fit of one such contributor, in parts of the weight of the reference.
    crowd
        Weight of all such contributors together, in parts of the weight of the reference.
    pins
        Recipes whose predictions are pinned (default: those of the uploads and of the candidate).
    """

    maintainers: tuple[str, ...] = ()
    min_runs: Annotated[int, msgspec.Meta(ge=10)] = 20
    surprise_z: Positive = 4.0
    speed_factor: Annotated[float, msgspec.Meta(gt=1)] = 4.0
    influence_sd: Positive = 0.5
    held_out: Positive = 0.1
    share: Positive = 0.2
    crowd: Positive = 1.0
    pins: tuple[str, ...] = ()


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """params.yaml: the project's contests, its candidates by contest, how it predicts, and the guard's limits."""

    contests: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    candidates: dict[str, Candidate] = {}
    predict: Predict = Predict()
    guard: Guard = Guard()


class Project:
    """One project on disk.

    Parameters
    ----------
    root
        Its folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data = root / DATA
        self.texts = self.data / "texts"
        self.build = root / "build"
        self.metrics = root / "metrics"
        self.rehearsed = root / "rehearsed"
        self.outbox = root / "runs"  # records of one's own that are not contributed yet
        self.scratch = root / ".ffsim"  # temporary files, lock and journal; ignored by git
        self.schemas = root / "schemas"
        self.contests = root / "contests"

    @classmethod
    def find(cls, start: Path | None = None) -> Project:
        """The project that a folder lies in.

        Raises
        ------
        ProjectError
            If no parent holds params.yaml and dvc.yaml.
        """
        here = (start or Path.cwd()).resolve()
        for folder in (here, *here.parents):
            if (folder / "params.yaml").is_file() and (folder / "dvc.yaml").is_file():
                return cls(folder)
        raise ProjectError(f"{here} is in no ffsim project (no params.yaml and dvc.yaml); cd into one")

    def params(self) -> Params:
        """The settings of params.yaml.

        Raises
        ------
        ProjectError
            If a setting is missing, unknown or of a wrong type; the text names it.
        """
        document = yamlio.load_file(self.root / "params.yaml", ProjectError)
        try:
            params = msgspec.convert(document, Params)
        except msgspec.ValidationError as error:
            raise ProjectError(f"params.yaml: {error}") from None
        for name in params.candidates:
            if name not in params.contests:
                raise ProjectError(f"params.yaml: candidates.{name}: add {name} to `contests:`")
        return params

    def contest_names(self) -> tuple[str, ...]:
        """The contests of params.yaml."""
        return self.params().contests

    def contest(self, name: str | None = None) -> Contest:
        """A contest of this project; without a name the first of params.yaml.

        Raises
        ------
        ContestError
            If there is none of that name.
        """
        return contests.load(name or self.contest_names()[0], self.contests)

    def folder(self, kind: str, contest: str) -> Path:
        """data/<kind>/<contest>, `kind` one of `KINDS`."""
        return self.data / kind / contest

    def recipe(self, contest: Contest, name: str) -> Recipe:
        """A recipe by name (of data/recipes) or by the path of a file.

        Raises
        ------
        RecipeError
            If there is none, or it does not fit the contest.
        """
        path = Path(name)
        if not name.endswith((".yaml", ".yml")):
            path = self.folder("recipes", contest.name) / f"{name}.yaml"
            if not self.has_recipe(contest, name):
                raise RecipeError(self._no_recipe(contest.name, name))
        return recipes.read(path, contest)

    def has_recipe(self, contest: Contest, name: str) -> bool:
        """Whether `recipe` would find a file under that name."""
        return name.endswith((".yaml", ".yml")) or (
            bool(recipes.NAME.fullmatch(name)) and (self.folder("recipes", contest.name) / f"{name}.yaml").is_file()
        )

    def recipes(self, contest: Contest) -> list[Recipe]:
        """The recipes of data/recipes, sorted by name.

        Raises
        ------
        RecipeError
            If one does not fit the contest.
        """
        return [recipes.read(path, contest) for path in sorted(self.folder("recipes", contest.name).glob("*.yaml"))]

    def _no_recipe(self, contest: str, name: str) -> str:
        folder = self.folder("recipes", contest)
        if not folder.is_dir() and (self.root / f"{DATA}.dvc").is_file():
            return f"no recipe {name[:60]!r}: the dataset is not here; run `dvc pull data`"
        near = difflib.get_close_matches(name, [path.stem for path in folder.glob("*.yaml")], n=1)
        hint = f"did you mean {near[0]}?" if near else "`ffsim recipe list` shows them, `ffsim recipe new` makes one"
        return f"no recipe {name[:60]!r} in {DATA}/recipes/{contest}; {hint}"

    def git(self, *arguments: str, check: bool = True) -> str | None:
        """Output of a git command in the project, or None if it failed and `check` is false.

        Raises
        ------
        ProjectError
            With git's last line.
        """
        try:
            done = subprocess.run(
                ["git", "-C", str(self.root), *arguments], capture_output=True, text=True, check=False
            )
        except FileNotFoundError:
            raise ProjectError("git is not installed; ffsim keeps its versions with it") from None
        if done.returncode == 0:
            return done.stdout
        if check:
            lines = (done.stderr.strip() or "no message").splitlines()
            said = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1])
            raise ProjectError(f"git {arguments[0]} failed: {said}")
        return None

    def git_blob(self, revision: str, path: str) -> bytes | None:
        """The bytes of a file at a git revision, or None if there is no such file or revision."""
        command = ["git", "-C", str(self.root), "cat-file", "blob", f"{revision}:{path}"]
        done = subprocess.run(command, capture_output=True, check=False)
        return done.stdout if done.returncode == 0 else None

    def revision(self) -> str | None:
        """The revision of the project, with ``-dirty`` if tracked files differ from it."""
        head = self.git("rev-parse", "--short=12", "HEAD", check=False)
        if not head:
            return None
        # The dataset and what the pipeline makes of it move while one works; code and settings are what ran.
        aside = [f":!{name}" for name in (f"{DATA}.dvc", "dvcstore", "dvc.lock", "metrics", "rehearsed")]
        dirty = self.git("status", "--porcelain", "--untracked-files=no", "--", ".", *aside, check=False)
        return head.strip() + ("-dirty" if dirty else "")
