"""Makes the decisions of a journal again and compares them, without cluster and clock.

The same changes are applied to the same state, and the same handlers decide, in the order of the journal.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.aio.queue import Queue
from reconciler.allocation.dra.budget import UNLIMITED
from reconciler.allocation.explanation import Explanation
from reconciler.allocation.policies.demand import Demand
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.analysis.explain.explain import explain
from reconciler.api.objects.changes import Change
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted
from reconciler.api.plugins import PLUGINS
from reconciler.cluster.kinds import ON_DEMAND
from reconciler.control import inputs
from reconciler.control.background_search import BackgroundSearch
from reconciler.control.claim_handler import ClaimHandler
from reconciler.control.decider import Decider, Refusal
from reconciler.control.gangs.handler import GangHandler
from reconciler.control.gangs.planner import GangPlanner, Solve
from reconciler.control.gangs.search import Answer, GangSearch
from reconciler.control.handler import Act, Ask, Blocked, Decide, Given, Handler, Later, Refused, Stuck
from reconciler.control.inputs import Answered, Outcome, PluginInput
from reconciler.control.intake import Intake
from reconciler.control.planner import Planner
from reconciler.control.units import Unit
from reconciler.errors import Rejected
from reconciler.operations.journal.entries import Entry, Header, decode, lines, paths, read_header
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.store import Store


class Again(Struct, frozen=True):
    """A recorded decision and the same decision made again."""

    then: Answered
    now: Outcome | None
    """None if the journal does not have its inputs"""
    explanation: Explanation | None = None
    """Of the decision made again, if it was asked for and can be explained"""

    @property
    def same(self) -> bool:
        """Whether both decisions agree."""
        return self.now is None or _essence(self.then.outcome) == _essence(self.now)


def _essence(outcome: Outcome) -> tuple[object, ...]:
    return outcome.reason, outcome.node, outcome.devices


class Override(Struct, frozen=True):
    """What replaces the policies of a journal."""

    names: tuple[tuple[str, str], ...] | None
    demand: Demand | None

    def of(self, recorded: Policies) -> Policies:
        """The policies to decide with."""
        if self.names is None and self.demand is None:
            return recorded
        names = recorded.names if self.names is None else self.names
        demand = recorded.demand if self.demand is None else self.demand
        return replace(recorded, names=names, demand=demand)


class Tally(Struct):
    """The result of a replay."""

    same: int = 0
    unknown: int = 0
    """Decisions whose inputs are older than the journal"""
    different: list[Again] = field(default_factory=list)


def replay(
    place: Path,
    *,
    until: str | None = None,
    names: tuple[tuple[str, str], ...] | None = None,
    demand: Demand | None = None,
    explained: Callable[[Answered], bool] = lambda _: False,
    seen: Callable[[Again], None] = lambda _: None,
    progress: Callable[[int], None] = lambda _: None,
) -> Tally:
    """Make every decision of a journal again, or those up to and with the one named `until`.

    `names` (see `parse_policies`) and `demand` replace those of the journal; its seed remains. Decisions are
    explained if `explained` says so. `seen` is called for each, `progress` with the number of read entries.
    Raises Rejected for other files.
    """
    tally = Tally()
    for again in _decisions(place, progress, Override(names, demand), explained):
        seen(again)
        if again.now is None:
            tally.unknown += 1
        elif again.same:
            tally.same += 1
        else:
            tally.different.append(again)
        if again.then.id == until:
            break
    return tally


def _decisions(
    place: Path, progress: Callable[[int], None], override: Override, explained: Callable[[Answered], bool]
) -> Iterator[Again]:
    """All decisions. Every file starts with a complete snapshot, so it needs no earlier file."""
    run, count = "", 0
    found: dict[Unit, _Found | None] = {}
    for path in paths(place):
        file = lines(path)
        try:
            header = read_header(next(file, b""))
        except Rejected as exc:
            raise Rejected(f"{path}: {exc}; name a folder or file that run --journal wrote") from exc
        if not header.run or header.run != run:
            run, found = header.run, {}
        again = _Replay(header, override, found)
        for line in file:
            count += 1
            progress(count)
            try:
                entry = decode(line)
            except ValueError as exc:
                raise Rejected(f"journal {path}: {exc}") from exc
            if isinstance(entry, Answered):
                yield again.compared(entry, explained)
            else:
                again.take(entry)


class ReplayPart:
    """The state and the handler of a plugin in a replay. It follows the changes of objects by itself."""

    handler: Handler

    def take(self, given: PluginInput) -> None:
        """Do what was recorded as an input of the plugin."""

    def keeps_from_gang(self, pod: ObjectKey) -> Blocked | None:
        """Why a pod cannot be placed with a gang; None if it can."""

    def explain(self, unit: Unit, reason: str) -> Explanation | None:
        """The explanation of a decision in the present state."""


class _Found(Struct, frozen=True):
    """The answer to a unit that was asked for. Empty if the unit needs no devices now."""

    outcome: Outcome = Outcome()
    explain: Callable[[], Explanation | None] = lambda: None


class _Replay:
    """One file: the state that it tells of, and the handlers that decide in it."""

    def __init__(self, header: Header, override: Override, found: dict[Unit, _Found | None]) -> None:
        """`found` are answers to what was asked for in the file before; None for units that were asked for
        after others, and not decided with them.
        """
        self._found = found
        self._override = override
        self._policies = PLAIN
        ours, steps, settings = header.ours, header.steps, header.settings
        volumes = not settings.get("without_volumes", False)
        self._intake = intake = Intake(
            Store(header.rules), NoQueue(), (), lambda _: None, ours=ours, volumes=volumes
        )
        for kind in ON_DEMAND:  # nothing was asked that waited for one of them
            intake.nodes.on_demand.listed(kind)
        parts = ((plugin.name, plugin.replay(settings, intake)) for plugin in PLUGINS)
        self._parts: dict[str, ReplayPart] = {name: part for name, part in parts if part is not None}
        # What kube-scheduler decides is not asked for, so that it needs not be known here.
        planner = Planner(
            intake.store, intake.roster, intake.placement, ours, (), lambda: override.of(self._policies)
        )
        gangs = GangPlanner(intake.units, planner, intake.nodes.on_demand, self._unsuited)
        decider, nothing = Decider(ours, steps=steps), cast("Any", None)  # nothing is written
        quiet: dict[str, Any] = {"clock": lambda: 0.0, "report": lambda _: None}
        self._handlers: list[Handler] = [
            GangHandler(intake, gangs, _GangsAtOnce(intake, ours, steps=steps), nothing, nothing, **quiet),
            *(part.handler for part in self._parts.values()),
            ClaimHandler(
                intake,
                planner,
                decider,
                _ClaimsAtOnce(intake, planner, decider),
                nothing,
                nothing,
                nothing,
                nothing,
                now=nothing,
                **quiet,
            ),
        ]

    def take(self, entry: Entry) -> None:
        """Do what is recorded, or decide what was asked."""
        intake = self._intake
        match entry:
            case inputs.Asked(units=units):
                self._decide(units)
            case inputs.Assumed(plan=plan):
                intake.assume(plan)
            case inputs.Forgotten(plan=plan):
                intake.forget(plan)
            case inputs.PodAssumed(pod=pod, node=node):
                intake.assume_pod(pod, node)
            case inputs.PodForgotten(pod=pod):
                intake.forget_pod(pod)
            case inputs.PodReleased(pod=pod):
                intake.release_pod(pod)
            case inputs.RoomHeld(nomination=nomination):
                intake.nominating.hold(nomination, "")
            case inputs.RoomEnded(nominee=nominee):
                intake.nominating.drop(nominee, "")
            case inputs.PoliciesUsed(policies=policies):
                self._policies = policies
            case inputs.RetainedDraw(device=device, drawn=drawn):
                intake.store.retained.put(device, drawn)
            case PluginInput(plugin=name):
                self._parts[name].take(entry)
            case _ if isinstance(entry, Change):
                intake.apply(entry)

    def compared(self, then: Answered, explained: Callable[[Answered], bool]) -> Again:
        """A decision, and what was found when it was asked for."""
        if then.unit not in self._found:
            return Again(then, None)
        if self._found[then.unit] is None:  # those before it are assumed by now
            self._decide((then.unit,))
        found = self._found.pop(then.unit) or _Found()
        return Again(then, found.outcome, found.explain() if explained(then) else None)

    def _decide(self, units: Sequence[Unit]) -> None:
        """Decide the first of some units, and those after it that are decided with it."""
        self._found |= dict.fromkeys(units)
        for handler in self._handlers:
            match handler.next(units[0]):
                case None:
                    continue
                case Ask(decide=decide):
                    answers = decide(units[1:])
                    while answers[0] is None:  # it goes on where it stopped
                        answers = decide(units[1:])
                    for unit, answer in zip(units, answers, strict=False):
                        self._keep(unit, handler, answer, alone=len(units) == 1)
                case Stuck(waits=waits):
                    self._found[units[0]] = _Found(Outcome(reason=waits.reason))
                case _:
                    self._found[units[0]] = _Found()
            return

    def _keep(
        self, unit: Unit, handler: Handler, answer: Given | Refused | Later | Act | None, *, alone: bool
    ) -> None:
        if not isinstance(answer, Given | Refused):
            self._found[unit] = _Found()
            return
        outcome, asked = answer.outcome(), answer.question
        if asked is not None:
            # Others are decided after those before them were assumed, which is not done yet.
            world = self._intake.store.snapshot_for(asked.own) if alone and outcome.reason else None
            self._found[unit] = _Found(outcome, partial(self._explain, asked, world))
            return
        part = next((one for one in self._parts.values() if one.handler is handler), ReplayPart())
        self._found[unit] = _Found(outcome, partial(part.explain, unit, outcome.reason))

    def _explain(self, asked: Decide, world: Snapshot | None) -> Explanation:
        world = world or self._intake.store.snapshot_for(asked.own)
        return explain(asked.claims, world, nodes=None if asked.nodes is None else tuple(asked.nodes))

    def _unsuited(self, pod: ObjectKey) -> Blocked | None:
        return next(filter(None, (part.keeps_from_gang(pod) for part in self._parts.values())), None)


class NoQueue(Queue[Unit]):
    """Nothing is taken from it: the journal says which units are decided."""

    def __init__(self) -> None:
        super().__init__(base=0.0, cap=0.0, random=lambda: 0.0)

    def put(self, *_: object, **__: object) -> None:
        pass

    def wake(self, *_: object) -> None:
        pass


class _ClaimsAtOnce(BackgroundSearch):
    """Answers every question on the spot."""

    def answer(self, unit: Unit, question: Decide) -> Granted | Refusal:  # noqa: ARG002
        return self._decider.answer(question, self._store.snapshot_for(question.own))


class _GangsAtOnce(GangSearch):
    """Answers every question on the spot."""

    def answer(self, solve: Solve) -> Answer:
        return self.on_loop(solve, UNLIMITED)
