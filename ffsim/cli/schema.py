"""`ffsim schema`."""

from __future__ import annotations

import click

from ffsim.cli import output

CONTRACTS = ("run", "upload")


@click.command("schema")
@click.argument("name", type=click.Choice(CONTRACTS), required=False)
@click.option("--page", is_flag=True, help="Print the reference page of all contracts (Markdown).")
@output.contest_option
@output.json_option
def schema_command(name: str | None, page: bool, contest_name: str | None, as_json: bool) -> None:
    """Print a data contract: its fields and rules, or with --json as JSON Schema for one contest.

    Example: ffsim schema run --json > run.schema.json
    """
    from ffsim import contract, reference

    project = output.project()
    if page or name is None:
        text = reference.page([contract.load(each, project.schemas) for each in CONTRACTS])
        output.emit({"page": text}) if as_json else click.echo(text, nl=False)
    elif as_json:
        output.emit(reference.json_schema(contract.load(name, project.schemas), project.contest(contest_name)))
    else:
        click.echo(reference.page([contract.load(name, project.schemas)]), nl=False)
