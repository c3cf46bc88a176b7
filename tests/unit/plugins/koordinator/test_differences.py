"""Where Koordinator's proposals and its release differ: each point once, with the answer of either.

The points are those of KOO-21: what the proposals say, and what the release does.
"""

import json
from typing import Any, NamedTuple

import pytest

from reconciler.plugins.koordinator.decision import allocate
from reconciler.plugins.koordinator.fleet import Fleet, Placed
from reconciler.plugins.koordinator.holdings import Holdings
from reconciler.plugins.koordinator.refusals import Unserved
from reconciler.plugins.koordinator.vocabulary import (
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_MODEL,
    PARTITION_POLICY,
    PARTITIONS,
    Rules,
    Scoring,
    Semantics,
    Strategy,
)
from tests.tools.koordinator_builders import (
    PROPOSAL,
    UPSTREAM,
    demand,
    device,
    given,
    gpu,
    holding,
    machine,
    minors,
    nic,
    pod,
)

JOINT = {"deviceTypes": ["gpu", "rdma"]}
SAME = {**JOINT, "requiredScope": "SamePCIe"}
ONE = {"nvidia.com/gpu": 1}
HONOR = {PARTITION_POLICY: "Honor"}
LEFT, RIGHT = (0, "a"), (1, "b")


class Point(NamedTuple):
    """One difference."""

    line: str
    pod: Any
    devices: list[dict[str, Any]]
    proposal: Any
    release: Any
    held: Holdings | None = None
    node_labels: dict[str, str] | None = None
    metadata: dict[str, Any] | None = None


def table(**sizes: list[dict[str, Any]]) -> dict[str, Any]:
    """A partition table in the Device's annotation, to be honored."""
    text = json.dumps({size.removeprefix("of_"): partitions for size, partitions in sizes.items()})
    return {"labels": HONOR, "annotations": {PARTITIONS: text}}


def eight() -> list[dict[str, Any]]:
    """Four GPUs on either NUMA node, two a switch."""
    return [gpu(n, (n // 4, f"s{n // 2}")) for n in range(8)]


SCORED = table(of_1=[{"minors": [0], "allocationScore": 1}, {"minors": [1], "allocationScore": 2}])
PAIR = [gpu(0), gpu(1)]
SIDES = [gpu(0, LEFT), gpu(1, RIGHT), nic(0, LEFT), nic(1, RIGHT)]

POINTS = [
    Point(
        "joint: the same PCIe, otherwise the NUMA node, otherwise the machine",
        pod(ONE | {"rdma": 1}, joint=JOINT),
        [gpu(0, (0, "a")), nic(0, (1, "b")), nic(1, (0, "c"))],
        {"gpu": [0], "rdma": [1]},
        {"gpu": [0], "rdma": [0]},
    ),
    Point(
        "four GPUs of a NUMA node go with its one NIC",
        pod({"nvidia.com/gpu": 4, "rdma": 1}, joint=JOINT),
        [*eight(), nic(0, (0, "n0")), nic(1, (1, "n1"))],
        {"gpu": [0, 1, 2, 3], "rdma": [0]},
        {"gpu": [0, 1, 2, 3], "rdma": [0, 1]},
    ),
    Point(
        "SamePCIe fails where the types cannot be on one PCIe, not where the first PCIe will not do",
        pod(ONE | {"rdma": 100}, joint=SAME),
        SIDES,
        {"gpu": [1], "rdma": [1]},
        "joint-scope-violation",
        held=holding(nics=[0]),
    ),
    Point(
        "SamePCIe says nothing of counts: a NIC beside each GPU is what it needs",
        pod({"nvidia.com/gpu": 2, "rdma": 1}, joint=SAME),
        SIDES[:3],
        "joint-scope-violation",
        "insufficient-devices:rdma",
    ),
    Point(
        "SamePCIe needs to know the PCIe; in the release devices without topology meet it",
        pod(ONE | {"rdma": 1}, joint=SAME),
        [gpu(0), nic(0)],
        "joint-scope-violation",
        {"gpu": [0], "rdma": [0]},
    ),
    Point(
        "DeviceLevel keeps a device from being shared, however much is asked for",
        pod({"rdma": 1}, hint={"rdma": {"exclusivePolicy": "DeviceLevel"}}),
        [nic(0), nic(1)],
        {"rdma": [1]},
        {"rdma": [0]},
        held=holding(nics=[0], share=1),
    ),
    Point(
        "PCIeLevel keeps a PCIe from being shared",
        pod({"rdma": 1}, hint={"rdma": {"exclusivePolicy": "PCIeLevel"}}),
        [nic(0, LEFT), nic(1, LEFT), nic(2, RIGHT)],
        {"rdma": [2]},
        {"rdma": [0]},
        held=holding(nics=[0], share=1),
    ),
    Point(
        "who holds alone keeps later pods out as well",
        pod({"rdma": 1}),
        [nic(0, LEFT), nic(1, LEFT), nic(2, RIGHT)],
        {"rdma": [2]},
        {"rdma": [0]},
        held=holding(nics=[0], share=1, hints={"rdma": {"exclusivePolicy": "PCIeLevel"}}),
    ),
    Point(
        "ApplyForAll is for all that can be given",
        pod({"rdma": 1}, hint={"rdma": {"allocateStrategy": "ApplyForAll"}}),
        [nic(0), nic(1, health=False)],
        {"rdma": [0]},
        "insufficient-devices:rdma",
    ),
    Point(
        "ApplyForAll stands for itself, also beside multiples of 100",
        pod({"rdma": 200}, hint={"rdma": {"allocateStrategy": "ApplyForAll"}}),
        [nic(0), nic(1), nic(2)],
        "insufficient-devices:rdma",
        {"rdma": [0, 1]},
    ),
    Point(
        "RequestsAsCount: the amount is the number of devices",
        pod({"rdma": 200}, hint={"rdma": {"allocateStrategy": "RequestsAsCount"}}),
        [nic(0), nic(1), nic(2)],
        "insufficient-devices:rdma",
        {"rdma": [0, 1]},
    ),
    Point(
        "virtual functions are chosen by the labels of their group, which both have",
        pod({"rdma": 1}, hint={"rdma": {"vfSelector": {"matchLabels": {"t": "x"}}}}),
        [
            nic(0, labels={"t": "x"}, vfGroups=[{"labels": {}, "vfs": [{"minor": 1, "busID": "0"}]}]),
            nic(1, vfGroups=[{"labels": {"t": "x"}, "vfs": [{"minor": 1, "busID": "1"}]}]),
        ],
        {"rdma": [1]},
        {"rdma": [1]},
    ),
    Point(
        "strategies are for devices of every type",
        pod(ONE, hint={"gpu": {"allocateStrategy": "ApplyForAll"}}),
        PAIR,
        {"gpu": [0, 1]},
        {"gpu": [0]},
    ),
    Point("a higher allocationScore is better", pod(ONE), PAIR, {"gpu": [1]}, {"gpu": [0]}, metadata=SCORED),
    Point(
        "Restricted considers the best score only",
        pod(ONE, spec={"allocatePolicy": "Restricted"}),
        PAIR,
        "no-feasible-partition",
        {"gpu": [0]},
        held=holding(gpus=[1]),
        metadata=SCORED,
    ),
    Point(
        "the key of the table is the number of GPUs in the partition",
        pod(ONE),
        PAIR,
        "partition-size-unsupported",
        {"gpu": [0, 1]},
        metadata=table(of_1=[{"minors": [0, 1]}]),
    ),
    Point(
        "scores may be written as text; in the release they void the table, and the policy beside it",
        pod(ONE),
        PAIR,
        {"gpu": [1]},
        {"gpu": [0]},
        metadata=table(
            of_1=[{"minors": [0], "allocationScore": "1"}, {"minors": [1], "allocationScore": "2"}]
        ),
    ),
    Point(
        "a partition needs the requested amounts on each GPU; the release does not compare them",
        pod(ONE),
        [gpu(0, resources={GPU_CORE: "50", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "80Gi"})],
        "no-feasible-partition",
        {"gpu": [0]},
        metadata=table(of_1=[{"minors": [0]}]),
    ),
    Point(
        "the bandwidth has two names",
        pod(ONE, spec={"ringBusBandwidth": "100Gi"}),
        PAIR,
        {"gpu": [1]},
        "no-feasible-partition",
        metadata=table(of_1=[{"minors": [0]}, {"minors": [1], "ringAllReduceBandwidth": "200Gi"}]),
    ),
    Point(
        "a table may be grouped by link types, as in the user story; in the release that voids it",
        pod(ONE, spec={"ringBusBandwidth": "100Gi"}),
        PAIR,
        {"gpu": [1]},
        "partition-table-missing",
        metadata=table(of_1=[{"NVLINK": [{"minors": [1], "ringBusBandwidth": "200Gi"}]}]),
    ),
    Point(
        "a value that an enumeration does not have is refused; in the release it counts as not set",
        pod({"rdma": 1}, hint={"rdma": {"exclusivePolicy": "pcielevel"}}),
        [nic(0)],
        "malformed-annotation:device-allocate-hint",
        {"rdma": [0]},
    ),
    Point(
        "the policy is a label of the Device, wherever the table comes from",
        pod({"nvidia.com/gpu": 3}),
        eight(),
        "partition-size-unsupported",
        {"gpu": [0, 1, 2]},
        node_labels={GPU_MODEL: "H100"},
        metadata={"labels": HONOR},
    ),
    Point(
        "a pod that says how it wants partitions does not thereby refuse all else",
        pod({"nvidia.com/gpu": 3}, spec={}),
        eight(),
        {"gpu": [0, 1, 2]},
        "partition-size-unsupported",
        node_labels={GPU_MODEL: "H100"},
    ),
]


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.line)
def test_the_proposal_says(point: Point):
    on = machine(*point.devices, semantics=PROPOSAL, node_labels=point.node_labels, **(point.metadata or {}))
    assert given(point.pod, on, point.held, PROPOSAL) == point.proposal


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.line)
def test_the_release_does(point: Point):
    on = machine(*point.devices, semantics=UPSTREAM, node_labels=point.node_labels, **(point.metadata or {}))
    assert given(point.pod, on, point.held, UPSTREAM) == point.release


@pytest.mark.parametrize(("semantics", "emptiest_shared"), [(PROPOSAL, 1), (UPSTREAM, 0)])
def test_shares_are_ranked_by_what_is_free_and_by_the_release_without_regard_to_it(
    semantics: Semantics, emptiest_shared: int
):
    """The release exchanges total and free on a switch: all GPUs that are used at all score 0."""
    on = machine(*(gpu(minor, LEFT) for minor in range(2)), semantics=semantics)
    held = holding(gpus=[0], share=50, by="half")
    holding(gpus=[1], share=20, by="fifth", into=held)
    wants = demand(pod({"gpu": 40}), semantics)
    found = allocate(wants, on, held, Rules(semantics, Scoring(Strategy.LEAST)))
    assert minors(found) == {"gpu": [emptiest_shared]}


@pytest.mark.parametrize("semantics", Semantics)
def test_a_node_without_device_object_is_passed_by_the_release_and_never_given_by_us(semantics: Semantics):
    """The release binds the pod to such a node, without devices and without an annotation."""
    fleet = Fleet(Rules(semantics))
    wants = demand(pod(ONE), semantics)
    assert fleet.decide(wants, "unknown") == {}  # the answer of the release for one node
    assert isinstance(fleet.first(wants, {"unknown"}.__contains__), Unserved)
    fleet.put(device(gpu(0), name="known"), {})
    found = fleet.first(wants, {"known", "unknown"}.__contains__)
    assert isinstance(found, Placed)
    assert found.node == "known"
