"""Counts of nodes that node selectors place stay those of a count from scratch."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.dra.allocate import allocate
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Plan
from tests.tools.builders import (
    claim,
    counter_slice,
    device,
    device_class,
    labelled,
    node,
    node_selector,
    request,
    resource_slice,
    selectors,
    store,
    typed,
)
from tests.tools.examples import examples


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), min_size=4, max_size=16))
@examples(25)
def test_counts_behind_node_selectors_follow_every_change(events: list[tuple[bool, int]]):
    """Sub-slices of a network: each is reached by the nodes that its selector names."""
    hosts = [f"h{number}" for number in range(4)]
    groups = [*([host] for host in hosts), hosts[:2], hosts[2:], hosts]
    parts = [
        device(
            f"part-{at}",
            {"hosts": len(group)},
            draws={"torus": dict.fromkeys(group, 1)},
            nodeSelector=node_selector(labelled("host", *group)),
        )
        for at, group in enumerate(groups)
    ]
    where: Any = {"slices": 2, "perDeviceNodeSelection": True}
    picture = store(
        device_class(),
        *[node(host, host=host) for host in hosts],
        resource_slice("parts", parts, **where),
        counter_slice("torus", {"torus": dict.fromkeys(hosts, 1)}, **where),
    )
    plans: list[Plan] = []
    for number, (released, size) in enumerate(events):
        if released and plans:
            picture.forget(plans.pop(size % len(plans)))
        seen = picture.snapshot()
        wanted = f'device.attributes["d"].hosts == {(1, 2, 4)[size % 3]}'
        one = typed(claim(f"c{number}", request(selectors=selectors(wanted))))
        assert isinstance(one, ResourceClaim)
        found, fresh = (allocate([one], each) for each in (seen, seen.fork()))
        assert found == fresh
        if isinstance(found, Granted):
            picture.assume(found.plans[0])
            plans.append(found.plans[0])
