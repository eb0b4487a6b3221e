"""`ffsim audit`."""

from __future__ import annotations

import dataclasses

import click

from ffsim.cli import output


@click.command("audit")
@output.contest_option
@output.json_option
def audit_command(contest_name: str | None, as_json: bool) -> None:
    """Attack the project's own dataset, in memory, to see how far false contributions could move its predictions.

    Prints for every attack how many of its runs are held back, and how far the pinned predictions move without
    and with the guard, in SDs of one recipe's scores. Then the dataset's own runs are replayed in the order of
    time. Nothing is stored. It takes about a minute.

    Example: ffsim audit --contest laptop
    """
    from ffsim import audit

    project = output.project()
    contest = project.contest(contest_name)
    with output.console(err=True).status("attacking") as status:
        outcomes, replay = audit.audit(project, contest, status.update)
    if as_json:
        output.emit({"attacks": [dataclasses.asdict(o) for o in outcomes], "replay": dataclasses.asdict(replay)})
        return
    output.table("", audit.COLUMNS, audit.rows(outcomes))
    output.console().print(replay.line())
