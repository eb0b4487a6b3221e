"""`ffsim status`, `ffsim runs` and `ffsim show`."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from ffsim import browse, dataset, jobs, records, verdicts
from ffsim.cli import output
from ffsim.errors import RecordError
from ffsim.shape import plural

DEFAULT_COLUMNS = "run_id,kind,steps,bpb"
SPARK = "▁▂▃▄▅▆▇█"


@click.command("status")
@output.json_option
def status_command(as_json: bool) -> None:
    """What the project holds, what is predicted, what waits.

    Example: ffsim status
    """
    project = output.project()
    contests, own = browse.status(project)
    running, unlisted = sorted(jobs.running(project)), dataset.unlisted(project)
    if as_json:
        contests_json = [dataclasses.asdict(status) for status in contests]
        output.emit({"contests": contests_json, "running": running, "not_added": own, "unlisted": unlisted})
        return
    printer = output.console()
    for status in contests:
        printer.print(f"{status.contest}: {status.title}")
        runs, uploads = plural(status.runs, "run"), plural(status.uploads, "upload")
        printer.print(f"  {runs}, {uploads}, {len(status.waiting)} waiting for a score")
        if status.missing:
            printer.print(f"  {status.missing} files of the dataset are not here: run `dvc pull data`")
        if status.mae_bpb is not None:
            floor = "" if status.noise_floor_bpb is None else f" (noise floor {status.noise_floor_bpb:.4f})"
            printer.print(f"  from the recipe alone, recipes not seen: MAE {status.mae_bpb:.4f} bpb{floor}")
        if status.best is not None:
            printer.print(f"  best upload: {status.best[0]} {status.best[1]:.4f} bpb")
        for recipe, value in status.candidate.items():
            printer.print(f"  candidate {recipe}: {_prediction(value)}")
        for name in status.quarantined:
            printer.print(f"  in quarantine: {name} (ffsim show {name}; then accept, amend or remove it)")
        for name in status.waiting:
            printer.print(f"  waits for its official score: {name}")
    if unlisted:
        files = plural(len(unlisted), "file")
        printer.print(
            f"{files} below data/ not in data.dvc (e.g. {unlisted[0]}): another revision's? `dvc checkout data`"
        )
    if project.git("rev-parse", "-q", "--verify", "MERGE_HEAD", check=False):
        printer.print("a merge is in the middle: finish it, or `git merge --abort`")
    for name in running:
        printer.print(f"running: {name}")
    for name in own:
        printer.print(f"not in the dataset: runs/{name} (ffsim add-run runs/{name})")


@click.command("runs")
@output.contest_option
@click.option("--where", multiple=True, metavar="FIELD=VALUE", help="Filter; also != < <= > >=. Repeat for more.")
@click.option("--sort", metavar="FIELD", help="Sort by a field; -FIELD for the largest first.")
@click.option("--columns", default=DEFAULT_COLUMNS, show_default=True, help="Fields to show, with commas.")
@click.option("--limit", type=click.IntRange(min=1), help="Show so many.")
@output.json_option
def runs_command(
    contest_name: str | None, where: tuple[str, ...], sort: str | None, columns: str, limit: int | None, as_json: bool
) -> None:
    """List the runs of a contest. A field is a dotted path such as knobs.lr, or its end where that is unique.

    `bpb` is the score on the text that counts for the run: the rehearsal text, or the organiser's. `standing` is
    fitted, quarantined or superseded.

    Example: ffsim runs --where kind=rehearsal --where "lr<0.01" --sort bpb
    """
    project = output.project()
    contest = project.contest(contest_name)
    output.hint_missing(project)
    rows = [dataset.flat(run) for run in dataset.load_runs(project, contest.name)]
    said = verdicts.on_disk(project, contest.name)
    for row in rows:
        row["standing"] = said[row["run_id"]].standing if row["run_id"] in said else "fitted"
        text = contest.text("official" if row["kind"] == "official" else "rehearsal")
        row["bpb"] = row.get(f"scores.{text}.bpb")
    chosen = browse.select(rows, where, sort)[:limit]
    if as_json:
        output.emit(chosen)
        return
    fields = sorted({field for row in rows for field in row})
    names = [browse.resolve(name.strip(), fields) for name in columns.split(",") if name.strip()] if rows else []
    shown = [name.rsplit(".", 1)[-1] if name.count(".") and name.startswith("knobs.") else name for name in names]
    output.table("", shown, [[row.get(name) for name in names] for row in chosen])
    output.console().print(f"{len(chosen)} of {len(rows)} runs")


@click.command("show")
@click.argument("run", metavar="RUN")
@output.json_option
def show_command(run: str, as_json: bool) -> None:
    """Everything about one run (of the dataset, of runs/, or rehearsed) or one upload, and what was said of it.

    Example: ffsim show muon-s1o1-20261130T183000-1f2e
    """
    project = output.project()
    record: records.Run | records.Upload
    try:
        record, path = dataset.find_run(project, run)
    except RecordError:
        upload = browse.find_upload(project, run)
        if upload is None:
            raise
        record, path = upload, project.folder("uploads", upload.contest) / f"{run}.json"
    verdict = verdicts.of_run(project, record.contest, record.run_id) if isinstance(record, records.Run) else None
    if as_json:
        said = {} if verdict is None else {"verdict": verdicts.as_json(verdict)}
        output.emit({**records.as_json(record), **said})
        return
    flat = dataset.flat(record)
    output.table(output.shown(project, path), ("field", "value"), [(k, _value(v)) for k, v in flat.items()])
    if isinstance(record, records.Run) and record.curves.loss:
        values = [value for _, _, value in record.curves.loss]
        output.console().print(f"loss  {_spark(values)}  {values[0]:.3f} -> {values[-1]:.3f} nats")
    if isinstance(record, records.Run) and record.compiles:
        compiles = [(e.graph, e.step, e.phase, e.seconds, "charged" if e.charged else "free", e.source)
                    for e in record.compiles]  # fmt: skip
        output.table("compiles", ("graph", "step", "phase", "seconds", "paid", "source"), compiles)
    if verdict is not None:
        output.console().print(f"{verdict.standing}")
        for event in verdict.events:
            why = f": {event.why}" if event.why else ""
            output.console().print(f"  {event.at_utc} {event.what} by {output.cell(event.by)}{output.cell(why)}")
            for check in event.checks:
                if check.outcome != "passed":
                    output.console().print(f"    {check.outcome}  {output.cell(check.line())}")


def _prediction(value: dict[str, Any]) -> str:
    if value.get("predicted_bpb") is None:
        rehearsed = value.get("rehearsal_bpb")
        shown = "" if rehearsed is None else f" (rehearsed {rehearsed:.4f})"
        return f"no prediction: {value.get('reason')}{shown}"
    text = (
        f"predicted official {value['predicted_bpb']:.4f} bpb, "
        f"interval {value['low_bpb']:.4f} .. {value['high_bpb']:.4f} (rehearsed {value['rehearsal_bpb']:.4f})"
    )
    return (
        text
        if value.get("from_recipe_bpb") is None
        else f"{text}, from the recipe alone {value['from_recipe_bpb']:.4f}"
    )


def _value(value: Any) -> Any:
    return f"{value:g}" if isinstance(value, float) else value


def _spark(values: list[float], width: int = 60) -> str:
    """A line of blocks, one per equal share of the points."""
    n = min(width, len(values))
    means = [values[i * len(values) // n : max(i * len(values) // n + 1, (i + 1) * len(values) // n)] for i in range(n)]
    points = [sum(part) / len(part) for part in means]
    low, high = min(points), max(points)
    scale = (len(SPARK) - 1) / (high - low) if high > low else 0.0
    return "".join(SPARK[round((point - low) * scale)] for point in points)
