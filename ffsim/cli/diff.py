"""`ffsim diff`."""

from __future__ import annotations

import dataclasses

import click

from ffsim.cli import output


@click.command("diff")
@click.argument("a", default="HEAD")
@click.argument("b", required=False)
@output.json_option
def diff_command(a: str, b: str | None, as_json: bool) -> None:
    """Predicted against official scores at the git revisions A (default HEAD) and B (default: the workspace).

    `predicted` comes from the rehearsal, `recipe` from the recipe alone; `moved` is the change of `predicted`
    in units of its error.

    Example: ffsim diff HEAD~1 HEAD
    """
    from ffsim import diff

    result = diff.diff(output.project(), a, b)
    if as_json:
        output.emit(dataclasses.asdict(result))
        return
    for contest in dict.fromkeys(row.contest for row in result.rows):
        rows = [
            (
                row.name if row.what == "upload" else f"{row.name} (candidate)",
                row.predicted_a,
                row.predicted_b,
                output.signed(row.change),
                None if row.change_sd is None else f"{row.change_sd:+.2f} SD",
                row.from_recipe_a,
                row.from_recipe_b,
                output.signed(row.from_recipe_change),
                "waits" if row.official is None else row.official,
                output.signed(row.error_a),
                output.signed(row.error_b),
            )
            for row in result.rows
            if row.contest == contest
        ]
        columns = ("upload", "predicted A", "predicted B", "change", "moved", "recipe A", "recipe B", "change",
                   "official", "error A", "error B")  # fmt: skip
        output.table(f"{contest}: A = {result.a}, B = {result.b} (bpb)", columns, rows)
    printer = output.console()
    if not result.rows:
        printer.print("no predictions at either version; run `dvc repro`")
    for contest, counts in result.data.items():
        for name, (before, after) in counts.items():
            printer.print(f"{contest}: {name.replace('_', ' ')}: {_shown(before)} -> {_shown(after)}")


def _shown(value: object) -> str:
    return "none" if value is None else str(value)
