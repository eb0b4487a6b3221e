"""What the stages of dvc.yaml need around them: which module does which, host facts, the report."""

from __future__ import annotations

from typing import Any

from ffsim import host, jsonio
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
    candidates = project.params().candidates
    devices = {name: contests[name].device(candidate.device) for name, candidate in candidates.items()}
    facts = host.stage_facts(contests, devices, STAGES)
    jsonio.write_atomic(project.build / "host.json", jsonio.pretty(facts))
    return facts
