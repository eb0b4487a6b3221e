"""Identity checks of a run: what it says about itself, computed again.

The contract has seen the types and ranges; here stand the checks that need the contest, the recipe
hash, or the other runs of the dataset.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ffsim import recipe as recipes
from ffsim import records
from ffsim.contest import Contest
from ffsim.shape import Violation, show, utc

# Steps are timed one by one; their sum and the charged total differ by what lies between two steps.
CHARGED_TOLERANCE = 0.02
WALL_SLACK_S = 1.0  # clocks are read at different moments


@dataclasses.dataclass
class Index:
    """What the dataset holds already: run ids without case, and contents, each -> the run's id.

    The runs of `replaced` have a corrected record with the same content beside them, and are no duplicates.
    """

    ids: dict[str, str] = dataclasses.field(default_factory=dict)
    contents: dict[str, str] = dataclasses.field(default_factory=dict)
    replaced: frozenset[str] = frozenset()

    def add(self, run: Mapping[str, Any]) -> None:
        """Enter a run (JSON values)."""
        self.ids[str(run["run_id"]).casefold()] = str(run["run_id"])
        if run["run_id"] not in self.replaced:
            self.contents[records.content_hash(dict(run))] = str(run["run_id"])

    def without(self, run_ids: Collection[str]) -> Index:
        """The index as if the contents of some runs were not known; their ids stay taken."""
        return Index(dict(self.ids), {key: value for key, value in self.contents.items() if value not in run_ids})


Finding = tuple[str, Any, str, str, str]  # field, value, rule, message, fix


def check(label: str, run: Mapping[str, Any], contest: Contest, index: Index) -> list[Violation]:
    """Every identity rule that a run breaks.

    Parameters
    ----------
    label
        Names the run in messages.
    run
        The record as JSON values; it has passed the contract.
    contest
        Its contest.
    index
        The runs it must differ from.
    """
    rules: tuple[Callable[[Mapping[str, Any], Contest], list[Finding]], ...] = (
        _recipe,
        _budget,
        _host,
        _steps,
        _curves,
        _scores,
        _time,
    )
    findings = _unique(run, index) + [finding for rule in rules for finding in rule(run, contest)]
    return [Violation(label, field, show(value), rule, message, fix) for field, value, rule, message, fix in findings]


def _unique(run: Mapping[str, Any], index: Index) -> list[Finding]:
    run_id = str(run["run_id"])
    found: list[Finding] = []
    if run_id.casefold() in index.ids:
        twin = index.ids[run_id.casefold()]
        found.append(("run_id", run_id, "unique_id", f"is taken by {twin}", "choose another id (case does not count)"))
    # Attempts that died before their first step measured nothing, and are alike without being copies.
    measured = run["steps"] and run_id not in index.replaced
    twin = index.contents.get(records.content_hash(dict(run)), "") if measured else ""
    if twin and twin.casefold() != run_id.casefold():
        found.append(("run_id", run_id, "duplicate", f"has the same content as {twin}", "add each run once"))
    return found


def _recipe(run: Mapping[str, Any], contest: Contest) -> list[Finding]:
    if run.get("artifact") is not None or run["recipe"] is None or run["trainer_version"] is None:
        return _submission(run, contest)
    found: list[Finding] = [
        (name, run[name], "null", "must not be null", f"give the {name} of the run")
        for name in ("seed", "order")
        if run[name] is None
    ]
    found += [
        (f"knobs.{name}", run["knobs"][name], "knob", words, f"{contest.knobs[name].about}")
        for name, words in contest.knobs.problems(run["knobs"])
        if name in contest.knobs
    ]
    found += _knobs_of_the_time(run, contest)
    if found:
        return found
    expected = recipes.hash_of(contest, run["knobs"])
    if run["recipe"]["hash"] != expected:
        fix = f"the knobs hash to {expected[:12]}...; correct the knobs or the hash"
        found.append(
            (
                "recipe.hash",
                run["recipe"]["hash"][:12] + "...",
                "recipe_hash",
                "is not the hash of the knobs",
                fix,
            )
        )
    version = run["trainer_version"]
    if contest.era(version) is None:
        fix = "runs of a trainer that the contest declares in no era cannot be compared; declare it in the contest file"
        found.append(("trainer_version", version, "era", "belongs to no era of this contest", fix))
    elif run["artifact_sha256"] != recipes.artifact_of(contest.name, run["knobs"], version):
        fix = "rehearse this recipe with this trainer version, and add the record that it wrote"
        message = "is not the hash of this recipe and trainer version"
        found.append(("artifact_sha256", run["artifact_sha256"][:12] + "...", "artifact", message, fix))
    return found


def _knobs_of_the_time(run: Mapping[str, Any], contest: Contest) -> list[Finding]:
    """A record carries the knobs that its trainer version had, and no later ones."""
    versions = contest.trainers.versions
    if run["trainer_version"] not in versions:
        return []
    found: list[Finding] = []
    for knob in contest.knobs:
        later = knob.since is not None and versions.index(run["trainer_version"]) < versions.index(knob.since)
        value = run["knobs"].get(knob.name)
        if value is None and not later:
            found.append((f"knobs.{knob.name}", "", "missing", "is missing", f"add it: {knob.about}"))
        elif later and value is not None and value != knob.default:
            fix = f"trainer version {run['trainer_version']} had no such knob; it came with {knob.since}"
            found.append((f"knobs.{knob.name}", value, "knob_since", "is later than the trainer", fix))
    return found


def _submission(run: Mapping[str, Any], contest: Contest) -> list[Finding]:
    """What a submission that ffsim did not write must and must not say."""
    message = "does not go with a submission that ffsim did not write"
    fix = "such a run has an artifact (file, bytes), recipe and trainer_version null, and no knobs"
    found: list[Finding] = []
    artifact = run.get("artifact") or {}
    if artifact.get("file") is None or artifact.get("bytes") is None:
        found.append(
            ("artifact", None, "submission", "is missing, or its file or bytes, in a run without a recipe", fix)
        )
    found += [
        (name, "given", "submission", message, fix)
        for name in ("recipe", "trainer_version", "knobs")
        if run[name] not in (None, {})
    ]
    limit = contest.artifact.max_bytes
    size = artifact.get("bytes")
    if limit is not None and size is not None and size > limit:
        found.append(("artifact.bytes", size, "artifact_size", "is above the limit", f"at most {limit:,} bytes"))
    return found


def _budget(run: Mapping[str, Any], contest: Contest) -> list[Finding]:
    budget, limit, kind = run["budget_s"], run["step_limit"], run["kind"]
    if (budget is None) == (limit is None):
        fix = "set one of them: budget_s for a run under the clock, step_limit for a fixed number of steps"
        return [("budget_s", budget, "budget", "needs exactly one of budget_s and step_limit", fix)]
    if kind in {"rehearsal", "official"} and budget != contest.budget_s:
        fix = f"a run of another budget or of a step count has the kind screen; the budget is {contest.budget_s:g} s"
        return [("budget_s", budget, "budget", f"is not the contest's budget in a run of kind {kind}", fix)]
    if kind == "screen" and budget == contest.budget_s:
        return [("kind", kind, "budget", "is a run of the full budget", "set the kind to rehearsal")]
    return []


def _host(run: Mapping[str, Any], contest: Contest) -> list[Finding]:
    expected = contest.host_block(dict(run["host"]))
    if run["host"]["block"] != expected:
        fix = f"the fingerprint belongs to the block {expected}"
        return [("host.block", run["host"]["block"], "host_block", "is not the block of the fingerprint", fix)]
    return []


def _steps(run: Mapping[str, Any], contest: Contest) -> list[Finding]:
    phases: Mapping[str, Mapping[str, Any]] = run["step_times"]
    found: list[Finding] = []
    if run["status"] != "finished":
        return found
    if phases:
        counted = sum(phase["count"] for phase in phases.values())
        # Free steps are steps, and have no charged time.
        if counted not in {run["steps"], run["steps"] - min(contest.clock_policy.free_steps, run["steps"])}:
            fix = f"the step times count {counted}; steps are optimizer updates completed (last index + 1)"
            found.append(("steps", run["steps"], "steps_counted", "is not the number of timed steps", fix))
        timed = sum(phase["count"] * phase["mean_s"] for phase in phases.values())
        timed += run["clock"].get("startup_charged_s") or 0.0
        charged = run["clock"]["train_charged_s"]
        if charged is not None and abs(timed - charged) > CHARGED_TOLERANCE * charged:
            fix = f"steps x mean step time is {timed:.4g} s; give charged seconds of training in both"
            message = "does not fit the step times"
            found.append(("clock.train_charged_s", charged, "charged_time", message, fix))
    expected = _tokens(run, contest)
    if run["tokens"] is not None and expected is not None and run["tokens"] != expected:
        fix = f"{run['steps']} steps of this recipe are {expected} tokens"
        found.append(("tokens", run["tokens"], "tokens", "is not steps x tokens of a step", fix))
    return found


def _tokens(run: Mapping[str, Any], contest: Contest) -> int | None:
    """Training tokens of a run of a recipe, if its phases say how many micro-batches each step took."""
    knobs = {**contest.knobs.defaults(), **run["knobs"]}
    if run["recipe"] is None or contest.knobs.problems(knobs):
        return None  # `_recipe` has said so
    sizes = contest.schedule.batches(knobs).sizes
    counts: dict[int, int] = {int(phase): times["count"] for phase, times in run["step_times"].items()}
    if len(sizes) == 1:
        counts = {sizes[0]: run["steps"]}
    elif sum(counts.values()) != run["steps"]:
        return None  # free steps, whose phase is not said
    return sum(size * count for size, count in counts.items()) * contest.step_tokens(knobs)


def _curves(run: Mapping[str, Any], contest: Contest) -> list[Finding]:
    last = max((points[-1][0] for points in run["curves"].values() if points), default=0)
    if run["steps"] is not None and last > run["steps"]:
        fix = "curves hold steps of this run only"
        return [("curves", last, "curve_steps", f"goes beyond the {run['steps']} steps of the run", fix)]
    name = contest.text("rehearsal")
    curve, score = run["curves"]["bpb"], run["scores"].get(name)
    if curve and score is not None and curve[-1][0] == run["steps"] and curve[-1][2] != score["bpb"]:
        fix = f"the curve ends at the last step with {curve[-1][2]:.6g}; give what was measured in both"
        return [(f"scores.{name}.bpb", score["bpb"], "curve_end", "is not the last point of the bpb curve", fix)]
    return []


def _time(run: Mapping[str, Any], contest: Contest) -> list[Finding]:
    created = utc(run["created_utc"])
    # A day of grace: clocks differ, and nobody gains by a few hours.
    if created is not None and created > dt.datetime.now(dt.UTC) + dt.timedelta(days=1):
        return [("created_utc", run["created_utc"], "future", "lies in the future", "give the time of the run in UTC")]
    clock = run["clock"]
    charged, wall = clock["train_charged_s"], clock["wall_s"]
    if (
        contest.clock_policy.time == "wall"
        and charged is not None
        and wall is not None
        and charged > wall + WALL_SLACK_S
    ):
        fix = f"the run took {wall:.4g} s by the wall; nobody is charged for more"
        return [("clock.train_charged_s", charged, "charged_within_wall", "is more than the whole run took", fix)]
    return []


def _scores(run: Mapping[str, Any], contest: Contest) -> list[Finding]:
    found: list[Finding] = []
    official = run["kind"] == "official"
    role = "official" if official else "rehearsal"
    hidden = contest.text("official")
    if not official and hidden in run["scores"]:
        fix = "only the organiser scores it; remove the score"
        found.append((f"scores.{hidden}", "", "hidden_text", "is the organiser's text", fix))
    if run["status"] == "finished" and contest.text(role) not in run["scores"]:
        name = contest.text(role)
        found.append((f"scores.{name}", "", "scored", "is missing in a finished run", f"score the text {name}"))
    for name, score in run["scores"].items():
        size = contest.texts[name].bytes
        if size is not None and score["bytes"] is not None and not 0.99 * size <= score["bytes"] <= size:
            fix = f"the text {name} has {size} bytes; count bytes, not tokens or characters"
            found.append((f"scores.{name}.bytes", score["bytes"], "text_bytes", "is not the size of the text", fix))
        floor = contest.metric.impossible_below_bpb
        if score["bpb"] < floor:
            fix = f"bits per byte below {floor:g} is beyond this contest; check the unit and the text"
            found.append((f"scores.{name}.bpb", score["bpb"], "impossible", "is impossibly good", fix))
    return found
