"""`ffsim add-run` and `ffsim validate`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ffsim.cli import output
from ffsim.project import Project
from ffsim.shape import plural

if TYPE_CHECKING:
    from ffsim.contribute import Added


@click.command("add-run")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--dry-run", is_flag=True, help="Check only; change nothing.")
@output.json_option
def add_run_command(files: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Check run records (files, folders, or - for standard input) and add them to the dataset.

    All violations of all records are printed, and nothing is added if there is one. A run that breaks no rule and
    does not fit what is known is stored in quarantine: no model reads it until `ffsim accept`. Commit what it
    stages.

    Example: ffsim add-run runs/muon-s2o1-20261130T183000-1f2e.json
    """
    from ffsim import contribute

    project = output.project()
    show_added(project, contribute.add_runs(project, files, sys.stdin.buffer, dry_run=dry_run), as_json)


def show_added(project: Project, result: Added, as_json: bool) -> None:
    """Print what `contribute.add_runs` did; exit code 1 if it refused."""
    from ffsim import dataset

    if as_json:
        output.emit(result.as_json())
    else:
        printer = output.console()
        for violation in result.violations:
            printer.print(violation.line())
        for run_id, rules in result.unverified.items():
            printer.print(f"{run_id}: unverified: {', '.join(rules)} (the record lacks the inputs)")
        for run_id, checks in result.checks.items():
            word = "quarantine: " if run_id in result.quarantined else ""
            for check in checks:
                if check.outcome == "found":
                    printer.print(f"{run_id}: {word}{check.line()}")
        lost = sum(dataset.unreadable(project, name) for name in project.contest_names())
        if lost:
            words = f"{lost} files of the dataset are in no store here: run `dvc pull data`"
            output.console(err=True).print(f"{words}; the runs were compared with the others only")
        printer.print(result.summary())
    if result.violations:
        sys.exit(1)


@click.command("validate")
@output.contest_option
@output.json_option
def validate_command(contest_name: str | None, as_json: bool) -> None:
    """Check every record, recipe and text of a contest's dataset; write the runs table and a report.

    Example: ffsim validate --contest laptop
    """
    from ffsim import validate

    project = output.project()
    contest = project.contest(contest_name)
    result = validate.run(project, contest)
    if as_json:
        output.emit({"problems": result.problems, "counts": result.counts, "unverified": result.unverified})
    else:
        for problem in result.problems:
            output.console().print(problem)
        counts = result.counts
        output.console().print(
            f"{contest.name}: {plural(counts['runs'], 'run')}, {plural(counts['uploads'], 'upload')}, "
            f"{plural(len(result.problems), 'problem')}, "
            f"{plural(len(result.unverified), 'record')} with unverified rules"
        )
    if result.problems:
        sys.exit(1)
