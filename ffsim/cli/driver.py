"""`ffsim driver`, and the command that git calls."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from ffsim.cli import output
from ffsim.project import Project
from ffsim.shape import plural


@click.command("driver")
@click.argument("what", type=click.Choice(["install", "stage", "complete"]))
@output.json_option
def driver_command(what: str, as_json: bool) -> None:
    """Let a plain `git merge` merge data.dvc entry by entry.

    install: register the driver in this repository. stage: stage the objects that a merge wrote. complete: put
    them into the last commit too (what the hooks do).

    Example: ffsim driver install
    """
    from ffsim import driver

    project = Project.find()
    if what == "install":
        result = driver.install(project)
        output.emit(dataclasses.asdict(result)) if as_json else click.echo(result.summary())
        return
    staged, done = driver.complete(project) if what == "complete" else (driver.stage(project), False)
    if as_json:
        output.emit({"staged": staged, "committed": done})
    elif staged:
        also = "" if done else "; put them into the merge: git commit --amend --no-edit"
        click.echo(f"{'committed' if done else 'staged'} {plural(len(staged), 'object')} of the merged dataset{also}")


@click.command("merge-driver", hidden=True)
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("ours", type=click.Path(path_type=Path))
@click.argument("theirs", type=click.Path(path_type=Path))
@click.argument("name")
def merge_driver_command(base: Path, ours: Path, theirs: Path, name: str) -> None:
    """Merge data.dvc for git.

    Example: ffsim merge-driver %O %A %B %P
    """
    from ffsim import driver

    merged = driver.merge(Project.find(), base, ours, theirs, name)
    click.echo(
        f"data.dvc: merged, {len(merged.entries)} entries; where no hook says that it is committed: "
        "ffsim driver complete. Records are judged by `ffsim validate`",
        err=True,
    )
