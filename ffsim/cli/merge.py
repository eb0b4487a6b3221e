"""`ffsim merge` and `ffsim review`."""

from __future__ import annotations

import dataclasses
import sys

import click

from ffsim.cli import output
from ffsim.shape import plural


@click.command("merge")
@click.argument("branch")
@click.option("--trusted", is_flag=True, help="A maintainer's branch: its verdicts, scores and settings stand.")
@output.json_option
def merge_command(branch: str, trusted: bool, as_json: bool) -> None:
    """Merge BRANCH into the current one, its dataset entries included; nothing needs to be pulled.

    Every new run passes the guard again, the second look included: what BRANCH says of its own runs does not
    count. A branch that accepts or removes runs, brings official scores or changes anything besides the dataset is
    refused, unless it is --trusted.

    Example: ffsim merge origin/my-run
    """
    from ffsim import merge

    result = merge.merge(output.project(), branch, trusted=trusted)
    if as_json:
        output.emit(dataclasses.asdict(result))
        return
    for run_id, lines in result.quarantined.items():
        for line in lines:
            output.console().print(f"{run_id}: quarantine: {line}")
    removed = f", {len(result.removed)} removed" if result.removed else ""
    added = plural(len(result.added), "file")
    output.console().print(
        f"merged {branch}: {added} added{removed}, {result.total} in all; "
        f"next: {'' if result.pulled else 'dvc pull data, '}dvc repro"
    )


@click.command("review")
@click.argument("branch")
@click.option("--markdown", is_flag=True, help="Print a block for a comment; nothing in it is formatting.")
@output.json_option
def review_command(branch: str, markdown: bool, as_json: bool) -> None:
    """Say what BRANCH would bring into the dataset, and what the guard says of it; nothing is changed.

    The exit code is 1 if it must not be merged as it is.

    Example: ffsim review origin/my-run
    """
    from ffsim import review

    result = review.review(output.project(), branch)
    if as_json:
        output.emit(result.as_json())
    elif markdown:
        click.echo(result.markdown(), nl=False)
    else:
        click.echo("\n".join(result.lines()))
    if result.problems:
        sys.exit(1)
