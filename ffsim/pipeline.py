"""What the stages of dvc.yaml need around them: which module does which, host facts, the report."""

from __future__ import annotations

from typing import Any

from ffsim import host, jsonio
from ffsim.errors import ProjectError
from ffsim.project import Project

# A stage runs again when the code below its module changes; `rehearse` goes by the trainer version.
STAGES = {
    "validate": "ffsim.validate",
    "fit": "ffsim.fit",
    "evaluate": "ffsim.evaluate",
    "predict": "ffsim.predict",
    "report": "ffsim.report",
}


def write_host(project: Project) -> dict[str, Any]:
    """Write build/host.json and return it; on an unchanged host with unchanged code it keeps its bytes."""
    contests = {name: project.contest(name) for name in project.contest_names()}
    devices = {name: str(settings.get("device", "")) for name, settings in candidates(project).items()}
    devices = {name: device or contests[name].launch.devices[0] for name, device in devices.items()}
    facts = host.stage_facts(contests, devices, STAGES)
    jsonio.write_atomic(project.build / "host.json", jsonio.pretty(facts))
    return facts


def candidates(project: Project) -> dict[str, dict[str, Any]]:
    """Contest -> recipe, seed, order, device and start of the candidate in params.yaml.

    Raises
    ------
    ProjectError
        If one lacks a recipe or names a contest that the project does not have.
    """
    found = project.params().get("candidates") or {}
    for name, settings in found.items():
        if name not in project.contest_names():
            raise ProjectError(f"params.yaml: candidates.{name}: add {name} to `contests:`")
        if not isinstance(settings, dict) or not isinstance(settings.get("recipe"), str):
            raise ProjectError(f"params.yaml: candidates.{name}: needs `recipe:`, a name of data/recipes/{name}")
    return dict(found)


def interval(project: Project) -> float:
    """The probability of the printed intervals, `predict.interval` of params.yaml.

    Raises
    ------
    ProjectError
        If it is not between 0 and 1.
    """
    level = (project.params().get("predict") or {}).get("interval", 0.8)
    if not isinstance(level, float) or not 0 < level < 1:
        raise ProjectError(f"params.yaml: predict.interval is {level!r}; give a probability such as 0.8")
    return level
