"""`ffsim audit` and `ffsim trust`."""

from __future__ import annotations

import dataclasses

import click

from ffsim.cli import output


@click.command("audit")
@output.contest_option
@click.option("--markdown", is_flag=True, help="Print the table as in docs/guard.md.")
@click.option("--no-maintainers", is_flag=True, help="As if params.yaml named no maintainers.")
@output.json_option
def audit_command(contest_name: str | None, markdown: bool, no_maintainers: bool, as_json: bool) -> None:
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
        outcomes, replays = audit.audit(project, contest, status.update, maintainers=not no_maintainers)
    if as_json:
        output.emit(
            {
                "attacks": [dataclasses.asdict(o) for o in outcomes],
                "replays": [dataclasses.asdict(replay) for replay in replays],
            }
        )
        return
    if markdown:
        output.markdown(audit.COLUMNS, audit.rows(outcomes))
    else:
        output.table("", audit.COLUMNS, audit.rows(outcomes))
    for replay in replays:
        output.console().print(replay.line())


@click.command("trust")
@output.contest_option
@output.json_option
def trust_command(contest_name: str | None, as_json: bool) -> None:
    """How far each contributor's runs agree with the reference, and what they weigh in a fit.

    The reference are the runs of the maintainers of params.yaml and those that a maintainer accepted. `mean z` far
    from 0 is an error that all runs of a contributor share; `agreement` is the weight of one of the other runs
    before the cap; `weight` is that of all of them together.

    Example: ffsim trust
    """
    from ffsim import dataset, evidence

    project = output.project()
    contest = project.contest(contest_name)
    found = sorted(
        evidence.stored(project, contest, dataset.stored_runs(project, contest.name)).contributors,
        key=lambda one: -one.runs,
    )
    if as_json:
        output.emit([dataclasses.asdict(one) for one in found])
        return
    columns = ("contributor", "runs", "reference", "mean z", "agreement", "weight")
    rows = [(c.name, c.runs, c.vouched, c.mean_z, c.agreement, c.weight) for c in found]
    output.table("", columns, rows)
