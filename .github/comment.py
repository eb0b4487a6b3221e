"""Post a contribution's review below its pull request, or update the one that is there.

The folder that it reads was filled by a job that a stranger can rewrite. Its text is cut, freed of control
characters and fenced in a code block that it cannot close; the number of the pull request is believed only if
that pull request's head is the commit of the job. Needs nothing but Python and `gh`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

MARK = "<!-- ffsim review -->"
AUTHOR = "github-actions[bot]"
MAX_CHARACTERS = 20_000


def read(path: Path) -> str:
    """The begin of a regular file; links are not followed."""
    if path.is_symlink() or not path.is_file():
        raise SystemExit(f"{path.name} is no file; nothing is posted")
    with path.open("rb") as file:
        return file.read(4 * MAX_CHARACTERS).decode(errors="replace")[:MAX_CHARACTERS]


def number_of(text: str) -> int:
    """The number of a pull request, or the end of the program."""
    if not re.fullmatch(r"[1-9][0-9]{0,8}\n?", text):
        raise SystemExit("the artifact names no pull request; nothing is posted")
    return int(text)


def body_of(text: str) -> str:
    """The comment: the text in a fence longer than any run of backticks in it."""
    kept = "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", kept)), default=0))
    return f"{MARK}\n**ffsim review** of the records in this contribution\n\n{fence}text\n{kept.rstrip()}\n{fence}\n"


def is_of(pull: Any, sha: str, repository: str) -> bool:
    """Whether a pull request's head is this commit of this repository."""
    head = pull["head"]
    return head["sha"] == sha and (head.get("repo") or {}).get("full_name") == repository


def own(comments: Any) -> int | None:
    """The id of the review that was posted before."""
    for comment in comments:
        if comment["user"]["login"] == AUTHOR and comment["body"].startswith(MARK):
            return int(comment["id"])
    return None


def api(*arguments: str, body: str | None = None) -> Any:
    """One call of GitHub's interface; the body travels as JSON on standard input."""
    command = ["gh", "api", *arguments, *(["--input", "-"] if body is not None else [])]
    text = None if body is None else json.dumps({"body": body})
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"gh api {arguments[-1]}: {done.stderr.strip()[:200]}")
    return json.loads(done.stdout)


def main(folder: Path) -> None:
    """Read the artifact in `folder` and post."""
    repository = os.environ["REPOSITORY"]
    number = number_of(read(folder / "number"))
    pull = api(f"repos/{repository}/pulls/{number}")
    if not is_of(pull, os.environ["HEAD_SHA"], os.environ["HEAD_REPOSITORY"]):
        raise SystemExit(f"pull request {number} is not what was reviewed; nothing is posted")
    body = body_of(read(folder / "review.txt"))
    pages = api("--paginate", "--slurp", f"repos/{repository}/issues/{number}/comments")
    before = own(comment for page in pages for comment in page)
    if before is None:
        api("--method", "POST", f"repos/{repository}/issues/{number}/comments", body=body)
    else:
        api("--method", "PATCH", f"repos/{repository}/issues/comments/{before}", body=body)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
