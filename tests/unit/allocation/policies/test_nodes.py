"""The nodes that `fgd` and `expected-fill` choose, against twins that go node by node."""

from collections.abc import Iterator

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
from tests.tools.builders import device_class, store, typed
from tests.tools.examples import examples
from tests.tools.naive_fill import Machine, Twin, Want

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
