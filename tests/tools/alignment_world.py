"""Machines with GPUs and NICs, and claims with preferences."""

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from reconciler.allocation.alignment.deciding import decide
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Unsatisfied
from reconciler.state.devices.snapshot import Snapshot
from tests.tools.builders import (
    Object,
    claim,
    device,
    device_class,
    held,
    hold,
    node,
    request,
    resource_slice,
    snapshot,
    typed,
)

PCIE = "resource.kubernetes.io/pcieRoot"


def machine(name: str, gpus: list[tuple[str, int]], nics: list[tuple[str | list[str], int]]) -> list[Object]:
    """A node, and its GPUs and NICs, each with its PCIe root and its NUMA node."""
    return [
        node(name),
        resource_slice(
            f"{name}-gpu",
            [device(f"gpu-{n}", {PCIE: root, "numaNode": numa}) for n, (root, numa) in enumerate(gpus)],
            driver="gpu",
            pool=name,
            nodeName=name,
        ),
        resource_slice(
            f"{name}-nic",
            [device(f"nic-{n}", {PCIE: root, "numaNode": numa}) for n, (root, numa) in enumerate(nics)],
            driver="nic",
            pool=name,
            nodeName=name,
        ),
    ]


def classes(*, gpu: list[Any] | None = None) -> list[Object]:
    """Classes `gpu` and `nic`; `gpu` are configurations of ours."""
    made = [device_class(name, f"device.driver == '{name}'") for name in ("gpu", "nic")]
    if gpu is not None:
        made[0]["spec"]["config"] = [
            {"opaque": {"driver": "dra-reconciler.io", "parameters": parameters}} for parameters in gpu
        ]
    return made


def gpu_nic_claim(name: str, gpus: int, nics: int, **annotations: Any) -> Object:
    """A claim for GPUs and NICs; annotations without their domain, `_` for `-`."""
    asked = [("gpu", gpus), ("nic", nics)]
    made = claim(name, *(request(kind, count, device_class=kind) for kind, count in asked if count))
    made["metadata"]["annotations"] = {
        f"dra-reconciler.io/{key.replace('_', '-')}": json.dumps(value) for key, value in annotations.items()
    }
    return made


# -- Decisions on a claim with a joint allocation, and the devices that it got.


def answer(world: list[Object], claim: Object, **options: Any) -> Granted | Unsatisfied:
    asked = typed(claim)
    assert isinstance(asked, ResourceClaim)
    return decide([asked], snapshot(*world), **options)


def given_by(outcome: Granted | Unsatisfied) -> dict[str, list[str]]:
    assert isinstance(outcome, Granted), outcome
    found: dict[str, list[str]] = {}
    for result in outcome.plans[0].allocation.devices.results:
        found.setdefault(result.request, []).append(result.device)
    return found


# -- Small fleets on which joint allocation is often refused, and a claim with preferences.


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


# -- Tables of partitions, as a class gives them.


def partition(*numbers: int, score: int = 0, bandwidth: str | None = None) -> Object:
    made: Object = {"devices": [f"gpu-{n}" for n in numbers], "score": score}
    return made if bandwidth is None else {**made, "bandwidth": bandwidth}


def table(*partitions: Object, policy: str = "Honor") -> Object:
    return {
        "apiVersion": "dra-reconciler.io/v1alpha1",
        "kind": "PartitionTable",
        "policy": policy,
        "partitions": list(partitions),
    }


PAIRS = [partition(0, 1), partition(2, 3), partition(4, 5), partition(6, 7)]
