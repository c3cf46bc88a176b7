"""Small fleets on which joint allocation is often refused, and a claim with preferences."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from reconciler.api.objects.claims import ResourceClaim
from reconciler.state.devices.snapshot import Snapshot
from tests.tools.alignment_world import PCIE, classes, gpu_nic_claim, machine
from tests.tools.builders import held, hold, node, snapshot, typed

ROOTS = st.sampled_from(["p0", "p1", "p2"])


@dataclass(frozen=True)
class Case:
    """A question about joint allocation."""

    world: Snapshot
    claim: ResourceClaim


def near(root: str) -> int:
    """The NUMA node of a PCIe root."""
    return 1 if root == "p2" else 0


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Up to two machines; alignments of any kind, and partition tables that are honored or preferred."""
    sets = draw(
        st.none() | st.lists(st.sets(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=3)
    )
    table: dict[str, Any] = {
        "apiVersion": "dra-reconciler.io/v1alpha1",
        "kind": "PartitionTable",
        "policy": draw(st.sampled_from(["Honor", "Honor", "Prefer"])),
        "partitions": [{"devices": [f"gpu-{n}" for n in sorted(one)]} for one in sets or ()],
    }
    objects = classes(gpu=[table] if sets else [])
    for name in ("m", "n")[: draw(st.integers(1, 2))]:
        gpus = draw(st.lists(ROOTS, min_size=1, max_size=4))
        nics = draw(
            st.lists(st.one_of(ROOTS, st.just(["p0", "p1"])) if draw(st.booleans()) else ROOTS, max_size=3)
        )
        places = [(root, near(root) if isinstance(root, str) else 0) for root in nics]
        objects += machine(name, [(root, near(root)) for root in gpus], places)
        taken = draw(st.sets(st.integers(0, len(gpus) - 1), max_size=2))
        objects.append(held(f"h{name}", *(hold(f"gpu-{n}", driver="gpu", pool=name) for n in sorted(taken))))
    objects.append(node("bare"))
    pairs = draw(st.booleans())
    gpus_wanted = draw(st.integers(1, 3))
    nics_wanted = gpus_wanted if pairs else draw(st.integers(1, 2))
    required = st.sampled_from([PCIE, "numaNode", "node"])
    preferences: list[Any] = [{"pairs": pairs, "required": draw(required)}]
    if draw(st.booleans()):
        preferences.append({"requests": ["gpu"], "required": draw(required)})
    claim = typed(gpu_nic_claim("c", gpus_wanted, nics_wanted, joint_allocation=preferences))
    assert isinstance(claim, ResourceClaim)
    return Case(snapshot(*objects), claim)
