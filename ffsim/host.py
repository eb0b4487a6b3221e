"""The host that runs: its fingerprint, and the code that each pipeline stage uses.

The fingerprint decides whether a rehearsal must be run again, so nothing volatile may be in it: no
host name, no load, no time, no amount of free memory.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ffsim.contest import Contest

PACKAGE = Path(__file__).parent


NO_RUNTIME = {"cpu_capability": "unknown", "torch": "none", "compiler": "none"}


def fingerprint(
    contest: Contest,
    device_requested: str,
    device_used: str | None = None,
    runtime: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What identifies this host's hardware and runtime, with the contest's name for its block.

    Parameters
    ----------
    contest
        Says which environment flags matter and which fields make the block.
    device_requested, device_used
        The device asked for, and the one that runs (default: the same).
    runtime
        What `runtime_facts` said in the process that trains (default: ask in this one).

    Returns
    -------
    dict
        The fields of `ffsim.records.Host`.
    """
    environment = {**os.environ, **contest.launch.environment}
    fields: dict[str, Any] = {
        "device_requested": device_requested,
        "device_used": device_used or device_requested,
        "cpu_model": cpu_model(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        **(runtime_facts() if runtime is None else runtime),
        "flags": {name: environment[name] for name in sorted(contest.hosts.flags) if name in environment},
    }
    return {"block": contest.host_block(fields), **fields}


@functools.lru_cache
def cpu_model() -> str:
    """The CPU as it names itself, or its architecture where it does not."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, flags=re.M)
    name = found.group(1) if found else platform.processor() or platform.machine()
    return " ".join(name.split())[:120]


def runtime_facts() -> dict[str, str]:
    """Instruction level, version and compiler of torch in this process, as in the fingerprint."""
    if importlib.util.find_spec("torch") is None:
        return dict(NO_RUNTIME)
    import torch

    compiler = re.search(r"(GCC|clang|MSVC) ?[\d.]+", torch.__config__.show())
    return {
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "torch": importlib.metadata.version("torch"),
        "compiler": compiler.group(0) if compiler else "unknown",
    }


def code_hash(module: str) -> str:
    """SHA-256 of a module of this package and of every module of the package that it imports.

    Imports are read from the source, inside functions too, so a change of code anywhere below a
    stage makes the stage run again, also where the package is installed and not in the repository.
    """
    digest = hashlib.sha256()
    for name in sorted(_closure(module)):
        digest.update(name.encode() + b"\0" + _source(name).read_bytes() + b"\0")
    return digest.hexdigest()


def _closure(module: str) -> set[str]:
    seen: set[str] = set()
    queue = [module]
    while queue:
        name = queue.pop()
        if name not in seen:
            seen.add(name)
            queue += _imports(name)
    return seen


def _imports(module: str) -> list[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(_source(module).read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return [name for name in found if name.split(".")[0] == PACKAGE.name and _source(name).is_file()]


def _source(module: str) -> Path:
    path = PACKAGE.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def stage_facts(
    contests: Mapping[str, Contest], devices: Mapping[str, str], stages: Mapping[str, str]
) -> dict[str, Any]:
    """Everything that the pipeline's stages depend on and that no tracked file says.

    Parameters
    ----------
    contests
        By name.
    devices
        Contest -> the device that its candidate asks for.
    stages
        Stage -> the module that does its work.
    """
    from ffsim import jsonio, packaged
    from ffsim.train import TRAINER_VERSION

    return {
        "hosts": {name: fingerprint(contests[name], device) for name, device in devices.items()},
        "trainer_version": TRAINER_VERSION,
        "contests": {name: contest.sha256 for name, contest in contests.items()},
        # A project without contracts of its own follows the package's: an upgrade validates again.
        "contracts": {name: jsonio.sha256_file(path) for name, path in packaged.files("schemas").items()},
        "code": {stage: code_hash(module) for stage, module in stages.items()},
    }
