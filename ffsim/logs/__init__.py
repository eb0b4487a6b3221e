"""Reading what training runs print: one parser per dialect, one shape for what they say.

A parser takes lines as they stream, never raises on any of them, can say at any time how far the run is, and in
the end what the log says. `read` reads a file, or the folder of a run, where the log has other files beside it.
"""

from __future__ import annotations

from ffsim.logs.dialects import DIALECTS, dialect
from ffsim.logs.folder import read, rounding_bpb
from ffsim.logs.parser import Parser
from ffsim.logs.reading import Compile, Progress, Reading, Switch
from ffsim.logs.steps import phase_means

__all__ = [
    "DIALECTS", "Compile", "Parser", "Progress", "Reading", "Switch", "dialect", "phase_means", "read", "rounding_bpb",
]  # fmt: skip
