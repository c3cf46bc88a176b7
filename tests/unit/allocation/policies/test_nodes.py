"""The nodes that `fgd` and `expected-fill` choose, against twins that go node by node."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.request_options import ParsedClaims
from reconciler.allocation.policies import expected_fill
from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.allocation.policies.expected_fill import ExpectedFill
from reconciler.allocation.policies.fragmentation import Fgd
from reconciler.allocation.policies.policy import LAST, PodRoom, Policy, PolicyQuestion
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted
from reconciler.state.devices.snapshot import NodeSubset
from reconciler.state.store import Store
from tests.tools import naive_fragmentation as naive
from tests.tools.builders import (
    DRIVER,
    Object,
    claim,
    device,
    device_class,
    node,
    request,
    resource_slice,
    selectors,
    store,
    typed,
)
from tests.tools.examples import examples


class Want(NamedTuple):
    """What a pod asks for."""

    cores: int
    units: int
    gpus: int
    models: frozenset[str]

    def claim(self, name: str) -> Object:
        """Its claim, if it asks for GPUs."""
        models = " || ".join(
            f'device.attributes["{DRIVER}"].model == "{model}"' for model in sorted(self.models)
        )
        wanted = request("r", self.gpus, capacity={"milli": str(self.units)}, selectors=selectors(models))
        return claim(name, wanted)


@dataclass(slots=True)
class Machine:
    """A node."""

    model: str
    cores: int
    free: list[int]


@dataclass(frozen=True, slots=True)
class Twin:
    """The machines by name, and the demand: pairs of want and weight, no two weights alike."""

    machines: dict[str, Machine]
    demand: Sequence[tuple[Want, int]]

    def objects(self) -> list[Object]:
        """Nodes and slices."""
        made = []
        for name, one in self.machines.items():
            devices = [
                device(f"g{at}", {"model": one.model}, {"milli": "1000"}, allowMultipleAllocations=True)
                for at in range(len(one.free))
            ]
            made += [node(name), resource_slice(name, devices, pool=name, nodeName=name)]
        return made

    def fgd(self, want: Want) -> tuple[str, int] | None:
        """(node, shared GPU or -1) with most points, then the first by name."""
        found = self._points(want)
        if not found:
            return None
        best = max(found, key=lambda name: found[name][0])  # the first of equal ones, by name
        return best, found[best][1]

    def expected_fill(
        self, want: Want, candidates: int, drawn: tuple[int, int], price: int
    ) -> tuple[str, int] | None:
        """The node of the first distinct states where the drawn demand loses least."""
        found = self._points(want)
        pressure = {name: self.pressure(name) if want.gpus else 0 for name in found}
        ordered = sorted(found, key=lambda name: (pressure[name] - found[name][0], name))
        first: dict[tuple[object, ...], str] = {}
        for name in ordered:
            first.setdefault(self._state(name), name)
        distinct = list(first.values())[:candidates]
        if not distinct:
            return None
        sequences = self._drawn(drawn)
        losses = []
        for name in distinct:
            one, device = self.machines[name], found[name][1]
            left = naive.after(naive.Kind(want.cores, want.units, want.gpus, frozenset()), one.free, device)
            number = sorted(self.machines).index(name)
            before = naive.filled(sequences, one.cores, number, one.free)
            loss = before - naive.filled(sequences, one.cores - want.cores, number, left)
            losses.append(loss * (price * 1000 + pressure[name]) if want.gpus else loss)
        chosen = distinct[losses.index(min(losses))]
        return chosen, found[chosen][1]

    def place(self, want: Want, name: str, device: int) -> None:
        """Take what the want asks for."""
        one = self.machines[name]
        one.free = naive.after(naive.Kind(0, want.units, want.gpus, frozenset()), one.free, device)
        one.cores -= want.cores

    def fits(self, want: Want, name: str) -> bool:
        """Whether the node has what the want asks for."""
        one, anywhere = self.machines[name], frozenset([0])
        kind = naive.Kind(want.cores, want.units, want.gpus, anywhere)
        return (not want.gpus or one.model in want.models) and naive.fits(kind, one.cores, 0, one.free)

    def pressure(self, name: str) -> int:
        """Thousandths of the GPUs of the node's model that are asked for by what cannot go everywhere."""
        sizes = {one: len(machine.free) for one, machine in self.machines.items()}
        asked = sum(weight * want.gpus for want, weight in self.demand)
        total = 0
        for want, weight in self.demand:
            serving = [one for one in self.machines if not want.gpus or self._serves(want, one)]
            own = sum(sizes[one] for one in serving)
            if name in serving and 0 < own < sum(sizes.values()):
                total += 1000 * weight * want.gpus * sum(sizes.values()) * 1024 // (asked * own)
        return (total + 512) // 1024

    def _points(self, want: Want) -> dict[str, tuple[int, int]]:
        """(points, shared GPU or -1) of the nodes that the want fits."""
        kinds = [self._kind(one, weight) for one, weight in self._typical()]
        nodes = frozenset(range(len(self.machines)))
        need = naive.Kind(want.cores, want.units, want.gpus, nodes)
        found = {}
        for number, name in enumerate(sorted(self.machines)):
            one = self.machines[name]
            if self.fits(want, name):
                points = naive.points(kinds, need, one.cores, number, one.free)
                assert points is not None
                found[name] = points
        return found

    def _typical(self) -> list[tuple[Want, int]]:
        total, kept, seen = sum(weight for _, weight in self.demand), [], 0
        for want, weight in sorted(self.demand, key=lambda one: -one[1]):
            kept.append((want, weight))
            seen += weight
            if seen * 100 >= 95 * total:
                break
        return kept

    def _drawn(self, shape: tuple[int, int]) -> list[list[naive.Kind]]:
        asking = [(want, weight) for want, weight in self.demand if want.gpus]
        weights = np.array([weight for _, weight in asking])
        drawn = np.random.default_rng(0).choice(len(asking), shape, p=weights / weights.sum())
        return [[self._kind(*asking[at]) for at in row] for row in drawn.tolist()]

    def _kind(self, want: Want, weight: int) -> naive.Kind:
        nodes = sorted(self.machines)
        models = {at for at, name in enumerate(nodes) if not want.gpus or self._serves(want, name)}
        return naive.Kind(want.cores, want.units, want.gpus, frozenset(models), weight)

    def _serves(self, want: Want, name: str) -> bool:
        return bool(self.machines[name].free) and self.machines[name].model in want.models

    def _state(self, name: str) -> tuple[object, ...]:
        one = self.machines[name]
        serving = tuple(not want.gpus or self._serves(want, name) for want, _ in self.demand)
        # A device of which nothing is left is like none.
        return one.cores, serving, tuple(sorted(free for free in one.free if free))


CANDIDATES, DRAWN = 2, (3, 8)
MODELS = ("a", "b")


@pytest.fixture(autouse=True, scope="module")
def _few_sequences() -> Iterator[None]:
    """The twin replays every sequence need by need."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expected_fill, "CANDIDATES", CANDIDATES)
        patch.setattr(expected_fill, "SEQUENCES", DRAWN[0])
        patch.setattr(expected_fill, "LENGTH", DRAWN[1])
        yield


_NEEDS = st.sampled_from([(300, 1), (500, 1), (700, 1), (1000, 1), (1000, 2), (0, 0)])
_NAMED = st.sampled_from([frozenset("a"), frozenset("b"), frozenset("ab")])
WANTS = st.builds(
    lambda cores, need, models: Want(cores, need[0], need[1], models if need[1] else frozenset()),
    st.sampled_from((0, 1000, 3000)), _NEEDS, _NAMED,
)  # fmt: skip
MACHINES = st.builds(
    lambda model, cores, gpus: Machine(model, cores, [1000] * gpus),
    st.sampled_from(MODELS), st.sampled_from((4000, 9000)), st.integers(1, 3),
)  # fmt: skip


@st.composite
def twins(draw: st.DrawFn) -> Twin:
    """Fleets, and demands in which one want at least asks for GPUs."""
    machines = draw(st.lists(MACHINES, min_size=2, max_size=5))
    wants = draw(
        st.lists(WANTS, min_size=1, max_size=4, unique=True).filter(lambda all_: any(w.gpus for w in all_))
    )
    weights = draw(st.lists(st.integers(1, 60), min_size=len(wants), max_size=len(wants), unique=True))
    return Twin({f"n{at}": one for at, one in enumerate(machines)}, list(zip(wants, weights, strict=True)))


def _claim(want: Want, name: str) -> ResourceClaim:
    made = typed(want.claim(name))
    assert isinstance(made, ResourceClaim)
    return made


def _decide(world: Store, twin: Twin, want: Want, name: str, policy: Policy) -> tuple[str, int] | None:
    """(node, shared GPU or -1) that the policy chooses for a pod; what it gets is held then."""
    seen = world.snapshot()
    order = seen.topology.order
    fits = np.array([twin.machines[one].cores >= want.cores for one in order])
    room = PodRoom(want.cores, np.array([twin.machines[one].cores for one in order], dtype=np.int64))
    if not want.gpus:
        keys = policy.nodes(PolicyQuestion(ParsedClaims((), ()), seen, room), fits)
        assert keys is not None
        least = int(np.where(fits, keys, LAST).argmin())
        return (order[least], -1) if fits.any() else None
    found = allocate([_claim(want, name)], seen, nodes=NodeSubset(order, fits), policy=policy, pod=room)
    if not isinstance(found, Granted):
        return None
    world.assume(found.plans[0])
    devices = found.plans[0].allocation.devices.results
    shared = want.gpus == 1 and want.units < 1000
    return found.node, int(devices[0].device.removeprefix("g")) if shared else -1


@pytest.mark.parametrize("name", ["fgd", "expected-fill"])
@examples(15)
@given(twin=twins(), data=st.data())
def test_nodes_are_those_of_looking_at_every_node(name: str, twin: Twin, data: st.DataObject):
    """Pod after pod in one store, so that what is remembered follows what is held."""
    demand = Demand(
        tuple(
            Shape(_claim(want, "s").spec if want.gpus else None, want.cores, weight)
            for want, weight in twin.demand
        )
    )
    policy: Policy = Fgd(demand) if name == "fgd" else ExpectedFill(demand)
    world = store(*twin.objects(), device_class())
    arriving = st.one_of(st.sampled_from([want for want, _ in twin.demand]), WANTS)
    for number, want in enumerate(data.draw(st.lists(arriving, min_size=1, max_size=6))):
        expected = (
            twin.fgd(want)
            if name == "fgd"
            else twin.expected_fill(want, CANDIDATES, DRAWN, expected_fill.PRICE)
        )
        assert _decide(world, twin, want, f"c{number}", policy) == expected
        if expected is not None:
            twin.place(want, *expected)
