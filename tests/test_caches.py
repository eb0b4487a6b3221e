"""Cold, warm, mixed or unknown, by counting files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffsim import caches


@pytest.mark.parametrize(
    ("before", "after", "start"),
    [
        (0, 0, "cold"),
        (0, 7, "cold"),
        (3, 3, "warm"),
        (3, 2, "warm"),
        (3, 4, "mixed"),
        (None, 4, "unknown"),
        (3, None, "unknown"),
    ],
)
def test_a_start_is_what_the_caches_held(before: int | None, after: int | None, start: str) -> None:
    assert caches.observed(before, after) == start


def test_files_are_counted_at_every_depth_and_links_are_not_followed(tmp_path: Path) -> None:
    places = caches.folders(tmp_path / "caches", ("A", "B"))
    assert caches.artifacts(tmp_path / "caches") == 0
    deep = Path(places["A"]) / "x/y"
    deep.mkdir(parents=True)
    (deep / "graph.neff").touch()
    (Path(places["B"]) / "all").symlink_to("/", target_is_directory=True)
    assert caches.artifacts(tmp_path / "caches") == 1


def test_what_cannot_be_counted_is_not_known(tmp_path: Path) -> None:
    assert caches.artifacts(tmp_path / "none") is None
