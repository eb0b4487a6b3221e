"""The commands of the pipeline's stages: `host`, `fit`, `evaluate`, `predict`, `predict-candidate`, `report`."""

from __future__ import annotations

import dataclasses

import click

from ffsim.cli import output
from ffsim.contest import Contest
from ffsim.project import Project


@click.command("host")
@output.json_option
def host_command(as_json: bool) -> None:
    """Write build/host.json: this host's fingerprint and the code that each stage uses.

    Example: ffsim host --json
    """
    from ffsim import pipeline

    facts = pipeline.write_host(output.project())
    if as_json:
        output.emit(facts)
    else:
        for contest, fingerprint in facts["hosts"].items():
            output.console().print(f"{contest}: host block {fingerprint['block']}, torch {fingerprint['torch']}")


@click.command("fit")
@output.contest_option
@output.json_option
def fit_command(contest_name: str | None, as_json: bool) -> None:
    """Fit step time, quality and oracle on the dataset; write build/<contest>/models.json.

    Example: ffsim fit --contest laptop
    """
    from ffsim import fit

    project = output.project()
    contest = project.contest(contest_name)
    models = fit.run(project, contest)
    price = models.quality.price() if models.quality is not None else None
    offset = models.oracle
    if as_json:
        facts = {
            "contest": contest.name,
            "data_hash": models.data_hash,
            "price_bpb_per_ln_step": price,
            "oracle": None if offset is None else offset.to_dict(),
            "reasons": models.reasons,
        }
        output.emit(facts)
        return
    printer = output.console()
    if models.quality is not None:
        words = "" if price is None else f", {price:+.4f} bpb per ln(steps)"
        printer.print(f"{contest.name}: quality from {models.quality.linear.n_rows} runs{words}")
    if offset is not None:
        printer.print(f"{contest.name}: offset {offset.mean_bpb:+.4f} bpb, SD {offset.sd_bpb:.4f}, {offset.n} uploads")
    for part, reason in models.reasons.items():
        printer.print(f"{contest.name}: no {part}: {reason}")


@click.command("evaluate")
@output.contest_option
@output.json_option
def evaluate_command(contest_name: str | None, as_json: bool) -> None:
    """Held-out errors of the models beside their baselines; write metrics/<contest>/evaluation.json.

    Example: ffsim evaluate --contest laptop
    """
    from ffsim import evaluate, metrics

    project = output.project()
    contest = project.contest(contest_name)
    result = evaluate.run(project, contest)
    if as_json:
        output.emit(metrics.rounded(result))
        return
    rows = [
        (part, protocol.replace("_", " "), model.replace("_", " "), value.get("mae"), value.get("coverage_80"))
        for part in ("quality", "steps")
        for protocol, models in result[part].items()
        for model, value in models.items()
    ]
    oracle = result["oracle"]["leave_one_upload_out"]
    rows.append(("oracle", "leave one upload out", "mean offset", oracle["mae"], oracle.get("coverage_80")))
    rows.append(("oracle", "leave one upload out", "zero offset", oracle.get("mae_zero_offset"), None))
    output.table(f"{contest.name}: held-out errors", ("part", "held out", "model", "MAE", "80 % holds"), rows)
    floor = result["noise"]["mae_bpb"]
    output.console().print(f"noise floor of the quality MAE: {'unknown' if floor is None else f'{floor:.4f} bpb'}")


@click.command("predict")
@click.argument("name", required=False)
@output.contest_option
@output.json_option
def predict_command(name: str | None, contest_name: str | None, as_json: bool) -> None:
    """Predict the official score of NAME, a recipe (run or not) or a run, with the fitted models.

    Without NAME it is a pipeline stage: every upload, by models that have not seen its official score, into
    metrics/<contest>/predictions.json.

    Example: ffsim predict muon
    """
    from ffsim import metrics, predict

    project = output.project()
    contest = project.contest(contest_name)
    if name is not None:
        _predict_one(project, contest, name, as_json=as_json)
        return
    result = predict.run(project, contest, project.params().predict.interval)
    if as_json:
        output.emit(metrics.rounded({name: dataclasses.asdict(value) for name, value in result.items()}))
        return
    rows = [
        (n, p.rehearsal_bpb, p.predicted_bpb, p.low_bpb, p.high_bpb, p.from_recipe_bpb, p.official_bpb,
         output.signed(p.error_bpb))
        for n, p in result.items()
    ]  # fmt: skip
    columns = ("upload", "rehearsal", "predicted", "low", "high", "from recipe", "official", "error")
    output.table(f"{contest.name}: official scores (bpb)", columns, rows)


def _predict_one(project: Project, contest: Contest, name: str, *, as_json: bool) -> None:
    from ffsim import forecast, metrics

    level = project.params().predict.interval
    printer = output.console()
    if project.has_recipe(contest, name):
        simulated = forecast.recipe(project, contest, project.recipe(contest, name), level)
        if as_json:
            output.emit(metrics.rounded(dataclasses.asdict(simulated)))
            return
        printer.print(f"{simulated.recipe}: about {simulated.steps:,.0f} steps on {simulated.host_block}")
        printer.print(f"  rehearsal {simulated.rehearsal_bpb:.4f} bpb, SD {simulated.rehearsal_sd_bpb:.4f}")
        if simulated.official_bpb is not None:
            interval = f"{level:.0%} interval {simulated.low_bpb:.4f} .. {simulated.high_bpb:.4f}"
            printer.print(f"  official  {simulated.official_bpb:.4f} bpb, {interval}")
        if simulated.never_varied:
            printer.print(f"  no run has varied {', '.join(simulated.never_varied)}: counted as worthless")
        return
    result = forecast.run(project, contest, name, level)
    if as_json:
        output.emit(metrics.rounded(dataclasses.asdict(result)))
    elif result.predicted_bpb is None:
        printer.print(f"{name}: no prediction: {result.reason}")
    else:
        interval = f"{level:.0%} interval {result.low_bpb:.4f} .. {result.high_bpb:.4f}"
        printer.print(f"{name}: rehearsed {result.rehearsal_bpb:.4f} bpb")
        printer.print(f"  official  {result.predicted_bpb:.4f} bpb, {interval}")
        if result.from_recipe_bpb is not None:
            sd = f"SD {result.from_recipe_sd_bpb:.4f}"
            printer.print(f"  from the recipe alone {result.from_recipe_bpb:.4f} bpb, {sd}")


@click.command("predict-candidate")
@output.contest_option
@output.json_option
def predict_candidate_command(contest_name: str | None, as_json: bool) -> None:
    """Predict the official score of the rehearsed candidate; write metrics/<contest>/candidate.json.

    Example: ffsim predict-candidate --contest laptop
    """
    from ffsim import metrics, predict

    project = output.project()
    contest = project.contest(contest_name)
    level = project.params().predict.interval
    result = predict.run_candidate(project, contest, level)
    if as_json:
        output.emit(metrics.rounded(dataclasses.asdict(result)))
    elif result.predicted_bpb is None:
        output.console().print(f"{contest.name}: no prediction: {result.reason}")
    else:
        output.console().print(
            f"{contest.name}: predicted official {result.predicted_bpb:.4f} bpb, "
            f"{level:.0%} interval {result.low_bpb:.4f} .. {result.high_bpb:.4f}"
        )


@click.command("report")
@output.json_option
def report_command(as_json: bool) -> None:
    """Write build/report.md from the metric files.

    Example: ffsim report
    """
    from ffsim import report

    path = report.run(output.project())
    if as_json:
        output.emit({"report": str(path)})
    else:
        output.console().print(f"report: {path}")
