"""Making room: who has to leave for one large partition, and for a gang of whole nodes."""

from collections.abc import Iterator, Sequence
from time import perf_counter, thread_time

import numpy as np
from numpy.random import Generator, default_rng

from perf.deciding import Decider, Wrong, read_claim
from perf.fleets import mig, racks
from perf.fleets.objects import Json, claim
from perf.workload import Figure, Outcome, Progress, Size, Workload
from perf.workloads.mig import drawn_profiles
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.gangs.kinds import GangQuestion, Member
from reconciler.analysis.relocation.make_room import Advice, make_room
from reconciler.analysis.world import Wanted, WantedGang, WantedPod, World, world_of
from reconciler.api.objects.claims import ConsumerReference, ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey, GangSource
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read

SEED = 18
FULL = 0.85
PRIORITIES = (0, 100, 1000)
WANTED = 500
"""Priority of what is wanted: pods of 1000 stay"""
SLICES = 7
SLICES_OF = {name: int(name[0]) for name in mig.PROFILES}


def partition(size: Size, progress: Progress) -> Outcome:
    """One 7g is wanted on a fleet that many claims have come to and left."""
    world = world_of([*map(read, mig.fleet(size["nodes"])), *_churned(size["nodes"])], Semantics())
    wanted = []
    for number in range(size["questions"]):
        one = read_claim(claim(f"wanted-{number}", [mig.partition("whole", "7g.40gb")]))
        wanted.append(WantedPod((one,), _pod(f"wanted-{number}", "", WANTED)))
    return _asked(world, wanted, progress)


def gang(size: Size, progress: Progress) -> Outcome:
    """A gang wants whole nodes of a fleet in which every node runs pods."""
    drawn = default_rng(SEED)
    machines = racks.nodes(size["nodes"], size["racks"], size["blocks"])
    world = world_of([*map(read, racks.fleet(machines)), *_everywhere(machines, drawn)], Semantics())
    wanted = []
    for number in range(size["questions"]):
        members = []
        for at in range(size["pods"]):
            name = f"gang-{number}-{at}"
            one = read_claim(racks.gpu_claim(name, racks.GPUS_A_NODE))
            members.append(Member(_pod(name, "", WANTED), (one,)))
        key = GangKey("default", GangSource.ANNOTATION, f"gang-{number}")
        wanted.append(WantedGang(GangQuestion(key, tuple(members), len(members))))
    return _asked(world, wanted, progress)


def _asked(world: World, wanted: Sequence[Wanted], progress: Progress) -> Outcome:
    """Ask for each on the same state. The first question also compiles selectors, and is not counted."""
    seconds, processor, found = [], [], []
    for number, one in enumerate(wanted):
        busy, began = thread_time(), perf_counter()
        advice = make_room(one, world)
        seconds.append(perf_counter() - began)
        processor.append(thread_time() - busy)
        if not advice.fits or not advice.victims:
            raise Wrong(f"room must be possible, and needed: {advice.refusal}")
        found.append(advice)
        progress(number + 1, len(wanted))
    return Outcome(list(_figures(seconds, processor, found)))


def _figures(seconds: list[float], processor: list[float], found: list[Advice]) -> Iterator[Figure]:
    for name, each in (("advice", seconds), ("advice, processor", processor)):
        p50, most = (np.percentile(each[1:] or each, [50, 100]) * 1e3).tolist()
        yield Figure(f"{name} p50", p50, "ms")
        yield Figure(f"{name} max", most, "ms")
    yield Figure("pods to evict", found[0].cost.pods, "pods", "")
    yield Figure("costs proved to be the least", len(found[0].proved), "of 7", "")


def _churned(nodes: int) -> Iterator[ApiObject]:
    """Claims and pods after many came and left, on nodes at random; no whole GPU is left."""
    decider, drawn = Decider.over(mig.fleet(nodes)), default_rng(SEED)
    names = decider.store.snapshot().topology.order
    capacity = nodes * mig.GPUS_A_NODE * SLICES
    held: list[tuple[ResourceClaim, Granted, int]] = []
    used = arrived = 0
    profiles = iter(drawn_profiles(capacity * 20))
    while arrived < capacity:  # each GPU sees several generations of claims
        arrived += 1
        while used > FULL * capacity:
            one, granted, slices = held.pop(int(drawn.integers(len(held))))
            for plan in granted.plans:
                decider.store.forget(plan)
            used -= slices
        profile = next(profiles)
        one = read_claim(claim(f"c-{arrived}", [mig.partition("p", profile)]))
        node = names[int(drawn.integers(len(names)))]
        outcome = allocate([one], decider.store.snapshot(), nodes=[node])
        if isinstance(outcome, Granted):
            decider.store.assume(outcome.plans[0])
            held.append((one, outcome, SLICES_OF[profile]))
            used += SLICES_OF[profile]
    while isinstance(outcome := decider.decide(one := _whole(len(held))), Granted):
        held.append((one, outcome, SLICES))
    for one, granted, _ in held:
        yield from running(one, granted, int(drawn.choice(PRIORITIES)))


def _whole(number: int) -> ResourceClaim:
    return read_claim(claim(f"last-{number}", [mig.partition("p", "7g.40gb")]))


def _everywhere(machines: Sequence[Json], drawn: Generator) -> Iterator[ApiObject]:
    """Pods with 1 to 4 GPUs on every node, until it is nearly full."""
    decider = Decider.over(racks.fleet(list(machines)))
    for raw in machines:
        node, left = raw["metadata"]["name"], racks.GPUS_A_NODE
        while left > 0:
            gpus = min(int(drawn.choice([1, 2, 4])), left)
            left -= gpus
            one = read_claim(racks.gpu_claim(f"{node}-{left}", gpus))
            outcome = allocate([one], decider.store.snapshot(), nodes=[node])
            assert isinstance(outcome, Granted)
            decider.store.assume(outcome.plans[0])
            yield from running(one, outcome, int(drawn.choice(PRIORITIES, p=[0.6, 0.3, 0.1])))


def running(one: ResourceClaim, granted: Granted, priority: int) -> Iterator[ApiObject]:
    """A claim with its devices, and its pod."""
    name = one.key.name
    user = ConsumerReference(resource="pods", name=name, uid=f"uid-pod-{name}")
    status = one.status.model_copy(
        update={"allocation": granted.plans[0].allocation, "reserved_for": (user,)}
    )
    yield one.model_copy(update={"status": status})
    yield _pod(name, granted.node, priority)


def _pod(name: str, node: str, priority: int) -> Pod:
    raw = racks.pod(name)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    raw["metadata"]["ownerReferences"] = [owner]
    raw["spec"] |= {"priority": priority, "nodeName": node}
    raw["spec"]["containers"][0]["resources"] = {}
    if node:
        raw["spec"]["schedulingGates"] = []
    found = read(raw)
    assert isinstance(found, Pod)
    return found


def room(size: Size, progress: Progress) -> Outcome:
    """One of the cases."""
    return (partition, gang)[size["case"]](size, progress)


_RACKS = {"racks": 160, "blocks": 8}
WORKLOADS = [
    Workload(
        "make-room",
        "who has to leave: for a 7g.40gb on a churned fleet, and for a gang of whole nodes",
        room,
        {
            "7g on 10,400 partitions": {**_RACKS, "case": 0, "nodes": 50, "pods": 1, "questions": 20},
            "gang of 16 x 8 on 1,250 nodes": {
                **_RACKS,
                "case": 1,
                "nodes": 1250,
                "pods": 16,
                "questions": 4,
            },
        },
        tiny={**_RACKS, "case": 0, "nodes": 3, "pods": 1, "questions": 2},
    ),
]
