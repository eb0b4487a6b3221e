"""`ffsim init`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from ffsim.cli import output


@click.command("init")
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--contest",
    "contest_name",
    metavar="FILE",
    help="A contest file, or the name of a packaged contest (default: the embedded one).",
)
@click.option(
    "--texts",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the contest's texts (default: that of the contest file).",
)
@click.option("--remote", metavar="URL", help="Default DVC remote (default: dvcstore/, inside the repository).")
@click.option(
    "--maintainer",
    envvar="FFSIM_CONTRIBUTOR",
    metavar="HANDLE",
    help="Whose runs are the reference, and who accepts and removes runs (default: nobody yet; $FFSIM_CONTRIBUTOR).",
)
@output.json_option
def init_command(
    folder: Path,
    contest_name: str | None,
    texts: Path | None,
    remote: str | None,
    maintainer: str | None,
    as_json: bool,
) -> None:
    """Make a project of one's own in FOLDER (default: here): dataset, pipeline, git and DVC.

    It works in an empty folder and in a git repository with other files, and overwrites none. Commit what it
    stages.

    Example: ffsim init my-project --contest sprint.yaml --texts ~/sprint-texts
    """
    from ffsim import blueprint, init

    made = init.init(folder, contest_name, texts, remote, maintainer)
    contest, root, file = made.contest, folder.resolve(), made.contest.artifact.file
    steps = [
        *([f"cd {shlex.quote(str(folder))}"] if root != Path.cwd() else []),
        f'git commit -m "A project of the contest {contest.name}"',
        f"ffsim rehearse {blueprint.BASE} --seed 2" if contest.launch.trainer else f"ffsim rehearse ./{file}",
        "ffsim add-run runs",
        "dvc repro",
        "ffsim status",
    ]
    if as_json:
        output.emit({"project": str(root), "contest": contest.name, "recipe": blueprint.BASE, "next": steps})
        return
    printer = output.console()
    printer.print(f"{root}: a project of {contest.name} ({contest.title})")
    store = "dvcstore/, inside the repository" if remote is None else remote
    printer.print(f"recipe {blueprint.BASE}: the contest's defaults; the dataset is pushed to {store}")
    printer.print(f"next ({contest.budget_s:g} charged seconds each for the rehearsal and for `dvc repro`):")
    for step in steps:
        printer.print(f"  {step}")
