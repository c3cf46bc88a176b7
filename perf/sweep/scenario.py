"""What can be played in a sweep. A scenario is a value, and its row a pure function of it."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from perf.placement import openb, playing
from perf.placement.mig import NODES
from perf.placement.openb import read_arrivals
from perf.placement.profiles import MIXES
from perf.placement.random_node import RANDOM_NODE
from perf.replay import replay
from reconciler.allocation.policies.demand import NO_DEMAND
from reconciler.allocation.policies.names import FIRST_FIT, POLICIES
from reconciler.allocation.policies.selection import parse_policies, policy_named
from reconciler.control.demand import read_demand_file
from reconciler.errors import Malformed, Rejected
from reconciler.operations.journal.replaying import Again
from reconciler.operations.journal.replaying import replay as replay_journal

RECORDED = "recorded"
"""The policies of the journal itself: then all decisions must be the same"""


def compare(file: Path, policy: str, demand: Path | None) -> dict[str, int]:
    """Decisions by how they differ. Raises Malformed for a file that is no journal or no demand."""
    counts: Counter[str] = Counter()

    def count(again: Again) -> None:
        counts[_difference(again)] += 1

    wanted = None if demand is None else read_demand_file(demand).demand
    try:
        replay_journal(
            file,
            names=None if policy == RECORDED else parse_policies((policy,)),
            demand=wanted,
            seen=count,
        )
    except Rejected as exc:
        raise Malformed(str(file), "", f"cannot be replayed: {exc}") from exc
    return {"decisions": counts.total(), **{name: counts[name] for name in DIFFERENCES}}


DIFFERENCES = (
    "same",
    "other_devices",
    "other_node",
    "refused_instead",
    "granted_instead",
    "other_reason",
    "unknown",
)
"""`unknown`: the file does not have the inputs of the decision"""


def _difference(again: Again) -> str:
    then, now = again.then.outcome, again.now
    if now is None:
        return "unknown"
    if again.same:
        return "same"
    match bool(then.reason), bool(now.reason):
        case True, True:
            return "other_reason"
        case True, False:
            return "granted_instead"
        case False, True:
            return "refused_instead"
        case _:
            return "other_devices" if then.node == now.node else "other_node"


Row = Mapping[str, Any]
Load = Annotated[float, Field(gt=0, le=1000)]
Arrivals = Annotated[int, Field(ge=10, le=10**8)]


class Played(BaseModel):
    """What every scenario has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    FILES: ClassVar[tuple[str, ...]] = ()
    """Fields that name an input; a folder counts with the files in it"""
    SHOWN: ClassVar[tuple[str, ...]] = ()
    """Figures of the row that a summary shows, the most important first"""
    APART: ClassVar[tuple[str, ...]] = ("seed", "policy")
    """Fields in which the runs of one group of a summary differ; all but the policy are repetitions"""
    COSTLY: ClassVar[tuple[str, ...]] = ("policy",)
    """Fields on which the time of a run depends most"""

    policy: str = FIRST_FIT

    @field_validator("policy")
    @classmethod
    def _is_known(cls, name: str) -> str:
        known = cls.policies()
        if name not in known:
            raise ValueError(f"is {name!r}; choose {', '.join(known)}")
        return name

    @classmethod
    def policies(cls) -> tuple[str, ...]:
        """What `policy` may be."""
        return POLICIES

    def row(self) -> Row:
        """Play it. Equal for equal scenarios, files and code; no times. Raises Malformed for a bad input."""
        raise NotImplementedError

    def like(self) -> tuple[object, ...]:
        """Equal for runs that take about the same time."""
        return (type(self), *(getattr(self, name) for name in self.COSTLY))


class Mig(Played):
    """MIG partitions that come and go, as `placement mig` plays them."""

    SHOWN = ("in_use", "accepted", "mean_wait", "p95_wait")
    COSTLY = ("policy", "nodes", "arrivals", "queue")

    play: Literal["mig"]
    mix: str = "mixed"
    load: Load = 1.2
    nodes: int = Field(NODES, ge=1, le=10_000)
    arrivals: Arrivals = 8000
    queue: bool = False
    seed: int = Field(100, ge=0)

    @field_validator("mix")
    @classmethod
    def _mix_is_known(cls, name: str) -> str:
        if name not in MIXES:
            raise ValueError(f"is {name!r}; choose {', '.join(MIXES)}")
        return name

    @classmethod
    def policies(cls) -> tuple[str, ...]:
        return (RANDOM_NODE, *POLICIES, playing.REPACKING)

    def row(self) -> Row:
        return playing.partitions(
            self.policy,
            mix=self.mix,
            load=self.load,
            arrivals=self.arrivals,
            seed=self.seed,
            nodes=self.nodes,
            queue=self.queue,
            progress=_quietly,
        ).figures


class Churn(Played):
    """Claims that come and go on mixed models, as `placement churn` plays them."""

    SHOWN = ("in_use", "accepted")
    COSTLY = ("policy", "nodes", "arrivals")

    play: Literal["churn"]
    load: Load = 1.2
    nodes: int = Field(1250, ge=5, le=100_000)
    arrivals: Arrivals = 40_000
    seed: int = Field(100, ge=0)

    @classmethod
    def policies(cls) -> tuple[str, ...]:
        return (RANDOM_NODE, *POLICIES)

    def row(self) -> Row:
        return playing.mixed_models(
            self.policy,
            load=self.load,
            arrivals=self.arrivals,
            seed=self.seed,
            nodes=self.nodes,
            progress=_quietly,
        ).figures


class Openb(Played):
    """The public trace openb, as `placement openb` plays it."""

    FILES = ("trace", "arrivals")
    SHOWN = ("at_100", "at_130", "failed")
    APART = ("seed", "policy", "trace", "arrivals")
    COSTLY = ("policy", "learn")

    play: Literal["openb"]
    trace: str
    arrivals: str
    variant: str = "default"
    seed: int = Field(42, ge=0)
    learn: bool = False

    def row(self) -> Row:
        run = read_arrivals(Path(self.trace), Path(self.arrivals), self.variant, self.seed)
        done = openb.Replay(run, partial(policy_named, self.policy), learn=self.learn).run(_quietly)
        found = {"at_100": done.at(100), "at_130": done.at(130), "failed": done.failed}
        return {name: None if value != value else value for name, value in found.items()}  # noqa: PLR0124


class Scripted(Played):
    """A scenario file, as `replay` plays it."""

    FILES = ("file",)
    SHOWN = ("allocated", "failed")
    APART = ("policy",)
    COSTLY = ("policy", "file")

    play: Literal["replay"]
    file: str
    order: Literal["given", "name"] = "given"

    def row(self) -> Row:
        done = replay(
            Path(self.file),
            _quietly,
            by_name=self.order == "name",
            policy=policy_named(self.policy, NO_DEMAND),
        )
        return {"allocated": len(done.decided) - len(done.failed), "failed": len(done.failed)}


class Journal(Played):
    """One file of a journal, each decision made again from the recorded state under another policy."""

    FILES = ("file", "demand")
    SHOWN = ("other_node", "other_devices", "refused_instead", "granted_instead", "same", "unknown")
    APART = ("policy", "file")
    COSTLY = ("policy", "file")

    play: Literal["journal"]
    file: str
    policy: str = RECORDED
    demand: str = ""
    """File with another demand than the recorded one"""

    @classmethod
    def policies(cls) -> tuple[str, ...]:
        return (RECORDED, *POLICIES)

    def row(self) -> Row:
        return compare(Path(self.file), self.policy, Path(self.demand) if self.demand else None)


Scenario = Annotated[Mig | Churn | Openb | Scripted | Journal, Field(discriminator="play")]
SCENARIO: TypeAdapter[Any] = TypeAdapter(Scenario)
PLAYS: Mapping[str, type[Played]] = {
    "mig": Mig, "churn": Churn, "openb": Openb, "replay": Scripted, "journal": Journal,
}  # fmt: skip
"""What `play` may be -> the fields"""


def content_of(scenario: Played) -> dict[str, Any]:
    """All that decides the row besides the code: its fields, and the digests of its files for their names."""
    fields = scenario.model_dump()
    return {name: _digest(Path(value)) if name in scenario.FILES and value else value
            for name, value in fields.items()}  # fmt: skip


def _digest(path: Path) -> str:
    """The digest of a file, or of all files in a folder with their names. Raises Malformed."""
    try:
        if not path.is_dir():
            return _of_file(path, path.stat().st_mtime_ns)
        files = {one.relative_to(path).as_posix(): one for one in path.rglob("*") if one.is_file()}
        names = "".join(
            f"{name} {_of_file(one, one.stat().st_mtime_ns)}\n" for name, one in sorted(files.items())
        )
    except OSError as exc:
        raise Malformed(str(path), "", f"cannot be read: {exc.strerror}") from exc
    return hashlib.sha256(names.encode()).hexdigest()


@lru_cache(maxsize=65_536)
def _of_file(path: Path, changed: int) -> str:  # noqa: ARG001 - a file that was changed is read again
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _quietly(_done: int, _of: int) -> None:
    """A batch is told as a whole."""
