"""`ffsim accept`, `ffsim remove`, `ffsim amend` and `ffsim import`: what maintainers say of runs."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from ffsim.cli import output

F = TypeVar("F", bound=Callable[..., Any])


def _who_and_why(command: F) -> F:
    by = click.option(
        "--by", envvar="FFSIM_CONTRIBUTOR", default="anonymous", show_default=True, help="Who says so (a handle)."
    )
    why = click.option("--why", required=True, metavar="TEXT", help="The reason; it is kept with the run.")
    return by(why(command))


@click.command("accept")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@_who_and_why
@output.json_option
def accept_command(runs: tuple[str, ...], by: str, why: str, as_json: bool) -> None:
    """Take runs out of quarantine: from now on the models learn from them.

    Look at a run first: `ffsim show RUN` says what the guard found. The start of an id is enough.

    Example: ffsim accept no-rope-s1o1 --by ada --why "No position at all; repeated on a second host"
    """
    from ffsim import curate

    accepted = curate.accept(output.project(), runs, by, why)
    if as_json:
        output.emit({"accepted": accepted})
    else:
        output.console().print(f"accepted {', '.join(accepted)}; next: dvc repro, ffsim diff, git commit")


@click.command("remove")
@click.argument("run", metavar="RUN")
@_who_and_why
@output.json_option
def remove_command(run: str, by: str, why: str, as_json: bool) -> None:
    """Take a run out of the dataset. Its verdict says who did it and why; git's history keeps the record.

    Example: ffsim remove muon-s1o1-20261130T1830 --by ada --why "The contributor asked for it"
    """
    from ffsim import curate

    removed = curate.remove(output.project(), run, by, why)
    if as_json:
        output.emit({"removed": removed})
    else:
        output.console().print(f"removed {removed}; next: dvc repro, ffsim diff, git commit")


@click.command("amend")
@click.argument("run", metavar="RUN")
@click.option("--with", "file", type=click.Path(exists=True, dir_okay=False), help="The corrected record.")
@click.option("--set", "changes", multiple=True, metavar="FIELD=VALUE", help="Correct one field. Repeat for more.")
@_who_and_why
@output.json_option
def amend_command(run: str, file: str | None, changes: tuple[str, ...], by: str, why: str, as_json: bool) -> None:
    """Put a corrected record in the place of RUN. The old one stays in the dataset and is fitted no more.

    The new record passes the guard like any other. Its id is that of RUN with -a1 behind it, or the one in FILE.

    Example: ffsim amend muon-s1o1-20261130T1830 --set notes="On battery" --why "The host was not on mains"
    """
    from ffsim import curate, guard

    if (file is None) == (not changes):
        raise click.UsageError("give --with FILE or --set FIELD=VALUE")
    project = output.project()
    source = next(guard.sources([file])) if file is not None else None
    result = curate.amend(project, run, by, why, source=source, changes=changes)
    if as_json:
        output.emit({**dataclasses.asdict(result), "checks": msgspec.to_builtins(result.checks)})
    else:
        printer = output.console()
        for violation in result.violations:
            printer.print(violation.line())
        for check in result.checks:
            if check.outcome == "found":
                printer.print(f"{result.successor}: {check.line()}")
        done = "refused; nothing was changed" if result.violations else f"{result.successor} ({result.standing})"
        printer.print(f"{result.run_id} -> {done}")
    if result.violations:
        sys.exit(1)


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--dry-run", is_flag=True, help="Check only; change nothing.")
@_who_and_why
@output.json_option
def import_command(files: tuple[str, ...], dry_run: bool, by: str, why: str, as_json: bool) -> None:
    """Add run records that a maintainer vouches for, as `add-run` does, with nothing held back.

    What the guard finds is recorded with each run. Violations of the contract refuse all the same.

    Example: ffsim import campaign/*.json --by ada --why "The 2026 campaign, checked against its logs"
    """
    from ffsim import contribute, curate, verdicts
    from ffsim.cli.contribute import show_added

    project = output.project()
    vouch = verdicts.event("imported", curate.maintainer(project, by), curate.reason(why))
    show_added(project, contribute.add_runs(project, files, sys.stdin.buffer, dry_run=dry_run, vouch=vouch), as_json)
