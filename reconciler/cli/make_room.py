"""`dra-reconciler make-room`: which pods have to leave so that something fits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TextIO

import click
from msgspec.structs import replace

from reconciler.allocation.placement.order import queue_key
from reconciler.analysis.relocation.leaving import Move
from reconciler.analysis.relocation.make_room import COSTS, TRIES, Advice
from reconciler.analysis.relocation.make_room import make_room as find_room
from reconciler.analysis.world import Place, Wanted, WantedGang, WantedPod, World
from reconciler.api.objects.core import is_live
from reconciler.api.objects.gangs import GangKey, gang_of
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.similar_names import similar_key
from reconciler.api.plugins import serving
from reconciler.cli.connection import Connection
from reconciler.cli.exits import NoAnswer, errors_as, exit_unless
from reconciler.cli.names import completing
from reconciler.cli.options import fleet_options, namespace_of, namespace_option
from reconciler.cli.output import Console, Table, print_line, print_table, show, track_progress
from reconciler.cli.world import read_world
from reconciler.control.gangs.planner import GangPlanner, GiveBack, Solve
from reconciler.control.handler import Blocked, Decide
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Planner
from reconciler.control.units import GangRoster, Kind, Roster, Unit, UnitLookup, gang_unit
from reconciler.errors import counted


class Waiting(NamedTuple):
    """What is asked about, or why there is nothing to ask."""

    wanted: Wanted | None
    message: str = ""
    placed: bool = False
    """Without a question: whether it has its devices"""


@click.command("make-room")
@click.argument("target", metavar="[NAMESPACE/]NAME", shell_complete=completing("ResourceClaim"))
@namespace_option
@click.option("--pod", "of_pod", is_flag=True, help="The name is that of a pod.")
@click.option("--gang", "of_gang", is_flag=True, help="The name is that of a gang.")
@click.option(
    "--priority",
    type=int,
    help="Priority to assume.  [default: that of the pod; 0 for a claim without a pod]",
)
@click.option("--moves-only", is_flag=True, help="Nobody loses a place: all that leave fit elsewhere.")
@click.option(
    "--tries",
    type=click.IntRange(min=1),
    default=TRIES,
    show_default=True,
    help="Sets of pods to try before the search gives up.",
)
@fleet_options("table", "json", "yaml")
def make_room(
    target: str,
    namespace: str | None,
    of_pod: bool,
    of_gang: bool,
    priority: int | None,
    moves_only: bool,
    tries: int,
    files: tuple[str, ...],
    connection: Connection,
    output: str,
    rules: Semantics,
) -> None:
    """Find the cheapest pods to evict so that a pending claim, pod or gang fits. Writes nothing.

    Only pods of lower priority leave, whole gangs or down to their minimum. The cheapest set violates the
    fewest budgets, then spares high priorities, then is the smallest; see docs/make-room.md. Also says where
    those that leave could go. Other pending claims do not come first.

    \b
    Examples:
      dra-reconciler make-room inference/vision
      dra-reconciler make-room --pod training/trainer -f manifests/
    """
    if of_pod and of_gang:
        raise click.UsageError("The name is that of a pod or of a gang, not both.")
    before, _, name = target.rpartition("/")
    if not name or "/" in before:
        raise click.UsageError(f"{target!r} is not a name: write NAME or NAMESPACE/NAME.")
    with errors_as(NoAnswer), track_progress(quiet=output != "table") as progress:
        key = ObjectKey(before or namespace_of(namespace, connection, in_cluster=not files), name)
        world = read_world(files, connection, rules, progress, budgets=True)
        asking = Asking(world)
        if of_gang:
            waiting = asking.gang(key, priority)
        else:
            waiting = asking.pod(key, priority) if of_pod else asking.claim(key, priority)
        if waiting.wanted is None:
            _print_message(key, waiting, output)
            exit_unless(waiting.placed)
            return
        progress.stage("making room")
        world = replace(world, own=waiting.wanted.own)
        advice = find_room(waiting.wanted, world, moves_only=moves_only, tries=tries)
    show(output, partial(print_advice, advice), advice.as_json)
    exit_unless(advice.fits)


def _print_message(key: ObjectKey, waiting: Waiting, output: str) -> None:
    said = {"wanted": str(key), "fits": waiting.placed, "message": waiting.message}
    show(output, lambda out: print_line(Console(out), f"{key}: {waiting.message}"), lambda: said)


def print_advice(advice: Advice, out: TextIO) -> None:
    """Print the verdict, then who leaves and where those could go, then where it fits."""
    console = Console(out)
    for line in _verdict(advice):
        print_line(console, line)
    if advice.moves:
        console.print()
        print_table(console, leaving_table(advice.moves, advice.devices or {}))
    if advice.places:
        console.print()
        print_table(console, places_table(advice.places))


def _verdict(advice: Advice) -> Iterator[str]:
    if advice.refusal is not None:
        verdict = "no room can be made" if advice.optimal else "no room was found"
        yield f"{verdict}: {advice.wanted}: {advice.refusal.reason}: {advice.refusal.message}"
    elif advice.victims:
        pods = counted(len(advice.victims), "pod")
        yield f"fits without {pods} of lower priority: {advice.wanted}"
        yield _proof(advice)
        for key, count in (advice.violated or {}).items():
            yield f"budget {key} does not allow {counted(count, 'eviction')} of these"
    else:
        yield f"fits now: {advice.wanted}" if not advice.leaving else f"will fit: {advice.wanted}"
    if advice.leaving:
        yield f"being deleted, counted as gone: {', '.join(map(str, advice.leaving))}"


def _proof(advice: Advice) -> str:
    if advice.optimal:
        return "proved: nothing costs less"
    if not advice.proved:
        return "not proved: something else may cost less"
    said = {
        "violations": "violates fewer budgets",
        "highestPriority": "spares higher priorities",
        "priorities": "has less priority in total",
        "pods": "is smaller",
        "groups": "takes fewer whole groups",
        "started": "spares those that ran longer",
        "devices": "frees fewer devices that nobody needs",
        "names": "comes first by name",
    }
    known = [said[one] for one in COSTS if one in advice.proved]
    return f"proved: no other set {', or '.join(known)}; the rest is not proved"


def leaving_table(
    moves: Iterable[Move], devices: Mapping[ObjectKey, Sequence[DeviceID]], where: str = "COULD GO TO"
) -> Table:
    """Who leaves, what that frees, and where they could go."""
    table = Table(("EVICT", "FREES", where))
    for move in moves:
        unit = move.unit
        name = "\n".join(map(str, unit.pods))
        freed = [str(device) for claim in unit.claims for device in devices.get(claim, ())]
        table.add((name, "\n".join(freed) or "-", _where(move)))
    return table


def _where(move: Move) -> str:
    if move.refusal is not None:
        return f"nowhere: {move.refusal.reason}: {move.refusal.message}"
    return "\n".join(_line(place) for place in move.places)


def _line(place: Place) -> str:
    devices = [str(one.id) for plan in place.plans for one in plan.allocation.devices.results]
    return ", ".join([place.node or "no node", *devices])


def places_table(places: Iterable[Place]) -> Table:
    """Where something fits."""
    table = Table(("POD", "CLAIM", "REQUEST", "DEVICE", "NODE"), names=2)
    for one in places:
        pod, node = str(one.pod) if one.pod is not None else "-", one.node or "-"
        rows = [
            (pod, str(plan.claim), result.request, str(result.id), node)
            for plan in one.plans
            for result in plan.allocation.devices.results
        ]
        for row in rows or [(pod, "-", "-", "-", node)]:
            table.add(row)
    return table


class Asking:
    """Finds out what something waits for, as the reconciler would."""

    def __init__(self, world: World) -> None:
        self._world, self._store = world, world.store
        self._roster, self._gangs = Roster(), GangRoster(world.groups)
        for key, pod in self._store.pods.items():
            self._roster.note(key, pod)
            self._gangs.note(key, pod)
        placement, ours = world.placement(), Ownership(all_claims=True, alone=True)
        self._planner = Planner(self._store, self._roster, placement, ours, ())
        units = UnitLookup(self._store, self._roster, self._gangs, world.groups)
        self._gang_planner = GangPlanner(units, self._planner, world.nodes.on_demand)

    def claim(self, key: ObjectKey, priority: int | None = None) -> Waiting:
        """What a claim waits for: with its pod, if it has one. Raises NoAnswer if it does not exist."""
        claim = self._store.claims.get(key)
        if claim is None:
            hint = "; there is a pod of that name; use --pod" if key in self._store.pods else ""
            raise NoAnswer(f"there is no claim {key}{hint or similar_key(key, self._store.claims)}")
        if claim.allocation is not None:
            return Waiting(None, "the claim is allocated", placed=True)
        users = [self._store.pods[user] for user in self._roster.users(key)]
        if users:
            return self.pod(min(users, key=queue_key).key, priority)
        return self._unit(Unit(Kind.CLAIM, key), priority)

    def pod(self, key: ObjectKey, priority: int | None = None) -> Waiting:
        """What a pod waits for: with its gang, if it is gated. Raises NoAnswer if it does not exist."""
        pod = self._store.pods.get(key)
        if pod is None:
            raise NoAnswer(f"there is no pod {key}{similar_key(key, self._store.pods)}")
        plugin = serving(pod, self._store.supply.classes)  # no objects of plugins are read here
        if not pod.spec.resource_claims and plugin is not None:
            why = f"the pod requests {plugin.title}; room is made for ResourceClaims only"
            return Waiting(None, f"{why}; `whatif --without` shows what a removal would change")
        gang = gang_of(pod)
        if gang is not None and self._gang_planner.serves(Unit(Kind.POD, key)):
            return self._gang(self._world.groups.root(gang), priority)
        return self._unit(Unit(Kind.POD, key), priority)

    def gang(self, key: ObjectKey, priority: int | None = None) -> Waiting:
        """What a gang waits for. Raises NoAnswer if it does not exist."""
        gangs = {*self._gangs.known, *self._gangs.named}
        found = sorted(gang for gang in gangs if (gang.namespace, gang.name) == tuple(key))
        if not found:
            known = [ObjectKey(gang.namespace, gang.name) for gang in gangs]
            raise NoAnswer(f"no pod is of a gang {key}{similar_key(key, known)}")
        for gang in map(self._world.groups.root, found):
            if self._gang_planner.serves(gang_unit(gang)) and self._gangs.waits(gang):
                return self._gang(gang, priority)
        return Waiting(None, "no pod of the gang waits", placed=True)

    def _gang(self, gang: GangKey, priority: int | None) -> Waiting:
        match self._gang_planner.next(gang):
            case Solve(question=question):
                return Waiting(WantedGang(question, priority))
            case Blocked(reason=reason, message=message):
                return Waiting(None, f"{reason}: {message}")
            case GiveBack(why=why):
                return Waiting(None, f"the gang is partly written and will be given back: {why}")
        return Waiting(None, "the gang has its places", placed=True)

    def _unit(self, unit: Unit, priority: int | None) -> Waiting:
        match self._planner.next(unit):
            case Decide(claims=claims, held=held, pod=pod):
                gated = pod is not None and pod.gated
                sharing = self._planner.sharing(pod, (*claims, *held)) if pod is not None and gated else ()
                ranked = self._world.groups.ranked(pod) if pod is not None else None
                return Waiting(WantedPod(claims, ranked, held, tuple(sharing), priority))
            case Blocked(reason=reason, message=message):
                return Waiting(None, f"{reason}: {message}")
        pod = self._store.pods.get(unit.key) if unit.kind is Kind.POD else None
        if pod is not None and is_live(pod):
            return Waiting(None, "the pod has no pending claims", placed=True)
        return Waiting(None, f"the {unit.kind} is finished or being deleted")
