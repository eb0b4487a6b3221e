"""A run's log with what lies beside it: scores, the environment, and the times that somebody else took.

In the folder of a Frontier run the times of launch, fifth step and end were written by the launcher, so start-up
and charge are known better than the trainer knows them. Scores are in files of the evaluation. Their `total_nats`
went through 32-bit floats: bits per byte are recomputed from them, and `val_bpb` must agree within that rounding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ffsim.errors import LogError
from ffsim.lines import lines
from ffsim.logs.dialects import dialect, guessed
from ffsim.logs.parser import Parser, mapping, number, positive, whole
from ffsim.logs.reading import Reading
from ffsim.records import Score

LOG = "train.log"
PIECE = 65_536
SIDE_FILE_MAX = 1_000_000  # bytes of a file beside the log that are looked at
FLOAT32_HALF_STEP = 2.0**-24  # relative rounding error of a 32-bit float
_PAIR = re.compile(r'"(\w{1,40})"\s*:\s*([^,{}\s"]{1,60})')
_TIMING_SLACK_S = 0.06  # timing.txt is rounded to 0.1 s


def read(path: Path, name: str | None = None, free_steps: int = 0) -> Reading:
    """Read a log, or the folder of a run.

    Parameters
    ----------
    path
        A file, or a folder with a ``train.log``.
    name
        The dialect; None guesses it.
    free_steps
        Steps at the start that the contest does not charge; 0 takes what the log shows.

    Returns
    -------
    Reading
        Whatever the log says; its faults are in `problems`.

    Raises
    ------
    LogError
        If there is no such file, or the dialect is not known.
    """
    log = path / LOG if path.is_dir() else path
    try:
        if log.exists() and not log.is_file():
            raise LogError(f"{log}: no regular file; give a log file, or a folder with a {LOG}")
        if name is None:
            parser = guessed(_lines(log), free_steps)
        else:
            parser = dialect(name)(free_steps)
            for line in _lines(log):
                parser.feed(line)
    except OSError as error:
        raise LogError(f"{log}: cannot be read ({error.strerror}); give a log file, or a folder with a {LOG}") from None
    reading = parser.reading()
    return _beside(path, reading) if path.is_dir() else reading


def rounding_bpb(score: Score) -> float | None:
    """How far a score may be off because its nats went through 32-bit floats; None if it was not made of nats."""
    return None if score.nats is None or score.bytes is None else score.bpb * FLOAT32_HALF_STEP


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from lines(iter(lambda: file.read(PIECE), b""))


def _beside(folder: Path, reading: Reading) -> Reading:
    """The reading with what the other files of a run's folder say."""
    notes, flags = Parser(), list(reading.flags)
    settings = _settings(_text(folder / "overrides"))
    changes: dict[str, Any] = {"settings": settings} | _times(folder, notes)
    seed, target_s = whole(settings.get("FF_SEED")), number(settings.get("FF_TIME_TARGET"))
    if None not in (seed, reading.seed) and seed != reading.seed:
        notes.problem(f"overrides has FF_SEED={seed}, the log seed {reading.seed}")
    if None not in (target_s, reading.target_s) and target_s != reading.target_s:
        notes.problem(f"overrides has FF_TIME_TARGET={target_s}, the log {reading.target_s}")
    scores = dict(reading.scores)
    for file in sorted(folder.glob("eval*.log")):
        score, braces_lost = _score(file.name, _text(file), notes)
        if score is not None:
            scores["val" + file.stem.removeprefix("eval")] = score
        if braces_lost and "braces_lost" not in flags:
            flags.append("braces_lost")
    exits = {
        key: whole(value)
        for key, value in re.findall(r"(\w{1,20})_exit=(\d{1,3})\b", _text(folder / "full_run.status"))
    }
    for what, code in exits.items():
        if code:
            notes.problem(f"full_run.status: {what} ended with exit code {code}")
    code = exits.get("train", reading.exit_code)
    return msgspec.structs.replace(
        reading,
        **changes,
        scores=scores,
        exit_code=code,
        finished=reading.finished and not code,
        problems=(*reading.problems, *notes.problems),
        flags=tuple(flags),
    )


def _times(folder: Path, notes: Parser) -> dict[str, float]:
    """Start-up, charge and total by the launcher's clock."""
    launch_s, start_s, end_s = (number(_text(folder / name)) for name in ("t_launch", "t_step5", "t_end"))
    found: dict[str, float] = {}
    if launch_s is not None and start_s is not None:
        found["startup_s"] = start_s - launch_s
    if start_s is not None and end_s is not None:
        found["charged_s"] = end_s - start_s
    if launch_s is not None and end_s is not None:
        found["total_s"] = end_s - launch_s
    for key, value in re.findall(r"\b(startup_s|charged_s)=(\S{1,30})", _text(folder / "timing.txt")):
        noted_s = number(value)
        if noted_s is None or abs(found.get(key, noted_s) - noted_s) > _TIMING_SLACK_S:
            notes.problem(f"timing.txt has {key}={value}, the time stamps {found.get(key)}")
        elif key not in found:
            found[key] = noted_s
    for key in [key for key, value in found.items() if value < 0]:
        notes.problem(f"{key} is {found.pop(key):.1f}: the time stamps are not in order")
    return found


def _settings(text: str) -> dict[str, str]:
    """``KEY=VALUE`` lines; values may have spaces, the last one of a key wins."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key.strip(): value.strip() for key, sign, value in pairs if sign and key.strip()}


def _score(name: str, text: str, notes: Parser) -> tuple[Score | None, bool]:
    """The score of one file of the evaluation, and whether the file had lost its braces."""
    values, braces_lost = mapping(text.strip()), False
    if values is None:
        values, braces_lost = dict(_PAIR.findall(text)), True
    bpb = positive(values.get("val_bpb"))
    nats, n_bytes = positive(values.get("total_nats")), whole(values.get("num_bytes"))
    if bpb is None:
        notes.problem(f"{name}: val_bpb is no number above 0")
        return None, False
    if nats is None or not n_bytes:
        return Score(bpb=bpb, tokens=whole(values.get("num_tokens"))), braces_lost
    score = Score(bpb=nats / math.log(2) / n_bytes, nats=nats, bytes=n_bytes, tokens=whole(values.get("num_tokens")))
    slack = rounding_bpb(score) or 0.0
    if abs(score.bpb - bpb) > slack + 1e-12:
        notes.problem(f"{name}: val_bpb {bpb!r}, but {score.bpb!r} from nats and bytes (rounding explains {slack:.1e})")
    return score, braces_lost


def _text(path: Path) -> str:
    try:
        if not path.is_file():  # a pipe would be waited for
            return ""
        with path.open("rb") as file:
            return file.read(SIDE_FILE_MAX).decode("utf-8", "replace")
    except OSError:
        return ""
