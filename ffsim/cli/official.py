"""`ffsim official`."""

from __future__ import annotations

import click

from ffsim import official, records, verdicts
from ffsim.cli import output, progress
from ffsim.errors import RecordError


@click.command("official")
@click.argument("name")
@click.option("--run", "run_id", required=True, metavar="RUN_ID", help="The rehearsal that is submitted.")
@click.option("--score", metavar="BPB", help="Score received from the organiser, as published.")
@click.option("--decimals", type=click.IntRange(1, 15), help="Published decimals (default: those of --score).")
@click.option("--time", metavar="UTC", help="When it was scored, 2026-11-30T18:30:00Z (default: now).")
@click.option("--wait", is_flag=True, help="Record the submission only; its score comes later.")
@click.option("--selected-from", default="", metavar="IDS", help="Run ids of the candidates it was picked among.")
@click.option("--contributor", envvar="FFSIM_CONTRIBUTOR", default="anonymous", show_default=True)
@click.option("--notes", default="", help="Remarks in the record.")
@output.json_option
def official_command(
    name: str,
    run_id: str,
    score: str | None,
    decimals: int | None,
    time: str | None,
    wait: bool,
    selected_from: str,
    contributor: str,
    notes: str,
    as_json: bool,
) -> None:
    """Submit a rehearsal of the dataset as the upload NAME.

    In a contest that ffsim scores itself the artifact is trained again, with the rehearsal's own seed and
    order, and scored on the hidden text. Elsewhere the upload waits until --score is given.

    A score that was never to be is taken back with `git reset --hard && dvc checkout data`, before its commit.

    Example: ffsim official first-try --run muon-s1o1-20261130T183000-1f2e
    """
    if score is None and (decimals is not None or time is not None):
        raise click.UsageError("--decimals and --time belong to --score")
    if score is not None and wait:
        raise click.UsageError("give --score or --wait, not both")
    project = output.project()
    candidates = [part for part in selected_from.replace(",", " ").split() if part]
    contest, rehearsal, upload = official.open_upload(project, name, run_id, contributor, candidates, notes)
    said = verdicts.of_run(project, contest.name, rehearsal.run_id)
    if said is not None and said.standing != "fitted":
        words = f"{rehearsal.run_id} is {said.standing}: no model learns from this upload before that is settled"
        output.console(err=True).print(f"{words} (`ffsim show {rehearsal.run_id}`)")
    if score is not None:
        upload = official.receive(project, rehearsal, upload, score, decimals, time)
    elif wait or contest.official.scored_by != "ffsim":
        if (project.folder("uploads", contest.name) / f"{name}.json").is_file():
            raise RecordError(f"upload {name} waits already; give its score with --score")
        upload = official.wait(project, upload)
    else:
        with progress.training(f"official {name}") as show:
            upload, _ = official.play(project, contest, rehearsal, upload, show)
    if as_json:
        output.emit(records.as_json(upload))
    elif upload.official.bpb is None:
        output.console().print(f"{name}: submitted, waits for its score")
    else:
        if score is not None and contest.official.scored_by == "ffsim":
            output.console().print(f"note: {contest.name} is scored by ffsim itself; this score has no official run")
        before = rehearsal.scores[contest.text("rehearsal")].bpb
        output.console().print(
            f"{name}: official {upload.official.bpb:.4f} bpb, rehearsed {before:.4f}, "
            f"offset {upload.official.bpb - before:+.4f}; next: dvc repro, ffsim diff, git commit"
        )
