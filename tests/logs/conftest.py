"""Where the original logs lie, for tests that need them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def external() -> Path:
    """Facts recorded by others; not part of the repository."""
    place = os.environ.get("FFSIM_EXTERNAL_DATA")
    if not place:
        pytest.skip("needs FFSIM_EXTERNAL_DATA")
    return Path(place)
