"""What devices take of their nodes: with bounds or without, the search has the same answer."""

import hypothesis.strategies as st
from hypothesis import event, given

from reconciler.allocation.dra.claim_shapes import claim_shape
from reconciler.allocation.dra.node_attempt import NodeGrant, NodeRefusal, attempt
from reconciler.allocation.placement.device_room import charging_of
from reconciler.analysis.world import world_of
from reconciler.api.objects.plan import Reason
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from tests.tools.allocation_world import numbered, picks
from tests.tools.builders import device_class
from tests.tools.device_room_twin import world
from tests.tools.examples import examples


@examples(400)
@given(st.integers(0, 10**9))
def test_bounds_and_equal_devices_change_no_answer(seed: int):
    nodes, slices, claims, pods = world(seed)
    objects = [device_class(name="any"), *nodes, *slices, *claims, *pods]
    fleet = world_of(map(read, objects), Semantics())
    snapshot = fleet.store.snapshot()
    for pod in fleet.store.pods.values():
        own = [fleet.store.claims[key] for key in pod.claim_keys]
        charging = charging_of(pod, (), snapshot, fleet.nodes)
        if not own or charging is None:
            continue
        parsed = claim_shape(own, snapshot).parsed
        choice = fleet.placement().for_pod(pod, (), snapshot).nodes  # it fits there without devices
        for name in snapshot.topology.order if choice is None else choice:
            quick, slow = (
                numbered(
                    attempt,
                    parsed,
                    name,
                    snapshot,
                    steps=50_000,
                    pruned=pruned,
                    charging=charging,
                )
                for pruned in (True, False)
            )
            if isinstance(slow, NodeGrant):
                assert isinstance(quick, NodeGrant)
                assert (picks(quick.plans), quick.rank) == (picks(slow.plans), slow.rank)
                event("granted")
                continue
            assert isinstance(quick, NodeRefusal)
            assert slow.reason != Reason.GAVE_UP
            # Where devices and room are both too few, room may be known first.
            assert quick.reason in (slow.reason, Reason.NODE_ROOM)
            event(str(slow.reason))
