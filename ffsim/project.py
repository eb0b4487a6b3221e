"""A project: the folder with dvc.yaml, params.yaml and data/, and where everything lies in it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from ffsim import contest as contests
from ffsim import recipe as recipes
from ffsim import yamlio
from ffsim.contest import Contest
from ffsim.errors import ProjectError, RecipeError
from ffsim.recipe import Recipe

DATA = "data"
KINDS = ("runs", "uploads", "recipes")


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

    def params(self) -> dict[str, Any]:
        """The settings of params.yaml.

        Raises
        ------
        ProjectError
            If it is not a mapping with the keys that every command needs.
        """
        params = yamlio.load_file(self.root / "params.yaml", ProjectError)
        if not isinstance(params, dict) or not isinstance(params.get("contests"), list):
            raise ProjectError("params.yaml: needs `contests:`, a list of contest names")
        return params

    def contest_names(self) -> list[str]:
        """The contests of params.yaml."""
        return [str(name) for name in self.params()["contests"]]

    def contest(self, name: str | None = None) -> Contest:
        """A contest of this project; without a name the first of params.yaml.

        Raises
        ------
        ContestError
            If there is none of that name.
        """
        return contests.load(name or self.contest_names()[0], self.contests)

    def folder(self, kind: str, contest: str) -> Path:
        """data/<kind>/<contest>, `kind` one of runs, uploads, recipes."""
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
            if not recipes.NAME.fullmatch(name) or not path.is_file():
                known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml"))[:12])
                raise RecipeError(
                    f"no recipe {name[:60]!r} in {DATA}/recipes/{contest.name} ({known or 'empty'}); "
                    "give a recipe file, or make one with `ffsim recipe new`"
                )
        return recipes.read(path, contest)

    def git(self, *arguments: str, check: bool = True) -> str | None:
        """Output of a git command in the project, or None if it failed and `check` is false.

        Raises
        ------
        ProjectError
            With git's last line.
        """
        done = subprocess.run(["git", "-C", str(self.root), *arguments], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout
        if check:
            said = (done.stderr.strip() or "no message").splitlines()[-1]
            raise ProjectError(f"git {arguments[0]} failed: {said}")
        return None

    def revision(self) -> str | None:
        """The revision of the project, with ``-dirty`` if tracked files differ from it."""
        head = self.git("rev-parse", "--short=12", "HEAD", check=False)
        if not head:
            return None
        dirty = self.git("status", "--porcelain", "--untracked-files=no", check=False)
        return head.strip() + ("-dirty" if dirty else "")
