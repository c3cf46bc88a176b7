"""Hard questions of gangs and of making room, with exact answers by trying everything, or CP-SAT.

Each pod has a claim as hard questions have it (`perf.fleets.hard`). What fits on one node is asked exactly;
which pods go where, and who leaves, is tried out. `make soak` asks thousands:
python -m tests.tools.hard_groups --first 0 --cases 2000
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import combinations
from random import Random

import click

from perf.fleets.hard import FAMILIES, SMALL, Question, Scale, question
from perf.hard_solver import solve
from reconciler.allocation.dra.budget import STEPS, UNLIMITED
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import GangGranted, GangQuestion, Member
from reconciler.analysis import world as analysis_world
from reconciler.analysis.relocation.make_room import make_room
from reconciler.analysis.world import WantedPod
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey, GangSource
from reconciler.api.objects.plan import Reason
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from tests.tools.allocation_checker import problems
from tests.tools.builders import Object
from tests.tools.exhaustive_search import TooLarge, exhaustive
from tests.tools.hard_twin import world_of
from tests.tools.scenario import asking, machine, sized

SCALE = Scale(gpus=(1, 2), nodes=(1, 2, 3), requests=(1, 3), shapes=SMALL, mixed=True)
MOST_RUNNING = 6
"""Pods that may leave"""


class Unsettled(Exception):
    """There is too much to try, and no solver."""


def on_node(asked: Question, name: str, claims: Sequence[Object], held: Sequence[Object]) -> Question:
    """The same devices, as far as they are on a node."""
    fleet = [
        one
        for one in asked.fleet
        if one["kind"] == "DeviceClass"
        or (one["metadata"]["name"] if one["kind"] == "Node" else one["spec"]["nodeName"]) == name
    ]
    return asked._replace(fleet=fleet, claims=[*claims], held=[one for one in held if node_of(one) == name])


def node_of(held: Object) -> str:
    """The node of the device of a claim."""
    name: str = held["status"]["allocation"]["devices"]["results"][0]["pool"]
    return name


def fits(asked: Question) -> bool:
    """Whether devices exist for all claims on the only node. Raises Unsettled."""
    try:
        return exhaustive(world_of(asked), _nodes(asked)[0], limit=5_000) is not None
    except TooLarge:
        try:
            found, _ = solve(asked)
        except click.UsageError:  # no OR-Tools
            found = None
        if found is None:
            raise Unsettled from None
        return found


def _nodes(asked: Question) -> list[str]:
    return [one["metadata"]["name"] for one in asked.fleet if one["kind"] == "Node"]


def _state(asked: Question, *more: Object) -> analysis_world.World:
    sizes = [sized(machine(name), cpu="64") for name in _nodes(asked)]
    fleet = [one for one in asked.fleet if one["kind"] != "Node"]
    return analysis_world.world_of([read(one) for one in (*fleet, *sizes, *asked.held, *more)], Semantics())


def _pod(name: str) -> Object:
    made = asking(name, name)
    made["metadata"]["uid"] = name
    return made


# -- Gangs


def gang_question(seed: int) -> Question:
    """Claims of two to four pods; in every second question they are equal."""
    rnd = Random(seed)
    asked = question(rnd, FAMILIES[seed % len(FAMILIES)], SCALE, (0.0, 0.5)[seed // 7 % 2], rnd.randint(2, 4))
    if seed % 2:
        spec = asked.claims[0]["spec"]
        asked = asked._replace(claims=[{**one, "spec": spec} for one in asked.claims])
    return asked


def most_placed(asked: Question) -> str:
    """The most pods that get a node and devices. Raises Unsettled."""
    names = _nodes(asked)

    @cache
    def together(name: str, specs: tuple[str, ...]) -> bool:
        members = [next(one for one in asked.claims if str(one["spec"]) == spec) for spec in specs]
        claims = [{**one, "metadata": {"name": f"c{at}"}} for at, one in enumerate(members)]
        smaller = all(together(name, less) for less in combinations(specs, len(specs) - 1)) if specs else True
        return not specs or (smaller and fits(on_node(asked, name, claims, asked.held)))

    def most(at: int, pods: frozenset[int]) -> int:
        if at == len(names) or not pods:
            return 0
        found = 0
        for count in range(len(pods) + 1):
            for chosen in combinations(sorted(pods), count):
                specs = sorted([str(asked.claims[pod]["spec"]) for pod in chosen])
                if together(names[at], tuple(specs)):
                    found = max(found, count + most(at + 1, pods - set(chosen)))
        return found

    return str(most(0, frozenset(range(len(asked.claims)))))


def placed(asked: Question) -> str:
    """The same, by the search for gangs; another text if the answer breaks a rule or gives up."""
    members = []
    for raw in asked.claims:
        claim, pod = read(raw), read(_pod(raw["metadata"]["name"]))
        assert isinstance(claim, ResourceClaim)
        assert isinstance(pod, Pod)
        members.append(Member(pod, (claim,)))
    wanted = GangQuestion(GangKey("default", GangSource.ANNOTATION, "g"), tuple(members), 1)
    with _state(asked).trial() as trial:
        answer = decide_gang(wanted, trial, steps=STEPS, budget=UNLIMITED)
    if not isinstance(answer, GangGranted):
        return f"gave up: {answer.message}" if answer.reason is Reason.GAVE_UP else "0"
    for name in {seat.node for seat in answer.seats}:
        plans = [plan for seat in answer.seats if seat.node == name for plan in seat.plans]
        names = [plan.claim.name for plan in plans]
        claims = [next(one for one in asked.claims if one["metadata"]["name"] == want) for want in names]
        if wrong := problems(world_of(on_node(asked, name, claims, asked.held)), plans):
            return f"{name}: {wrong}"
    return str(len(answer.seats))


# -- Making room


def room_question(seed: int) -> tuple[Question, list[Object]]:
    """Claims of one pod, and the running pods that may leave: each holds some of the held claims."""
    rnd = Random(seed)
    asked = question(rnd, FAMILIES[seed % len(FAMILIES)], SCALE, 1.0)
    running: list[Object] = []
    for name in _nodes(asked):
        mine = [one for one in asked.held if node_of(one) == name]
        while mine and len(running) < MOST_RUNNING:
            number = rnd.randint(1, 3)
            taken, mine = mine[:number], mine[number:]
            who = f"p{len(running)}"
            pod = asking(
                who,
                *(one["metadata"]["name"] for one in taken),
                nodeName=name,
                schedulingGates=[],
                priority=rnd.choice([0, 0, 5]),
            )
            pod["metadata"]["uid"] = who
            running.append(pod)
            for one in taken:
                one["status"]["reservedFor"] = [{"resource": "pods", "name": who, "uid": who}]
    return asked, running


def price(pods: Sequence[Object]) -> tuple[int, int]:
    """What it costs that pods leave: the highest priority, and the sum of all, each from its least on."""
    found = [one["spec"]["priority"] for one in pods]
    return max(found, default=-1), sum([one + 2**31 for one in found])


def _told(pods: Sequence[Object]) -> str:
    """How many pods leave, and the sum of their priorities."""
    return f"{len(pods)}:{sum([one['spec']['priority'] for one in pods])}"


def _still_held(asked: Question, pods: Iterable[Object]) -> list[Object]:
    """What is held when pods have left."""
    gone = {one["metadata"]["uid"] for one in pods}
    return [
        one
        for one in asked.held
        if gone.isdisjoint(user["uid"] for user in one["status"].get("reservedFor", ()))
    ]


def fits_without(asked: Question, pods: Iterable[Object], known: dict[object, bool]) -> bool:
    """Whether all claims fit on some node when pods have left. Raises Unsettled."""
    held = _still_held(asked, pods)
    for name in _nodes(asked):
        here = on_node(asked, name, asked.claims, held)
        key = name, tuple([one["metadata"]["name"] for one in here.held])
        if key not in known:
            known[key] = fits(here)
        if known[key]:
            return True
    return False


def cheapest(asked: Question, running: Sequence[Object]) -> str:
    """The pods of least price without which all claims fit; `-` if there are none. Raises Unsettled."""
    known: dict[object, bool] = {}
    if not fits_without(asked, running, known):
        return "-"
    sets = [pods for count in range(len(running) + 1) for pods in combinations(running, count)]
    return next(_told(pods) for pods in sorted(sets, key=price) if fits_without(asked, pods, known))


def advised(asked: Question, running: Sequence[Object]) -> str:
    """The same, by the planner; another text if the answer breaks a rule or is not proved."""
    claims = tuple([one for raw in asked.claims if isinstance(one := read(raw), ResourceClaim)])
    pod = read(asking("w", *(one.metadata.name for one in claims), priority=10))
    assert isinstance(pod, Pod)
    advice = make_room(WantedPod(claims, pod), _state(asked, *running))
    if not advice.optimal:
        return f"not proved: {advice.refusal or advice.victims}"
    if not advice.fits:
        return "-"
    leaving = [one for one in running if one["metadata"]["name"] in {key.name for key in advice.victims}]
    (place,) = advice.places
    here = on_node(asked, place.node, asked.claims, _still_held(asked, leaving))
    wrong = problems(world_of(here), place.plans)
    return f"{place.node}: {wrong}" if wrong else _told(leaving)


# -- Both


def answers(kind: str, seed: int) -> tuple[str, Callable[[], str]]:
    """Our answer to a question of a kind of `KINDS`, and what finds the exact one."""
    if kind == "gang":
        asked = gang_question(seed)
        return placed(asked), lambda: most_placed(asked)
    asked, running = room_question(seed)
    return advised(asked, running), lambda: cheapest(asked, running)


KINDS = ("gang", "room")


@click.command()
@click.option("--first", default=0, help="The first seed.")
@click.option("--cases", default=2000, help="How many questions of each kind are asked.")
def main(first: int, cases: int) -> None:
    """Compare many answers, and print each that is wrong."""
    wrong = False
    for kind in KINDS:
        settled = Counter[str]()
        for seed in range(first, first + cases):
            ours, exact = answers(kind, seed)
            try:
                expected = exact()
            except Unsettled:
                expected = "unsettled"
            if expected not in (ours, "unsettled") or " " in ours:
                wrong = True
                click.echo(f"{kind} {seed}: {ours}, not {expected}")
            settled[expected] += 1
        click.echo(f"{kind}: {', '.join(f'{count} times {what}' for what, count in sorted(settled.items()))}")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
