"""What the models may learn from: the runs that count, the uploads, and how much each run weighs.

Runs in quarantine, removed or superseded are in the dataset and not in here. An upload whose rehearsal was
superseded by a corrected record follows the new one.
"""

from __future__ import annotations

import dataclasses

import msgspec

from ffsim import agreement, dataset, verdicts
from ffsim.agreement import Contributor
from ffsim.contest import Contest
from ffsim.project import Guard, Project
from ffsim.records import Run, Upload
from ffsim.trust import EQUAL, Trust
from ffsim.verdicts import Verdict


@dataclasses.dataclass(frozen=True)
class Evidence:
    """Runs, uploads and trust of one contest.

    Parameters
    ----------
    runs
        The runs that may be fitted, sorted by id.
    uploads
        All uploads, in the order of their submission.
    trust
        How much each run counts.
    contributors
        What that rests on.
    vouched
        Runs that a maintainer accepted or imported.
    """

    runs: list[Run]
    uploads: list[Upload]
    trust: Trust = EQUAL
    contributors: tuple[Contributor, ...] = ()
    vouched: frozenset[str] = frozenset()


def load(project: Project, contest: Contest) -> Evidence:
    """The evidence of a contest as it lies on disk: what the stages of the pipeline read.

    Raises
    ------
    RecordError
        If a file of the dataset is damaged.
    """
    said = verdicts.on_disk(project, contest.name)
    runs, uploads = dataset.load_runs(project, contest.name), dataset.load_uploads(project, contest.name)
    return _counted(project, contest, said, runs, uploads)


def stored(project: Project, contest: Contest, runs: list[Run]) -> Evidence:
    """The evidence of a contest as data.dvc lists it, also on a clone that has not pulled: what the guard asks.

    Parameters
    ----------
    project, contest
        Whose.
    runs
        Those of `dataset.stored_runs` that count.
    """
    said = verdicts.of_contest(project, contest.name)
    return _counted(project, contest, said, runs, dataset.stored_uploads(project, contest.name))


def _counted(
    project: Project, contest: Contest, said: dict[str, Verdict], runs: list[Run], uploads: list[Upload]
) -> Evidence:
    vouched = frozenset(run_id for run_id, verdict in said.items() if verdict.accepted)
    followed = [_followed(upload, said) for upload in uploads]
    return weigh(contest, verdicts.fitted(runs, said), followed, vouched, project.params().guard)


def weigh(contest: Contest, runs: list[Run], uploads: list[Upload], vouched: frozenset[str], limits: Guard) -> Evidence:
    """The evidence of these runs."""
    trust, contributors = agreement.learn(contest, runs, vouched, limits)
    return Evidence(runs, uploads, trust, tuple(contributors), vouched)


def _followed(upload: Upload, said: dict[str, Verdict]) -> Upload:
    """The upload with the run that stands for its rehearsal now."""
    run_id, seen = upload.run_id, set[str]()
    while run_id in said and said[run_id].standing == "superseded" and run_id not in seen:
        seen.add(run_id)
        run_id = said[run_id].events[-1].successor or run_id
    return upload if run_id == upload.run_id else msgspec.structs.replace(upload, run_id=run_id)
