"""Small fleets and sets of pods from a seed; the sets placed pod by pod; and an audit of answers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.placement.placing import Placement
from reconciler.analysis.fitting.question import FitQuestion, PodSet, SetFit, question_in
from reconciler.analysis.world import world_of
from reconciler.api.manifests.bundle import bundle
from reconciler.api.manifests.documents import Document, Origin
from reconciler.api.objects.claims import Allocation
from reconciler.api.objects.plan import Granted, Plan
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.state.trial import Trial
from tests.tools.builders import (
    Object,
    claim,
    counter_slice,
    device,
    device_class,
    hold,
    match,
    request,
    resource_slice,
)
from tests.tools.builders import held as held_by
from tests.tools.scenario import machine, sized

PARTS = {"whole": range(4), "half-0": range(2), "half-1": range(2, 4), **{f"q-{n}": [n] for n in range(4)}}
"""A device that can be cut, by the slices that each part draws"""
RACK = "rack"


@dataclass
class Part:
    """A device as the audit knows it."""

    node: str
    profile: str
    draws: frozenset[tuple[str, int]]
    """(card, slice)"""


@dataclass
class FitWorld:
    """A fleet with some held devices, and what is asked."""

    objects: list[Object]
    parts: dict[tuple[str, str], Part]
    """(pool, device) -> what it is"""
    held: list[tuple[str, str]]
    racks: dict[str, str]
    cpu: dict[str, int]
    raw: Object
    templates: list[Object]
    wants: dict[str, list[tuple[str, int]]]
    """Set -> profile and count of each request of a pod"""
    cpus: dict[str, int]
    apart: dict[str, bool]
    """Set -> whether its pods exclude each other on a node"""
    question: FitQuestion = field(init=False)

    def __post_init__(self) -> None:
        documents = [Document(Origin("test"), one) for one in (self.raw, *self.templates)]
        self.question = question_in(bundle(documents))

    def trial(self) -> Trial:
        """A trial on the fleet."""
        return world_of(map(read, self.objects), Semantics()).trial()


def fit_world(seed: int) -> FitWorld:
    """The world of a seed."""
    random = Random(seed)
    objects: list[Object] = [device_class()]
    objects += [
        device_class(name, f'device.attributes["d"].size == "{name}"') for name in ("whole", "half", "q")
    ]
    parts: dict[tuple[str, str], Part] = {}
    racks: dict[str, str] = {}
    cpu: dict[str, int] = {}
    for node in [f"n{at}" for at in range(random.randint(1, 5))]:
        racks[node], cpu[node] = random.choice(["r0", "r0", "r1", ""]), random.randint(1, 6)
        made = machine(node)
        made["metadata"]["labels"] |= {RACK: racks[node]} if racks[node] else {}
        objects.append(sized(made, cpu=str(cpu[node]), pods="20"))
        cut = random.random() < 0.6
        cards = [f"g{n}" for n in range(random.randint(1, 2 if cut else 4))]
        found: list[Object] = []
        for card in cards:
            for name, slices in PARTS.items() if cut else [("whole", [])]:
                drawn = {card: {f"s{at}": 1 for at in slices}} if cut else None
                profile = name.partition("-")[0]
                found.append(device(f"{card}-{name}", {"size": profile, "card": card}, draws=drawn))
                parts[node, f"{card}-{name}"] = Part(node, profile, frozenset((card, at) for at in slices))
        random.shuffle(found)
        if cut:
            sets = {card: {f"s{at}": 1 for at in range(4)} for card in cards}
            objects.append(counter_slice(f"c-{node}", sets, pool=node, slices=2, nodeName=node))
        objects.append(resource_slice(f"s-{node}", found, pool=node, slices=2 if cut else 1, nodeName=node))
    held: list[tuple[str, str]] = []
    for key, part in random.sample(sorted(parts.items()), min(len(parts), random.randint(0, 3))):
        if not any(parts[one].node == part.node and parts[one].draws & part.draws for one in held):
            held.append(key)
            status = held_by(f"held-{len(held)}", hold(key[1], pool=key[0]))
            objects.append(status)
    return _asked(random, objects, parts, held, racks, cpu)


def _asked(
    random: Random,
    objects: list[Object],
    parts: dict[tuple[str, str], Part],
    held: list[tuple[str, str]],
    racks: dict[str, str],
    cpu: dict[str, int],
) -> FitWorld:
    sets: list[Object] = []
    templates: list[Object] = []
    wants: dict[str, list[tuple[str, int]]] = {}
    cpus: dict[str, int] = {}
    apart: dict[str, bool] = {}
    for at in range(random.randint(1, 3)):
        name = f"set-{at}"
        cpus[name], apart[name] = random.randint(0, 2), random.random() < 0.15
        wants[name] = [
            (random.choice(["whole", "half", "q"]), random.choice([1, 1, 1, 2]))
            for _ in range(random.choice([0, 1, 1, 1, 1, 2]))
        ]
        requests = [request(f"r{n}", count, device_class=kind) for n, (kind, count) in enumerate(wants[name])]
        constraints = [match("d/card")] if wants[name] and random.random() < 0.15 else []
        raw = claim(name, *requests, constraints=constraints)
        templates.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"spec": raw["spec"]},
            }
        )
        count = random.randint(1, 4)
        spec: Object = {
            "containers": [{"name": "m", "resources": {"requests": {"cpu": str(cpus[name])}}}],
            "resourceClaims": [{"name": "d", "resourceClaimTemplateName": name}] if requests else [],
        }
        if apart[name]:
            term = {"labelSelector": {"matchLabels": {"set": name}}, "topologyKey": "kubernetes.io/hostname"}
            rule = "requiredDuringSchedulingIgnoredDuringExecution"
            spec["affinity"] = {"podAntiAffinity": {rule: [term]}}
        keys = random.choice([[], [], [RACK], ["kubernetes.io/hostname", RACK]])
        sets.append(
            {
                "name": name,
                "count": count,
                "minCount": random.choice([1, 1, count]),
                "topology": [{"key": key, "required": random.random() < 0.5} for key in keys],
                "template": {"metadata": {"labels": {"set": name}}, "spec": spec},
            }
        )
    request_ = {"apiVersion": "dra-reconciler.io/v1alpha1", "kind": "FitRequest", "podSets": sets}
    return FitWorld(objects, parts, held, racks, cpu, request_, templates, wants, cpus, apart)


def one_by_one(asked: PodSet, trial: Trial, among: dict[str, str]) -> int:
    """How many pods of a set fit if each is decided alone after those before it, on nodes with these labels.

    The trial is as before on return.
    """
    mark, placed = trial.mark(), 0
    placement = Placement(trial.nodes, supposed=False)
    for number in range(asked.count):
        pod, claims = asked.pod_at(number), asked.claims_at(number)
        pod = pod.model_copy(update={"spec": pod.spec.model_copy(update={"node_selector": among})})
        snapshot = trial.snapshot
        nodes = placement.for_pod(pod, (), snapshot).nodes
        if not claims:
            names = list(snapshot.topology.order if nodes is None else nodes)
            if not names:
                break
            trial.host(pod, names[0])
        else:
            outcome = decide(claims, snapshot, nodes=nodes)
            del snapshot
            if not isinstance(outcome, Granted):
                break
            trial.place(outcome.plans, pod, outcome.node)
        placed += 1
    trial.back_to(mark)
    return placed


def hold_seats(asked: PodSet, found: SetFit, trial: Trial) -> None:
    """Place the seats of an answer in a trial."""
    for number, seat in enumerate(found.seats):
        given = iter(seat.devices)
        for one in asked.claims_at(number):
            results = [
                {"request": request.name, **next(given)._asdict()}
                for request in one.spec.devices.requests
                for _ in range(request.exactly.wanted if request.exactly is not None else 0)
            ]
            allocation = Allocation.model_validate({"devices": {"results": results}})
            trial.assume(Plan(one.key, one.metadata.uid, "", seat.node, allocation))
        trial.host(asked.pod_at(number), seat.node)


def wrong(world: FitWorld, answers: Sequence[SetFit]) -> list[str]:
    """What is impossible about an answer. Knows the fleet only, nothing of the engine."""
    found: list[str] = []
    devices = Counter(world.held)
    drawn = Counter((world.parts[key].node, *draw) for key in world.held for draw in world.parts[key].draws)
    cpu: Counter[str] = Counter()
    for asked, one in zip(world.question.sets, answers, strict=True):
        if not (len(one.seats) == 0 or asked.least <= len(one.seats) <= asked.count):
            found.append(f"{one.name}: {len(one.seats)} seats")
        if (one.short is None) != (len(one.seats) == asked.count):
            found.append(f"{one.name}: {one.short}")
        for seat in one.seats:
            cpu[seat.node] += world.cpus[one.name]
            expected = [kind for kind, count in world.wants[one.name] for _ in range(count)]
            given = [(device.pool, device.device) for device in seat.devices]
            if [world.parts[key].profile for key in given] != expected:
                found.append(f"{one.name}: {given} for {expected}")
            for key in given:
                if world.parts[key].node != seat.node:
                    found.append(f"{one.name}: {key} on {seat.node}")
                devices[key] += 1
                drawn.update((seat.node, *draw) for draw in world.parts[key].draws)
        nodes = [seat.node for seat in one.seats]
        if world.apart[one.name] and len(set(nodes)) < len(nodes):
            found.append(f"{one.name}: two pods on a node")
        found += [
            f"{one.name}: {tier.key} is not shared by {nodes}"
            for tier in asked.tiers
            if tier.required and nodes and not _shared(tier.key, nodes, world)
        ]
    found += [f"{key} is given twice" for key, times in devices.items() if times > 1]
    found += [f"{key} is overdrawn" for key, times in drawn.items() if times > 1]
    found += [f"{node} is too small" for node, used in cpu.items() if used > world.cpu[node]]
    return found


def _shared(key: str, nodes: Sequence[str], world: FitWorld) -> bool:
    values = {world.racks[node] if key == RACK else node for node in nodes}
    return len(values) == 1 and "" not in values


def domains(asked: PodSet, world: FitWorld) -> list[dict[str, str]]:
    """The labels of each domain of the required tiers; one without labels if there are none."""
    required = [tier.key for tier in asked.tiers if tier.required]
    found = [
        {key: world.racks[node] if key == RACK else node for key in required} for node in sorted(world.racks)
    ]
    return [one for at, one in enumerate(found) if all(one.values()) and one not in found[:at]]
