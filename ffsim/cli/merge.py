"""`ffsim merge`."""

from __future__ import annotations

import dataclasses

import click

from ffsim.cli import output
from ffsim.shape import plural


@click.command("merge")
@click.argument("branch")
@output.json_option
def merge_command(branch: str, as_json: bool) -> None:
    """Merge BRANCH into the current one, its dataset entries included; nothing needs to be pulled.

    Example: ffsim merge origin/my-run
    """
    from ffsim import merge

    result = merge.merge(output.project(), branch)
    if as_json:
        output.emit(dataclasses.asdict(result))
        return
    removed = f", {len(result.removed)} removed" if result.removed else ""
    added = plural(len(result.added), "file")
    output.console().print(
        f"merged {branch}: {added} added{removed}, {result.total} in all; next: dvc pull data, dvc repro"
    )
