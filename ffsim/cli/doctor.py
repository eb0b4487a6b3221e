"""`ffsim doctor`."""

from __future__ import annotations

import dataclasses
import sys

import click

from ffsim import doctor
from ffsim.cli import output
from ffsim.errors import ProjectError
from ffsim.project import Project

MARKS = {"ok": "", "absent": "absent", "broken": "BROKEN"}


@click.command("doctor")
@output.json_option
def doctor_command(as_json: bool) -> None:
    """Look at versions, devices, caches, the store and git: what is missing, and how to get it.

    Exit code 1 if something is broken; what is only absent is named.

    Example: ffsim doctor
    """
    try:
        project = Project.find()  # nothing is repaired: the doctor only looks
    except ProjectError:
        project = None
    found = doctor.examine(project)
    broken = [finding for finding in found if finding.state == "broken"]
    if as_json:
        output.emit({"findings": [dataclasses.asdict(finding) for finding in found], "broken": len(broken)})
    else:
        rows = [(f.area, f.name, MARKS[f.state], f.value + (f" -> {f.fix}" if f.fix else "")) for f in found]
        output.table("", ("area", "what", "", "found"), rows)
    if broken:
        sys.exit(1)
