"""Files that travel in the wheel beside the code: a project's template, texts of contests, data contracts.

Each has one home in the repository, and `force-include` in pyproject.toml maps it into the wheel. An
editable install has no such copies: the same table then says where they lie beside the package.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent
BESIDE = PACKAGE.parent


def files(folder: str) -> dict[str, Path]:
    """The packaged files below a folder of the package.

    Parameters
    ----------
    folder
        ``template``, ``texts`` or ``schemas``.

    Returns
    -------
    dict
        Path below the folder -> file, sorted; empty if the package carries none.
    """
    inside = PACKAGE / folder
    found = _below(inside) if inside.is_dir() else _mapped(f"{PACKAGE.name}/{folder}")
    return dict(sorted(found.items()))


def _mapped(prefix: str) -> dict[str, Path]:
    """What the build would put below `prefix`."""
    import tomllib

    table = BESIDE / "pyproject.toml"
    if not table.is_file():
        return {}
    targets = tomllib.loads(table.read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    found: dict[str, Path] = {}
    for source, target in targets["wheel"]["force-include"].items():
        if target == prefix or target.startswith(f"{prefix}/"):
            name = target[len(prefix) + 1 :]
            inner = _below(BESIDE / source) if (BESIDE / source).is_dir() else {"": BESIDE / source}
            found |= {"/".join(part for part in (name, rest) if part): path for rest, path in inner.items()}
    return found


def _below(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
