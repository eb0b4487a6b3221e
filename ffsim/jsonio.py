"""Strict JSON in, canonical JSON out, and files that are never half written.

Python's ``json`` reads NaN, Infinity and duplicate keys without a word, and plain ``write_text``
leaves a torn file when the process dies: both are closed off here, once, for every file of ffsim.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from ffsim.errors import RecordError

MAX_DEPTH = 32
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', flags=re.S)


def loads(text: str | bytes, *, where: str) -> Any:
    """Parse strict JSON: UTF-8, no NaN or Infinity, no duplicate keys, no overflowing numbers.

    Parameters
    ----------
    text
        The document.
    where
        What to call it in an error, e.g. its file name.

    Raises
    ------
    RecordError
        With the position and what to do.
    """
    try:
        document = text.decode("utf-8") if isinstance(text, bytes) else text
        if _depth(document) > MAX_DEPTH:
            raise RecordError(f"{where}: nested more than {MAX_DEPTH} deep; no file of ffsim is")
        value = json.loads(
            document,
            object_pairs_hook=_no_duplicates,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
        # A lone surrogate parses but can never be written back as UTF-8.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        raise RecordError(f"{where}: not UTF-8 text; save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        raise RecordError(
            f"{where}: not JSON (line {error.lineno}, column {error.colno}: {error.msg}); "
            "the file may be cut off: write it again"
        ) from None
    except ValueError as error:
        raise RecordError(f"{where}: {error}") from None
    return value


def load_file(path: Path) -> Any:
    """Read one strict JSON file.

    Raises
    ------
    RecordError
        If it cannot be read or is not strict JSON.
    """
    try:
        blob = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    return loads(blob, where=str(path))


def canonical(value: Any) -> str:
    """The one spelling of a value: sorted keys, no spaces, shortest floats, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def pretty(value: Any) -> str:
    """JSON for a file that people read and git diffs: indented, keys in their own order."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def sha256_of(value: Any) -> str:
    """SHA-256 of a value's canonical JSON, in hex."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def write_atomic(path: Path, text: str | bytes, *, scratch: Path | None = None) -> None:
    """Write a file so that it is there whole or not at all, also after a kill or a power cut.

    Parameters
    ----------
    path
        The file; its folder is made.
    text
        Its content.
    scratch
        Folder for the temporary file, on the same file system (default: beside `path`).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = scratch or path.parent
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:60]}.", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _fsync_folder(path.parent)


def _fsync_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _depth(document: str) -> int:
    """How deep brackets nest, before anything is parsed: the parser itself would need memory for each level."""
    depth = deepest = 0
    for bracket in re.findall(r"[][{}]", _STRING.sub("", document)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:40]!r} stands twice; keep one")
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON; write null where nothing was measured")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} overflows; write null where nothing was measured")
    return value
