"""Small worlds for gangs: nodes in racks and blocks, devices, and pods that run together.

Plain data, and as API objects.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from reconciler.allocation.gangs.kinds import AskedGroup, GangQuestion, Member
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.gangs import GangKey, GangSource, Tier
from reconciler.api.objects.meta import DeviceID
from reconciler.api.versions.reading import read
from reconciler.state.nodes.table import Nodes
from reconciler.state.trial import Trial
from tests.tools.builders import (
    Object,
    claim,
    counter_slice,
    device,
    device_class,
    first_of,
    match,
    resource_slice,
    selectors,
    store,
    wants,
)
from tests.tools.scenario import asking, machine, sized
from tests.tools.volume_scenarios import NO_PROVISIONER, mounting, storage_class, volume, volume_claim

CLIQUE = "d/clique"
NETWORK = ""
"""The place of a device that all nodes reach"""
ANY = "*"
KEYS = ("rack", "block", CLIQUE)


@dataclass(frozen=True)
class Device:
    """A device on a node, or on all."""

    name: str
    node: str
    kind: str
    clique: str = ""
    bus: str = ""
    draws: int = 0
    """From the only counter of its pool"""
    capacity: int = 0
    """Several claims share the device, each its part of this; 0 if one claim has it alone"""
    excludes: str = ""
    """The kind of devices of its node that may not be held beside it"""
    takes: int = 0
    """CPUs of its node that it stands for"""


@dataclass(frozen=True)
class Machine:
    """A node."""

    name: str
    rack: str
    block: str
    cpu: int
    counter: int
    devices: tuple[Device, ...]
    volumes: int = 0
    """PersistentVolumes that only this node can use"""


@dataclass(frozen=True)
class Want:
    """A claim: so many devices of a kind, or of any kind but the network's; `near`: on one bus."""

    name: str
    kind: str
    count: int
    near: bool = False
    otherwise: str = ""
    """Another kind that does, too: all devices of one kind or of the other"""
    part: int = 0
    """How much of the capacity of a shared device it consumes"""

    def suits(self, one: Device) -> bool:
        """Whether the kind of a device is right."""
        return one.kind in (self.kind, self.otherwise) or (self.kind == ANY and one.kind != "n")


@dataclass(frozen=True)
class Asking:
    """A pod of the gang."""

    name: str
    cpu: int
    wants: tuple[Want, ...]
    apart: str = ""
    """The label by whose values it keeps away from all pods of the gang; empty for none"""
    beside: str = ""
    """The label whose value it shares with a pod of the gang that is placed before it, if there is one"""
    even: str = ""
    """The label over whose values the pods of the gang are spread, with a skew of 1; empty for none"""
    volume: bool = False
    """Whether it needs one of the PersistentVolumes of its node"""


@dataclass(frozen=True)
class GangWorld:
    """A gang and where it may run."""

    machines: tuple[Machine, ...]
    network: tuple[Device, ...]
    pods: tuple[Asking, ...]
    least: int
    tiers: tuple[Tier, ...]
    placed: tuple[str, ...] = ()
    tree: AskedGroup | None = None

    def trial(self) -> Trial:
        """A trial over the world."""
        raw = [_machine(one) for one in self.machines]
        supply = [part for one in self.machines for part in _supply(one)]
        if self.network:
            supply.append(
                resource_slice("network", map(_device, self.network), pool="network", allNodes=True)
            )
        known = store(device_class(), *raw, *supply)
        nodes = Nodes()
        for one in raw:
            nodes.note(Changed("Node", Node.model_validate(one)))
        for one in self._storage():
            nodes.note(Changed(one["kind"], read(one)))
        return Trial(known, nodes, supposed=False)

    def _storage(self) -> list[Object]:
        claims = [volume_claim(pod.name, "local") for pod in self.pods if pod.volume]
        volumes = [
            volume(f"{one.name}-v{n}", one.name, "local") for one in self.machines for n in range(one.volumes)
        ]
        return [storage_class("local", NO_PROVISIONER), *claims, *volumes] if claims else []

    def question(self) -> GangQuestion:
        """What is asked."""
        claims = {want.name: _claim(want) for pod in self.pods for want in pod.wants}
        members = tuple(
            Member(_pod(pod), tuple(claims[want.name] for want in pod.wants)) for pod in self.pods
        )
        key = GangKey("default", GangSource.ANNOTATION, "g")
        return GangQuestion(key, members, self.least, self.tiers, self.placed, tree=self.tree)


def _machine(one: Machine) -> Object:
    labels: dict[str, Any] = {
        key: value for key, value in (("rack", one.rack), ("block", one.block)) if value
    }
    made = machine(one.name)
    made["metadata"]["labels"] |= labels
    return sized(made, cpu=str(one.cpu))


def _supply(one: Machine) -> list[Object]:
    if not one.devices:
        return []
    place: Any = {"pool": one.name, "nodeName": one.name}
    made = [
        resource_slice(
            f"{one.name}-devices", map(_device, one.devices), slices=2 if one.counter else 1, **place
        )
    ]
    if one.counter:
        made.append(
            counter_slice(f"{one.name}-counters", {"card": {"memory": one.counter}}, slices=2, **place)
        )
    return made


def _device(one: Device) -> Object:
    attributes = {"kind": one.kind, "clique": one.clique, "bus": one.bus and f"{one.node}-{one.bus}"}
    draws = {"card": {"memory": one.draws}} if one.draws else None
    fields: Object = {"allowMultipleAllocations": True} if one.capacity else {}
    if one.excludes:
        fields["compatibleOnlyWith"] = {"expression": f"device.attributes['d'].kind != '{one.excludes}'"}
    if one.takes:
        fields["nodeAllocatableResources"] = {"cpu": {"mapping": {"deviceMultiplier": str(one.takes)}}}
    return device(
        one.name,
        {key: value for key, value in attributes.items() if value},
        {"size": str(one.capacity)} if one.capacity else None,
        draws,
        **fields,
    )


def _claim(want: Want) -> ResourceClaim:
    kind = "device.attributes['d'].kind"
    chosen = f"{kind} != 'n'" if want.kind == ANY else f"{kind} == '{want.kind}'"
    fields: Object = {"capacity": {"size": str(want.part)}} if want.part else {}
    first = wants(want.count, selectors=selectors(chosen), **fields)
    asked: Object = {"name": "r", "exactly": first}
    if want.otherwise:
        other = wants(want.count, selectors=selectors(f"{kind} == '{want.otherwise}'"))
        asked = first_of("r", a=first, b=other)
    near = [match("d/bus")] if want.near else []
    return ResourceClaim.model_validate(claim(want.name, asked, constraints=near))


def _pod(one: Asking) -> Pod:
    members = {"labelSelector": {"matchLabels": {"gang": "g"}}}
    affinity = {
        kind: {"requiredDuringSchedulingIgnoredDuringExecution": [{**members, "topologyKey": key}]}
        for kind, key in (("podAntiAffinity", one.apart), ("podAffinity", one.beside))
        if key
    }
    spec: Object = {"affinity": affinity} if affinity else {}
    if one.even:
        rule = {"maxSkew": 1, "topologyKey": one.even, "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**rule, "labelSelector": {"matchLabels": {"gang": "g"}}}]
    spec |= mounting(one.name) if one.volume else {}
    made = asking(one.name, *(want.name for want in one.wants), cpu=str(one.cpu), **spec)
    made["metadata"]["labels"] = {"gang": "g", "index": one.name}
    return Pod.model_validate(made)


# -- strategies

SMALL = st.integers(1, 2)


@st.composite
def _devices(draw: Any, node: str, counters: bool) -> tuple[Device, ...]:
    return tuple(
        Device(
            f"d{n}",
            node,
            draw(st.sampled_from("aaab")),
            draw(st.sampled_from(["", "x", "x", "y"])),
            draw(st.sampled_from(["0", "1"])),
            draw(SMALL) if counters else 0,
        )
        for n in range(draw(st.integers(1, 4)))
    )


@st.composite
def _machines(draw: Any) -> tuple[Machine, ...]:
    made = []
    for n in range(draw(st.integers(2, 4))):
        counter = draw(st.sampled_from([0, 0, 4, 5]))
        made.append(
            Machine(
                f"n{n}",
                draw(st.sampled_from(["r0", "r0", "r0", "r1", ""])),
                draw(st.sampled_from(["b0", "b0", "b1"])),
                draw(st.integers(2, 6)),
                counter,
                draw(_devices(f"n{n}", bool(counter))),
            )
        )
    return tuple(made)


@st.composite
def _pods(draw: Any, networked: bool) -> tuple[Asking, ...]:
    kinds = "aan" if networked else "aaaab"
    forms = [
        (
            draw(SMALL),
            tuple(
                (draw(st.sampled_from(kinds)), draw(SMALL), draw(st.integers(0, 3)) == 0)
                for _ in range(draw(st.sampled_from([1, 1, 2])))
            ),
            draw(st.sampled_from(["", "", "", "kubernetes.io/hostname", "rack"])),
            draw(st.sampled_from(["", "", "", "rack", "block"])),
        )
        for _ in range(draw(SMALL))
    ]
    common = draw(st.sampled_from([None, None, Want("common", kinds[-1], 1)]))
    pods = []
    for n in range(draw(st.integers(2, 4))):
        cpu, wants, apart, beside = draw(st.sampled_from(forms))
        own = [
            Want(f"c{n}-{at}", kind, count if kind != "n" else 1, near and kind != "n")
            for at, (kind, count, near) in enumerate(wants)
        ]
        if common is not None and draw(st.booleans()):
            own.append(common)
        pods.append(Asking(f"p{n}", cpu, tuple(own), apart, beside))
    return tuple(pods)


@st.composite
def gang_worlds(draw: Any) -> GangWorld:
    """2 to 4 nodes, 2 to 4 pods."""
    machines = draw(_machines())
    network = tuple(
        Device(f"w{n}", NETWORK, "n", draw(st.sampled_from(["", "x", "y"])))
        for n in range(draw(st.sampled_from([0, 0, 1, 2])))
    )
    pods = draw(_pods(bool(network)))
    keys = draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=3))
    tiers = tuple(Tier(key, draw(st.integers(0, 2)) == 0) for key in keys)
    placed = draw(st.sampled_from([(), (), (), ("n0",)]))
    return GangWorld(machines, network, pods, draw(st.integers(1, len(pods))), tiers, placed)


@st.composite
def crowded_worlds(draw: Any) -> GangWorld:
    """1 or 2 nodes with room for all pods, which compete for devices and counters."""

    def device(at: int, on: str) -> Device:
        return Device(f"d{at}", on, draw(st.sampled_from("ab")), "", draw(st.sampled_from("01")), draw(SMALL))

    machines = tuple(
        Machine(f"n{n}", "r0", "b0", 8, 4, tuple(device(at, f"n{n}") for at in range(4)))
        for n in range(draw(SMALL))
    )
    pods = tuple(
        Asking(f"p{n}", 1, (Want(f"c{n}", draw(st.sampled_from("*ab")), count, near and count > 1),))
        for n in range(draw(st.integers(2, 4)))
        for count, near in [draw(st.sampled_from([(1, False), (1, False), (2, True), (2, False)]))]
    )
    return GangWorld(machines, (), pods, draw(st.integers(1, len(pods))), ())


@st.composite
def taking_worlds(draw: Any) -> GangWorld:
    """1 or 2 nodes whose devices stand for CPUs, of which there are few."""
    machines = tuple(
        Machine(
            f"n{n}",
            "r0",
            "b0",
            draw(st.integers(5, 10)),
            0,
            tuple(
                Device(f"d{at}", f"n{n}", draw(st.sampled_from("ab")), takes=draw(st.integers(0, 4)))
                for at in range(draw(st.integers(2, 4)))
            ),
        )
        for n in range(draw(SMALL))
    )
    kinds = st.sampled_from(draw(st.sampled_from(["*", "*ab"])))
    common = draw(st.sampled_from([(), (), (Want("common", "*", 1),)]))
    pods = tuple(
        Asking(f"p{n}", 1, (Want(f"c{n}", draw(kinds), draw(st.sampled_from([1, 1, 2]))), *common))
        for n in range(draw(st.integers(2, 3)))
    )
    return GangWorld(machines, (), pods, draw(st.integers(1, len(pods))), ())


@st.composite
def varied_worlds(draw: Any, *sorts: str) -> GangWorld:
    """2 or 3 nodes of one kind of world each: spread, alternatives, shared capacity, exclusion, volumes."""
    sort = draw(st.sampled_from(sorts or ("even", "otherwise", "part", "excludes")))
    machines = tuple(
        Machine(
            f"n{n}",
            draw(st.sampled_from(["r0", "r1"])),
            "b0",
            draw(st.integers(1, 4)),
            0,
            tuple(
                Device(
                    f"d{at}",
                    f"n{n}",
                    kind := draw(st.sampled_from("aab")),
                    capacity=draw(st.sampled_from([4, 6])) if sort == "part" else 0,
                    excludes=draw(st.sampled_from(["", "b" if kind == "a" else "a"]))
                    if sort == "excludes"
                    else "",
                )
                for at in range(draw(st.integers(1, 3)))
            ),
            draw(st.sampled_from([0, 1, 1, 2])) if sort == "volumes" else 0,
        )
        for n in range(draw(st.integers(2, 3)))
    )
    even = draw(st.sampled_from(["rack", "kubernetes.io/hostname"])) if sort == "even" else ""
    pods = []
    for n in range(draw(st.integers(2, 4))):
        kind = draw(st.sampled_from("aab"))
        want = Want(
            f"c{n}",
            kind,
            1 if sort == "part" else draw(SMALL),
            otherwise="b" if sort == "otherwise" and kind == "a" else "",
            part=draw(st.sampled_from([2, 3, 4])) if sort == "part" else 0,
        )
        with_volume = sort == "volumes" and draw(st.sampled_from([True, True, False]))
        pods.append(Asking(f"p{n}", 1, (want,), even=even, volume=with_volume))
    tiers = tuple(Tier(key, required=draw(st.booleans())) for key in draw(st.sampled_from([(), ("rack",)])))
    return GangWorld(machines, (), tuple(pods), draw(st.integers(1, len(pods))), tiers)


@st.composite
def _group(
    draw: Any, name: str, keys: Sequence[str], groups: Sequence[AskedGroup] = (), pods: Sequence[int] = ()
) -> AskedGroup:
    tiers = tuple(
        Tier(key, required=True) for key in draw(st.sampled_from([(), *((key,) for key in keys), keys]))
    )
    nodes = draw(st.sampled_from([(), (), (), (), ("n0",)]))
    devices = tuple(DeviceID("d", "n0", "d0") for _ in nodes)
    least = draw(st.integers(1 if groups or not nodes else 0, len(groups) or len(pods)))
    return AskedGroup(name, least, tiers, nodes, devices, tuple(pods), tuple(groups))


@st.composite
def tree_worlds(draw: Any, worlds: st.SearchStrategy[GangWorld]) -> GangWorld:
    """The pods of a world in two to four groups, on one or two levels."""
    world = draw(worlds)
    number = len(world.pods)
    of = [draw(st.integers(0, 3)) for _ in range(number)]
    far = draw(st.sampled_from([(), (CLIQUE,)]))
    inner, outer = ("rack", "kubernetes.io/hostname", *far), ("rack", "block", *far)
    leaves = [
        draw(_group(f"leaf{one}", inner, (), [at for at in range(number) if of[at] == one]))
        for one in sorted(set(of))
    ]
    cut = draw(st.integers(0, len(leaves)))
    below = [draw(_group("middle", outer, leaves[:cut]))] if cut else []
    root = draw(_group("root", outer, [*below, *leaves[cut:]]))
    return replace(world, least=max(root.least_pods, 1), tiers=(), placed=(), tree=root)
