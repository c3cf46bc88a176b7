"""`dra-reconciler make-room`: which pods have to leave so that something fits."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TextIO

import click
from msgspec.structs import replace

from reconciler.analysis.relocation.drain import DrainAnswer
from reconciler.analysis.relocation.leaving import Move
from reconciler.analysis.relocation.make_room import COSTS, TRIES, Advice
from reconciler.analysis.relocation.make_room import make_room as find_room
from reconciler.analysis.world import Place
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.connection import Connection
from reconciler.cli.exits import NoAnswer, errors_as, exit_unless
from reconciler.cli.names import completing
from reconciler.cli.options import fleet_options, namespace_of, namespace_option
from reconciler.cli.output import Console, Table, echo_value, print_line, print_table, track_progress
from reconciler.cli.world import Asking, Waiting, read_world
from reconciler.errors import counted


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
    if output == "table":
        print_advice(advice, sys.stdout)
    else:
        echo_value(advice.as_json(), output)
    exit_unless(advice.fits)


def _print_message(key: ObjectKey, waiting: Waiting, output: str) -> None:
    if output == "table":
        print_line(Console(sys.stdout), f"{key}: {waiting.message}")
    else:
        echo_value({"wanted": str(key), "fits": waiting.placed, "message": waiting.message}, output)


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


def print_drain(answer: DrainAnswer, out: TextIO) -> None:
    """Print the verdict, then the steps in order, then what cannot go."""
    console = Console(out)
    moving = [step for step in answer.steps if step.move.refusal is None]
    if not answer.steps and not answer.unused:
        print_line(console, "empty: nothing that has to go elsewhere")
    elif answer.empties:
        print_line(console, f"can be emptied, in this order: {counted(len(moving), 'step')}")
    else:
        what = "cannot be emptied" if not answer.gave_up else "no way found to empty it, a search gave up"
        how = "" if answer.proved else "; another order might help"
        left = len(answer.stuck) + len(answer.unused)
        print_line(console, f"{what}: {left} of {len(answer.steps) + len(answer.unused)}{how}")
    for step in moving:
        if step.waits_for:
            pods = ", ".join(map(str, step.move.unit.pods))
            print_line(console, f"budget {step.waits_for[0]} allows no eviction now: {pods}")
    if answer.ignored:
        print_line(console, f"stay with their node: {', '.join(map(str, answer.ignored))}")
    for claim in answer.unused:
        print_line(console, f"claim {claim} holds devices without a pod: deallocate or delete it")
    for heading, steps in (("GOES TO", moving), ("COULD GO TO", answer.stuck)):
        if steps:
            console.print()
            print_table(console, leaving_table((step.move for step in steps), answer.devices, heading))


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
